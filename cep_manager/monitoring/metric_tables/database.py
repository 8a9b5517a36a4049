"""The database that holds the metric tables: rows are written, read and removed when they are old."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import Table
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from cep_manager.errors import PlanStoreError
from cep_manager.monitoring.metric_tables.model import Kind, MetricRow
from cep_manager.monitoring.metric_tables.tables import METADATA, TABLES

TIMEOUT_S = 5
"""Timeout in seconds for a connection, a lock or a statement of the database."""

CONNECTIONS = 4
"""The writer has one; more readers than the others than wait for `TIMEOUT_S`, so a database that hangs holds up few."""

MOST_ROWS_READ = 200_000

REMOVED_AT_ONCE_MS = 600_000
MOST_REMOVALS = 36
"""The time span of old rows that one transaction deletes, and the maximum number of such transactions in a row."""


class MetricDatabase:
    """Connects when it is first used. Any thread may use it.

    Every method raises PlanStoreError when the database cannot be used.
    """

    def __init__(self, url: str) -> None:
        """Raise PlanStoreError for what can be no database."""
        try:
            parsed = make_url(url)
            self.address = parsed.render_as_string(hide_password=True)
            if parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:"):
                Path(str(parsed.database)).expanduser().parent.mkdir(parents=True, exist_ok=True)
            self._engine = sqlalchemy.create_engine(_with_driver(parsed), **_options(parsed))
        except (ArgumentError, NoSuchModuleError, ImportError, OSError) as error:
            raise PlanStoreError(f"metrics.tables.url cannot be used: {error}") from error
        self._made = False
        self._indexed = False

    def write(self, rows: Iterable[MetricRow]) -> None:
        """Write all rows, or none."""
        if not self._indexed:
            self._make_indexes()
            self._indexed = True
        with self._transaction() as connection:
            kind = attrgetter("kind")
            for of, same in groupby(sorted(rows, key=kind), key=kind):
                connection.execute(
                    TABLES[of].insert(),
                    [
                        {"source": row.source, "timestamp": row.at_ms, "name": row.name, **row.values}
                        for row in same
                    ],
                )  # fmt: skip

    def remove_before(self, at_ms: int) -> bool:
        """Delete some of the oldest rows before that time of day; return whether none are left."""
        none_left = [self._remove_oldest(table, at_ms) for table in TABLES.values()]
        return all(none_left)

    def read(
        self, kind: Kind, source: str, name: str, column: str, since_ms: int, until_ms: int
    ) -> list[tuple[int, float]]:
        """Return the values of a column, with their times of day, oldest first; with very many, the newest alone."""
        table = TABLES[kind]
        wanted = (
            sqlalchemy.select(table.c.timestamp, table.c[column])
            .where(table.c.timestamp.between(since_ms, until_ms), table.c.source == source, table.c.name == name)
            .order_by(table.c.timestamp.desc())
            .limit(MOST_ROWS_READ)
        )
        with self._transaction() as connection:
            return [(int(at_ms), float(value)) for at_ms, value in connection.execute(wanted)][::-1]

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _make_indexes(self) -> None:
        """Add missing indexes to tables that an earlier version made.

        They are made one at a time, without a time limit, since there may be many rows.
        """
        for table in TABLES.values():
            for index in table.indexes:
                with self._transaction() as connection:
                    if connection.dialect.name == "postgresql":
                        connection.execute(sqlalchemy.text("SET LOCAL statement_timeout = 0"))
                    index.create(connection, checkfirst=True)

    def _remove_oldest(self, table: Table, at_ms: int) -> bool:
        """Return whether nothing of before `at_ms` is left in the table."""
        for _ in range(MOST_REMOVALS):
            with self._transaction() as connection:
                oldest_ms = connection.scalar(sqlalchemy.select(sqlalchemy.func.min(table.c.timestamp)))
                if oldest_ms is None or oldest_ms >= at_ms:
                    return True
                until_ms = min(oldest_ms + REMOVED_AT_ONCE_MS, at_ms)
                connection.execute(table.delete().where(table.c.timestamp < until_ms))
        return False

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                if not self._made:
                    METADATA.create_all(connection)
                yield connection
            self._made = True
        except SQLAlchemyError as error:
            cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise PlanStoreError(f"the metric tables in {self.address} cannot be used: {cause}") from error


def _with_driver(url: URL) -> URL:
    """Psycopg, the one that we ship with, unless the URL says another."""
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def _options(url: URL) -> dict[str, Any]:
    pool = {"pool_size": CONNECTIONS, "max_overflow": 0, "pool_timeout": TIMEOUT_S}
    if url.get_backend_name() == "sqlite":
        in_memory = url.database in (None, "", ":memory:")  # has one connection for each thread
        return {"connect_args": {"timeout": TIMEOUT_S}, **({} if in_memory else pool)}
    if url.get_backend_name() != "postgresql":
        return {"pool_pre_ping": True, **pool}
    limits = f"-c statement_timeout={TIMEOUT_S * 1_000}"
    connect_args = {"connect_timeout": TIMEOUT_S, "tcp_user_timeout": TIMEOUT_S * 1_000, "options": limits}
    return {"connect_args": connect_args, "pool_pre_ping": True, **pool}
