"""Replaces the text or the number of workers of a running plan without stopping it first. Pure.

plan changed ──▶ TRIAL: the new topology starts beside the former one, which continues working
                    │ all its tasks are heard          ▶ TAKE OVER: workers turn to it, the former one is killed
                    │ … and the former state fits     ▶ MOVE STATE first, see `state_transfer`
                    │ it cannot start                  ▶ REJECT: it is killed, the former one just continues
                    │ there is room for one only (on   ▶ IN PLACE: the former one is killed, the new one takes its
                    │ the cluster, in the quota), or the           place; if it cannot start the former comes back
                    │ former one does not run
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import KillTopology, RegisterDriver, TopologyReport
from cep_manager.control.deployment import state_transfer
from cep_manager.control.instructions import Instruction, PushToDriver, RaiseEpoch, SettleChange
from cep_manager.control.members import ClusterMember
from cep_manager.log_line import LogLine
from cep_manager.plans.quotas import Room
from cep_manager.plans.record import ChangeTrial, PlanRecord, PlanVersion, Submission, with_stored, with_version

TRIES = 3
"""The number of ends before all tasks have registered from which a new topology counts as unable to start."""

GOES_ON: frozenset[str] = frozenset({"starting", "running", "restarting"})
"""States of a former topology that is worth keeping."""


class ChangeVerdict(Enum):
    """The outcome of a trial."""

    WAIT = "wait"
    MOVE_STATE = "move state"
    TAKE_OVER = "take over"
    IN_PLACE = "in place"
    REJECT = "reject"


class Evidence(msgspec.Struct, frozen=True):
    """The known facts about a trial: the driver's reports on it and on the former topology, slots, and its tasks.

    If it `moves_state`, `tasks_restored` have the former topology's, of whose tasks `former_at_rest` have paused and
    finished, and that has taken `moving_ms` up to now. `lost`: the driver has not listed it for too long; `elsewhere`:
    another driver process got it; `kept_back`: why it was not submitted to run together with the former one;
    `held_back` is why the quota has no slots for the new one alone.
    """

    trial: TopologyReport | None
    former: TopologyReport | None
    slots_total: int
    slots_free: int
    slots_needed: int
    slots_of_former: int
    tasks_needed: int
    tasks_live: int
    tasks_restored: int = 0
    former_at_rest: int = 0
    moves_state: bool = False
    moving_ms: int = 0
    lost: bool = False
    elsewhere: bool = False
    kept_back: str = ""
    held_back: str = ""


def judge(evidence: Evidence) -> tuple[ChangeVerdict, str]:
    """Decide whether the trial continues, succeeds or fails, and why."""
    verdict, reason = _judge(evidence)
    # The former topology pauses while its state is moved, and events pile up at the workers: that must end.
    if verdict in (ChangeVerdict.WAIT, ChangeVerdict.MOVE_STATE) and evidence.moving_ms >= state_transfer.LONGEST_MS:
        return (
            ChangeVerdict.REJECT,
            f"its state could not be moved within {state_transfer.LONGEST_MS // 1_000} s: {reason}",
        )
    return verdict, reason


def _judge(evidence: Evidence) -> tuple[ChangeVerdict, str]:
    report = evidence.trial
    # no topology is running that a failed change could harm
    if evidence.former is None or evidence.former.state not in GOES_ON:
        return ChangeVerdict.IN_PLACE, "the former topology no longer runs"
    if report is None:
        return _unlisted(evidence)
    match report.state:
        case "waiting":
            return _waiting(evidence, report)
        case "starting":
            return ChangeVerdict.WAIT, "the driver is starting its tasks"
        case "running":
            # "running" means that the driver has started the tasks, only their own reports show that they work
            if evidence.tasks_live >= evidence.tasks_needed:
                return _complete(evidence, evidence.former)
            return ChangeVerdict.WAIT, f"{evidence.tasks_live} of {evidence.tasks_needed} tasks have registered"
        case "restarting" if report.restarts < TRIES:
            return ChangeVerdict.WAIT, report.reason or "the driver is restarting it"
        case _:
            return ChangeVerdict.REJECT, report.reason or "the driver gave no reason"


def _unlisted(evidence: Evidence) -> tuple[ChangeVerdict, str]:
    if evidence.held_back:
        return ChangeVerdict.WAIT, evidence.held_back
    if evidence.kept_back:  # the former one would end for what can never begin
        return (
            (ChangeVerdict.REJECT, lack)
            if (lack := _lack_of_slots(evidence))
            else (ChangeVerdict.IN_PLACE, evidence.kept_back)
        )
    if evidence.elsewhere:
        return ChangeVerdict.IN_PLACE, "the driver does not know the new topology"
    return (ChangeVerdict.REJECT, "the driver did not start it") if evidence.lost else (ChangeVerdict.WAIT, "submitted")


def _complete(evidence: Evidence, former: TopologyReport) -> tuple[ChangeVerdict, str]:
    moved = evidence.tasks_restored >= evidence.tasks_needed
    # A former topology that does not run cannot hand its state over; the checkpoint has it.
    if moved or not evidence.moves_state or former.state != "running":
        return ChangeVerdict.TAKE_OVER, ""
    moved_so_far = (
        f"{evidence.former_at_rest} of the former tasks have stopped processing, "
        f"{evidence.tasks_restored} of {evidence.tasks_needed} new ones have their state"
    )
    return ChangeVerdict.MOVE_STATE, f"state is being moved: {moved_so_far}"


def _waiting(evidence: Evidence, report: TopologyReport) -> tuple[ChangeVerdict, str]:
    if lack := _lack_of_slots(evidence):
        return ChangeVerdict.REJECT, lack
    if evidence.slots_needed <= evidence.slots_free + evidence.slots_of_former:
        return ChangeVerdict.IN_PLACE, "there is no room for both topologies at once"
    return ChangeVerdict.WAIT, report.reason


def _lack_of_slots(evidence: Evidence) -> str:
    """Return why there is no room for the new topology even if nothing else ran; empty when there is."""
    if evidence.slots_needed <= evidence.slots_total:
        return ""
    return f"it needs {evidence.slots_needed} slots, the cluster has {evidence.slots_total} in all"


def begin_trial(record: PlanRecord, trial: ChangeTrial, driver: ClusterMember[RegisterDriver] | None) -> tuple[
    PlanRecord, list[Instruction]
]:  # fmt: skip
    """Return the plan with `trial` in place of any earlier one, which is killed."""
    instructions = [] if record.trial is None else _kill(record, record.trial.version.epoch, driver)
    return msgspec.structs.replace(record, trial=trial, change_error=""), instructions


def step(
    record: PlanRecord,
    trial: ChangeTrial,
    driver: ClusterMember[RegisterDriver],
    progress: state_transfer.TransferProgress,
    room: Room,
    lost_after_ms: int,
    now_ms: int,
) -> tuple[PlanRecord, list[Instruction]]:
    """Advance the plan's trial by one step; an instruction reports a change that has ended."""
    # Both may run at once within the quota, so the change costs no interruption.
    if trial.submission is Submission.NEW and not room.one_by_one:
        return _submit(record, trial, driver, now_ms)
    process = (driver.latest.driver, driver.latest.process_id)
    listed = driver.latest.topologies
    reports = {report.epoch: report for report in listed if report.key == record.key and record.owns(report)}
    own = reports.get(trial.version.epoch)
    evidence = Evidence(
        trial=own,
        former=reports.get(record.epoch),
        slots_total=driver.latest.slots_total,
        slots_free=driver.latest.slots_free,
        slots_needed=trial.version.slots,
        slots_of_former=record.slots,
        tasks_needed=trial.version.workers,
        tasks_live=progress.live,
        tasks_restored=progress.restored,
        former_at_rest=progress.at_rest,
        moves_state=state_transfer.moves_state(record),
        moving_ms=now_ms - trial.moving_since_ms if trial.moving_since_ms is not None else 0,
        lost=now_ms - trial.sent_ms >= lost_after_ms,
        elsewhere=trial.submission is Submission.UNKNOWN or trial.sent_to != process,
        kept_back=room.one_by_one if trial.submission is Submission.NEW else "",
        held_back=room.held_back,
    )
    verdict, reason = judge(evidence)
    what = f"plan={record.key.topology()} epoch={trial.version.epoch} former={record.epoch}"
    if verdict in (ChangeVerdict.WAIT, ChangeVerdict.MOVE_STATE):
        trial = msgspec.structs.replace(trial, reason=reason)
        if verdict is ChangeVerdict.MOVE_STATE and trial.moving_since_ms is None:
            trial = msgspec.structs.replace(trial, moving_since_ms=now_ms)
        if own is not None:
            trial = msgspec.structs.replace(trial, submission=Submission.SENT, sent_to=process)
        return msgspec.structs.replace(record, trial=trial), []
    if verdict is ChangeVerdict.REJECT:
        return reject(record, trial, driver, reason)
    sent = Submission.SENT if own is not None else Submission.UNKNOWN
    taken = msgspec.structs.replace(
        with_version(record, trial.version), submission=sent, sent_to=process, sent_ms=now_ms, fallback=record.version()
    )
    # In place, the former topology takes a last checkpoint for its successor; otherwise its state has been moved
    # already.
    killed = _kill(record, record.epoch, driver, drain=verdict is ChangeVerdict.IN_PLACE)
    if verdict is ChangeVerdict.IN_PLACE:
        if trial.submission is Submission.NEW:
            taken, killed = _submit_instead(taken, room, driver)
        return taken, [LogLine("warning", f"former topology ended for a change {what} reason={reason!r}"), *killed]
    taken, settled_now = settle(taken)
    state = "moved" if progress.restored >= trial.version.workers else "empty"
    return taken, [LogLine("info", f"new topology takes over {what} state={state}"), *settled_now, *killed]


def reject(
    record: PlanRecord, trial: ChangeTrial, driver: ClusterMember[RegisterDriver] | None, reason: str
) -> tuple[PlanRecord, list[Instruction]]:
    """End the trial: what runs continues unchanged."""
    epoch = trial.version.epoch
    what = f"plan={record.key.topology()} epoch={epoch} former={record.epoch}"
    notes: list[Instruction] = [LogLine("error", f"change failed {what} reason={reason!r}")]
    kept = msgspec.structs.replace(record, trial=None, change_error=reason)
    return kept, [*notes, *_kill(record, epoch, driver), *_settled(record.key, epoch, record.version())]


def settle(record: PlanRecord) -> tuple[PlanRecord, list[Instruction]]:
    """Settle the change: the plan runs in its new form and cannot go back."""
    if record.fallback is None:
        return record, []
    kept = msgspec.structs.replace(record, fallback=None)
    return kept, _settled(record.key, record.epoch, record.version())


def go_back(record: PlanRecord, reason: str, now_ms: int) -> tuple[PlanRecord, list[Instruction]]:
    """Give the plan its former text, under the next epoch that the plan store counts."""
    if record.fallback is None:
        return record, []
    back = msgspec.structs.replace(
        with_version(record, record.fallback),
        submission=Submission.RAISING,
        sent_ms=now_ms,
        fallback=None,
        change_error=reason,
    )
    back = with_stored(back, restore="", restore_epoch=0)
    what = f"plan={record.key.topology()} epoch={record.epoch} reason={reason!r}"
    return back, [
        LogLine("error", f"change failed, the former text is submitted again {what}"),
        SettleChange(record.key, record.epoch, record.fallback),
        RaiseEpoch(record.key),
    ]


def former_of(record: PlanRecord) -> PlanVersion | None:
    """Return the version to roll back to: the running one, or the one before an unsettled change."""
    return record.fallback or record.version()


def runs(record: PlanRecord, reports: Iterable[TopologyReport]) -> bool:
    """Return whether the plan's topology is worth keeping while another one starts."""
    own = (one for one in reports if one.key == record.key and one.epoch == record.epoch and record.owns(one))
    return record.fallback is None and any(report.state in GOES_ON for report in own)


def _submit(
    record: PlanRecord, trial: ChangeTrial, driver: ClusterMember[RegisterDriver], now_ms: int
) -> tuple[PlanRecord, list[Instruction]]:
    version = trial.version
    process = (driver.latest.driver, driver.latest.process_id)
    sent = msgspec.structs.replace(trial, submission=Submission.SENT, sent_to=process, sent_ms=now_ms)
    message = version.compiled.submission(
        record.key, version.epoch, version.workers, record.stored.created_ms, beside=True, host=version.host
    )
    what = f"plan={record.key.topology()} epoch={version.epoch} former={record.epoch}"
    return msgspec.structs.replace(record, trial=sent), [
        LogLine("info", f"topology submitted beside the former one {what}"),
        PushToDriver(driver.peer, message),
    ]


def _submit_instead(
    taken: PlanRecord, room: Room, driver: ClusterMember[RegisterDriver]
) -> tuple[PlanRecord, list[Instruction]]:
    """End the former topology and submit the new one, so that its slots cannot go to another plan in between.

    If the former one no longer runs, the new one may have to wait for slots of the quota.
    """
    if taken.compiled is None or room.held_back:
        return msgspec.structs.replace(taken, submission=Submission.NEW), []
    message = taken.to_submit(taken.compiled)
    return msgspec.structs.replace(taken, submission=Submission.SENT), [PushToDriver(driver.peer, message)]


def _settled(key: PlanKey, epoch: int, in_force: PlanVersion | None) -> list[Instruction]:
    """Return the instruction that settles a change; none without a version in force."""
    return [] if in_force is None else [SettleChange(key, epoch, in_force)]


def _kill(
    record: PlanRecord, epoch: int, driver: ClusterMember[RegisterDriver] | None, *, drain: bool = False
) -> list[Instruction]:
    """End the topology at the driver.

    With `drain` it takes a last checkpoint, from which the next topology starts.
    """
    return [] if driver is None else [PushToDriver(driver.peer, KillTopology(record.key, epoch, drain=drain))]
