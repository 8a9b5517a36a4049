"""The tables that `rdbms` sinks write: that of the events, and the one that says which groups of results are there."""

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
"""For each table and sink (`stream`: see `origin_of`) the newest group of each log; groups of a log come in order."""


def event_table(name: str, attributes: tuple[tuple[str, str], ...], timestamp_column: str) -> Table:
    """Return the table `name`, or `schema.name`, with a column per attribute and one for times, if named."""
    schema, _, table = name.rpartition(".")
    columns: list[Column[Any]] = [Column(attribute, COLUMN_TYPES[kind]) for attribute, kind in attributes]
    if timestamp_column:
        columns.insert(0, Column(timestamp_column, BigInteger, nullable=False))
    return Table(table, MetaData(), *columns, schema=schema or None)


def origin_of(stream: str, label: str) -> str:
    """Return what the table of commits has as the stream of a sink: with its label, unless it is the stream's first.

    Several sinks of a stream may write the same table, each of them the same groups.
    """
    if label == _FIRST_LABEL:
        return stream
    name = f"{stream} {label}"
    return name if len(name) <= _MOST_CHARACTERS else blake2b(name.encode(), digest_size=32).hexdigest()


def was_committed(connection: Connection, target: str, origin: str, group: GroupId) -> bool:
    """Return whether the group is in the table already."""
    commits = COMMITS.c
    newest = connection.execute(
        sqlalchemy.select(commits.epoch, commits.attempt, commits.checkpoint).where(*_row(target, origin, group))
    ).first()
    return newest is not None and tuple(newest) >= (group.epoch, group.attempt, group.checkpoint)


def note_commit(connection: Connection, target: str, origin: str, group: GroupId) -> None:
    """Note in the connection's transaction that the group is in the table."""
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
