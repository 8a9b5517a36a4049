"""The current counters of all plans, read from a snapshot. Pure."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator

from cep_common.ids import PlanKey, instance_name
from cep_common.protocol.tasks import ComponentReport, ComponentState, QueryReport
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.history.windowed_metrics import WindowMetrics, added_up, window_metrics
from cep_manager.monitoring.metric_tables.model import PlanReading, QueryReading, StageReading
from cep_manager.plans.compiled_plan import PlannedComponent


class PlanReader:
    """Reads all plans; one about which nothing was heard since its last reading keeps that. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[PlanKey, tuple[list[object], PlanReading]] = {}
        """The last reading of each plan, and what it was made from."""

    def read(self, snapshot: ClusterSnapshot) -> Iterator[PlanReading]:
        """Every plan whose stages have been heard; the same object as before where nothing has changed."""
        before, self._known = self._known, {}
        for key in sorted(snapshot.plans):
            sources = _sources(snapshot, key)
            known = before.get(key)
            # Compared by identity: reports are immutable, and a changed one is a new object.
            if known is not None and len(sources) == len(known[0]) and all(map(operator.is_, sources, known[0])):
                reading: PlanReading | None = known[1]
            else:
                reading = _plan(snapshot, key)
            if reading is not None:
                if not reading.queries:  # those of queries bear the time of the reading
                    self._known[key] = sources, reading
                yield reading


def _sources(snapshot: ClusterSnapshot, key: PlanKey) -> list[object]:
    """Return all that the reading of the plan is made from."""
    live = (task for task in snapshot.tasks.get(key, ()) if task.live(snapshot.now_ms, snapshot.lease_ms))
    return [
        snapshot.plans[key],
        *snapshot.histories.get(key, {}).values(),
        *(task.latest.components for task in live),
        *snapshot.topologies_of(key),
    ]


def _plan(snapshot: ClusterSnapshot, key: PlanKey) -> PlanReading | None:
    record = snapshot.plans[key]
    histories = snapshot.histories.get(key, {})
    if record.compiled is None or not histories:
        return None
    level = record.statistics_level()
    live = [task for task in snapshot.tasks.get(key, ()) if task.live(snapshot.now_ms, snapshot.lease_ms)]
    reports = {report.instance: report for task in live for report in task.latest.components}
    metrics: dict[str, WindowMetrics] = {}
    stages = []
    for planned in record.compiled.components:
        names = [name for index in range(planned.parallel) if (name := instance_name(planned.name, index)) in histories]
        mine = {name: window_metrics(histories[name], None, snapshot.now_ms) for name in names}
        metrics[planned.name] = added_up(mine.values())
        busy = {name: (one.busy_ms, histories[name].heard_ms) for name, one in mine.items()}
        stages.append(
            _stage(planned, metrics[planned.name], busy, [reports[name] for name in names if name in reports])
        )
    kinds = {planned.name: planned.kind for planned in record.compiled.components}
    receivers = added_up(one for name, one in metrics.items() if kinds[name] == "receiver")
    publishers = added_up(one for name, one in metrics.items() if kinds[name] == "publisher")
    between = added_up(one for name, one in metrics.items() if kinds[name] in ("processor", "trigger"))
    return PlanReading(
        key=key,
        counts=level != "off",
        detailed=level == "detail",
        received=receivers.events_received(),
        emitted=publishers.events_emitted(),
        heard_ms=max((stage.heard_ms for stage in stages), default=snapshot.now_ms),
        since_ms=min(history.since_ms for history in histories.values()),
        latencies=receivers.latencies,
        streams={**receivers.received, **between.emitted},
        stages=tuple(stages),
        queries=tuple(_queries(reports.values(), snapshot.now_ms)) if level == "detail" else (),
        checkpoints=tuple(_checkpoints(snapshot, key, record.epoch)),
    )


def _stage(
    planned: PlannedComponent, metrics: WindowMetrics, busy: dict[str, tuple[int, int]], reports: list[ComponentReport]
) -> StageReading:
    return StageReading(
        component=planned.name,
        received=metrics.events_received(),
        emitted=metrics.events_emitted(),
        dropped=metrics.dropped,
        errors=metrics.errors,
        queued=sum(report.queued_events for report in reports),
        heard_ms=max((heard_ms for _, heard_ms in busy.values()), default=0),
        busy=busy,
        held=_held(reports),
    )


def _held(reports: Iterable[ComponentReport]) -> tuple[ComponentState, ...]:
    """Return the state of the instances, those of the same part together."""
    rows: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for report in reports:
        for part in report.held:
            rows[part.kind, part.name] += part.rows
            sizes[part.kind, part.name] += part.bytes
    return tuple(ComponentState(kind, name, rows=rows[kind, name], bytes=sizes[kind, name]) for kind, name in rows)


def _queries(reports: Iterable[ComponentReport], now_ms: int) -> Iterator[QueryReading]:
    by_name: dict[str, list[QueryReport]] = {}
    for report in reports:
        for query in report.queries:
            by_name.setdefault(query.query, []).append(query)
    for name, parts in by_name.items():
        latencies: Counter[int] = Counter()
        for part in parts:
            latencies.update(dict(part.latencies))
        yield QueryReading(name, now_ms, dict(latencies))


def _checkpoints(snapshot: ClusterSnapshot, key: PlanKey, epoch: int) -> Iterator[tuple[float, float]]:
    for report in snapshot.topologies_of(key):
        if report.epoch == epoch:
            yield from (
                (float(one.duration_ms), float(one.size_bytes)) for one in report.checkpoints if one.state == "complete"
            )
