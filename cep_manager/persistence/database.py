"""The database that all managers share: connections, transactions, and its errors in words that help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import URL, Connection, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from cep_manager.config import DatabaseConfig
from cep_manager.errors import PlanStoreError
from cep_manager.persistence.database_file import make_private, mark
from cep_manager.persistence.database_note import Contents, DatabaseNote, contents_of
from cep_manager.persistence.schema import SCHEMA_VERSION, bring_up_to_date
from cep_manager.persistence.writer_queue import WriterQueue

SQLITE, POSTGRESQL = "sqlite", "postgresql"

PREPARING_LOCK = 0x43_45_50
"""PostgreSQL's advisory lock under which tables are made, so that managers that start together do not both do it."""

PREPARING_MS = 30_000
"""How long a manager waits for another one that creates the tables."""

SURVIVES = "cep_survives_power_loss"
"""The connection option for such a transaction."""

READS = "cep_reads"
"""The connection option for a read-only transaction."""

DAMAGED_ADVICE = (
    "restore it from a backup, or recover the readable part (sqlite3 FILE .recover | sqlite3 NEW) and replace "
    "the file with it; workers keep "
    "the events they have accepted meanwhile. To start without plans, move it away with its -wal and "
    "-shm files"
)
"""Advice for a damaged SQLite file."""

SHORTEST_CONNECT_S = 2
"""The shortest connect timeout of the PostgreSQL library."""


class Database:
    """The database at `config.url`, with the tables of this version. Any thread may use it.

    Creates the tables in an empty database and upgrades those of an earlier version. Every method raises PlanStoreError
    when the database cannot be used.
    """

    def __init__(self, config: DatabaseConfig, idle_ms: int) -> None:
        """Prepare the database's connections.

        PostgreSQL ends a transaction whose manager has been idle for `idle_ms`: a manager that hangs must not keep the
        lease's row locked.
        """
        self._shown = config.url
        self._writers: WriterQueue | None = None
        try:
            url = make_url(config.url)
            self._shown = url.render_as_string(hide_password=True)
            self.kind = url.get_backend_name()
            file = None
            if self.kind == SQLITE:
                _prepare_file(url.database)
                file = _file(url.database)
                self._writers = WriterQueue(config.timeout_ms / 1_000)
            self.note = DatabaseNote(file)
            """The last known content of the database, where it can be noted beside the file."""
            self._engine = sqlalchemy.create_engine(_with_driver(url), **_options(self.kind, config, idle_ms))
        except ImportError as error:
            advice = "; pip install 'cep-on-spark[postgresql]'" if POSTGRESQL in config.url else ""
            raise PlanStoreError(f"database.url: {self._shown} cannot be used: {error}{advice}") from error
        except (ArgumentError, NoSuchModuleError, OSError) as error:
            raise PlanStoreError(f"database.url: {self._shown} cannot be used: {error}") from error
        if self.kind == SQLITE:
            event.listen(self._engine, "connect", _write_ahead)
            event.listen(self._engine, "begin", _begin)
        self._check_soundness()
        self._prepare()
        self.note.check(self.contents)

    def contents(self) -> Contents:
        """Return a summary of the database's present contents."""
        with self.reading() as connection:
            return contents_of(connection)

    def address(self) -> str:
        """Return the database's URL without its password."""
        return self._shown

    @contextmanager
    def transaction(self, survives_power_loss: bool = True) -> Iterator[Connection]:
        """Run the block in a transaction, which is committed at its end or rolled back if it raises.

        With `survives_power_loss` False the commit does not wait for the disk (SQLite).
        """
        with ExitStack() as stack:
            if self._writers is not None:
                try:
                    stack.enter_context(self._writers.turn())
                except TimeoutError as error:
                    raise PlanStoreError(
                        f"the plan store {self._shown} is busy: other changes of this manager take longer than "
                        "database.timeout_ms; try again, and check its disk"
                    ) from error
            yield stack.enter_context(self._begun({SURVIVES: survives_power_loss}))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Run the block in a read transaction: it sees one moment and never waits for writers."""
        with self._begun({READS: True}) as connection:
            yield connection

    @contextmanager
    def _begun(self, options: dict[str, bool]) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection, connection.execution_options(**options).begin():
                yield connection
        except SQLAlchemyError as error:
            raise self._explained(error) from error

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _explained(self, error: SQLAlchemyError) -> PlanStoreError:
        cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        advice = ""
        if "locked" in cause:
            advice = "; another process holds it: end that process, or raise database.timeout_ms"
        elif "is full" in cause or "No space left" in cause:
            advice = "; it is full: free space on its disk, then the manager continues by itself"
        elif "not a database" in cause or "malformed" in cause:
            advice = f"; the file is damaged: {DAMAGED_ADVICE}"
        elif "unable to open" in cause or "readonly" in cause:
            advice = "; check that the file and its folder can be written by this user"
        return PlanStoreError(f"the plan store {self._shown} cannot be used: {cause}{advice}")

    def _check_soundness(self) -> None:
        """Raise unless the database file is intact; plans in a damaged one would be taken for removed ones.

        Database servers check their own files.
        """
        if self.kind != SQLITE:
            return
        try:
            with self.reading() as connection:
                found = str(connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar())
        except PlanStoreError:
            self.close()
            raise
        if found != "ok":
            self.close()
            raise PlanStoreError(f"the plan store {self._shown} is damaged: {found.strip()}; {DAMAGED_ADVICE}")

    def _prepare(self) -> None:
        try:
            with self.transaction() as connection:
                if self.kind == POSTGRESQL:
                    # This transaction holds no lease, and may take its time.
                    connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
                    connection.exec_driver_sql(f"SET LOCAL statement_timeout = {PREPARING_MS}")
                    connection.execute(sqlalchemy.select(sqlalchemy.func.pg_advisory_xact_lock(PREPARING_LOCK)))
                version = bring_up_to_date(connection)
            self._check_version(version)
        except PlanStoreError:
            self.close()
            raise

    def _check_version(self, version: int) -> None:
        if version != SCHEMA_VERSION:
            raise PlanStoreError(
                f"{self._shown} has plan tables of version {version}, this manager works with version "
                f"{SCHEMA_VERSION}; use the manager that wrote them, or another database"
            )


def _with_driver(url: URL) -> URL:
    """Psycopg, the one that we ship with, unless the URL says another."""
    return url.set(drivername="postgresql+psycopg") if url.drivername == POSTGRESQL else url


def _options(kind: str, config: DatabaseConfig, idle_ms: int) -> dict[str, Any]:
    if kind == SQLITE:
        return {"connect_args": {"timeout": config.timeout_ms / 1_000, "isolation_level": None}}
    if kind != POSTGRESQL:
        return {"pool_pre_ping": True}
    limits = f"-c statement_timeout={config.timeout_ms} -c idle_in_transaction_session_timeout={idle_ms}"
    connect_args = {
        "connect_timeout": max(SHORTEST_CONNECT_S, config.timeout_ms // 1_000),
        # Give up a connection that the network has cut; otherwise the call would wait for a quarter of an hour.
        "tcp_user_timeout": config.timeout_ms,
        "keepalives_idle": 1,
        "keepalives_interval": 1,
        "keepalives_count": SHORTEST_CONNECT_S,
        "options": limits,
    }
    return {"connect_args": connect_args, "pool_pre_ping": True}


def _write_ahead(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    mark(connection)


def _begin(connection: Connection) -> None:
    if connection.get_execution_options().get(READS, False):
        connection.exec_driver_sql("BEGIN")
        return
    waits = connection.get_execution_options().get(SURVIVES, True)
    connection.exec_driver_sql(f"PRAGMA synchronous={'FULL' if waits else 'NORMAL'}")
    # The database driver must not begin transactions itself (isolation_level). A transaction that reads before it
    # writes would fail instead of waiting when another one writes in between, so each takes the lock at its start.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _file(database: str | None) -> Path | None:
    """Return the file of an SQLite database; None of one in memory."""
    return Path(database) if database and database != ":memory:" and not database.startswith("file:") else None


def _prepare_file(database: str | None) -> None:
    if database and database != ":memory:":
        make_private(database)
