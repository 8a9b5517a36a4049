"""A plan's metrics at a glance: rates, latency, what waits; and how the traffic of several went lately. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from cep_common.ids import PlanKey
from cep_common.monitoring.latency import percentile_ms
from cep_common.protocol.registry import RegisterWorker, WorkerPlanReport
from cep_common.protocol.tasks import ComponentKind, RegisterTask
from cep_manager.control.members import ClusterMember, undelivered_results
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.history.counter_history import WINDOWS_S, CounterHistory
from cep_manager.history.windowed_metrics import WindowMetrics, added_up, capacity, window_metrics
from cep_manager.monitoring.rates import per_second
from cep_manager.monitoring.status import worker_reports

WINDOW_S = WINDOWS_S[0]
STEP_S = 15
STEPS = WINDOW_S // STEP_S


class PlanMetrics(msgspec.Struct, frozen=True):
    """Current metrics of one plan or several.

    Rates are over the last seconds: events per second into receivers, and results that sinks and listeners got. Latency
    in the topology (None without events) and the busiest stage's share of working time are over the last ten minutes.
    `waiting_events` wait in workers for the topology or for sinks, and in stages; the oldest in a worker's log has
    waited for `oldest_ms`, 0 where no log is kept.
    """

    received_per_second: float
    emitted_per_second: float
    p50_ms: float | None
    p99_ms: float | None
    capacity: float
    waiting_events: int
    oldest_ms: int


class Traffic(msgspec.Struct, frozen=True):
    """Events per second in the steps of `step_s` seconds up to now, the oldest first; None before counting began."""

    step_s: int
    received_per_second: tuple[float | None, ...]
    emitted_per_second: tuple[float | None, ...]


def metrics_of_plan(snapshot: ClusterSnapshot, keys: Iterable[PlanKey]) -> PlanMetrics:
    """Return the metrics of the plans `keys` together."""
    keys = tuple(keys)
    latencies = _latencies(snapshot, keys)
    workers = [one for key in keys for one in worker_reports(snapshot, key, snapshot.plans[key].epoch)]
    reports = [report for _, report in workers]
    known = [task for key in keys for task in snapshot.tasks.get(key, ())]
    tasks = [task for task in known if task.live(snapshot.now_ms, snapshot.lease_ms)]  # others do nothing any more
    queued = sum(component.queued_events for task in tasks for component in task.latest.components)
    return PlanMetrics(
        received_per_second=round(sum(per_second(task, _received) for task in tasks), 3),
        emitted_per_second=round(sum(delivered_per_second(worker, report) for worker, report in workers), 3),
        p50_ms=percentile_ms(latencies.latencies, 0.5),
        p99_ms=percentile_ms(latencies.latencies, 0.99),
        capacity=round(max((capacity(_histories(snapshot, key), snapshot.now_ms) for key in keys), default=0.0), 4),
        waiting_events=queued
        + sum(one.waiting_events for report in reports for one in report.inflow)
        + sum(map(undelivered_results, reports)),
        oldest_ms=max((oldest_ms(report) for report in reports), default=0),
    )


def traffic(snapshot: ClusterSnapshot, keys: Iterable[PlanKey]) -> Traffic:
    """Return the rates of events in and out over the last ten minutes."""
    keys = tuple(keys)
    histories = [(instance_kind, history) for key in keys for instance_kind, history in _ends(snapshot, key)]
    return Traffic(
        STEP_S,
        _steps([one for kind, one in histories if kind == "receiver"], "received", snapshot.now_ms),
        _steps([snapshot.deliveries[key] for key in keys if key in snapshot.deliveries], "delivered", snapshot.now_ms),
    )


def _received(report: RegisterTask) -> int:
    return sum(s.events for one in report.components if one.kind == "receiver" for s in one.received)


def delivered_per_second(worker: ClusterMember[RegisterWorker], report: WorkerPlanReport) -> float:
    """Return how many results of the plan the worker's sinks and listeners get per second."""
    return sum(per_second(worker, _delivered(report.key, one.stream)) for one in report.outflow)


def oldest_ms(report: WorkerPlanReport) -> int:
    """Return for how long the oldest event or result has been in the worker's logs."""
    prepared = report.prepared.oldest_ms if report.prepared is not None and report.prepared.events else 0
    return max(prepared, *(wal.oldest_ms for wal in report.write_ahead_logs), 0)


def _delivered(key: PlanKey, stream: str) -> Callable[[RegisterWorker], int | None]:
    """Return a reader of the number of delivered results of the stream; it gives None for a report without it."""

    def counter(report: RegisterWorker) -> int | None:
        found = [one for plan in report.plans if plan.key == key for one in plan.outflow if one.stream == stream]
        return sum(one.delivered_events for one in found) if found else None

    return counter


def _histories(snapshot: ClusterSnapshot, key: PlanKey) -> Iterable[CounterHistory]:
    return snapshot.histories.get(key, {}).values()


def _ends(snapshot: ClusterSnapshot, key: PlanKey) -> Iterator[tuple[ComponentKind, CounterHistory]]:
    """Yield the histories of the plan's receivers and publishers."""
    compiled = snapshot.plans[key].compiled
    if compiled is None:
        return
    kinds = {one.name: one.kind for one in compiled.components if one.kind in ("receiver", "publisher")}
    for instance, history in snapshot.histories.get(key, {}).items():
        kind = kinds.get(instance.rpartition("#")[0])
        if kind is not None:
            yield kind, history


def _latencies(snapshot: ClusterSnapshot, keys: tuple[PlanKey, ...]) -> WindowMetrics:
    receivers = (one for key in keys for kind, one in _ends(snapshot, key) if kind == "receiver")
    return added_up(window_metrics(one, WINDOW_S, snapshot.now_ms) for one in receivers)


def _steps(histories: list[CounterHistory], kind: str, now_ms: int) -> tuple[float | None, ...]:
    bounds_ms = now_ms - np.arange(STEPS, -1, -1, dtype=np.float64) * STEP_S * 1_000
    grown = sum((_grown(history, kind, bounds_ms) for history in histories), np.zeros(STEPS))
    began_ms = min((history.since_ms for history in histories), default=now_ms)
    return tuple(
        round(float(events) / STEP_S, 3) if end_ms > began_ms else None
        for events, end_ms in zip(grown, bounds_ms[1:], strict=True)
    )


def _grown(history: CounterHistory, kind: str, bounds_ms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how many events were counted between the bounds, interpolated linearly between samples."""
    mine = [index for index, (counted, _) in enumerate(history.counters) if counted == kind]
    samples = [(one.at_ms, one.values) for one in history.rings[0]]
    samples.append((max(history.heard_ms, samples[-1][0]), history.totals))
    sums = [sum(values[index] for index in mine if index < len(values)) for _, values in samples]
    counted: NDArray[np.float64] = np.interp(bounds_ms, [at_ms for at_ms, _ in samples], sums)
    return np.diff(counted)
