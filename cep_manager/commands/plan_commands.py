"""What can be done to a plan: each command goes to the plan store first, then to the control loop."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import msgspec

from cep_common.clock import Clock
from cep_common.ids import PlanKey
from cep_common.protocol.tasks import StatisticsLevel
from cep_manager.authoring.compiler import with_name
from cep_manager.authoring.compilers import PlanCompilers
from cep_manager.checkpoints.view import BEGIN_ANEW, require_readable_state, require_savepoint
from cep_manager.commands.http_paths import refuse_paths
from cep_manager.commands.reaches import known_reaches
from cep_manager.config import ManagerConfig
from cep_manager.control.deployment.draining import Unprocessed, awaited_workers, unprocessed
from cep_manager.control.deployment.plan_change import former_of, runs
from cep_manager.control.loop import ManagerControlLoop
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import (
    BadRequestError,
    CannotDrainError,
    ChangeUnderWayError,
    ManagerUnavailableError,
    NotLeaderError,
    PlanExistsError,
    PlanStoreError,
    UnknownPlanError,
    unknown_plan,
)
from cep_manager.monitoring.status import awaited_streams
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.folder import FileOrigin, parse_origin
from cep_manager.plans.outcomes import Outcome, Undeployed, outcome_of
from cep_manager.plans.quotas import check_plans, check_workers, room_for_change
from cep_manager.plans.record import PlanRecord, PlanToRun, PlanVersion, new_record
from cep_manager.plans.rule_sets.origin import parse_rule_origin
from cep_manager.plans.state import ChangeKind, PlanState
from cep_manager.plans.store import PlanStore, StoredPlan, StoredVersion
from query_plan.annotations import MOST_INSTANCES

MOST_WORKERS = MOST_INSTANCES
"""A plan has no more instances, so it needs no more workers."""

STATE_MOVES = "windows, patterns and tables go with it"
STATE_MATCHES = "windows, patterns and tables of queries that stay as they are go with it"
FROM_CHECKPOINT = "windows, patterns and tables come from its newest checkpoint, if there is one"
STATE_KEPT = "nothing of it is restarted: it keeps its state, what waits, checkpoints and statistics"
STARTS_EMPTY = "windows, patterns and tables start empty"

COUNTED: dict[StatisticsLevel, str] = {
    "off": "errors and what waits, no events and no latencies",
    "basic": "events and latencies",
    "detail": "events and latencies, and what each query does",
}
"""What stages count at each level, for people."""


class _Draft(threading.local):
    """The plans as a change makes them that the present thread has begun; None: it has begun none."""

    snapshot: ClusterSnapshot | None = None


class PlanCommands:
    """Deploys, changes and ends plans. Any thread may call; one command is carried out at a time, since what the store
    and what the loop are told must not cross. Every command raises ManagerUnavailableError when the loop does not
    answer and StoreError when the plan store cannot be used."""

    def __init__(self, store: PlanStore, service: ManagerControlLoop, clock: Clock, config: ManagerConfig) -> None:
        self._store = store
        self._service = service
        self._clock = clock
        self.compilers = PlanCompilers(config.compile, config.scripts)
        self._quotas = config.quotas
        self._default_workers, self._default_host = config.topology.workers, config.topology.host
        self._one_at_a_time = threading.Lock()
        self._draft = _Draft()

    def deploy(
        self,
        tenant: int,
        text: str,
        replace: bool,
        name: str | None = None,
        rename: bool = False,
        restore: str = "",
    ) -> Outcome:
        """See `ManagerView.deploy`."""
        compiled = self.compilers.compile(text, known_reaches(self._service.led()))
        if name is not None and compiled.name != name:
            if not rename:
                asked = f"renaming {name} must be asked for (rename=true)"
                raise BadRequestError(f"the text is of a plan named {compiled.name}, not {name}; {asked}")
            with self._one_at_a_time:
                key = self.plan_key(tenant, name)
                self._check_restore(key, restore)
                return self._rename(key, text, compiled, restore)
        with self._one_at_a_time:
            key = self.key_of(tenant, compiled.name)
            self._check_restore(key, restore)
            before = self._live_snapshot().plans.get(key)
            if before is None:
                return self._add(key, text, compiled, restore)
            _refuse_draining(before)
            if before.target()[0] != text and not replace:
                raise PlanExistsError(
                    f"a plan named {key.plan} is deployed with another text; replace it, or choose another name"
                )
            return self._deploy_over(before, text, compiled, restore)

    def plan_key(self, tenant: int, name: str) -> PlanKey:
        """See `ManagerView.plan_key`."""
        snapshot = self._live_snapshot()
        found = snapshot.key_named(tenant, name)
        if found is not None:
            return found
        present = snapshot.present_name(tenant, name)
        if present:
            message = f"no plan named {name} is deployed for tenant {tenant}: it was renamed to {present}"
            raise UnknownPlanError(message, {"plan": name, "tenant": tenant, "renamed_to": present})
        return self._store.key_of(tenant, name)

    def key_of(self, tenant: int, name: str) -> PlanKey:
        """Return the key of the plan of that name, or that a plan gets which is deployed under it now."""
        return self._live_snapshot().key_named(tenant, name) or self._store.key_of(tenant, name)

    def origins(self) -> dict[PlanKey, FileOrigin | None]:
        """See `FilePlans.origins`."""
        return {key: parse_origin(record.origin) for key, record in self._live_snapshot().plans.items()}

    def deploy_file(self, tenant: int, text: str, origin: FileOrigin, files: Collection[str]) -> None:
        """See `FilePlans.deploy_file`."""
        compiled = self.compilers.compile(text, known_reaches(self._service.led()))
        with self._one_at_a_time:
            origins, key = self.origins(), self.key_of(tenant, compiled.name)
            former = next((plan for plan, one in origins.items() if one is not None and one.name == origin.name), None)
            before = self._live_snapshot().plans.get(key)
            if before is not None and former != key:
                _refuse_other_source(before, origins[key], text, files)
            if before is not None:
                _refuse_draining(before)
                if former not in (None, key):
                    self._undeploy(former)
                self._deploy_over(before, text, compiled)
            elif former is not None:
                self._rename(former, text, compiled)
                key = former
            else:
                self._add(key, text, compiled)
            self._store.set_origin(key, origin.text())
            self._service.set_origin(key, origin.text())

    def rename(self, key: PlanKey, name: str) -> Outcome:
        """See `ManagerView.rename`."""
        with self._one_at_a_time:
            record = self._record(key)
            if name == key.plan:
                return outcome_of(record.key, record.epoch, f"{key.plan} has that name; nothing was changed")
            if record.compiled is None:
                raise ChangeUnderWayError(
                    f"{key.plan} cannot run ({record.unusable}), so its text cannot be given another name: deploy "
                    f"one that can run and is named {name} in its place (cep deploy FILE --rename {key.plan})"
                )
            text = with_name(record.target()[0], name)
            return self._rename(key, text, self.compilers.compile(text))

    def undeploy(self, key: PlanKey, discard: bool = False) -> Undeployed:
        """See `ManagerView.undeploy`."""
        with self._one_at_a_time:
            return self._undeploy(key, discard)

    def set_intake(self, key: PlanKey, intake: bool) -> Outcome:
        """See `ManagerView.set_intake`."""
        with self._one_at_a_time:
            record = self._record(key)
            done = "activated" if intake else "deactivated"
            if intake and record.draining is not None:
                self._end_draining(record)
            elif record.intake is intake:
                return outcome_of(key, record.epoch, f"{key.plan} is {done} already; nothing was changed")
            self._store.set_intake(key, intake)
            self._service.set_intake(key, intake)
        follows = "workers take events in for it" if intake else "workers take no events in for it, its state is kept"
        return outcome_of(key, record.epoch, f"{key.plan} was {done}: {follows}", changed=True)

    def set_trace(self, key: PlanKey, trace: bool) -> Outcome:
        """See `ManagerView.set_trace`."""
        with self._one_at_a_time:
            record = self._record(key)
            done = "traced" if trace else "not traced"
            if record.traced() is trace:
                return outcome_of(key, record.epoch, f"{key.plan} is {done} already; nothing was changed")
            self._store.set_trace(key, trace)
            self._service.set_trace(key, trace)
        follows = f"workers write {'its' if trace else 'none of its'} events to their logs"
        return outcome_of(key, record.epoch, f"{key.plan} is {done} now: {follows}", changed=True)

    def set_statistics(self, key: PlanKey, level: StatisticsLevel) -> Outcome:
        """See `ManagerView.set_statistics`."""
        with self._one_at_a_time:
            record = self._record(key)
            if record.statistics_level() == level:
                return outcome_of(key, record.epoch, f"{key.plan} has statistics {level} already; nothing was changed")
            self._store.set_statistics(key, level)
            self._service.set_statistics(key, level)
        message = f"{key.plan} has statistics {level} now: its stages count {COUNTED[level]}"
        return outcome_of(key, record.epoch, message, changed=True)

    def release(self, key: PlanKey, streams: Collection[str]) -> Outcome:
        """See `ManagerView.release`."""
        with self._one_at_a_time:
            record = self._record(key)
            imported = () if record.compiled is None else tuple(one.stream for one in record.compiled.imported)
            unknown = [stream for stream in streams if stream not in imported]
            if unknown:
                raise BadRequestError(
                    f"{key.plan} imports no stream {', '.join(unknown)}; it imports {', '.join(imported) or 'none'}"
                )
            tasks = self._live_snapshot().tasks.get(key, ())
            awaited = awaited_streams(tasks)
            released = tuple(streams) or awaited
            if not released:
                return outcome_of(key, record.epoch, f"{key.plan} waits for no first event; nothing was changed")
            self._service.release(key, released)
        message = f"{key.plan} does not wait for the first event of {', '.join(released)} any more"
        return outcome_of(key, record.epoch, message, changed=True)

    def restart(self, key: PlanKey, restore: str = "") -> Outcome:
        """See `ManagerView.restart`."""
        self._check_restore(key, restore)
        with self._one_at_a_time:
            return self._restart(self._record(key), f"{key.plan} is restarted", restore)

    def rebalance(self, key: PlanKey, workers: int) -> Outcome:
        """See `ManagerView.rebalance`."""
        if not 1 <= workers <= MOST_WORKERS:
            message = f"workers must be a whole number from 1 to {MOST_WORKERS:,}, not {workers}"
            raise BadRequestError(message, {"at": "workers", "allowed": {"minimum": 1, "maximum": MOST_WORKERS}})
        with self._one_at_a_time:
            record = self._record(key)
            _refuse_during(record, "update")
            text, now_on = record.target()
            if workers == now_on:
                message = f"{key.plan} has {workers} topology workers already; nothing was changed"
                return outcome_of(key, record.epoch, message)
            compiled = self.compilers.compile(text)
            return self._change(record, "rebalance", text, compiled, workers)

    def _undeploy(self, key: PlanKey, discard: bool = False) -> Undeployed:
        snapshot = self._live_snapshot()
        record = snapshot.plans.get(key)
        live, away = snapshot.live_workers(), snapshot.away_workers
        first_epoch = record.first_epoch if record is not None else 0
        left = unprocessed(key, live, away, first_epoch)
        awaited = awaited_workers(key, live, away, first_epoch)
        if discard or record is None or (not awaited and record.first_epoch):
            if not self._store.remove(key, self._clock.now_ms()) and record is None:
                raise unknown_plan(key)
            self._service.remove_plan(key, drain=True)
            return _undeployed(key, left, draining=False)
        if record.compiled is None:
            raise CannotDrainError(
                f"{key.plan} cannot run ({record.unusable}), so nothing can work off what workers accepted for it: "
                "deploy a text that can run in its place, or undeploy it with discard to drop those events"
            )
        if record.draining is None:
            self._store.set_draining(key, awaited)
            self._service.drain_plan(key, awaited)
        return _undeployed(key, left, draining=True)

    def _end_draining(self, record: PlanRecord) -> None:
        """Keep a plan that is being undeployed."""
        self._store.set_draining(record.key, None)
        self._service.drain_plan(record.key, None)
        self._note_draft(msgspec.structs.replace(record, draining=None))

    def _check_restore(self, key: PlanKey, restore: str) -> None:
        if restore and restore != BEGIN_ANEW:
            require_savepoint(self._live_snapshot(), key, restore)

    def _require_beginning(self, record: PlanRecord, restore: str) -> None:
        """Raise StateUnreadableError before anything is stopped, unless it is said what the plan begins from."""
        if not restore and not record.restore:
            require_readable_state(self._live_snapshot(), record)

    def _add(self, key: PlanKey, text: str, compiled: CompiledPlan, restore: str = "") -> Outcome:
        check_plans(self._quotas.of(key.tenant), key, self._live_snapshot().plans)
        self._check_paths(key, compiled)
        self._check_workers(key, compiled.workers, compiled.cores)
        # Whatever a former plan of this name may have left behind is none of this one's.
        stored = self._store.add(key, text, self._clock.now_ms(), restore=restore or BEGIN_ANEW)
        self._service.put_plan(plan_to_run(stored, compiled))
        self._note_draft(new_record(plan_to_run(stored, compiled), self._default_workers, self._clock.monotonic_ms()))
        message = f"{key.plan} was deployed" + (f"; {_state_from(restore)}" if restore else "")
        return outcome_of(key, stored.epoch, message, created=True, changed=True)

    def _deploy_over(self, before: PlanRecord, text: str, compiled: CompiledPlan, restore: str = "") -> Outcome:
        if before.target()[0] == text:
            return self._deploy_same(before, text, compiled, restore)
        self._check_paths(before.key, compiled)
        workers = _workers_after_edit(before, compiled)
        return self._change(before, "update", text, compiled, workers, restore)

    def _deploy_same(self, record: PlanRecord, text: str, compiled: CompiledPlan, restore: str) -> Outcome:
        name = record.key.plan
        if restore and record.compiled is not None:
            return self._restart(record, f"{name} is restarted", restore)
        if record.trial is not None:
            return outcome_of(record.key, record.epoch, f"{name} is being updated to that text; nothing was changed")
        if record.compiled is None:
            return self._change(record, "update", text, compiled, record.workers_asked)
        if record.state is PlanState.FAILED:
            return self._restart(record, f"{name} was deployed again")
        return outcome_of(record.key, record.epoch, f"{name} is deployed with the same text; nothing was changed")

    def _change(
        self,
        record: PlanRecord,
        kind: ChangeKind,
        text: str,
        compiled: CompiledPlan,
        workers: int | None,
        restore: str = "",
    ) -> Outcome:
        key = record.key
        self._require_beginning(record, restore)
        restore, restore_epoch = _order(record, restore)
        self._check_workers(key, workers or compiled.workers, compiled.cores)
        former = former_of(record) if record.change() is not None or record.has_run() else None
        kept = _stored_version(former) if former is not None else None
        stored = self._store.change(key, kind, text, workers, kept, self._clock.now_ms(), restore, restore_epoch)
        if stored is None:
            raise unknown_plan(key)
        self._service.put_plan(plan_to_run(stored, compiled))
        done = "updated" if kind == "update" else "rebalanced"
        state = _state_from(restore) if restore else self._state_after(record, compiled, workers)
        self._note_draft(msgspec.structs.replace(record, text=text, compiled=compiled))
        message = f"{key.plan} is being {done}: epoch {stored.epoch} takes over as soon as it runs; {state}"
        return outcome_of(key, stored.epoch, message, changed=True)

    def _state_after(self, record: PlanRecord, compiled: CompiledPlan, workers: int | None) -> str:
        """What becomes of the plan's state; how many slots are free may yet change."""
        snapshot = self._live_snapshot()
        if record.compiled is None or snapshot.driver is None:
            return FROM_CHECKPOINT
        driver = snapshot.driver.latest
        if not runs(record, driver.topologies):
            return FROM_CHECKPOINT
        tasks = workers or compiled.workers or self._default_workers
        slots = 0 if compiled.host_for(tasks, self._default_host) == "shared" else tasks * compiled.cores
        if slots > driver.slots_total:
            in_all = f"it needs {slots} slots, the cluster has {driver.slots_total} in all"
            return f"{in_all}: unless executors join at once, {record.key.plan} runs on as before"
        room = room_for_change(self._quotas.of(record.key.tenant), record, slots, snapshot.plans)
        if room.one_by_one or slots > driver.slots_free:
            return f"{room.one_by_one or 'there is no room for both topologies at once'}; {FROM_CHECKPOINT}"
        return STATE_MOVES if record.compiled.state_shape == compiled.state_shape else STATE_MATCHES

    def _rename(self, key: PlanKey, text: str, compiled: CompiledPlan, restore: str = "") -> Outcome:
        """Give the plan the name that `text` has, and then, if it differs otherwise, the text."""
        before = self._record(key)
        _refuse_during(before, "update", "rebalance")
        self._check_workers(key, _workers_after_edit(before, compiled) or compiled.workers, compiled.cores)
        to = PlanKey(key.tenant, compiled.name, key.identity)
        self._check_paths(to, compiled)
        self._refuse_left_savepoints(key.tenant, compiled.name)
        only_named = before.text if before.compiled is None else with_name(before.text, compiled.name)
        named = before.unusable if before.compiled is None else self.compilers.compile(only_named)
        if self._draft.snapshot is None:  # a change that has just been settled is still being written
            self._service.await_notes()
        stored = self._store.rename(before.key, compiled.name, only_named, self._clock.now_ms())
        if stored is None:
            raise unknown_plan(key)
        self._service.rename_plan(plan_to_run(stored, named))
        running = None if isinstance(named, str) else named
        self._note_draft(msgspec.structs.replace(before, key=stored.key, text=only_named, compiled=running))
        message = f"{before.key.plan} was renamed to {stored.key.plan}; {STATE_KEPT}"
        if only_named == text and not restore:
            return outcome_of(stored.key, stored.epoch, message, changed=True)
        changed = self._deploy_over(self._record(stored.key), text, compiled, restore)
        return msgspec.structs.replace(changed, message=f"{message}; {changed.message}")

    def _refuse_left_savepoints(self, tenant: int, name: str) -> None:
        """Raise PlanExistsError when a former plan of that name has savepoints, which nobody could reach any more."""
        snapshot = self._live_snapshot()
        if snapshot.key_named(tenant, name) is not None or snapshot.driver is None:
            return
        former = self._store.key_of(tenant, name)
        left = ", ".join(one.name for one in snapshot.driver.latest.savepoints if one.key == former)
        if left:
            raise PlanExistsError(
                f"a former plan named {name} has savepoints: {left}; delete them "
                f"(cep savepoints {name} --delete …), or choose another name"
            )

    def _restart(self, record: PlanRecord, message: str, restore: str = "") -> Outcome:
        if record.draining is None:
            _refuse_during(record, "update", "rebalance")
        self._require_beginning(record, restore)
        carries = record.state is not PlanState.FAILED or record.restore == BEGIN_ANEW
        # A savepoint from which it could not begin is not tried again: its own checkpoints still count.
        stored = self._store.restart(record.key, *(_order(record, restore) if restore or carries else ("", 0)))
        if stored is None:
            raise unknown_plan(record.key)
        self._service.restart_plan(record.key, stored.epoch, stored.restore, stored.restore_epoch)
        return outcome_of(record.key, stored.epoch, f"{message}; {_state_from(stored.restore)}", changed=True)

    def _check_workers(self, key: PlanKey, workers: int | None, cores: int) -> None:
        check_workers(self._quotas.of(key.tenant), key, workers or self._default_workers, cores)

    def _check_paths(self, key: PlanKey, compiled: CompiledPlan) -> None:
        """Raise PlanInvalidError for a path that is another plan's; of plans that change together, when all have."""
        if self._draft.snapshot is None:
            refuse_paths(self._live_snapshot(), key, compiled)

    @contextmanager
    def _as_one_change(self) -> Iterator[None]:
        """Make all that this thread does to plans one change: it comes about at the end, or not at all when an error
        ends the block. Meanwhile `_live_snapshot` shows this thread the plans as the change makes them, and other
        threads as they are."""
        snapshot = self._live_snapshot()
        self._service.await_notes()  # those notes are written by another thread, which would wait for this one
        self._draft.snapshot = msgspec.structs.replace(snapshot, plans=dict(snapshot.plans))
        try:
            with self._service.together(), self._store.together():
                yield
        finally:
            self._draft.snapshot = None

    def _note_draft(self, record: PlanRecord) -> None:
        """Show the plan so for the rest of the change, if one is being made."""
        if self._draft.snapshot is not None:
            plans = self._draft.snapshot.plans
            plans.pop(record.key, None)  # a key that is there would keep its former name
            plans[record.key] = record

    def _live_snapshot(self) -> ClusterSnapshot:
        if self._draft.snapshot is not None:
            return self._draft.snapshot
        if not self._service.alive():
            raise ManagerUnavailableError("the control loop does not run")
        led = self._service.led()
        if led is None:
            election_status = self._service.election_status()
            if election_status.leader is None and election_status.problem:
                raise PlanStoreError(f"no manager leads, as the database cannot be used: {election_status.problem}")
            raise NotLeaderError("this manager does not lead")
        return led

    def _record(self, key: PlanKey) -> PlanRecord:
        record = self._live_snapshot().plans.get(key)
        if record is None:
            raise unknown_plan(key)
        return record


def plan_to_run(stored: StoredPlan, compiled: CompiledPlan | str, sent_before: bool = False) -> PlanToRun:
    """What the control loop is told of a stored plan."""
    return PlanToRun(
        key=stored.key,
        text=stored.text,
        compiled=compiled,
        epoch=stored.epoch,
        created_ms=stored.created_ms,
        updated_ms=stored.updated_ms,
        sent_before=sent_before,
        intake=stored.intake,
        workers=stored.workers,
        origin=stored.origin,
        trace=stored.trace,
        statistics=stored.statistics,
        change=stored.change,
        restore=stored.restore,
        restore_epoch=stored.restore_epoch,
        counted=stored.counted,
        draining=stored.draining,
        former_names=stored.former_names,
    )


def former_to_run(stored: StoredPlan, former: StoredVersion, compiled: CompiledPlan | str) -> PlanToRun:
    """What the plan was before a change that an earlier manager process began."""
    before = msgspec.structs.replace(stored, **msgspec.structs.asdict(former), change=None, former=None)
    before = msgspec.structs.replace(before, restore="", restore_epoch=0)
    return plan_to_run(before, compiled, sent_before=True)


def _order(record: PlanRecord, restore: str) -> tuple[str, int]:
    """What the plan is to begin from, and under which epoch it was told so, 0: now. What it was told before holds until
    it has run."""
    return (restore, 0) if restore else (record.restore, record.restore_epoch)


def _state_from(restore: str) -> str:
    """What becomes of the state of a plan that begins so."""
    if not restore:
        return FROM_CHECKPOINT
    return STARTS_EMPTY if restore == BEGIN_ANEW else f"windows, patterns and tables come from savepoint {restore}"


def _refuse_other_source(record: PlanRecord, source: FileOrigin | None, text: str, files: Collection[str]) -> None:
    """Raises PlanExistsError unless a file may take the plan over: from a file that has gone, or as it is."""
    name = record.key.plan
    rule = parse_rule_origin(record.origin)
    if rule is not None:
        raise PlanExistsError(
            f"a plan named {name} belongs to the rule set {rule.rule_set}; remove it there, or choose another name"
        )
    if source is not None and source.name in files:
        raise PlanExistsError(
            f"a plan named {name} comes from the file {source.name}; choose another name in one of both"
        )
    if source is None and record.target()[0] != text:
        raise PlanExistsError(
            f"a plan named {name} with another text came by hand; undeploy it, or choose another name"
        )


def _refuse_draining(record: PlanRecord) -> None:
    if record.draining is not None:
        raise ChangeUnderWayError(
            f"{record.key.plan} is being undeployed and works off what it has ({record.drain_reason}); wait until it "
            "is gone, activate it to keep it, or undeploy it with discard"
        )


def _refuse_during(record: PlanRecord, *changes: ChangeKind) -> None:
    _refuse_draining(record)
    change = record.change()
    if change in changes:
        doing = "updated" if change == "update" else "rebalanced"
        raise ChangeUnderWayError(f"{record.key.plan} is being {doing}; wait until that has come to its end")


def _workers_after_edit(record: PlanRecord, compiled: CompiledPlan) -> int | None:
    """The number asked for by rebalancing holds until a text says another one than the text before."""
    asked = record.trial.version.workers_asked if record.trial is not None else record.workers_asked
    before = record.trial.version.compiled if record.trial is not None else record.compiled
    return asked if before is not None and before.workers == compiled.workers else None


def _stored_version(version: PlanVersion) -> StoredVersion:
    return StoredVersion(version.text, version.updated_ms, version.epoch, version.workers_asked)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _waiting(left: Unprocessed) -> list[str]:
    """Return what is left of a plan, in words."""
    away = f" ({left.away_events:,} of them at {', '.join(left.away)}, which is away)" if left.away_events else ""
    found = []
    if left.events:
        found.append(f"{_counted(left.events, 'accepted event')}{away}")
    if left.results:
        found.append(_counted(left.results, "undelivered result"))
    if left.away and not left.away_events:
        found.append(f"what {', '.join(left.away)}, which is away, may still have of it")
    return found


def _undeployed(key: PlanKey, left: Unprocessed, *, draining: bool) -> Undeployed:
    waits = " and ".join(_waiting(left))
    if draining:
        until = f"{waits} are worked off" if waits else "its stages have finished"
        what = f"is being undeployed: it takes nothing in, and goes when {until}"
    else:
        what = "was undeployed" + (f"; {waits} had not been worked off and are dropped" if waits else "")
    return Undeployed(
        plan=key.plan,
        tenant=key.tenant,
        draining=draining,
        waiting_events=left.events if draining else 0,
        discarded_events=0 if draining else left.events,
        waiting_results=left.results if draining else 0,
        discarded_results=0 if draining else left.results,
        message=f"{key.plan} {what}",
    )
