"""Deployment: the plans that should run against what driver and tasks report. Pure; time is an argument.

Epochs: every (re)submission of a plan has an epoch one above the last, counted by the plan store, never reused. A plan
is submitted again, under a new epoch, when a driver process has come that does not run it, or when a submission got
lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Literal

import msgspec

from cep_common.ids import PlanKey
from cep_common.messages import KillTopology, RegisterDriver, RegisterTask, SubmitTopology, TopologyReport
from cep_manager.compiled_plan import CompiledPlan
from cep_manager.instructions import Instruction, LogLine, PushToDriver, RaiseEpoch
from cep_manager.members import Member
from cep_manager.plan_state import MOVES, Observation, PlanState, Signal, read_signal

LOST_AFTER_LEASES = 2
"""A submission that the driver has not listed for so many leases is taken for lost."""


class Submission(Enum):
    """How far the current epoch of a plan has got on its way to the driver."""

    NEW = "new"
    """Counted and never sent."""
    UNKNOWN = "unknown"
    """An earlier manager process may have sent it."""
    RAISING = "raising"
    """The plan store is asked for the next epoch."""
    SENT = "sent"


class PlanRecord(msgspec.Struct, frozen=True):
    """A plan that should run. `compiled` is None when its stored text cannot be compiled any more; `unusable` then says
    why. `created_ms` and `updated_ms` are times of day, the others monotonic. `sent_to` is the driver process that got
    the current epoch. `interruption` says why it last stopped being active, or failed; empty when it never did."""

    key: PlanKey
    text: str
    compiled: CompiledPlan | None
    unusable: str
    epoch: int
    workers: int
    created_ms: int
    updated_ms: int
    state: PlanState
    reason: str
    state_since_ms: int
    submission: Submission
    sent_ms: int = 0
    sent_to: tuple[str, int] = ("", 0)
    restarts: int = 0
    interruption: str = ""
    interrupted_ms: int = 0


Tasks = Mapping[int, Member[RegisterTask]]


class Deployments:
    """All plans that should run, by key."""

    def __init__(self, lease_ms: int) -> None:
        self._lease_ms = lease_ms
        self.plans: dict[PlanKey, PlanRecord] = {}

    def put(
        self,
        key: PlanKey,
        text: str,
        compiled: CompiledPlan | str,
        epoch: int,
        workers: int,
        created_ms: int,
        updated_ms: int,
        now_ms: int,
        submission: Literal[Submission.NEW, Submission.UNKNOWN],
    ) -> list[Instruction]:
        """The plan should run, in place of any other of its key. A `str` for `compiled` says why it cannot be."""
        before = self.plans.get(key)
        unusable = compiled if isinstance(compiled, str) else ""
        self.plans[key] = PlanRecord(
            key=key,
            text=text,
            compiled=None if isinstance(compiled, str) else compiled,
            unusable=unusable,
            epoch=epoch,
            workers=workers,
            created_ms=created_ms,
            updated_ms=updated_ms,
            state=PlanState.FAILED if unusable else PlanState.WAITING,
            reason=unusable or "not yet submitted",
            state_since_ms=now_ms,
            submission=submission,
        )
        what = "plan replaced" if before else "plan deployed"
        return [LogLine("info", f"{what} plan={key.topology()} epoch={epoch}")]

    def remove(self, key: PlanKey, driver: Member[RegisterDriver] | None) -> list[Instruction]:
        """The plan should not run any more."""
        record = self.plans.pop(key, None)
        if record is None:
            return []
        instructions: list[Instruction] = [LogLine("info", f"plan undeployed plan={key.topology()}")]
        if driver is not None:
            instructions.append(PushToDriver(driver.peer, KillTopology(key=key)))
        return instructions

    def epoch_raised(self, key: PlanKey, epoch: int, now_ms: int) -> list[Instruction]:
        """The plan store counted `epoch`; it is submitted at the next `reconcile`."""
        record = self.plans.get(key)
        if record is None or epoch <= record.epoch:
            return []
        self._change(record, epoch=epoch, submission=Submission.NEW, restarts=0)
        return self._move(self.plans[key], PlanState.DEPLOYING, "about to be submitted again", now_ms)

    def epoch_not_raised(self, key: PlanKey, reason: str, now_ms: int) -> list[Instruction]:
        """The plan store could not count; it is asked again when the plan is reconciled after two leases."""
        record = self.plans.get(key)
        if record is None or record.submission is not Submission.RAISING:
            return []
        self._move(record, PlanState.FAILED, f"the plan store does not answer: {reason}", now_ms)
        return [LogLine("error", f"epoch not raised plan={key.topology()} reason={reason!r}")]

    def orphans(self, driver: Member[RegisterDriver]) -> list[Instruction]:
        """Kills what the driver runs and nobody wants."""
        return [
            PushToDriver(driver.peer, KillTopology(key=report.key))
            for report in driver.latest.topologies
            if report.key not in self.plans and report.state != "stopping"
        ]

    def reconcile(
        self, driver: Member[RegisterDriver] | None, tasks: Mapping[PlanKey, Tasks], driver_missing: str, now_ms: int
    ) -> list[Instruction]:
        """Every plan is submitted if it must be, and its state is what driver and tasks say now.

        `driver` is the live driver, else None, and `driver_missing` says why there is none.
        """
        instructions: list[Instruction] = []
        reports = {report.key: report for report in driver.latest.topologies} if driver is not None else {}
        for key in list(self.plans):
            report = reports.get(key)
            if driver is not None:
                instructions += self._submit(self.plans[key], driver, report, now_ms)
            instructions += self._observe(self.plans[key], report, tasks.get(key, {}), driver_missing, now_ms)
        return instructions

    def _submit(
        self, record: PlanRecord, driver: Member[RegisterDriver], report: TopologyReport | None, now_ms: int
    ) -> list[Instruction]:
        if record.compiled is None:
            return []
        process = (driver.latest.driver, driver.latest.process_id)
        listed = report is not None and report.epoch == record.epoch
        if listed:
            if record.submission is not Submission.SENT or record.sent_to != process:
                self._change(record, submission=Submission.SENT, sent_to=process, sent_ms=now_ms)
            return []
        # While the driver ends the plan's former topology it lists that one only.
        making_room = report is not None and report.state == "stopping"
        lost = not making_room and now_ms - record.sent_ms >= LOST_AFTER_LEASES * self._lease_ms
        match record.submission:
            case Submission.NEW:
                self._change(record, submission=Submission.SENT, sent_to=process, sent_ms=now_ms)
                return [
                    LogLine("info", f"topology submitted plan={record.key.topology()} epoch={record.epoch}"),
                    PushToDriver(driver.peer, _submit_message(record, record.compiled)),
                ]
            case Submission.SENT if record.sent_to == process and not lost:
                return []
            case Submission.RAISING if not lost:
                return []
            case _:
                self._change(record, submission=Submission.RAISING, sent_ms=now_ms)
                return [RaiseEpoch(record.key)]

    def _observe(
        self, record: PlanRecord, report: TopologyReport | None, tasks: Tasks, driver_missing: str, now_ms: int
    ) -> list[Instruction]:
        current = report if report is not None and report.epoch == record.epoch else None
        if current is not None and current.restarts != record.restarts:
            self._change(record, restarts=current.restarts)
            record = self.plans[record.key]
        mine = [tasks[number] for number in sorted(tasks) if tasks[number].latest.epoch == record.epoch]
        observation = Observation(
            unusable=record.unusable,
            driver_missing=driver_missing,
            report=current,
            tasks_live=sum(task.live(now_ms, self._lease_ms) for task in mine),
            tasks_required=record.workers,
            silent_tasks=tuple(describe_task(task) for task in mine if not task.live(now_ms, self._lease_ms)),
        )
        if current is None and record.submission is Submission.RAISING and record.state is PlanState.FAILED:
            return []  # the plan store failed; that reason stands until it answers
        signal, reason = read_signal(observation)
        state = MOVES[signal][record.state]
        if _interrupts(record.state, state, signal) and (record.state is not state or reason != record.interruption):
            self._change(record, interruption=reason, interrupted_ms=now_ms)
        return self._move(self.plans[record.key], state, reason, now_ms)

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


def restarted(before: RegisterDriver | None, after: RegisterDriver) -> tuple[PlanKey, ...]:
    """The plans whose topology has ended and begins anew, within its epoch, between two reports of a driver."""
    if before is None:
        return ()
    known = {(report.key, report.epoch): report for report in before.topologies}
    found = []
    for report in after.topologies:
        earlier = known.get((report.key, report.epoch))
        if earlier is not None and (
            report.restarts > earlier.restarts or (report.state == "restarting" and earlier.state != "restarting")
        ):
            found.append(report.key)
    return tuple(found)


def _interrupts(before: PlanState, after: PlanState, signal: Signal) -> bool:
    """True when a plan stops being active, or the driver says why it ended."""
    if before is PlanState.ACTIVE and after is not PlanState.ACTIVE:
        return True
    return signal in (Signal.RESTARTED, Signal.GIVEN_UP)


def describe_task(task: Member[RegisterTask]) -> str:
    """A task for people: its number, host and process."""
    latest = task.latest
    return f"task {latest.task} on {latest.host} (process {latest.process_id})"


def _submit_message(record: PlanRecord, compiled: CompiledPlan) -> SubmitTopology:
    return SubmitTopology(key=record.key, epoch=record.epoch, query_plan=compiled.query_plan, workers=record.workers)
