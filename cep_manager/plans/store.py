"""The plan store: deployed plans, their forms before unsettled changes, and their epochs.

It keeps them in a relational database.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import msgspec
import sqlalchemy
from sqlalchemy import Connection, Table
from sqlalchemy.exc import IntegrityError

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import PlanHost
from cep_common.protocol.registry import RemovedPlan
from cep_manager.errors import NotLeaderError, PlanExistsError
from cep_manager.persistence.database import Database
from cep_manager.persistence.database_note import contents_of
from cep_manager.persistence.lease import hold_lease
from cep_manager.persistence.schema import EPOCHS, FORMER, PLANS, REMOVED, SCALINGS, system_identity
from cep_manager.plans.batch import PlanBatch
from cep_manager.plans.scaling import Scaling
from cep_manager.plans.state import ChangeKind
from cep_manager.plans.stored_plan import PlanSettings, SettingsPatch, StoredPlan, StoredVersion

REMOVED_KNOWN_MS = 90 * 24 * 3_600_000
"""How long a removed plan is remembered."""
MOST_REMOVED = 1_000
"""How many of the newest removed plans workers are informed of."""
MOST_SCALINGS = 200
"""How many changes of a stage's number of instances are remembered."""
LONGEST_STEM = 118
"""The length to which a name is cut in an id with a suffix; the columns have room for ten more characters."""


NO_INSTANCES: Mapping[str, int] = MappingProxyType({})
"""No stage has grown."""


class WriteRight(msgspec.Struct, frozen=True):
    """The right to write: the `token` under which this manager leads, and a callback for when it is lost."""

    token: int
    refused: Callable[[int, str], None]


class _Joint(threading.local):
    """The copy of the tables in which the present thread makes a change of many plans; None: it makes none."""

    connection: Connection | None = None


class PlanStore:
    """Plans and epochs in the database.

    Any thread may use it. All methods raise PlanStoreError when the database cannot be used, those that write
    NotLeaderError when this manager does not lead; nothing has changed then.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._right: WriteRight | None = None
        self._joint = _Joint()

    def lead(self, right: WriteRight | None) -> None:
        """Write under this right from now on; None: writing is refused."""
        self._right = right

    def plans(self) -> tuple[StoredPlan, ...]:
        """Return every plan, in order of tenant and name."""
        with self._database.transaction() as connection:
            former = {(row.tenant, row.name): row for row in connection.execute(sqlalchemy.select(FORMER))}
            counted = {(row.tenant, row.name): row.epoch for row in connection.execute(sqlalchemy.select(EPOCHS))}
            rows = connection.execute(sqlalchemy.select(PLANS).order_by(PLANS.c.tenant, PLANS.c.name))
            keyed = [((row.tenant, row.plan_id), row) for row in rows]
            return tuple(_stored(row, former.get(key), counted.get(key, row.epoch)) for key, row in keyed)

    def key_of(self, tenant: int, name: str) -> PlanKey:
        """Return the key of the plan of that name.

        Where none is deployed, that of the one that was undeployed last under it, or else the key that a new one would
        get.
        """
        if self._joint.connection is not None:
            return _key_of(self._joint.connection, tenant, name)
        with self._database.transaction() as connection:
            return _key_of(connection, tenant, name)

    def add(self, key: PlanKey, text: str, now_ms: int, origin: str = "", restore: str = "") -> StoredPlan:
        """Store the plan under a new epoch, to begin from what `restore` says.

        `key` came from `key_of`. Raises PlanExistsError if a plan of its name exists.
        """
        with self._writing() as connection:
            epoch = _count_epoch(connection, key)
            _call(connection, key)
            plan = StoredPlan(key, text, epoch, now_ms, now_ms, PlanSettings(origin=origin), counted=epoch)
            plan = msgspec.structs.replace(plan, **_beginning(restore, epoch))
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
        restore: str = "",
        restore_epoch: int = 0,
        host: PlanHost | None = None,
        instances: Mapping[str, int] = NO_INSTANCES,
    ) -> StoredPlan | None:
        """Store another text, number of workers, host or instances under a new epoch, and return the plan.

        None: there is none.

        `former` is kept until the change is settled; None when there is nothing to go back to. The plan starts from
        what `restore` says, as ordered under `restore_epoch` (0: now).
        """
        with self._writing() as connection:
            if connection.scalar(sqlalchemy.select(PLANS.c.epoch).where(_is_plan(key))) is None:
                return None
            epoch = _count_epoch(connection, key)
            changed = {
                "text": text,
                "workers": workers,
                "host": host,
                "instances": _instances(instances),
                "epoch": epoch,
                "changed_epoch": epoch,
                "updated_ms": now_ms,
                **_beginning(restore, restore_epoch or epoch),
            }
            connection.execute(PLANS.update().where(_is_plan(key)).values(changed))
            connection.execute(FORMER.delete().where(_is(FORMER, key)))
            if former is not None:
                row = {"tenant": key.tenant, "name": key.identity, "change": kind, **_columns(former)}
                connection.execute(FORMER.insert().values(row))
            return _read(connection, key)

    def settle(self, key: PlanKey, epoch: int, in_force: StoredVersion) -> None:
        """Store `in_force` as the plan's text and size, and drop everything else that was kept of it.

        `epoch` was the last of the settled change. If the plan was changed again since, `in_force` becomes what that
        change can go back to.
        """
        with self._writing() as connection:
            row = connection.execute(sqlalchemy.select(PLANS).where(_is_plan(key))).first()
            if row is None:
                return
            version = _columns(in_force)
            if row.changed_epoch > epoch:
                connection.execute(FORMER.update().where(_is(FORMER, key)).values(version))
                return
            if row.epoch != row.changed_epoch:  # it was counted up since: that holds for what is in force
                del version["epoch"]
            if row.epoch <= epoch:  # what it was to begin from was for the change
                version |= _NEWEST_CHECKPOINT
            connection.execute(PLANS.update().where(_is_plan(key)).values(version))
            connection.execute(FORMER.delete().where(_is(FORMER, key)))

    def change_settings(self, key: PlanKey, patch: SettingsPatch) -> None:
        """Change settings of the plan."""
        with self._writing() as connection:
            connection.execute(PLANS.update().where(_is_plan(key)).values(patch.values()))

    def set_draining(self, key: PlanKey, workers: tuple[str, ...] | None) -> None:
        """Mark the plan as being undeployed, with the workers that may have events of it; None removes the mark."""
        encoded = None if workers is None else msgspec.json.encode(workers).decode()
        with self._writing() as connection:
            connection.execute(PLANS.update().where(_is_plan(key)).values(draining=encoded))

    def rename(self, key: PlanKey, name: str, text: str, now_ms: int) -> StoredPlan | None:
        """Give the plan another name, which `text` says, too.

        All that is kept under its id stays with it. Return None when there is no such plan. Raises PlanExistsError when
        there is one of the new name.
        """
        with self._writing() as connection:
            before = _read(connection, key)
            if before is None:
                return None
            to = PlanKey(key.tenant, name, key.identity)
            former = tuple(dict.fromkeys([*before.former_names, before.key.plan]))
            changed = {
                "name": name,
                "text": text,
                "updated_ms": now_ms,
                "former_names": _names(one for one in former if one != name),
            }
            try:
                connection.execute(PLANS.update().where(_is_plan(key)).values(changed))
            except IntegrityError as error:
                raise _exists(name) from error
            _call(connection, to)
            return _read(connection, to)

    def raise_epochs(self, wanted: Sequence[tuple[PlanKey, int]]) -> list[int]:
        """Raise the epochs of plans by one, each above a number (0: any), and return them; all in one transaction.

        An order to start a plan from some state was not given under epochs up to its number, which another database
        counted; it is recorded as given now.
        """
        with self._writing() as connection:
            return [_raise_epoch(connection, key, above) for key, above in wanted]

    def restart(self, key: PlanKey, restore: str, restore_epoch: int = 0) -> StoredPlan | None:
        """Raise the plan's epoch to start it again, and return the plan; None if it does not exist.

        It starts from what `restore` says, as ordered under `restore_epoch` (0: now).
        """
        with self._writing() as connection:
            if connection.scalar(sqlalchemy.select(PLANS.c.epoch).where(_is_plan(key))) is None:
                return None
            epoch = _count_epoch(connection, key)
            restarted = {"epoch": epoch, **_beginning(restore, restore_epoch or epoch)}
            connection.execute(PLANS.update().where(_is_plan(key)).values(restarted))
            return _read(connection, key)

    def all_begun(self, begun: Sequence[tuple[PlanKey, int]]) -> None:
        """Record that plans have run under these epochs: from now on they start from their newest checkpoints.

        Does nothing for a plan that was changed or restarted since. All is written in one transaction.
        """
        with self._writing() as connection:
            for key, epoch in begun:
                ran = sqlalchemy.and_(_is_plan(key), PLANS.c.epoch <= epoch)
                connection.execute(PLANS.update().where(ran).values(_NEWEST_CHECKPOINT))

    def remove(self, key: PlanKey, now_ms: int = 0) -> bool:
        """Remove the plan, and note that it was removed on purpose at `now_ms`; return False when it was not there.

        Its epoch continues to be counted.
        """
        with self._writing() as connection:
            _note_removed(connection, key, now_ms)
            return _remove(connection, key)

    def removed(self) -> tuple[RemovedPlan, ...]:
        """Return the plans that were removed on purpose, the newest ones, oldest first."""
        with self._database.reading() as connection:
            newest = sqlalchemy.select(REMOVED).order_by(REMOVED.c.removed_ms.desc()).limit(MOST_REMOVED)
            rows = [RemovedPlan(PlanKey(row.tenant, row.name), row.created_ms) for row in connection.execute(newest)]
            return tuple(reversed(rows))

    def database_problem(self) -> str:
        """Return in what the database is not what it was, and how to say that one knows; empty when all is well."""
        problem, note = self._database.note.problem(), self._database.note.where()
        return f"{problem}; this is reported until {note} is removed" if problem else ""

    def note_scalings(self, key: PlanKey, scalings: Sequence[Scaling]) -> None:
        """Record changes of the numbers of instances; of each stage the newest `MOST_SCALINGS` are kept.

        Does nothing when the plan has been removed: another one of its name must not get them.
        """
        with self._writing() as connection:
            if connection.scalar(sqlalchemy.select(PLANS.c.epoch).where(_is_plan(key))) is None:
                return
            for one in scalings:
                row = {"tenant": key.tenant, "name": key.identity, **msgspec.structs.asdict(one)}
                connection.execute(SCALINGS.insert().values(row))
                of_stage = sqlalchemy.and_(_is(SCALINGS, key), SCALINGS.c.stage == one.stage)
                newest = sqlalchemy.select(SCALINGS.c.at_ms).where(of_stage).order_by(SCALINGS.c.at_ms.desc())
                oldest_ms = connection.scalar(newest.offset(MOST_SCALINGS - 1).limit(1))
                if oldest_ms is not None:
                    connection.execute(SCALINGS.delete().where(of_stage, SCALINGS.c.at_ms < oldest_ms))

    def note_scaling_problem(self, key: PlanKey, at_ms: int, problem: str) -> None:
        """Record why the changes that were ordered at `at_ms` did not take effect."""
        with self._writing() as connection:
            at = sqlalchemy.and_(_is(SCALINGS, key), SCALINGS.c.at_ms == at_ms)
            connection.execute(SCALINGS.update().where(at).values(problem=problem))

    def scalings(self, key: PlanKey) -> tuple[Scaling, ...]:
        """Return the recorded changes of the plan's numbers of instances, oldest first."""
        with self._database.reading() as connection:
            rows = sqlalchemy.select(SCALINGS).where(_is(SCALINGS, key)).order_by(SCALINGS.c.at_ms, SCALINGS.c.stage)
            return tuple(_scaling(row) for row in connection.execute(rows))

    def system(self) -> str:
        """Return the identity of the database, which was drawn by chance when it was made."""
        with self._database.reading() as connection:
            return system_identity(connection)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write all that this thread writes in the block in one transaction at its end.

        Nothing is written when an error ends it. Raises ChangeUnderWayError if the same plans were changed in the
        meantime.
        """
        with self._database.reading() as connection:
            batch = PlanBatch(connection)
        try:
            self._joint.connection = batch.connection
            try:
                yield
            finally:
                self._joint.connection = None
            with self._writing() as connection:
                batch.write(connection)
        finally:
            batch.close()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Run the block in a transaction that holds the lease: another manager can take it only before or after."""
        if self._joint.connection is not None:
            yield self._joint.connection
            return
        right = self._right
        if right is None:
            raise NotLeaderError("this manager does not lead")
        with self._database.transaction() as connection:
            held = hold_lease(connection, right.token)
            if held:
                yield connection
                contents = contents_of(connection)
        if held:
            self._database.note.written(contents)
        else:
            reason = f"another manager has led since: token {right.token} has expired"
            right.refused(right.token, reason)
            raise NotLeaderError(reason)


_NEWEST_CHECKPOINT: dict[str, Any] = {"restore": "", "restore_epoch": 0}


def _beginning(restore: str, epoch: int) -> dict[str, Any]:
    """Return the columns for a plan that starts from `restore`, as ordered under `epoch`."""
    return {"restore": restore, "restore_epoch": epoch} if restore else _NEWEST_CHECKPOINT


def _raise_epoch(connection: Connection, key: PlanKey, above: int) -> int:
    epoch = _count_epoch(connection, key, above)
    connection.execute(PLANS.update().where(_is_plan(key)).values(epoch=epoch))
    if above:
        restorable = sqlalchemy.and_(_is_plan(key), PLANS.c.restore != "")
        connection.execute(PLANS.update().where(restorable).values(restore_epoch=epoch))
    return epoch


def _count_epoch(connection: Connection, key: PlanKey, above: int = 0) -> int:
    counted = connection.scalar(sqlalchemy.select(EPOCHS.c.epoch).where(_is(EPOCHS, key)))
    epoch = max(counted or 0, above) + 1
    if counted is None:
        connection.execute(EPOCHS.insert().values(tenant=key.tenant, name=key.identity, epoch=epoch, called=key.plan))
    else:
        connection.execute(EPOCHS.update().where(_is(EPOCHS, key)).values(epoch=epoch))
    return int(epoch)


def _read(connection: Connection, key: PlanKey) -> StoredPlan | None:
    row = connection.execute(sqlalchemy.select(PLANS).where(_is_plan(key))).first()
    former = connection.execute(sqlalchemy.select(FORMER).where(_is(FORMER, key))).first()
    counted = connection.scalar(sqlalchemy.select(EPOCHS.c.epoch).where(_is(EPOCHS, key)))
    return _stored(row, former, counted or row.epoch) if row is not None else None


def _insert(connection: Connection, plan: StoredPlan) -> None:
    row = {
        "tenant": plan.key.tenant,
        "name": plan.key.plan,
        "plan_id": plan.key.identity,
        "text": plan.text,
        "created_ms": plan.created_ms,
        "updated_ms": plan.updated_ms,
        "epoch": plan.epoch,
        "changed_epoch": plan.epoch,
        "workers": plan.workers,
        "host": plan.host,
        "instances": _instances(plan.instances),
        **msgspec.structs.asdict(plan.settings),
        "restore": plan.restore,
        "restore_epoch": plan.restore_epoch,
    }
    try:
        connection.execute(PLANS.insert().values(row))
    except IntegrityError as error:
        raise _exists(plan.key.plan) from error


def _exists(name: str) -> PlanExistsError:
    return PlanExistsError(f"a plan named {name} is deployed already; to replace it, use --replace or replace=true")


def _key_of(connection: Connection, tenant: int, name: str) -> PlanKey:
    deployed = sqlalchemy.select(PLANS.c.plan_id).where(PLANS.c.tenant == tenant)
    found = connection.scalar(deployed.where(PLANS.c.name == name))
    if found is None:
        wanted = sqlalchemy.select(EPOCHS.c.name).where(EPOCHS.c.tenant == tenant, EPOCHS.c.called == name)
        found = connection.scalar(wanted.where(EPOCHS.c.name.not_in(deployed)))
    return _key(tenant, name, found if found is not None else _new_id(connection, tenant, name))


def _new_id(connection: Connection, tenant: int, name: str) -> str:
    """Return an id that no plan has or had: the name itself unless it is another plan's first one."""
    ids = itertools.chain([name], (f"{name[:LONGEST_STEM]}~{number}" for number in itertools.count(2)))
    return next(one for one in ids if connection.scalar(_counted_of(PlanKey(tenant, one))) is None)


def _counted_of(key: PlanKey) -> sqlalchemy.Select[Any]:
    return sqlalchemy.select(EPOCHS.c.epoch).where(_is(EPOCHS, key))


def _call(connection: Connection, key: PlanKey) -> None:
    """From now on the plan's name means this one, and no other that had it before."""
    same = sqlalchemy.and_(EPOCHS.c.tenant == key.tenant, EPOCHS.c.called == key.plan)
    connection.execute(EPOCHS.update().where(same).values(called=""))
    connection.execute(EPOCHS.update().where(_is(EPOCHS, key)).values(called=key.plan))
    rows = connection.execute(
        sqlalchemy.select(PLANS.c.plan_id, PLANS.c.former_names).where(
            PLANS.c.tenant == key.tenant, PLANS.c.former_names != "[]", PLANS.c.plan_id != key.identity
        )
    ).all()
    for plan_id, former in rows:
        names = msgspec.json.decode(former, type=tuple[str, ...])
        if key.plan in names:
            kept = _names(one for one in names if one != key.plan)
            other = PlanKey(key.tenant, plan_id)
            connection.execute(PLANS.update().where(_is_plan(other)).values(former_names=kept))


def _scaling(row: sqlalchemy.Row[Any]) -> Scaling:
    return Scaling(
        at_ms=row.at_ms,
        stage=row.stage,
        instances_before=row.instances_before,
        instances_after=row.instances_after,
        events_per_s=row.events_per_s,
        reason=row.reason,
        problem=row.problem,
    )


def _names(names: Iterable[str]) -> str:
    return msgspec.json.encode(list(names)).decode()


def _key(tenant: int, name: str, plan_id: str) -> PlanKey:
    return PlanKey(tenant, name, "" if plan_id == name else plan_id)


def _note_removed(connection: Connection, key: PlanKey, now_ms: int) -> None:
    """Note that the plan was removed on purpose.

    Removals of long ago are forgotten: what workers that were away all the time have of those plans is set aside, and
    not deleted.
    """
    created_ms = connection.scalar(sqlalchemy.select(PLANS.c.created_ms).where(_is_plan(key)))
    connection.execute(REMOVED.delete().where(REMOVED.c.removed_ms < now_ms - REMOVED_KNOWN_MS))
    known = sqlalchemy.and_(_is(REMOVED, key), REMOVED.c.created_ms == created_ms)
    if created_ms is not None and connection.scalar(sqlalchemy.select(REMOVED.c.created_ms).where(known)) is None:
        row = {"tenant": key.tenant, "name": key.identity, "created_ms": created_ms, "removed_ms": now_ms}
        connection.execute(REMOVED.insert().values(row))


def _remove(connection: Connection, key: PlanKey) -> bool:
    connection.execute(FORMER.delete().where(_is(FORMER, key)))
    connection.execute(SCALINGS.delete().where(_is(SCALINGS, key)))
    return connection.execute(PLANS.delete().where(_is_plan(key))).rowcount > 0


def _is(table: Table, key: PlanKey) -> sqlalchemy.ColumnElement[bool]:
    """For the tables whose `name` is a plan's id."""
    return sqlalchemy.and_(table.c.tenant == key.tenant, table.c.name == key.identity)


def _is_plan(key: PlanKey) -> sqlalchemy.ColumnElement[bool]:
    return sqlalchemy.and_(PLANS.c.tenant == key.tenant, PLANS.c.plan_id == key.identity)


def _columns(version: StoredVersion) -> dict[str, Any]:
    return {**msgspec.structs.asdict(version), "instances": _instances(version.instances)}


def _instances(instances: Mapping[str, int]) -> str:
    return msgspec.json.encode(dict(instances), order="sorted").decode()


def _version(row: sqlalchemy.Row[Any]) -> StoredVersion:
    instances = msgspec.json.decode(row.instances, type=dict[str, int])
    return StoredVersion(row.text, row.updated_ms, row.epoch, row.workers, row.host, instances)


def _stored(row: sqlalchemy.Row[Any], former: sqlalchemy.Row[Any] | None, counted: int) -> StoredPlan:
    return StoredPlan(
        key=_key(row.tenant, row.name, row.plan_id),
        text=row.text,
        epoch=row.epoch,
        created_ms=row.created_ms,
        updated_ms=row.updated_ms,
        settings=PlanSettings(row.intake, row.trace, row.statistics, row.origin),
        workers=row.workers,
        host=row.host,
        instances=msgspec.json.decode(row.instances, type=dict[str, int]),
        restore=row.restore,
        restore_epoch=row.restore_epoch,
        counted=counted,
        former_names=msgspec.json.decode(row.former_names, type=tuple[str, ...]),
        draining=None if row.draining is None else msgspec.json.decode(row.draining, type=tuple[str, ...]),
        change=former.change if former is not None else None,
        former=_version(former) if former is not None else None,
    )
