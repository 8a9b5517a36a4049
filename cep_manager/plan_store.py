"""The plan store: which plans are deployed, what they were before a change that is not settled yet, and how far their
epochs have been counted, in a relational database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy
from sqlalchemy import Connection, Table, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from cep_common.ids import PlanKey
from cep_manager.config import DatabaseConfig
from cep_manager.errors import PlanExistsError, StoreError
from cep_manager.plan_schema import EPOCHS, FORMER, PLANS, SCHEMA_VERSION, bring_up_to_date
from cep_manager.plan_state import ChangeKind


class StoredVersion(msgspec.Struct, frozen=True):
    """A plan's text and the topology that it runs as: `workers` were asked for, None leaves them to text and
    configuration."""

    text: str
    updated_ms: int
    epoch: int
    workers: int | None = None


class StoredPlan(msgspec.Struct, frozen=True):
    """A plan in the store; times are milliseconds since 1970. While a change of it is not settled, `change` says which
    kind it is and `former` what the plan was before."""

    key: PlanKey
    text: str
    epoch: int
    created_ms: int
    updated_ms: int
    intake: bool = True
    workers: int | None = None
    origin: str = ""
    trace: bool | None = None
    change: ChangeKind | None = None
    former: StoredVersion | None = None


class PlanStore:
    """Plans and epochs in the database at `config.url`. Any thread may use it. All methods raise StoreError when the
    database cannot be used, and have then changed nothing."""

    def __init__(self, config: DatabaseConfig) -> None:
        """The database is reachable and has the tables of this version: made in an empty one, brought up to date in
        one that an earlier version wrote."""
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
        with self._transaction() as connection:
            former = {(row.tenant, row.name): row for row in connection.execute(sqlalchemy.select(FORMER))}
            rows = connection.execute(sqlalchemy.select(PLANS).order_by(PLANS.c.tenant, PLANS.c.name))
            return tuple(_stored(row, former.get((row.tenant, row.name))) for row in rows)

    def add(self, key: PlanKey, text: str, now_ms: int, origin: str = "") -> StoredPlan:
        """The plan is in the store under a new epoch. Raises PlanExistsError when one of its name is there."""
        with self._transaction() as connection:
            epoch = _count_epoch(connection, key)
            plan = StoredPlan(key, text, epoch, created_ms=now_ms, updated_ms=now_ms, origin=origin)
            _insert(connection, plan)
        return plan

    def change(
        self,
        key: PlanKey,
        kind: ChangeKind,
        text: str,
        workers: int | None,
        former: StoredVersion | None,
        now_ms: int,
    ) -> StoredPlan | None:
        """The plan has another text or number of workers, and a new epoch; None when there is no such plan. `former` is
        kept until the change is settled; None when there is nothing to go back to."""
        with self._transaction() as connection:
            if connection.scalar(sqlalchemy.select(PLANS.c.epoch).where(_is(PLANS, key))) is None:
                return None
            epoch = _count_epoch(connection, key)
            changed = {"text": text, "workers": workers, "epoch": epoch, "changed_epoch": epoch, "updated_ms": now_ms}
            connection.execute(PLANS.update().where(_is(PLANS, key)).values(changed))
            connection.execute(FORMER.delete().where(_is(FORMER, key)))
            if former is not None:
                row = {"tenant": key.tenant, "name": key.plan, "change": kind, **msgspec.structs.asdict(former)}
                connection.execute(FORMER.insert().values(row))
            return _read(connection, key)

    def settle(self, key: PlanKey, epoch: int, in_force: StoredVersion) -> None:
        """The plan is what `in_force` says, and nothing else is kept of it; `epoch` was the last of the change that is
        settled so. When the plan was changed again since, `in_force` is what that change can go back to."""
        with self._transaction() as connection:
            row = connection.execute(sqlalchemy.select(PLANS).where(_is(PLANS, key))).first()
            if row is None:
                return
            version = msgspec.structs.asdict(in_force)
            if row.changed_epoch > epoch:
                connection.execute(FORMER.update().where(_is(FORMER, key)).values(version))
                return
            if row.epoch != row.changed_epoch:  # it was counted up since: that holds for what is in force
                del version["epoch"]
            connection.execute(PLANS.update().where(_is(PLANS, key)).values(version))
            connection.execute(FORMER.delete().where(_is(FORMER, key)))

    def set_intake(self, key: PlanKey, intake: bool) -> None:
        """Workers take events in for the plan, or do not."""
        with self._transaction() as connection:
            connection.execute(PLANS.update().where(_is(PLANS, key)).values(intake=intake))

    def set_trace(self, key: PlanKey, trace: bool) -> None:
        """Workers write the plan's events to their logs, or do not, whatever its text says."""
        with self._transaction() as connection:
            connection.execute(PLANS.update().where(_is(PLANS, key)).values(trace=trace))

    def set_origin(self, key: PlanKey, origin: str) -> None:
        """The plan comes from the file that `origin` names; empty: it was deployed by hand."""
        with self._transaction() as connection:
            connection.execute(PLANS.update().where(_is(PLANS, key)).values(origin=origin))

    def rename(self, key: PlanKey, to: PlanKey, text: str, workers: int | None, now_ms: int) -> StoredPlan | None:
        """The plan is in the store as `to`, with another text and a new epoch, and not as `key`; None when there was
        none. Raises PlanExistsError when there is one of the new name."""
        with self._transaction() as connection:
            before = _read(connection, key)
            if before is None:
                return None
            _remove(connection, key)
            plan = msgspec.structs.replace(
                before,
                key=to,
                text=text,
                epoch=_count_epoch(connection, to),
                workers=workers,
                updated_ms=now_ms,
                change=None,
                former=None,
            )
            _insert(connection, plan)
        return plan

    def raise_epoch(self, key: PlanKey) -> int:
        """The plan's epoch is one higher; this is it."""
        with self._transaction() as connection:
            epoch = _count_epoch(connection, key)
            connection.execute(PLANS.update().where(_is(PLANS, key)).values(epoch=epoch))
            return epoch

    def remove(self, key: PlanKey) -> bool:
        """The plan is not in the store; False when it was not there. Its epoch goes on being counted."""
        with self._transaction() as connection:
            return _remove(connection, key)

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
                version = bring_up_to_date(connection)
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
    raised = EPOCHS.update().where(_is(EPOCHS, key)).values(epoch=EPOCHS.c.epoch + 1)
    if connection.execute(raised).rowcount == 0:
        connection.execute(EPOCHS.insert().values(tenant=key.tenant, name=key.plan, epoch=1))
    epoch = connection.scalar(sqlalchemy.select(EPOCHS.c.epoch).where(_is(EPOCHS, key)))
    return int(epoch or 0)


def _read(connection: Connection, key: PlanKey) -> StoredPlan | None:
    row = connection.execute(sqlalchemy.select(PLANS).where(_is(PLANS, key))).first()
    former = connection.execute(sqlalchemy.select(FORMER).where(_is(FORMER, key))).first()
    return _stored(row, former) if row is not None else None


def _insert(connection: Connection, plan: StoredPlan) -> None:
    row = {
        "tenant": plan.key.tenant,
        "name": plan.key.plan,
        "text": plan.text,
        "created_ms": plan.created_ms,
        "updated_ms": plan.updated_ms,
        "epoch": plan.epoch,
        "changed_epoch": plan.epoch,
        "intake": plan.intake,
        "workers": plan.workers,
        "origin": plan.origin,
        "trace": plan.trace,
    }
    try:
        connection.execute(PLANS.insert().values(row))
    except IntegrityError as error:
        raise PlanExistsError(f"a plan named {plan.key.plan} is deployed already; replace it on purpose") from error


def _remove(connection: Connection, key: PlanKey) -> bool:
    connection.execute(FORMER.delete().where(_is(FORMER, key)))
    return connection.execute(PLANS.delete().where(_is(PLANS, key))).rowcount > 0


def _is(table: Table, key: PlanKey) -> sqlalchemy.ColumnElement[bool]:
    return sqlalchemy.and_(table.c.tenant == key.tenant, table.c.name == key.plan)


def _stored(row: sqlalchemy.Row[Any], former: sqlalchemy.Row[Any] | None) -> StoredPlan:
    return StoredPlan(
        key=PlanKey(row.tenant, row.name),
        text=row.text,
        epoch=row.epoch,
        created_ms=row.created_ms,
        updated_ms=row.updated_ms,
        intake=row.intake,
        workers=row.workers,
        origin=row.origin,
        trace=row.trace,
        change=former.change if former is not None else None,
        former=StoredVersion(former.text, former.updated_ms, former.epoch, former.workers)
        if former is not None
        else None,
    )


def _make_folder(database: str | None) -> None:
    if database and database != ":memory:":
        Path(database).expanduser().parent.mkdir(parents=True, exist_ok=True)
