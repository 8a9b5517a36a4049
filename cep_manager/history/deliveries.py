"""Counts the results delivered to sinks and listeners of each plan, from workers' reports. Pure.

Workers count from their start. The first count heard from a worker, or after its restart, is the baseline: earlier
deliveries are not included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cep_common.ids import PlanKey
from cep_common.protocol.registry import WorkerPlanReport
from cep_manager.history.counter_history import Counter, CounterHistory, Track

KIND = "delivered"


class DeliveryCounts:
    """Delivery counts by plan. Not thread-safe, but the results of `snapshot` may be shared."""

    def __init__(self) -> None:
        self._tracks: dict[PlanKey, Track] = {}
        self._processes: dict[str, int] = {}
        self._counts: dict[tuple[PlanKey, str, str], int] = {}
        """The most that each worker's process has reported of each stream of each plan."""

    def heard(self, worker: str, process_id: int, plans: Iterable[WorkerPlanReport], now_ms: int) -> None:
        """Add what the worker's sinks have delivered since its last report."""
        if self._processes.get(worker) != process_id:
            self._processes[worker] = process_id
            self._counts = {name: events for name, events in self._counts.items() if name[1] != worker}
        for plan in plans:
            grown: dict[Counter, int] = {}
            for one in plan.outflow:
                name = (plan.key, worker, one.stream)
                before = self._counts.get(name, one.delivered_events)
                self._counts[name] = max(before, one.delivered_events)
                grown[KIND, one.stream] = max(0, one.delivered_events - before)
            if grown:
                self._tracks.setdefault(plan.key, Track(now_ms)).grow(grown, now_ms)

    def keep(self, plans: Collection[PlanKey]) -> None:
        """Remove all plans except these."""
        self._tracks = {key: track for key, track in self._tracks.items() if key in plans}
        self._counts = {name: events for name, events in self._counts.items() if name[0] in plans}

    def snapshot(self) -> dict[PlanKey, CounterHistory]:
        """Return the current histories."""
        return {key: track.history for key, track in self._tracks.items()}
