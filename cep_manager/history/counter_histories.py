"""The histories of all component instances, from what tasks report. Pure.

Tasks count from their start. Whatever ends them (a restart, another epoch, another host), their counts are kept and
their successors' counts are added: no total ever falls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.tasks import ComponentReport, RegisterTask
from cep_manager.history.counter_history import Counter, CounterHistory, Track


class _Source:
    """A task's process, and the highest value that each of its instances has reported of each counter.

    The highest counts because a publisher that sends again reports fewer emitted events for a while.
    """

    def __init__(self, report: RegisterTask) -> None:
        self._process = _process(report)
        self._up_ms = report.up_ms
        self._most: dict[str, dict[Counter, int]] = {}

    def has_restarted(self, report: RegisterTask) -> bool:
        """Return whether `report` comes from another process, or from one whose counters restarted at 0."""
        return _process(report) != self._process or report.up_ms < self._up_ms

    def growth(self, report: RegisterTask) -> Iterator[tuple[ComponentReport, dict[Counter, int]]]:
        """Yield how much each instance's counters exceed their highest values so far."""
        self._up_ms = report.up_ms
        for component in report.components:
            most = self._most.setdefault(component.instance, {})
            grown: dict[Counter, int] = {}
            for counter, events in _counted(component):
                before = most.get(counter, 0)
                if events > before:
                    grown[counter], most[counter] = events - before, events
            yield component, grown


def _process(report: RegisterTask) -> tuple[str, int, int]:
    return report.host, report.process_id, report.attempt


def _counted(component: ComponentReport) -> Iterator[tuple[Counter, int]]:
    yield ("busy_ms", ""), component.busy_ms
    yield ("bundles", ""), component.bundles
    yield ("stay_ms", ""), component.stay_ms
    yield ("dropped", ""), component.dropped_events
    yield ("errors", ""), component.errors
    for one in component.received:
        yield ("received", one.stream), one.events
    for one in component.emitted:
        yield ("emitted", one.stream), one.events
    for bucket, events in component.latencies:
        yield ("latency", str(bucket)), events


class _PlanHistories(msgspec.Struct):
    """A plan's histories. `histories` is replaced whenever a track grows, never changed."""

    sources: dict[tuple[int, int], _Source]
    tracks: dict[str, Track]
    histories: Mapping[str, CounterHistory]


class CounterHistories:
    """Counter histories by plan and instance. Not thread-safe, but the results of `snapshot` may be shared."""

    def __init__(self) -> None:
        self._plans: dict[PlanKey, _PlanHistories] = {}

    def heard(self, report: RegisterTask, now_ms: int) -> None:
        """Add the growth of the task's counters to its instances' histories.

        A new instance's history begins when its task started: events before the first report are spread evenly over
        that time.
        """
        plan = self._plans.setdefault(report.key, _PlanHistories({}, {}, {}))
        task = (report.epoch, report.task)
        source = plan.sources.get(task)
        if source is None or source.has_restarted(report):
            source = plan.sources[task] = _Source(report)
        by_name = dict(plan.histories)
        for component, growth in source.growth(report):
            name = component.instance
            track = plan.tracks.get(name)
            if track is None:
                track = plan.tracks[name] = Track(now_ms - report.up_ms)
            track.grow(growth, now_ms)
            by_name[name] = track.history
        plan.histories = by_name

    def keep(self, key: PlanKey, epochs: Collection[int], instances: Collection[str]) -> None:
        """Remove the plan's tasks of other epochs and all other instances; without any, remove the plan."""
        plan = self._plans.get(key)
        if plan is None:
            return
        if not epochs:
            del self._plans[key]
            return
        plan.sources = {task: source for task, source in plan.sources.items() if task[0] in epochs}
        plan.tracks = {name: track for name, track in plan.tracks.items() if name in instances}
        plan.histories = {name: track.history for name, track in plan.tracks.items()}

    def snapshot(self) -> dict[PlanKey, Mapping[str, CounterHistory]]:
        """Return the current histories, by plan and instance."""
        return {key: plan.histories for key, plan in self._plans.items()}
