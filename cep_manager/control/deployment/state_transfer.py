"""Transfers state from a running topology to the one that replaces it. Pure.

former   work ─▶ pause ─▶ quiet: nothing is under way ─▶ give ─▶ given ──────────────▶ killed
trial    stand-by ────────────────────────────────────────────▶ fetches ─▶ restored ─▶ work

Instances have the same names in both, so each state goes to the instance of the same name, in whatever task. The tasks'
reports show the progress, from which a restarted manager continues. Events wait in the workers meanwhile, and events in
flight are acknowledged before the state is taken, so no event is both in the state and sent again.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cep_common.protocol.tasks import RegisterTask, StateSource, StateTransfer, TaskOrder
from cep_manager.control.members import ClusterMember
from cep_manager.plans.record import ChangeTrial, PlanRecord

Tasks = Mapping[tuple[int, int], ClusterMember[RegisterTask]]
"""The tasks of a plan, by epoch and number."""

LONGEST_MS = 30_000
"""A former topology continues if its state has not been transferred by then."""


AT_REST: frozenset[StateTransfer] = frozenset({"quiet", "given"})
"""The status of paused tasks once none of their events is in flight."""


class TransferProgress(msgspec.Struct, frozen=True):
    """The progress of a trial: `live` of its tasks are heard, `restored` have the state of the former topology.

    `at_rest` tasks of the former topology have paused.
    """

    live: int
    restored: int
    at_rest: int


def moves_state(record: PlanRecord) -> bool:
    """Return whether the running topology has state to transfer.

    Stages that the new one has too hand theirs over; if their queries differ, matching state is kept, and the tasks
    report what was not.
    """
    return record.compiled is not None


def progress(record: PlanRecord, trial: ChangeTrial, tasks: Tasks, lease_ms: int, now_ms: int) -> TransferProgress:
    """Return the progress of a trial, from the reports of its tasks and of those that it replaces."""
    at_rest = sum(task.latest.state_transfer in AT_REST for task in _of(tasks, record.epoch))
    heard = [task for task in _of(tasks, trial.version.epoch) if task.live(now_ms, lease_ms)]
    return TransferProgress(len(heard), sum(task.latest.state_transfer == "restored" for task in heard), at_rest)


def order(record: PlanRecord, epoch: int, tasks: Tasks) -> tuple[TaskOrder, tuple[StateSource, ...]]:
    """Return the order for a task of `epoch`, and for one that is on standby the sources of its state."""
    trial = record.trial
    if trial is None:
        return "work", ()
    former = _of(tasks, record.epoch)
    steps = [task.latest.state_transfer for task in former]
    # A task that had to pause for an earlier manager process stays so: its state may have been fetched already.
    begun = moves_state(record) and (trial.moving_since_ms is not None or not AT_REST.isdisjoint(steps))
    whole = begun and len(former) == record.workers
    if epoch == trial.version.epoch:
        return "stand-by", _sources(former) if whole and set(steps) == {"given"} else ()
    if not begun:
        return "work", ()
    return "give" if whole and AT_REST.issuperset(steps) else "pause", ()


def _of(tasks: Tasks, epoch: int) -> list[ClusterMember[RegisterTask]]:
    return [tasks[task] for task in sorted(tasks) if task[0] == epoch]


def _sources(former: list[ClusterMember[RegisterTask]]) -> tuple[StateSource, ...]:
    return tuple(
        StateSource(task.latest.epoch, component.instance, task.latest.state_endpoint)
        for task in former
        for component in task.latest.components
        if task.latest.state_endpoint is not None
    )
