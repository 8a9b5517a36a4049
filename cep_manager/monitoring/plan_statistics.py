"""Metrics of a plan and each of its stages, by window. Pure: derived from a snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from cep_common.ids import PlanKey, instance_name
from cep_common.monitoring.latency import percentile_ms
from cep_common.protocol.tasks import ComponentKind, QueryReport, StatisticsLevel, StreamCount
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.history.counter_history import WINDOWS_S, CounterHistory
from cep_manager.history.windowed_metrics import WindowMetrics, added_up, capacity, window_metrics
from cep_manager.plans.compiled_plan import PlannedComponent


class Latency(msgspec.Struct, frozen=True):
    """Time from an event's arrival in the topology until all its results have left or entered a state.

    Percentiles are exact to within 5 %. None while there are no events.
    """

    events: int
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


class Activity(msgspec.Struct, frozen=True):
    """The work of a stage, or of one instance, in a window.

    `execute_ms` is the mean time that working on an event took, `bundle_ms` on a piece of events, `stay_ms` the mean
    time that an event stayed, waiting included; None without events. `capacity` is the share of the last ten minutes
    that the busiest instance spent working.
    """

    name: str
    received: tuple[StreamCount, ...]
    emitted: tuple[StreamCount, ...]
    received_per_second: float
    emitted_per_second: float
    execute_ms: float | None
    bundle_ms: float | None
    stay_ms: float | None
    capacity: float
    dropped: int
    errors: int


class ComponentActivity(msgspec.Struct, frozen=True):
    """A stage with its instances."""

    kind: ComponentKind
    all: Activity
    instances: tuple[Activity, ...]


class WindowStatistics(msgspec.Struct, frozen=True):
    """The last `window_s` seconds (None: all time), of which `covered_ms` were counted.

    `received` are the events that came into the topology, `emitted` those that it sent to workers.
    """

    window_s: int | None
    covered_ms: int
    received: int
    emitted: int
    dropped: int
    latency: Latency
    components: tuple[ComponentActivity, ...]


class QueryActivity(msgspec.Struct, frozen=True):
    """The work of a query since its tasks started and its present state, at statistics level `detail`.

    `mean_us` is the mean time per event; percentiles are of the time for the batch in which an event came.
    """

    query: str
    component: str
    events: int
    mean_us: float | None
    p50_ms: float | None
    p99_ms: float | None
    state_rows: int
    state_bytes: int


class PlanStatistics(msgspec.Struct, frozen=True):
    """A plan's windows, the shortest first and all time last; `queries` at level `detail` alone."""

    plan: str
    tenant: int
    epoch: int
    windows: tuple[WindowStatistics, ...]
    level: StatisticsLevel = "basic"
    queries: tuple[QueryActivity, ...] = ()


def plan_statistics(snapshot: ClusterSnapshot, key: PlanKey) -> PlanStatistics:
    """Return the statistics of a deployed plan; without components when its text cannot be compiled.

    KeyError when it is not deployed.
    """
    record = snapshot.plans[key]
    planned = record.compiled.components if record.compiled is not None else ()
    windows = tuple(_window(snapshot, key, planned, window_s) for window_s in (*WINDOWS_S, None))
    level = record.statistics_level()
    queries = tuple(_queries(snapshot, key)) if level == "detail" else ()
    return PlanStatistics(key.plan, key.tenant, record.epoch, windows, level, queries)


def _queries(snapshot: ClusterSnapshot, key: PlanKey) -> Iterator[QueryActivity]:
    """Yield the queries of all live tasks, summed over a stage's instances."""
    live = [task for task in snapshot.tasks.get(key, ()) if task.live(snapshot.now_ms, snapshot.lease_ms)]
    by_query: dict[tuple[str, str], list[QueryReport]] = {}
    rows: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for report in (report for task in live for report in task.latest.components):
        for query in report.queries:
            by_query.setdefault((report.component, query.query), []).append(query)
        for part in report.held:
            if part.kind == "query":
                rows[report.component, part.name] += part.rows
                sizes[report.component, part.name] += part.bytes
    for (component, name), parts in sorted(by_query.items()):
        events, busy_us = (sum(getattr(part, what) for part in parts) for what in ("events", "busy_us"))
        latencies: Counter[int] = Counter()
        for one in parts:
            latencies.update(dict(one.latencies))
        yield QueryActivity(
            query=name,
            component=component,
            events=events,
            mean_us=round(busy_us / events, 3) if events else None,
            p50_ms=_rounded(percentile_ms(latencies, 0.5)),
            p99_ms=_rounded(percentile_ms(latencies, 0.99)),
            state_rows=rows[component, name],
            state_bytes=sizes[component, name],
        )


def _window(
    snapshot: ClusterSnapshot, key: PlanKey, planned: tuple[PlannedComponent, ...], window_s: int | None
) -> WindowStatistics:
    histories = snapshot.histories.get(key, {})
    now_ms = snapshot.now_ms
    components: list[ComponentActivity] = []
    totals: list[tuple[PlannedComponent, WindowMetrics]] = []
    for component in planned:
        names = [instance_name(component.name, index) for index in range(component.parallel)]
        mine = {name: histories[name] for name in names if name in histories}
        metrics = {name: window_metrics(history, window_s, now_ms) for name, history in mine.items()}
        total = added_up(metrics.values())
        totals.append((component, total))
        components.append(
            ComponentActivity(
                kind=component.kind,
                all=_activity(component.name, total, mine.values(), now_ms),
                instances=tuple(_activity(name, metrics[name], [history], now_ms) for name, history in mine.items()),
            )
        )
    receivers = added_up(total for component, total in totals if component.kind == "receiver")
    publishers = added_up(total for component, total in totals if component.kind == "publisher")
    return WindowStatistics(
        window_s=window_s,
        covered_ms=max((total.covered_ms for _, total in totals), default=0),
        received=receivers.events_received(),
        emitted=publishers.events_emitted(),
        dropped=sum(total.dropped for _, total in totals),
        latency=_latency(receivers),
        components=tuple(components),
    )


def _activity(name: str, metrics: WindowMetrics, histories: Iterable[CounterHistory], now_ms: int) -> Activity:
    covered_s = metrics.covered_ms / 1_000
    return Activity(
        name=name,
        received=_counts(metrics.received),
        emitted=_counts(metrics.emitted),
        received_per_second=round(metrics.events_received() / covered_s, 3) if covered_s else 0.0,
        emitted_per_second=round(metrics.events_emitted() / covered_s, 3) if covered_s else 0.0,
        execute_ms=_rounded(metrics.execute_latency_ms()),
        bundle_ms=_rounded(metrics.bundle_latency_ms()),
        stay_ms=_rounded(metrics.stay_latency_ms()),
        capacity=round(capacity(histories, now_ms), 4),
        dropped=metrics.dropped,
        errors=metrics.errors,
    )


def _latency(receivers: WindowMetrics) -> Latency:
    p50_ms, p95_ms, p99_ms = (_rounded(percentile_ms(receivers.latencies, share)) for share in (0.5, 0.95, 0.99))
    events = sum(receivers.latencies.values())
    return Latency(events, _rounded(receivers.stay_latency_ms()), p50_ms, p95_ms, p99_ms)


def _rounded(value_ms: float | None) -> float | None:
    return None if value_ms is None else round(value_ms, 4)


def _counts(counts: dict[str, int]) -> tuple[StreamCount, ...]:
    return tuple(StreamCount(stream, events) for stream, events in counts.items())
