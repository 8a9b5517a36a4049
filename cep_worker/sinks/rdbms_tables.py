"""The tables that `rdbms` sinks write: the events, and the committed groups of results."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import sqlalchemy
from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, String, Table

from cep_worker.outflows.consumers import GroupId
from topology.stores.databases import COLUMN_TYPES

_FIRST_LABEL = "rdbms"
_MOST_CHARACTERS = 128

COMMITS = Table(
    "cep_commits",
    MetaData(),
    Column("target", String(128), primary_key=True),
    Column("stream", String(_MOST_CHARACTERS), primary_key=True),
    Column("log", String(64), primary_key=True),
    Column("tenant", Integer, nullable=False),
    Column("plan", String(128), nullable=False),
    Column("publisher", String(255), nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("checkpoint", BigInteger, nullable=False),
)
"""The newest committed group of each log, by table and sink (`stream`: see `origin_of`)."""


def event_table(name: str, attributes: tuple[tuple[str, str], ...], timestamp_column: str) -> Table:
    """Return the table `name`, or `schema.name`, with a column per attribute and one for times, if named."""
    schema, _, table = name.rpartition(".")
    columns: list[Column[Any]] = [Column(attribute, COLUMN_TYPES[kind]) for attribute, kind in attributes]
    if timestamp_column:
        columns.insert(0, Column(timestamp_column, BigInteger, nullable=False))
    return Table(table, MetaData(), *columns, schema=schema or None)


def origin_of(stream: str, label: str) -> str:
    """Return the value of `stream` for a sink in the table of commits: with its label unless it is the stream's first.

    Several sinks of a stream may write the same groups to the same table.
    """
    if label == _FIRST_LABEL:
        return stream
    name = f"{stream} {label}"
    return name if len(name) <= _MOST_CHARACTERS else blake2b(name.encode(), digest_size=32).hexdigest()


def was_committed(connection: Connection, target: str, origin: str, group: GroupId) -> bool:
    """Return whether the group was committed before."""
    commits = COMMITS.c
    newest = connection.execute(
        sqlalchemy.select(commits.epoch, commits.attempt, commits.checkpoint).where(*_row(target, origin, group))
    ).first()
    return newest is not None and tuple(newest) >= (group.epoch, group.attempt, group.checkpoint)


def note_commit(connection: Connection, target: str, origin: str, group: GroupId) -> None:
    """Record the group as committed, in the connection's transaction."""
    values = {
        "publisher": group.publisher,
        "epoch": group.epoch,
        "attempt": group.attempt,
        "checkpoint": group.checkpoint,
    }
    changed = connection.execute(COMMITS.update().where(*_row(target, origin, group)).values(values))
    if changed.rowcount == 0:
        names = {"target": target, "stream": origin, "log": group.log, "tenant": group.key.tenant}
        connection.execute(COMMITS.insert().values({**names, "plan": group.key.identity, **values}))


def _row(target: str, origin: str, group: GroupId) -> tuple[sqlalchemy.ColumnElement[bool], ...]:
    commits = COMMITS.c
    return commits.target == target, commits.stream == origin, commits.log == group.log
