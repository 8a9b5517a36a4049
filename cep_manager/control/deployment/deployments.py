"""Reconciliation of the deployed plans with the reports of the driver and tasks. Pure; time is an argument.

Epochs: every (re)submission of a plan has an epoch one above the last, counted by the plan store, never reused. A plan
is submitted again, under a new epoch, when a new driver process does not run it, when a submission was lost, when it is
changed or restarted, and when the driver or workers know an epoch that this plan store has not counted yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import KillTopology, PlanHost, RegisterDriver, TopologyReport
from cep_common.protocol.registry import WorkerPlanReport
from cep_common.protocol.tasks import RegisterTask
from cep_manager.config import QuotasConfig
from cep_manager.control.deployment import plan_change, state_transfer
from cep_manager.control.deployment.draining import drain
from cep_manager.control.deployment.state_transfer import Tasks
from cep_manager.control.deployment.used_epochs import least_epoch
from cep_manager.control.instructions import Instruction, NoteBegun, PushToDriver, RaiseEpoch
from cep_manager.control.members import ClusterMember, ClusterMembers
from cep_manager.log_line import LogLine
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.quotas import held_back, room_for_change
from cep_manager.plans.record import (
    DRAIN_BEGINS,
    ChangeTrial,
    PlanRecord,
    PlanToRun,
    PlanVersion,
    Submission,
    new_record,
    with_stored,
    with_version,
)
from cep_manager.plans.state import MOVES, ChangeKind, Observation, PlanState, StateSignal, read_signal, signal_of
from cep_manager.plans.stored_plan import SettingsPatch

LOST_AFTER_LEASES = 2
"""The number of leases after which a submission that the driver does not list counts as lost."""


class PlanDeployments:
    """All plans that should run, by key; `default_workers` is for plans without a number of workers."""

    def __init__(
        self, lease_ms: int, default_workers: int, quotas: QuotasConfig, default_host: PlanHost = "own"
    ) -> None:
        self.lease_ms = self._base_lease_ms = lease_ms
        self.behind_ms = 0
        """How long there have been unread messages without interruption."""
        self._quotas = quotas
        self._default_workers = default_workers
        self._default_host = default_host
        self.plans: dict[PlanKey, PlanRecord] = {}
        self._renamed: set[PlanKey] = set()
        """The plans that have or had former names."""
        self._since_ms: int | None = None
        """When this process began to manage them."""
        self.steady_until_ms = 0
        """Before then time alone changes nothing about any plan, as of the last `reconcile`."""

    def put(self, plan: PlanToRun, driver: ClusterMember[RegisterDriver] | None, now_ms: int) -> list[Instruction]:
        """Run the plan in place of any other of its key; a change takes effect as soon as it can."""
        before = self.plans.get(plan.key)
        # A new leader finds a change that an earlier leader began, and continues it.
        if before is None and plan.former is not None:
            self.plans[plan.key] = before = new_record(plan.former, self._default_workers, now_ms, self._default_host)
        self._take_name(plan.key)
        if plan.stored.former_names:
            self._renamed.add(plan.key)
        record = new_record(plan, self._default_workers, now_ms, self._default_host)
        if before is not None:
            counted = max(record.stored.counted, before.stored.counted)
            # The same plan in a new form: topologies of all its epochs remain its own.
            record = msgspec.structs.replace(record, first_epoch=before.first_epoch, released=before.released)
            record = with_stored(record, counted=counted)
        stored = record.stored
        what = f"plan={plan.key.topology()} epoch={stored.epoch}"
        version = record.version()
        if stored.change is None or before is None or version is None or plan_change.former_of(before) is None:
            self.plans[plan.key] = record
            return [LogLine("info", f"plan {'replaced' if before else 'deployed'} {what}")]
        changing: list[Instruction] = [LogLine("info", f"plan is changed {what} change={stored.change}")]
        before = with_stored(
            before,
            settings=stored.settings,
            restore=stored.restore,
            restore_epoch=stored.restore_epoch,
            counted=stored.counted,
        )
        runs = before.submission is Submission.UNKNOWN or plan_change.runs(before, _reports(driver))
        if runs and not stored.restore:  # state from a savepoint replaces that of the running topology
            trial = ChangeTrial(stored.change, version, record.submission, now_ms)
            self.plans[plan.key], instructions = plan_change.begin_trial(before, trial, driver)
        else:
            instructions = self._change_in_place(before, version, stored.change, record.submission, now_ms)
        return [*changing, *instructions]

    def rename(self, plan: PlanToRun) -> list[Instruction]:
        """Give the plan the name and the text of the stored one; its topology keeps running."""
        record = self.plans.pop(plan.key, None)
        if record is None:
            return []
        self._take_name(plan.key)
        self._renamed.discard(plan.key)  # an equal key, with the name that it had
        self._renamed.add(plan.key)
        stored = plan.stored
        compiled = None if isinstance(plan.compiled, str) else plan.compiled.with_instances(stored.instances)
        unusable = plan.compiled if isinstance(plan.compiled, str) else ""
        self.plans[plan.key] = with_stored(
            msgspec.structs.replace(record, compiled=compiled, unusable=unusable),
            key=stored.key,
            text=stored.text,
            updated_ms=stored.updated_ms,
            former_names=stored.former_names,
        )
        return [LogLine("info", f"plan renamed plan={plan.key.topology()} former={record.key.topology()}")]

    def _take_name(self, key: PlanKey) -> None:
        """Remove the plan's name from the former names of other plans."""
        # A new leader begins by adding all plans, each of which takes its name: only the renamed ones are checked.
        renamed = [self.plans[one] for one in self._renamed if one in self.plans]
        for other in [one for one in renamed if key.plan in one.stored.former_names and one.key != key]:
            if other.key.tenant == key.tenant:
                names = tuple(name for name in other.stored.former_names if name != key.plan)
                self.plans[other.key] = with_stored(other, former_names=names)

    def remove(
        self, key: PlanKey, driver: ClusterMember[RegisterDriver] | None, now_ms: int, *, drain: bool = False
    ) -> list[Instruction]:
        """Stop running the plan and have its checkpoints removed."""
        record = self.plans.get(key)
        if record is None:
            return []
        instructions = self._signal(record, StateSignal.UNDEPLOY, "undeployed", now_ms)
        # With or without a driver: a driver that registers later finds its topology among the orphans.
        del self.plans[key]
        self._renamed.discard(key)
        if driver is not None:
            killed = KillTopology(key, drain=drain, forget=max(record.epochs()), deployed_ms=record.stored.created_ms)
            instructions.append(PushToDriver(driver.peer, killed))
        return instructions

    def drain(
        self, key: PlanKey, workers: tuple[str, ...] | None, driver: ClusterMember[RegisterDriver] | None
    ) -> list[Instruction]:
        """Close the plan's intake and remove it once nothing of it is left at `workers` and in its topology.

        With None the plan runs on after all.
        """
        record = self.plans.get(key)
        if record is None:
            return []
        instructions: list[Instruction] = []
        # Only one topology can be drained, and a trial has taken in nothing yet.
        if workers is not None and record.trial is not None:
            record, instructions = plan_change.reject(record, record.trial, driver, "the plan is being undeployed")
            self.plans[key] = record
        reason = DRAIN_BEGINS if workers is not None else ""
        drained = with_stored(record, draining=workers)
        self._change(
            drained, drain_reason=reason, rests=False, goes=False, settles_since_ms=None, through_since_ms=None
        )
        what = "is drained before it is removed" if workers is not None else "continues, it is not undeployed"
        return [*instructions, LogLine("info", f"plan {what} plan={key.topology()}")]

    def not_removed(self, key: PlanKey, reason: str) -> list[Instruction]:
        """Note that the plan store could not remove a drained plan; it is asked again."""
        if key in self.plans:
            self._change(self.plans[key], goes=False)
        return [LogLine("error", f"drained plan not removed plan={key.topology()} reason={reason!r}")]

    def step_drains(self, members: ClusterMembers, now_ms: int) -> list[Instruction]:
        """Advance plans that are being undeployed, and remove those that have ended."""
        if self._since_ms is None:
            self._since_ms = now_ms
        instructions: list[Instruction] = []
        for record in list(self.plans.values()):
            if record.draining is not None and not record.goes:
                # A new leader must first give all workers the time to report their data.
                knows_all = record.first_epoch > 0 or now_ms - self._since_ms >= LOST_AFTER_LEASES * self.lease_ms
                drained, done = drain(record, members, now_ms, knows_all=knows_all)
                self.plans[record.key] = drained
                instructions += done
        return instructions

    def speaks_of_plan(self, report: TopologyReport | WorkerPlanReport) -> bool:
        """Return whether the report is about the plan that is deployed under its name now.

        False for what ran before the plan was undeployed, and for another plan of the name: the driver reports those
        until they have ended.
        """
        record = self.plans.get(report.key)
        if record is None or report.epoch < record.first_epoch:
            return False
        return not isinstance(report, TopologyReport) or record.owns(report)

    def change_settings(self, key: PlanKey, patch: SettingsPatch) -> list[Instruction]:
        """Change settings of the plan."""
        record = self.plans.get(key)
        if record is None:
            return []
        before, after = record.stored.settings, patch.apply(record.stored.settings)
        self.plans[key] = with_stored(record, settings=after)
        if before.intake is after.intake:
            return []
        return [LogLine("info", f"plan {'activated' if after.intake else 'deactivated'} plan={key.topology()}")]

    def release(self, key: PlanKey, streams: Iterable[str]) -> None:
        """Let event time advance without the first events of these streams."""
        if key in self.plans:
            released = dict.fromkeys([*self.plans[key].released, *streams])
            self._change(self.plans[key], released=tuple(released))

    def restart(
        self,
        key: PlanKey,
        epoch: int,
        driver: ClusterMember[RegisterDriver] | None,
        now_ms: int,
        restore: str = "",
        restore_epoch: int = 0,
    ) -> list[Instruction]:
        """Submit the plan again under `epoch`, which the plan store has counted.

        Reserve its slots at once, so that they do not go to another plan of its tenant.
        """
        record = self.plans.get(key)
        # Late or overtaken: commands and answers of the plan store pass each other.
        if record is None or epoch <= record.epoch or record.change() is not None:
            return []
        holds_slots = record.submission is Submission.SENT and record.state is not PlanState.FAILED
        record = with_stored(record, epoch=epoch, counted=epoch, restore=restore, restore_epoch=restore_epoch)
        self._change(record, submission=Submission.NEW, restarts=0, change_error="")
        instructions = self._signal(self.plans[key], StateSignal.RESTART, "restarted on demand", now_ms)
        if holds_slots and driver is not None and record.compiled is not None:
            instructions += self._send(self.plans[key], record.compiled, driver, now_ms)
        return instructions

    def epoch_raised(self, key: PlanKey, epoch: int, now_ms: int) -> list[Instruction]:
        """Note that the plan store counted `epoch`; the plan is submitted at the next `reconcile`."""
        record = self.plans.get(key)
        # Overtaken by a change or restart with a higher epoch.
        if record is None or epoch <= max(record.epochs()):
            return []
        stored = record.stored
        ordered_now = bool(stored.restore) and epoch > stored.counted + 1  # the store has skipped epochs
        restore_epoch = epoch if ordered_now else stored.restore_epoch
        record = with_stored(record, epoch=epoch, counted=epoch, restore_epoch=restore_epoch)
        self._change(record, submission=Submission.NEW, restarts=0)
        return self._move(self.plans[key], PlanState.DEPLOYING, "about to be submitted again", now_ms)

    def epoch_not_raised(self, key: PlanKey, reason: str, now_ms: int) -> list[Instruction]:
        """Note that the plan store could not count; it is asked again when the plan is reconciled after two leases."""
        record = self.plans.get(key)
        if record is None or record.submission is not Submission.RAISING:
            return []
        self._move(record, PlanState.FAILED, f"the plan store does not answer: {reason}", now_ms)
        return [LogLine("error", f"epoch not raised plan={key.topology()} reason={reason!r}")]

    def orphans(self, driver: ClusterMember[RegisterDriver]) -> list[Instruction]:
        """Kill topologies of the driver that belong to no plan.

        These are unknown plans, others under a known name, and leftovers beside a current epoch. Each may take a last
        checkpoint, since an order to end it that way may already have been sent.
        """
        # Those that are stopping already have their order.
        topologies = [report for report in driver.latest.topologies if report.state != "stopping"]
        listed = {(report.key, report.epoch) for report in topologies}
        instructions: list[Instruction] = []
        for report in topologies:
            record = self.plans.get(report.key)
            if record is None:
                instructions.append(PushToDriver(driver.peer, KillTopology(key=report.key, drain=True)))
            elif not record.owns(report) or (
                report.epoch not in record.epochs() and (record.key, record.epoch) in listed
            ):
                kill = KillTopology(key=report.key, epoch=report.epoch, drain=True)
                instructions.append(PushToDriver(driver.peer, kill))
        return instructions

    def reconcile(
        self,
        driver: ClusterMember[RegisterDriver] | None,
        tasks: Mapping[PlanKey, Tasks],
        served: Sequence[WorkerPlanReport],
        driver_missing: str,
        now_ms: int,
    ) -> list[Instruction]:
        """Submit plans that must be submitted, and update the states of all plans from the reports of driver and tasks.

        `driver` is the live driver, else None, and `driver_missing` says why there is none. `served` is what live
        workers do for plans.
        """
        instructions: list[Instruction] = []
        reports: dict[PlanKey, list[TopologyReport]] = {}
        for one in _reports(driver):
            reports.setdefault(one.key, []).append(one)
        needed: dict[PlanKey, int] = {}
        for plan in served:
            if plan.needs_epoch:
                needed[plan.key] = max(needed.get(plan.key, 0), plan.needs_epoch)
        # At least twice per lease, whichever messages arrive.
        self.steady_until_ms = now_ms + self._base_lease_ms // 2
        for key, known in list(self.plans.items()):
            mine, reported = tasks.get(key, {}), reports.get(key, [])
            # a thousand steady plans must not cost anything at each tick
            if driver is not None and self._is_steady(known, driver, reported, mine, needed.get(key, 0), now_ms):
                heard_ms = min(task.heard_ms for (epoch, _), task in mine.items() if epoch == known.epoch)
                self.steady_until_ms = min(self.steady_until_ms, heard_ms + self._base_lease_ms)
                continue
            self.steady_until_ms = now_ms
            if driver is not None:
                instructions += self._step_trial(self.plans[key], driver, mine, now_ms)
                record = self.plans[key]
                least = least_epoch(record, reported, needed.get(key, 0))
                if least > record.stored.counted and record.trial is None and record.compiled is not None:
                    instructions += self._leave_out(record, least, now_ms)
                else:
                    listed = _own(record, reported) is not None
                    # A change that waits for more slots than the plan had has a former version to go back to.
                    holds = record.fallback is None and any(one.state != "stopping" for one in reported)
                    ending = any(one.state == "stopping" for one in reported)
                    instructions += self._submit(record, driver, listed, holds, ending, now_ms)
            report = _own(self.plans[key], reported)
            instructions += self._note_begun(self.plans[key], report)
            instructions += self._observe(self.plans[key], report, mine, driver_missing, now_ms)
        return instructions

    def _is_steady(
        self,
        record: PlanRecord,
        driver: ClusterMember[RegisterDriver],
        reports: Sequence[TopologyReport],
        tasks: Tasks,
        needed: int,
        now_ms: int,
    ) -> bool:
        """Return whether the plan is active and unchanging, which the reports of driver and tasks confirm.

        Nearly all of a thousand plans are so at any moment: everything that `reconcile` asks is answered then.
        """
        if record.state is not PlanState.ACTIVE or record.reason or record.submission is not Submission.SENT:
            return False
        if (
            record.trial is not None
            or record.fallback is not None
            or record.draining is not None
            or record.stored.restore
        ):
            return False
        if record.sent_to != (driver.latest.driver, driver.latest.process_id) or record.unusable:
            return False
        stored = record.stored
        if not stored.settings.intake or len(reports) != 1 or max(needed, stored.epoch) > stored.counted:
            return False
        report = reports[0]
        if report.epoch != record.epoch or report.state != "running" or report.restarts != record.restarts:
            return False
        mine = [task for (epoch, _), task in tasks.items() if epoch == record.epoch]
        live = all(task.live(now_ms, self.lease_ms) for task in mine)
        return live and len(mine) >= record.workers and record.owns(report)

    def _change_in_place(
        self, before: PlanRecord, version: PlanVersion, kind: ChangeKind, submission: Submission, now_ms: int
    ) -> list[Instruction]:
        """Submit the plan in its new form at once; its former form returns if that cannot start."""
        changed = with_version(before, version)
        fallback = plan_change.former_of(before)
        self.plans[before.key] = msgspec.structs.replace(
            changed, submission=submission, fallback=fallback, change_error=""
        )
        return self._signal(self.plans[before.key], signal_of(kind), "about to be submitted", now_ms)

    def _step_trial(
        self, record: PlanRecord, driver: ClusterMember[RegisterDriver], tasks: Tasks, now_ms: int
    ) -> list[Instruction]:
        if record.trial is None:
            return []
        progress = state_transfer.progress(record, record.trial, tasks, self.lease_ms, now_ms)
        quota = self._quotas.of(record.key.tenant)
        room = room_for_change(quota, record, record.trial.version.slots, self.plans)
        self.plans[record.key], instructions = plan_change.step(
            record, record.trial, driver, progress, room, LOST_AFTER_LEASES * self._base_lease_ms, now_ms
        )
        return instructions

    def _submit(
        self,
        record: PlanRecord,
        driver: ClusterMember[RegisterDriver],
        listed: bool,
        holds: bool,
        ending: bool,
        now_ms: int,
    ) -> list[Instruction]:
        """Submit the plan if it has to be.

        The driver has it (`listed`), or a topology of it, whose slots the plan `holds`, or one that is `ending`.
        """
        if record.compiled is None:
            return []
        process = (driver.latest.driver, driver.latest.process_id)
        if listed:
            if record.submission is not Submission.SENT or record.sent_to != process:
                self._change(record, submission=Submission.SENT, sent_to=process, sent_ms=now_ms, sent_peer=driver.peer)
            elif record.sent_peer != driver.peer:
                self._change(record, sent_peer=driver.peer)
            return []
        # While the driver ends the plan's former topology it may be slow to take up the next one.
        lost = not ending and now_ms - record.sent_ms >= LOST_AFTER_LEASES * self._base_lease_ms + self.behind_ms
        match record.submission:
            case Submission.NEW if not holds and self._held_back(record):
                return []
            case Submission.NEW:
                return self._send(record, record.compiled, driver, now_ms)
            case Submission.SENT if record.sent_to == process and record.sent_peer != driver.peer:
                # The driver has ended its connection, and orders on the way are lost with it. Those it had read are
                # listed.
                return self._send(record, record.compiled, driver, now_ms)
            case Submission.SENT if record.sent_to == process and not lost:
                return []
            case Submission.RAISING if not lost:
                return []
            case _:
                self._change(record, submission=Submission.RAISING, sent_ms=now_ms)
                return [RaiseEpoch(record.key)]

    def _leave_out(self, record: PlanRecord, least: int, now_ms: int) -> list[Instruction]:
        """Submit the plan under an epoch that was never used, not even by a replaced database."""
        if (
            record.submission is Submission.RAISING
            and now_ms - record.sent_ms < LOST_AFTER_LEASES * self._base_lease_ms
        ):
            return []
        self._change(record, submission=Submission.RAISING, sent_ms=now_ms)
        what = f"plan={record.key.topology()} counted={record.stored.counted} known={least}"
        return [LogLine("warning", f"epochs were given out before {what}"), RaiseEpoch(record.key, least)]

    def _send(
        self, record: PlanRecord, compiled: CompiledPlan, driver: ClusterMember[RegisterDriver], now_ms: int
    ) -> list[Instruction]:
        process = (driver.latest.driver, driver.latest.process_id)
        self._change(record, submission=Submission.SENT, sent_to=process, sent_ms=now_ms, sent_peer=driver.peer)
        return [
            LogLine("info", f"topology submitted plan={record.key.topology()} epoch={record.epoch}"),
            PushToDriver(driver.peer, record.to_submit(compiled)),
        ]

    def _note_begun(self, record: PlanRecord, current: TopologyReport | None) -> list[Instruction]:
        """Note that the plan has run: the next time it starts from its newest checkpoint."""
        if current is None or current.state != "running" or not record.stored.restore:
            return []
        self.plans[record.key] = with_stored(record, restore="", restore_epoch=0)
        return [NoteBegun(record.key, record.epoch)]

    def _held_back(self, record: PlanRecord) -> str:
        return held_back(self._quotas.of(record.key.tenant), record.key, record.slots, self.plans)

    def _observe(
        self, record: PlanRecord, current: TopologyReport | None, tasks: Tasks, driver_missing: str, now_ms: int
    ) -> list[Instruction]:
        if current is not None and current.restarts != record.restarts:
            self._change(record, restarts=current.restarts)
            record = self.plans[record.key]
        mine = [tasks[task] for task in sorted(tasks) if task[0] == record.epoch]
        trial = record.trial
        observation = Observation(
            unusable=record.unusable,
            driver_missing=driver_missing,
            report=current,
            tasks_live=sum(task.live(now_ms, self.lease_ms) for task in mine),
            tasks_required=record.workers,
            silent_tasks=tuple(describe_task(task) for task in mine if not task.live(now_ms, self.lease_ms)),
            intake=record.stored.settings.intake,
            draining=record.drain_reason if record.draining is not None else "",
            change=trial.kind if trial is not None else None,
            held_back=self._held_back(record) if record.submission is Submission.NEW else "",
            change_reason=f"epoch {trial.version.epoch} is to take over: {trial.reason}" if trial is not None else "",
        )
        if current is None and record.submission is Submission.RAISING and record.state is PlanState.FAILED:
            return []  # the plan store failed; that reason stands until it answers
        signal, reason = read_signal(observation)
        instructions = self._conclude(record, current, signal, reason, now_ms)
        record = self.plans[record.key]
        if record.submission is Submission.RAISING and instructions:
            return instructions  # its former text is restored: earlier reports no longer matter
        state = MOVES[signal][record.state]
        if _interrupts(record.state, state, signal) and (record.state is not state or reason != record.interruption):
            self._change(record, interruption=reason, interrupted_ms=now_ms)
        return [*instructions, *self._signal(self.plans[record.key], signal, reason, now_ms)]

    def _conclude(
        self, record: PlanRecord, current: TopologyReport | None, signal: StateSignal, reason: str, now_ms: int
    ) -> list[Instruction]:
        """Complete a change that was made in place, or take it back."""
        instructions: list[Instruction] = []
        in_vain = signal is StateSignal.RESTARTED and current is not None and current.restarts >= plan_change.TRIES
        if signal in (StateSignal.COMPLETE, StateSignal.PAUSED, StateSignal.DRAINS):
            self.plans[record.key], instructions = plan_change.settle(record)
        elif signal is StateSignal.GIVEN_UP or in_vain:
            self.plans[record.key], instructions = plan_change.go_back(record, reason, now_ms)
        return instructions

    def _signal(self, record: PlanRecord, signal: StateSignal, reason: str, now_ms: int) -> list[Instruction]:
        state = MOVES[signal][record.state]
        return [] if state is None else self._move(record, state, reason, now_ms)

    def _move(self, record: PlanRecord, state: PlanState, reason: str, now_ms: int) -> list[Instruction]:
        if (state, reason) == (record.state, record.reason):
            return []
        since_ms = now_ms if state is not record.state else record.state_since_ms
        self._change(record, state=state, reason=reason, state_since_ms=since_ms)
        if state is record.state:
            return []
        level: Literal["info", "warning", "error"] = {PlanState.FAILED: "error", PlanState.RESTARTING: "warning"}.get(
            state, "info"
        )  # type: ignore[assignment]
        what = f"plan={record.key.topology()} epoch={record.epoch} from={record.state.value} to={state.value}"
        return [LogLine(level, f"plan state changed {what} reason={reason!r}")]

    def _change(self, record: PlanRecord, **changes: object) -> None:
        self.plans[record.key] = msgspec.structs.replace(record, **changes)


RUNS = (PlanState.ACTIVE, PlanState.INACTIVE, PlanState.UPDATING, PlanState.REBALANCING, PlanState.DRAINING)
"""States in which a topology of the plan runs, except during a change in place."""


def _interrupts(before: PlanState, after: PlanState | None, signal: StateSignal) -> bool:
    """Return whether a plan that ran no longer does, or the driver reports why it ended."""
    if before in RUNS and after not in RUNS:
        return True
    return signal in (StateSignal.RESTARTED, StateSignal.GIVEN_UP)


def _own(record: PlanRecord, reports: Iterable[TopologyReport]) -> TopologyReport | None:
    """Return the report on the plan's present topology, among those on all of its topologies."""
    return next((one for one in reports if one.epoch == record.epoch and record.owns(one)), None)


def _reports(driver: ClusterMember[RegisterDriver] | None) -> tuple[TopologyReport, ...]:
    return driver.latest.topologies if driver is not None else ()


def describe_task(task: ClusterMember[RegisterTask]) -> str:
    """Return a readable description of a task: its number, host and process."""
    latest = task.latest
    return f"task {latest.task} on {latest.host} (process {latest.process_id})"
