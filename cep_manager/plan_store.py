"""The plan store: which plans are deployed, and how far their epochs have been counted, in a relational database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy
from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, String, Table, Text, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from cep_common.ids import PlanKey
from cep_manager.config import DatabaseConfig
from cep_manager.errors import PlanExistsError, StoreError

SCHEMA_VERSION = 1

_METADATA = MetaData()
_VERSION = Table("cep_schema", _METADATA, Column("version", Integer, primary_key=True, autoincrement=False))
_PLANS = Table(
    "cep_plans",
    _METADATA,
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("name", String(128), primary_key=True),
    Column("text", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
)
# Epochs outlive their plans: a plan that is deployed again must not meet leftovers of its former self under its epoch.
_EPOCHS = Table(
    "cep_epochs",
    _METADATA,
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("name", String(128), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
)


class StoredPlan(msgspec.Struct, frozen=True):
    """A plan in the store; times are milliseconds since 1970."""

    key: PlanKey
    text: str
    epoch: int
    created_ms: int
    updated_ms: int


class PlanStore:
    """Plans and epochs in the database at `config.url`. Any thread may use it. All methods raise StoreError when the
    database cannot be used, and have then changed nothing."""

    def __init__(self, config: DatabaseConfig) -> None:
        """The database is reachable and has the tables of this version; they are made in an empty one."""
        self._shown = config.url
        try:
            url = make_url(config.url)
            self._shown = url.render_as_string(hide_password=True)
            options: dict[str, object] = {}
            if url.get_backend_name() == "sqlite":
                _make_folder(url.database)
                options = {"connect_args": {"timeout": config.timeout_ms / 1_000, "isolation_level": None}}
            self._engine = sqlalchemy.create_engine(url, **options)
        except (ArgumentError, NoSuchModuleError, ImportError, OSError) as error:
            raise StoreError(f"database.url: {self._shown} cannot be used: {error}") from error
        if url.get_backend_name() == "sqlite":
            event.listen(self._engine, "begin", _take_write_lock)
        self._prepare()

    def address(self) -> str:
        """The database's URL without its password."""
        return self._shown

    def plans(self) -> tuple[StoredPlan, ...]:
        """Every plan, in order of tenant and name."""
        both = sqlalchemy.and_(_PLANS.c.tenant == _EPOCHS.c.tenant, _PLANS.c.name == _EPOCHS.c.name)
        query = sqlalchemy.select(_PLANS, _EPOCHS.c.epoch).join(_EPOCHS, both).order_by(_PLANS.c.tenant, _PLANS.c.name)
        with self._transaction() as connection:
            return tuple(_stored(row) for row in connection.execute(query))

    def add(self, key: PlanKey, text: str, now_ms: int) -> StoredPlan:
        """The plan is in the store under a new epoch. Raises PlanExistsError when one of its name is there."""
        row = {"tenant": key.tenant, "name": key.plan, "text": text, "created_ms": now_ms, "updated_ms": now_ms}
        with self._transaction() as connection:
            try:
                connection.execute(_PLANS.insert().values(row))
            except IntegrityError as error:
                raise PlanExistsError(f"a plan named {key.plan} is deployed already; replace it on purpose") from error
            epoch = _count_epoch(connection, key)
        return StoredPlan(key=key, text=text, epoch=epoch, created_ms=now_ms, updated_ms=now_ms)

    def replace(self, key: PlanKey, text: str, now_ms: int) -> StoredPlan | None:
        """The plan has another text and a new epoch; None when there is no such plan."""
        with self._transaction() as connection:
            created_ms = connection.scalar(sqlalchemy.select(_PLANS.c.created_ms).where(_is(_PLANS, key)))
            if created_ms is None:
                return None
            connection.execute(_PLANS.update().where(_is(_PLANS, key)).values(text=text, updated_ms=now_ms))
            epoch = _count_epoch(connection, key)
        return StoredPlan(key=key, text=text, epoch=epoch, created_ms=created_ms, updated_ms=now_ms)

    def raise_epoch(self, key: PlanKey) -> int:
        """The plan's epoch is one higher; this is it."""
        with self._transaction() as connection:
            return _count_epoch(connection, key)

    def remove(self, key: PlanKey) -> bool:
        """The plan is not in the store; False when it was not there. Its epoch goes on being counted."""
        with self._transaction() as connection:
            return connection.execute(_PLANS.delete().where(_is(_PLANS, key))).rowcount > 0

    def close(self) -> None:
        """All connections are closed."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise self._explained(error) from error

    def _explained(self, error: SQLAlchemyError) -> StoreError:
        cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        advice = ""
        if "locked" in cause:
            advice = "; another process holds it: end that process, or raise database.timeout_ms"
        elif "not a database" in cause or "malformed" in cause:
            advice = "; the file is damaged: restore it from a backup, or move it away to begin with no plans"
        elif "unable to open" in cause or "readonly" in cause:
            advice = "; check that the file and its folder can be written by this user"
        return StoreError(f"the plan store {self._shown} cannot be used: {cause}{advice}")

    def _prepare(self) -> None:
        try:
            with self._transaction() as connection:
                _METADATA.create_all(connection)
                version = connection.scalar(sqlalchemy.select(_VERSION.c.version))
                if version is None:
                    version = SCHEMA_VERSION
                    connection.execute(_VERSION.insert().values(version=version))
            self._check_version(version)
        except StoreError:
            self.close()
            raise

    def _check_version(self, version: int) -> None:
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"{self._shown} has plan tables of version {version}, this manager works with version "
                f"{SCHEMA_VERSION}; use the manager that wrote them, or another database"
            )


def _take_write_lock(connection: Connection) -> None:
    # The driver is told (isolation_level) to begin none itself. A transaction that reads before it writes would fail
    # instead of waiting when another one writes in between, so each takes the lock at its start.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _count_epoch(connection: Connection, key: PlanKey) -> int:
    raised = _EPOCHS.update().where(_is(_EPOCHS, key)).values(epoch=_EPOCHS.c.epoch + 1)
    if connection.execute(raised).rowcount == 0:
        connection.execute(_EPOCHS.insert().values(tenant=key.tenant, name=key.plan, epoch=1))
    epoch = connection.scalar(sqlalchemy.select(_EPOCHS.c.epoch).where(_is(_EPOCHS, key)))
    return int(epoch or 0)


def _is(table: Table, key: PlanKey) -> sqlalchemy.ColumnElement[bool]:
    return sqlalchemy.and_(table.c.tenant == key.tenant, table.c.name == key.plan)


def _stored(row: sqlalchemy.Row[Any]) -> StoredPlan:
    return StoredPlan(PlanKey(row.tenant, row.name), row.text, row.epoch, row.created_ms, row.updated_ms)


def _make_folder(database: str | None) -> None:
    if database and database != ":memory:":
        Path(database).expanduser().parent.mkdir(parents=True, exist_ok=True)
