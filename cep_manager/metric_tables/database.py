"""The database that holds the metric tables: rows are written, read and removed when they are old."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from cep_manager.errors import StoreError
from cep_manager.metric_tables.model import Kind, MetricRow
from cep_manager.metric_tables.tables import METADATA, TABLES

TIMEOUT_S = 5
"""So long the database may take over a connection, a lock or a statement."""

MOST_ROWS_READ = 200_000


class MetricDatabase:
    """Connects when it is first used. Any thread may use it; everything raises StoreError when it cannot be used."""

    def __init__(self, url: str) -> None:
        """Raises StoreError for what can be no database."""
        try:
            parsed = make_url(url)
            self.address = parsed.render_as_string(hide_password=True)
            if parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:"):
                Path(str(parsed.database)).expanduser().parent.mkdir(parents=True, exist_ok=True)
            self._engine = sqlalchemy.create_engine(_with_driver(parsed), **_options(parsed))
        except (ArgumentError, NoSuchModuleError, ImportError, OSError) as error:
            raise StoreError(f"metrics.tables.url cannot be used: {error}") from error
        self._made = False

    def write(self, rows: Iterable[MetricRow]) -> None:
        """All rows are there, or none."""
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

    def remove_before(self, at_ms: int) -> None:
        """No rows are left of before that time of day."""
        for table in TABLES.values():
            with self._transaction() as connection:
                connection.execute(table.delete().where(table.c.timestamp < at_ms))

    def read(
        self, kind: Kind, source: str, name: str, column: str, since_ms: int, until_ms: int
    ) -> list[tuple[int, float]]:
        """The values of a column, with their times of day, oldest first."""
        table = TABLES[kind]
        wanted = (
            sqlalchemy.select(table.c.timestamp, table.c[column])
            .where(table.c.timestamp.between(since_ms, until_ms), table.c.source == source, table.c.name == name)
            .order_by(table.c.timestamp)
            .limit(MOST_ROWS_READ)
        )
        with self._transaction() as connection:
            return [(int(at_ms), float(value)) for at_ms, value in connection.execute(wanted)]

    def close(self) -> None:
        """All connections are closed."""
        self._engine.dispose()

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
            raise StoreError(f"the metric tables in {self.address} cannot be used: {cause}") from error


def _with_driver(url: URL) -> URL:
    """Psycopg, the one that we ship with, unless the URL says another."""
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def _options(url: URL) -> dict[str, Any]:
    if url.get_backend_name() == "sqlite":
        return {"connect_args": {"timeout": TIMEOUT_S}}
    if url.get_backend_name() != "postgresql":
        return {"pool_pre_ping": True}
    limits = f"-c statement_timeout={TIMEOUT_S * 1_000}"
    connect_args = {"connect_timeout": TIMEOUT_S, "tcp_user_timeout": TIMEOUT_S * 1_000, "options": limits}
    return {"connect_args": connect_args, "pool_pre_ping": True}
