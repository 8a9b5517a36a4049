"""Metrics of stages: counts of components and their instances over all restarts. Pure.

Metrics by stream are given for a component, summed over its instances; metrics of instances have no stream. So there
are as many series as streams plus instances, not their product.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from prometheus_client.core import HistogramMetricFamily, Metric

from cep_common.ids import PlanKey, instance_name
from cep_common.monitoring.latency import BUCKETS, PER_DOUBLING, upper_bound_ms
from cep_common.monitoring.metric_families import MetricFamily, counter, families_for, gauge
from cep_common.protocol.tasks import ComponentReport
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.history.counter_history import CounterHistory
from cep_manager.history.windowed_metrics import WindowMetrics, added_up, capacity, window_metrics
from cep_manager.plans.compiled_plan import PlannedComponent

STREAM = ("tenant", "plan", "component", "kind", "stream")
INSTANCE = ("tenant", "plan", "component", "kind", "stage_instance")
"""Prometheus itself labels with `instance`."""
COMPONENT = ("tenant", "plan", "component", "kind")

MOST_INSTANCES = 2_000
"""Further component instances are only counted."""


class _Instance(msgspec.Struct, frozen=True):
    labels: tuple[object, ...]
    history: CounterHistory
    all_time: WindowMetrics
    report: ComponentReport | None


class _Component(msgspec.Struct, frozen=True):
    labels: tuple[object, ...]
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    instances: tuple[_Instance, ...]
    left_out: int
    all_time: WindowMetrics


def stage_metrics(snapshot: ClusterSnapshot) -> Iterator[Metric]:
    """Yield the metrics of stages."""
    components = list(_components(snapshot))
    instances = [instance for component in components for instance in component.instances]
    yield from _by_stream(components)
    yield from families_for(_COUNTED, INSTANCE, ((one.labels, one.all_time) for one in instances))
    yield _capacities(instances, snapshot.now_ms)
    yield counter(
        "cep_component_late_events_total", "Events that came behind the clock, by stream", STREAM, _late(instances)
    )
    yield from families_for(_HELD, INSTANCE, ((one.labels, one.report) for one in instances if one.report is not None))
    yield _latencies(components)
    yield gauge(
        "cep_instances_left_out",
        f"Component instances beyond the first {MOST_INSTANCES:,}, which are left out of the metrics",
        (),
        [((), sum(component.left_out for component in components))],
    )


def _components(snapshot: ClusterSnapshot) -> Iterator[_Component]:
    room = MOST_INSTANCES
    for key in sorted(snapshot.plans):
        compiled = snapshot.plans[key].compiled
        for planned in compiled.components if compiled is not None else ():
            component = _component(snapshot, key, planned, room)
            room -= len(component.instances)
            yield component


def _component(snapshot: ClusterSnapshot, key: PlanKey, planned: PlannedComponent, room: int) -> _Component:
    labels = (key.tenant, key.plan, planned.name, planned.kind)
    histories = snapshot.histories.get(key, {})
    reports = {
        report.instance: report
        for task in snapshot.tasks.get(key, ())
        if task.live(snapshot.now_ms, snapshot.lease_ms)
        for report in task.latest.components
    }
    names = [instance_name(planned.name, index) for index in range(planned.parallel)]
    known = [name for name in names if name in histories]
    instances = tuple(
        _Instance(
            (*labels, name), histories[name], window_metrics(histories[name], None, snapshot.now_ms), reports.get(name)
        )
        for name in known[:room]
    )
    return _Component(
        labels=labels,
        kind=planned.kind,
        inputs=planned.inputs,
        outputs=planned.outputs,
        instances=instances,
        left_out=len(known) - len(instances),
        all_time=added_up(one.all_time for one in instances),
    )


def _by_stream(components: list[_Component]) -> Iterator[Metric]:
    """Yield the metrics by stream.

    A stream without events is given with 0, so that its rate begins with the first event.
    """
    yield counter(
        "cep_component_received_events_total",
        "Events that the component received, by stream",
        STREAM,
        (
            ((*one.labels, stream), events)
            for one in components
            for stream, events in {**dict.fromkeys(one.inputs, 0), **one.all_time.received}.items()
        ),
    )
    yield counter(
        "cep_component_emitted_events_total",
        "Events that the component sent, by stream",
        STREAM,
        (
            ((*one.labels, stream), events)
            for one in components
            for stream, events in {**dict.fromkeys(one.outputs, 0), **one.all_time.emitted}.items()
        ),
    )


def _late(instances: list[_Instance]) -> Iterable[tuple[tuple[object, ...], int]]:
    """Late events of each input stream of a stage, all instances together."""
    counts: dict[tuple[object, ...], int] = {}
    for one in instances:
        if one.report is not None and one.report.kind == "processor":
            stage = one.labels[: len(COMPONENT)]
            for stream in one.report.received:
                counts.setdefault((*stage, stream.stream), 0)
            for late in one.report.late:
                counts[*stage, late.stream] = counts.get((*stage, late.stream), 0) + late.events
    return counts.items()


_COUNTED: tuple[MetricFamily[WindowMetrics], ...] = (
    MetricFamily(
        "cep_instance_received_events_total", "Events that the instance received", WindowMetrics.events_received
    ),
    MetricFamily("cep_instance_emitted_events_total", "Events that the instance sent", WindowMetrics.events_emitted),
    MetricFamily("cep_instance_bundles_total", "Batches that the instance received", lambda one: one.bundles),
    MetricFamily("cep_instance_busy_seconds_total", "Time spent working", lambda one: one.busy_ms / 1_000),
    MetricFamily(
        "cep_instance_event_stay_seconds_total",
        "Total time of events in the instance; at a receiver until all results of the event had left the topology",
        lambda one: one.stay_ms / 1_000,
    ),
    MetricFamily(
        "cep_instance_dropped_events_total", "Events dropped because they came too late", lambda one: one.dropped
    ),
    MetricFamily("cep_instance_errors_total", "Errors", lambda one: one.errors),
)

_HELD: tuple[MetricFamily[ComponentReport], ...] = (
    MetricFamily(
        "cep_instance_behind_seconds",
        "Lag of the instance's processing time behind the system clock",
        lambda one: one.behind_ms / 1_000,
    ),
    MetricFamily(
        "cep_instance_awaited_connections",
        "Connections for whose first event, or older events, the instance's time waits",
        lambda one: len(one.awaits),
    ),
    MetricFamily("cep_instance_queued_events", "Events that wait in the instance", lambda one: one.queued_events),
    MetricFamily(
        "cep_instance_state_rows",
        "Rows of state in the instance's memory",
        lambda one: sum(part.rows for part in one.held if part.kind != "strings"),
    ),
    MetricFamily(
        "cep_instance_state_bytes",
        "Estimated size of the state in the instance's memory",
        lambda one: sum(part.bytes for part in one.held),
    ),
)


def _capacities(instances: list[_Instance], now_ms: int) -> Metric:
    return gauge(
        "cep_instance_capacity_ratio",
        "Share of the last ten minutes spent working: near 1 it is at its limit",
        INSTANCE,
        ((one.labels, round(capacity([one.history], now_ms), 6)) for one in instances),
    )


def _latencies(components: list[_Component]) -> Metric:
    """Bucket of twice the length of the one before; those in which they are counted are finer."""
    family = HistogramMetricFamily(
        "cep_receiver_latency_seconds",
        "Time from the arrival of an event in the topology until all its results have left it",
        labels=COMPONENT,
    )
    for one in components:
        if one.kind == "receiver" and one.instances:
            counts = one.all_time.latencies
            bounds = [*range(0, BUCKETS - 1, PER_DOUBLING), BUCKETS - 1]
            buckets = [
                (_bound(last), float(sum(events for index, events in counts.items() if index <= last)))
                for last in bounds
            ]
            family.add_metric([str(label) for label in one.labels], buckets, one.all_time.stay_ms / 1_000)
    return family


def _bound(index: int) -> str:
    seconds = upper_bound_ms(index) / 1_000
    return "+Inf" if index >= BUCKETS - 1 else f"{seconds:.6g}"
