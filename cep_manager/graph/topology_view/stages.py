"""Stages and their instances in metrics. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from cep_common.monitoring.latency import BUCKETS, percentile_ms, upper_bound_ms
from cep_common.protocol.tasks import ComponentReport
from cep_manager.graph.topology_view.model import HistogramBar, StageCounts, StageError, StageView, WindowName
from cep_manager.history.windowed_metrics import WindowMetrics
from cep_manager.monitoring.storm_topology.model import StormComponent, StormExecutor
from cep_manager.monitoring.storm_topology.texts import WINDOWS, StormWindow

WINDOW_OF: dict[WindowName, StormWindow] = dict(zip(("10m", "3h", "1d", "all"), WINDOWS, strict=True))

RECENT_MS = 30 * 60_000
"""Errors younger than this are shown as recent, as in Storm."""


def stage_of(component: StormComponent, window: WindowName, monotonic_ms: int, now_ms: int) -> StageView:
    """Return the stage's row; `now_ms` is the time of day."""
    metrics = component.metrics(WINDOW_OF[window], monotonic_ms)
    reports = [executor.report for executor in component.executors]
    errors = errors_of(component, now_ms)
    return StageView(
        name=component.name,
        kind=component.planned.kind,
        executors=len(component.executors),
        tasks=component.planned.parallel,
        counts=counts_of(component, metrics, reports, component.capacity(monotonic_ms), errors[0] if errors else None),
    )


def instance_counts(
    component: StormComponent, executor: StormExecutor, window: WindowName, monotonic_ms: int, now_ms: int
) -> StageCounts:
    """Return the metrics of one live instance."""
    metrics = executor.metrics(WINDOW_OF[window], monotonic_ms)
    error = error_of(executor, now_ms) if executor.report.last_error else None
    return counts_of(component, metrics, [executor.report], executor.capacity(monotonic_ms), error)


def counts_of(
    component: StormComponent,
    metrics: WindowMetrics,
    reports: Iterable[ComponentReport],
    capacity: float,
    last_error: StageError | None,
) -> StageCounts:
    """Return the metrics of instances of `component` that `metrics` sums up; `reports` are their latest reports."""
    seconds = metrics.covered_ms / 1_000
    held = [part for report in reports for part in report.held]
    receives = component.planned.kind == "receiver"
    p50_ms, p95_ms, p99_ms = (
        percentile_ms(metrics.latencies, share) if receives else None for share in (0.5, 0.95, 0.99)
    )
    return StageCounts(
        received=metrics.events_received(),
        emitted=metrics.events_emitted(),
        transferred=sum(component.transferred(metrics.emitted).values()),
        received_per_second=per_second(metrics.events_received(), seconds),
        emitted_per_second=per_second(metrics.events_emitted(), seconds),
        capacity=round(capacity, 4),
        execute_ms=metrics.execute_latency_ms(),
        process_ms=metrics.stay_latency_ms(),
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        p99_ms=p99_ms,
        queued=sum(report.queued_events for report in reports),
        state_rows=sum(part.rows for part in held),
        state_bytes=sum(part.bytes for part in held),
        dropped=metrics.dropped,
        errors=metrics.errors,
        last_error=last_error,
    )


def per_second(events: int, seconds: float) -> float:
    """Return a rate to three places; 0 where nothing was counted yet."""
    return round(events / seconds, 3) if seconds else 0.0


def errors_of(component: StormComponent, now_ms: int) -> tuple[StageError, ...]:
    """Return the newest error of each instance, newest first."""
    found = [error_of(executor, now_ms) for executor in component.executors if executor.report.last_error]
    return tuple(sorted(found, key=lambda error: error.at_ms, reverse=True))


def error_of(executor: StormExecutor, now_ms: int) -> StageError:
    """Return the newest error of an instance that has met one."""
    latest, report = executor.task.latest, executor.report
    age_ms = max(0, now_ms - report.last_error_ms)
    return StageError(
        text=report.last_error,
        instance=executor.name,
        host=latest.host,
        task=latest.task,
        process_id=latest.process_id,
        at_ms=report.last_error_ms,
        age_ms=age_ms,
        recent=age_ms < RECENT_MS,
    )


def histogram(latencies: dict[int, int]) -> tuple[HistogramBar, ...]:
    """Return the latencies from the first bucket that counted any to the last one, without a gap."""
    if not latencies:
        return ()
    return tuple(
        HistogramBar(None if index >= BUCKETS - 1 else upper_bound_ms(index), latencies.get(index, 0))
        for index in range(min(latencies), max(latencies) + 1)
    )
