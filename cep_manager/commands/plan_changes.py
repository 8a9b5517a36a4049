"""The steps that make up changes of plans: each is written to the plan store first, then sent to the control loop."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from cep_common.clock import Clock
from cep_common.ids import PlanKey
from cep_common.protocol.checkpoints import NO_SAVEPOINT
from cep_common.protocol.drivers import PlanHost
from cep_manager.authoring.compiler import with_name
from cep_manager.authoring.compilers import PlanCompilers
from cep_manager.checkpoints.view import require_readable_state, require_savepoint
from cep_manager.commands.http_paths import refuse_paths
from cep_manager.config import ManagerConfig
from cep_manager.control.deployment.draining import Unprocessed, awaited_workers, unprocessed
from cep_manager.control.deployment.plan_change import former_of, runs
from cep_manager.control.loop import ManagerControlLoop
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import (
    CannotDrainError,
    ChangeUnderWayError,
    ManagerUnavailableError,
    NotLeaderError,
    PlanExistsError,
    PlanStoreError,
    unknown_plan,
)
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.outcomes import Outcome, Undeployed, outcome_of
from cep_manager.plans.quotas import check_plans, check_workers, room_for_change
from cep_manager.plans.record import PlanRecord, PlanToRun, new_record, with_stored
from cep_manager.plans.state import ChangeKind, PlanState
from cep_manager.plans.store import NO_INSTANCES, PlanStore
from cep_manager.plans.stored_plan import SettingsPatch
from cep_manager.topics.keeper import NeededTopics, TopicKeeper

MOVED_TO: dict[PlanHost, str] = {"shared": "into a stage host", "own": "out of its stage host, to tasks of its own"}

STATE_MOVES = "it keeps its windows, patterns and tables"
STATE_MATCHES = "unchanged queries keep their windows, patterns and tables"
FROM_CHECKPOINT = "windows, patterns and tables come from its newest checkpoint, if there is one"
STATE_KEPT = "nothing is restarted: it keeps its state, waiting events, checkpoints and statistics"
STARTS_EMPTY = "windows, patterns and tables start empty"


class _Draft(threading.local):
    """The plans after the change that the current thread has begun; None without a change."""

    snapshot: ClusterSnapshot | None = None
    topics: tuple[tuple[PlanKey, CompiledPlan], ...] = ()
    """Plans whose topics are created at the end."""


class PlanChanges:
    """Performs the steps of changes, for commands on plans, rule sets and files.

    Steps are not safe on their own: hold `one_at_a_time` during all steps of a change, because updates to the store and
    to the control loop must not interleave. Every step raises ManagerUnavailableError if the loop does not respond and
    PlanStoreError if the plan store cannot be used.
    """

    def __init__(
        self,
        store: PlanStore,
        service: ManagerControlLoop,
        clock: Clock,
        config: ManagerConfig,
        topics: TopicKeeper | None = None,
    ) -> None:
        self.store = store
        self.service = service
        self.clock = clock
        self.compilers = PlanCompilers(config.compile, config.scripts, config.kafka)
        self._quotas = config.quotas
        self._default_workers, self._default_host = config.topology.workers, config.topology.host
        self._topics = topics
        self.one_at_a_time = threading.Lock()
        self._draft = _Draft()

    def key_of(self, tenant: int, name: str) -> PlanKey:
        """Return the key of the plan of that name, or that a plan gets which is deployed under it now."""
        return self.snapshot().key_named(tenant, name) or self.store.key_of(tenant, name)

    def undeploy(self, key: PlanKey, discard: bool = False) -> Undeployed:
        """Drain the plan and then remove it; remove it at once with `discard`, or when nothing of it is left."""
        snapshot = self.snapshot()
        record = snapshot.plans.get(key)
        live, away = snapshot.live_workers(), snapshot.away_workers
        first_epoch = record.first_epoch if record is not None else 0
        left = unprocessed(key, live, away, first_epoch)
        awaited = awaited_workers(key, live, away, first_epoch)
        if discard or record is None or (not awaited and record.first_epoch):
            if not self.store.remove(key, self.clock.now_ms()) and record is None:
                raise unknown_plan(key)
            self.service.remove_plan(key, drain=True)
            return _undeployed(key, left, draining=False)
        if record.compiled is None:
            raise CannotDrainError(
                f"{key.plan} cannot run ({record.unusable}), so nothing can process what workers accepted for it: "
                "replace it with a plan that can run, or undeploy it with discard to drop those events"
            )
        if record.draining is None:
            self.store.set_draining(key, awaited)
            self.service.drain_plan(key, awaited)
        return _undeployed(key, left, draining=True)

    def end_draining(self, record: PlanRecord) -> None:
        """Keep a plan that is being undeployed."""
        self.store.set_draining(record.key, None)
        self.service.drain_plan(record.key, None)
        self._note_draft(with_stored(record, draining=None))

    def check_restore(self, key: PlanKey, restore: str) -> None:
        """Raise UnknownSavepointError unless the plan can begin from `restore`."""
        if restore and restore != NO_SAVEPOINT:
            require_savepoint(self.snapshot(), key, restore)

    def _require_beginning(self, record: PlanRecord, restore: str) -> None:
        """Raise StateUnreadableError before anything is stopped, unless it is said what the plan starts from."""
        if not restore and not record.stored.restore:
            require_readable_state(self.snapshot(), record)

    def add(self, key: PlanKey, text: str, compiled: CompiledPlan, restore: str = "") -> Outcome:
        """Deploy a plan of a name that no plan has."""
        check_plans(self._quotas.of(key.tenant), key, self.snapshot().plans)
        self._check_paths(key, compiled)
        self._check_workers(key, compiled.workers_for(None, self._default_workers), compiled.cores)
        self._prepare_topics(key, compiled)
        # data of a former plan of this name does not belong to this one
        stored = self.store.add(key, text, self.clock.now_ms(), restore=restore or NO_SAVEPOINT)
        self.service.put_plan(PlanToRun(stored, compiled))
        self._note_draft(new_record(PlanToRun(stored, compiled), self._default_workers, self.clock.monotonic_ms()))
        message = f"{key.plan} was deployed" + (f"; {_state_from(restore)}" if restore else "")
        return outcome_of(key, stored.epoch, message, created=True, changed=True)

    def deploy_over(self, before: PlanRecord, text: str, compiled: CompiledPlan, restore: str = "") -> Outcome:
        """Put the text in place of the plan `before`."""
        if before.target()[0] == text:
            return self._deploy_same(before, text, compiled, restore)
        self._check_paths(before.key, compiled)
        workers, host = _workers_after_edit(before, compiled), _host_after_edit(before, compiled)
        return self.change(before, "update", text, compiled, workers, restore, host, before.target_instances())

    def _deploy_same(self, record: PlanRecord, text: str, compiled: CompiledPlan, restore: str) -> Outcome:
        name = record.key.plan
        if restore and record.compiled is not None:
            return self.restart(record, f"{name} is restarted", restore)
        if record.trial is not None:
            return outcome_of(record.key, record.epoch, f"{name} is being updated to that text; nothing was changed")
        if record.compiled is None:
            stored = record.stored
            return self.change(
                record, "update", text, compiled, stored.workers, host=stored.host, instances=stored.instances
            )
        if record.state is PlanState.FAILED:
            return self.restart(record, f"{name} was deployed again")
        return outcome_of(record.key, record.epoch, f"{name} is deployed with the same text; nothing was changed")

    def change(
        self,
        record: PlanRecord,
        kind: ChangeKind,
        text: str,
        compiled: CompiledPlan,
        workers: int | None,
        restore: str = "",
        host: PlanHost | None = None,
        instances: Mapping[str, int] = NO_INSTANCES,
    ) -> Outcome:
        """Let another text, number of workers, host or number of instances take the place of the plan once it runs."""
        key = record.key
        self._require_beginning(record, restore)
        restore, restore_epoch = _order(record, restore)
        compiled = compiled.with_instances(instances)
        tasks = compiled.workers_for(workers, self._default_workers)
        self._check_workers(key, tasks, compiled.cores)
        self._prepare_topics(key, compiled)
        former = former_of(record) if record.change() is not None or record.has_run() else None
        kept = former.as_stored() if former is not None else None
        now_ms = self.clock.now_ms()
        stored = self.store.change(key, kind, text, workers, kept, now_ms, restore, restore_epoch, host, instances)
        if stored is None:
            raise unknown_plan(key)
        self.service.put_plan(PlanToRun(stored, compiled))
        done = "updated" if kind == "update" else "rebalanced"
        runs_in = self.host_for(compiled, tasks, host)  # where it was moved to, unless it needs more than that has
        if kind == "rebalance" and host is not None and runs_in != record.target_host():
            done = f"moved {MOVED_TO[runs_in]}"
        slots = 0 if runs_in == "shared" else tasks * compiled.cores
        state = _state_from(restore) if restore else self._state_after(record, compiled, slots)
        self._note_draft(with_stored(msgspec.structs.replace(record, compiled=compiled), text=text))
        message = f"{key.plan} is being {done}: epoch {stored.epoch} takes over as soon as it runs; {state}"
        return outcome_of(key, stored.epoch, message, changed=True)

    def _state_after(self, record: PlanRecord, compiled: CompiledPlan, slots: int) -> str:
        """Say what happens to the plan's state when it needs `slots`; the number of free ones may change until then."""
        snapshot = self.snapshot()
        if record.compiled is None or snapshot.driver is None:
            return FROM_CHECKPOINT
        driver = snapshot.driver.latest
        if not runs(record, driver.topologies):
            return FROM_CHECKPOINT
        if slots > driver.slots_total:
            in_all = f"it needs {slots} slots, the cluster has {driver.slots_total} in all"
            return f"{in_all}: unless executors join at once, {record.key.plan} runs on as before"
        room = room_for_change(self._quotas.of(record.key.tenant), record, slots, snapshot.plans)
        if room.one_by_one or slots > driver.slots_free:
            return f"{room.one_by_one or 'there is no room for both topologies at once'}; {FROM_CHECKPOINT}"
        return STATE_MOVES if record.compiled.state_shape == compiled.state_shape else STATE_MATCHES

    def host_for(self, compiled: CompiledPlan, workers: int, asked: PlanHost | None) -> PlanHost:
        """Return the host of a plan that was moved to `asked` and has `workers` workers."""
        return compiled.host_for(workers, self._default_host, asked)

    def rename(self, key: PlanKey, text: str, compiled: CompiledPlan, restore: str = "") -> Outcome:
        """Give the plan the name that `text` has, and then, if it differs otherwise, the text."""
        before = self.record(key)
        refuse_during(before, "update", "rebalance")
        after = compiled.with_instances(before.target_instances())
        tasks = after.workers_for(_workers_after_edit(before, compiled), self._default_workers)
        self._check_workers(key, tasks, compiled.cores)
        if compiled.topics or (before.compiled is not None and before.compiled.topics):
            raise ChangeUnderWayError(
                f"Kafka carries streams of {before.key.plan} by topics with its name, so it cannot be renamed: "
                "undeploy it and deploy it under the new name, or remove @App:transport('kafka') first"
            )
        to = PlanKey(key.tenant, compiled.name, key.identity)
        self._check_paths(to, compiled)
        self._refuse_left_savepoints(key.tenant, compiled.name)
        only_named = before.text if before.compiled is None else with_name(before.text, compiled.name)
        named = before.unusable if before.compiled is None else self.compilers.compile(only_named)
        if self._draft.snapshot is None:  # a change that has just been settled is still being written
            self.service.await_notes()
        stored = self.store.rename(before.key, compiled.name, only_named, self.clock.now_ms())
        if stored is None:
            raise unknown_plan(key)
        self.service.rename_plan(PlanToRun(stored, named))
        running = None if isinstance(named, str) else named
        renamed = msgspec.structs.replace(before, compiled=running)
        self._note_draft(with_stored(renamed, key=stored.key, text=only_named))
        message = f"{before.key.plan} was renamed to {stored.key.plan}; {STATE_KEPT}"
        if only_named == text and not restore:
            return outcome_of(stored.key, stored.epoch, message, changed=True)
        changed = self.deploy_over(self.record(stored.key), text, compiled, restore)
        return msgspec.structs.replace(changed, message=f"{message}; {changed.message}")

    def _refuse_left_savepoints(self, tenant: int, name: str) -> None:
        """Raise PlanExistsError when a former plan of that name left savepoints, which would become unreachable."""
        snapshot = self.snapshot()
        if snapshot.key_named(tenant, name) is not None or snapshot.driver is None:
            return
        former = self.store.key_of(tenant, name)
        left = ", ".join(one.name for one in snapshot.driver.latest.savepoints if one.key == former)
        if left:
            raise PlanExistsError(
                f"a former plan named {name} has savepoints: {left}; delete them "
                f"(cep savepoints {name} --delete …), or choose another name"
            )

    def restart(self, record: PlanRecord, message: str, restore: str = "") -> Outcome:
        """End the topology of the plan and start it again."""
        if record.draining is None:
            refuse_during(record, "update", "rebalance")
        self._require_beginning(record, restore)
        carries = record.state is not PlanState.FAILED or record.stored.restore == NO_SAVEPOINT
        # A savepoint from which it could not begin is not tried again: its own checkpoints still count.
        stored = self.store.restart(record.key, *(_order(record, restore) if restore or carries else ("", 0)))
        if stored is None:
            raise unknown_plan(record.key)
        self.service.restart_plan(record.key, stored.epoch, stored.restore, stored.restore_epoch)
        return outcome_of(record.key, stored.epoch, f"{message}; {_state_from(stored.restore)}", changed=True)

    def scale(self, key: PlanKey, epoch: int, instances: Mapping[str, int]) -> Outcome:
        """Set the numbers of instances of the plan's scaled stages, unless it has changed since `epoch`."""
        with self.one_at_a_time:
            record = self.record(key)
            refuse_during(record, "update", "rebalance")
            if record.compiled is None or record.epoch != epoch:
                raise ChangeUnderWayError(f"{key.plan} was changed in the meantime")
            stored = record.stored
            return self.change(
                record, "rebalance", stored.text, record.compiled, stored.workers, host=stored.host, instances=instances
            )

    def _check_workers(self, key: PlanKey, workers: int, cores: int) -> None:
        check_workers(self._quotas.of(key.tenant), key, workers, cores)

    def _prepare_topics(self, key: PlanKey, compiled: CompiledPlan) -> None:
        """Create the topics of a plan whose streams Kafka carries; within `as_one_change` after all other steps.

        Raises TopicRefusedError, KafkaUnavailableError.
        """
        if self._topics is None:
            return
        if self._draft.snapshot is None:
            self._topics.prepare(key, compiled)
        else:
            self._topics.check(key, compiled)
            self._draft.topics += ((key, compiled),)

    def sweep_topics(self) -> int:
        """Delete topics of undeployed plans; return how many must wait. Does nothing unless this manager leads.

        Raises PlanStoreError, KafkaUnavailableError.
        """
        led = self.service.led()
        if self._topics is None or led is None or not self._topics.waits(_topics_needed(led)):
            return 0

        def needed() -> NeededTopics | None:
            led = self.service.led()
            return None if led is None else _topics_needed(led)

        return self._topics.sweep(needed, self.one_at_a_time)

    def _check_paths(self, key: PlanKey, compiled: CompiledPlan) -> None:
        """Raise PlanInvalidError for a path that is another plan's; of plans that change together, when all have."""
        if self._draft.snapshot is None:
            refuse_paths(self.snapshot(), key, compiled)

    @contextmanager
    def as_one_change(self) -> Iterator[None]:
        """Combine all plan changes of this thread within the block into one.

        They take effect at the end of the block, or not at all if it raises. Within the block `_live_snapshot` shows
        this thread the plans as changed; other threads see them unchanged.
        """
        snapshot = self.snapshot()
        self.service.await_notes()  # another thread writes these notes, and would wait for this one
        self._draft.snapshot = msgspec.structs.replace(snapshot, plans=dict(snapshot.plans))
        try:
            with self.service.together(), self.store.together():
                yield
                for key, compiled in self._draft.topics:
                    assert self._topics is not None  # noqa: S101
                    self._topics.prepare(key, compiled)
        finally:
            self._draft.snapshot, self._draft.topics = None, ()

    def _note_draft(self, record: PlanRecord) -> None:
        """Show the changed plan during the rest of a change, if one is in progress."""
        if self._draft.snapshot is not None:
            plans = self._draft.snapshot.plans
            plans.pop(record.key, None)  # a key that is there would keep its former name
            plans[record.key] = record

    def snapshot(self) -> ClusterSnapshot:
        """Return the current plans and processes, with the changes that this thread has begun."""
        if self._draft.snapshot is not None:
            return self._draft.snapshot
        if not self.service.alive():
            raise ManagerUnavailableError("the control loop does not run")
        led = self.service.led()
        if led is None:
            election_status = self.service.election_status()
            if election_status.leader is None and election_status.problem:
                raise PlanStoreError(f"no manager leads, as the database cannot be used: {election_status.problem}")
            raise NotLeaderError("this manager does not lead")
        return led

    def record(self, key: PlanKey) -> PlanRecord:
        """Return the record of a deployed plan. Raises UnknownPlanError."""
        return self.snapshot().record(key)

    def change_settings(self, key: PlanKey, patch: SettingsPatch) -> None:
        """Change settings of the plan in the store, then in the control loop."""
        self.store.change_settings(key, patch)
        self.service.change_settings(key, patch)


def _topics_needed(snapshot: ClusterSnapshot) -> dict[tuple[int, str], frozenset[str]]:
    """Return the topics of each plan; those of a plan that cannot run, or is being changed, are not known to be all."""
    return {
        (key.tenant, key.identity): frozenset(one.topic for one in record.compiled.topics)
        for key, record in snapshot.plans.items()
        if record.compiled is not None and record.change() is None
    }


def is_same_distributed(record: PlanRecord, compiled: CompiledPlan) -> bool:
    """Return whether `compiled` is the distributed plan that is deployed, whatever its comments and layout.

    As in CEP 2.0, the same plan may be deployed on each node; it is there already then.
    """
    deployed = record.target_compiled()
    return compiled.distributed and deployed is not None and deployed.digest == compiled.digest


def refuse_draining(record: PlanRecord) -> None:
    """Raise ChangeUnderWayError if the plan is being undeployed."""
    if record.draining is not None:
        raise ChangeUnderWayError(
            f"{record.key.plan} is being undeployed and processes what it has ({record.drain_reason}); wait until it "
            "is gone, activate it to keep it, or undeploy it with discard"
        )


def refuse_during(record: PlanRecord, *changes: ChangeKind) -> None:
    """Raise ChangeUnderWayError if the plan is being undeployed, or one of `changes` is in progress."""
    refuse_draining(record)
    change = record.change()
    if change in changes:
        doing = "updated" if change == "update" else "rebalanced"
        raise ChangeUnderWayError(f"{record.key.plan} is being {doing}; wait until that has ended")


def _order(record: PlanRecord, restore: str) -> tuple[str, int]:
    """Return what the plan starts from, and the epoch under which that was ordered (0: now).

    An earlier order stays in force until the plan has run.
    """
    return (restore, 0) if restore else (record.stored.restore, record.stored.restore_epoch)


def _state_from(restore: str) -> str:
    """Say what happens to the state of a plan that starts from `restore`."""
    if not restore:
        return FROM_CHECKPOINT
    return STARTS_EMPTY if restore == NO_SAVEPOINT else f"windows, patterns and tables come from savepoint {restore}"


def _workers_after_edit(record: PlanRecord, compiled: CompiledPlan) -> int | None:
    """Return the number of workers: the rebalanced one holds until a text gives a different number."""
    asked = record.trial.version.workers_asked if record.trial is not None else record.stored.workers
    before = record.trial.version.compiled if record.trial is not None else record.compiled
    return asked if before is not None and before.workers == compiled.workers else None


def _host_after_edit(record: PlanRecord, compiled: CompiledPlan) -> PlanHost | None:
    """Return where the plan was moved to, which holds until a text names another host."""
    asked = record.trial.version.host_asked if record.trial is not None else record.stored.host
    before = record.trial.version.compiled if record.trial is not None else record.compiled
    return asked if before is not None and before.host == compiled.host else None


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _waiting(left: Unprocessed) -> list[str]:
    """Describe the remains of a plan."""
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
        until = f"{waits} are processed" if waits else "its stages have finished"
        what = f"is being undeployed: it accepts no events, and goes when {until}"
    else:
        what = "was undeployed" + (f"; {waits} had not been processed and are dropped" if waits else "")
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
