"""Views of topologies' checkpoints for reports, written by the coordinator's thread and read by any."""

from __future__ import annotations

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import CheckpointReport
from cep_common.protocol.registry import CheckpointSpan
from topology.checkpoint.coordination.runs import CheckpointedRun


class CheckpointsView(msgspec.Struct, frozen=True):
    """The reported status of a topology's checkpoints.

    It reports which results are final, its newest checkpoints, which one it started from, how many failed, and why it
    cannot start from the newest.
    """

    spans: tuple[CheckpointSpan, ...] = ()
    checkpoints: tuple[CheckpointReport, ...] = ()
    begun_from: int = 0
    failed: int = 0
    unreadable: str = ""
    current: bool = False
    """The retained checkpoints include the topology's whole state: no further one is needed until an event arrives."""


class TopologyViews:
    """The views of all topologies, by plan and epoch."""

    def __init__(self) -> None:
        self._begun_from: dict[tuple[PlanKey, int], int] = {}
        self._unreadable: dict[tuple[PlanKey, int], str] = {}
        self._views: dict[tuple[PlanKey, int], CheckpointsView] = {}
        self.version = 0
        """Grows with each change."""

    def view(self, key: PlanKey, epoch: int) -> CheckpointsView:
        """Return the view of a topology's checkpoints, also between two of its attempts."""
        found = self._views.get((key, epoch), CheckpointsView())
        unreadable = self._unreadable.get((key, epoch), "")
        return msgspec.structs.replace(found, unreadable=unreadable) if unreadable else found

    def begin(self, key: PlanKey, epoch: int, number: int) -> None:
        """Note that an attempt starts from the checkpoint `number`, or without state if it is 0."""
        self._begun_from[key, epoch] = number
        self._unreadable.pop((key, epoch), None)

    def note_unreadable(self, key: PlanKey, epoch: int, problem: str) -> None:
        """Note why the topology cannot start from its newest checkpoint; an empty text: it can."""
        if problem:
            self._unreadable[key, epoch] = problem
            self.version += 1
        else:
            self._unreadable.pop((key, epoch), None)

    def update(self, key: PlanKey, epoch: int, run: CheckpointedRun, ahead_ms: int) -> None:
        """Take over the state of `run`, whose clock the time of day is `ahead_ms` ahead of."""
        begun_from = self._begun_from.get((key, epoch), 0)
        checkpoints = CheckpointsView(
            run.spans(), _history(run, ahead_ms), begun_from, run.failures, current=run.is_current()
        )
        before = self._views.get((key, epoch))
        if before is None or _differ(before, checkpoints):
            self._views[key, epoch] = checkpoints
            self.version += 1

    def forget(self, key: PlanKey, epoch: int) -> None:
        """Remove the view of a topology."""
        self._views.pop((key, epoch), None)
        self.version += 1
        self._begun_from.pop((key, epoch), None)
        self._unreadable.pop((key, epoch), None)


def _history(run: CheckpointedRun, ahead_ms: int) -> tuple[CheckpointReport, ...]:
    return tuple(
        CheckpointReport(
            checkpoint=one.checkpoint,
            state=one.state,
            began_ms=one.began_ms + ahead_ms,
            duration_ms=one.duration_ms,
            size_bytes=one.size_bytes,
            stored_bytes=one.stored_bytes,
            alignment_ms=one.alignment_ms,
            name=one.name,
            error=one.error,
            trigger=one.trigger,
            tasks=one.tasks,
            acknowledged=one.acknowledged,
        )
        for one in run.history
    )


def _differ(before: CheckpointsView, now: CheckpointsView) -> bool:
    """Return whether the views differ, ignoring small adjustments of the clock."""
    states = [[(one.checkpoint, one.state, one.error) for one in reported.checkpoints] for reported in (before, now)]
    others = [(reported.spans, reported.begun_from, reported.failed, reported.current) for reported in (before, now)]
    return states[0] != states[1] or others[0] != others[1]
