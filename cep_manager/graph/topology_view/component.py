"""A stage's page: its instances, streams, queries, latencies, errors and samples. Pure: derived from an overview."""

from __future__ import annotations

from collections import Counter

from cep_common.ids import PlanKey, instance_name
from cep_common.monitoring.latency import percentile_ms
from cep_common.protocol.tasks import QueryReport
from cep_manager.errors import UnknownComponentError
from cep_manager.graph.stages import DrawnInstance, stage_instances
from cep_manager.graph.topology_view.model import (
    ComponentView,
    Instance,
    QueryWorkView,
    StageCounts,
    StreamIn,
    StreamOut,
    WindowName,
)
from cep_manager.graph.topology_view.stages import (
    WINDOW_OF,
    counts_of,
    histogram,
    instance_counts,
    per_second,
    stage_of,
)
from cep_manager.history.samples import sample_report
from cep_manager.monitoring.cluster_model import Overview
from cep_manager.monitoring.storm_topology.model import StormComponent, StormTopology, topology_of
from cep_manager.plans.record import PlanRecord


def component_view(overview: Overview, key: PlanKey, name: str, window: WindowName) -> ComponentView:
    """Return the page of stage `name` of a deployed plan.

    KeyError when the plan is not deployed; raises UnknownComponentError when it has no such stage.
    """
    snapshot = overview.snapshot
    record = snapshot.plans[key]
    topology = topology_of(snapshot, record)
    component = topology.component(name)
    if component is None:
        there = ", ".join(one.name for one in topology.components) or "none, its text cannot be compiled"
        raise UnknownComponentError(f"{key.plan} has no stage named {name[:80]}; there are: {there}")
    samples = sample_report(snapshot.samples, key, name, snapshot.now_ms)
    metrics = component.metrics(WINDOW_OF[window], snapshot.now_ms)
    return ComponentView(
        plan=key.plan,
        tenant=key.tenant,
        topology=key.topology(),
        epoch=record.epoch,
        stage=stage_of(component, window, snapshot.now_ms, overview.now_ms),
        window=window,
        totals=tuple((one, _total(component, one, snapshot.now_ms)) for one in WINDOW_OF),
        instances=_instances(overview, record, component, window),
        inputs=_inputs(record, topology, component, window, snapshot.now_ms),
        outputs=_outputs(record, topology, component, window, snapshot.now_ms),
        errors=tuple(group for group in snapshot.errors.get(key, ()) if group.component == name),
        queries=component.planned.queries,
        work=_work(component),
        latencies=histogram(metrics.latencies),
        sampled=samples.orders,
        seen=samples.events,
    )


def _total(component: StormComponent, window: WindowName, monotonic_ms: int) -> StageCounts:
    metrics = component.metrics(WINDOW_OF[window], monotonic_ms)
    reports = [executor.report for executor in component.executors]
    return counts_of(component, metrics, reports, component.capacity(monotonic_ms), None)


def _work(component: StormComponent) -> tuple[QueryWorkView, ...]:
    found: dict[str, list[QueryReport]] = {}
    for executor in component.executors:
        for one in executor.report.queries:
            found.setdefault(one.query, []).append(one)
    return tuple(_work_of(query, reports) for query, reports in sorted(found.items()))


def _work_of(query: str, reports: list[QueryReport]) -> QueryWorkView:
    latencies: Counter[int] = Counter()
    for one in reports:
        latencies.update(dict(one.latencies))
    events, busy_us = sum(one.events for one in reports), sum(one.busy_us for one in reports)
    return QueryWorkView(
        query=query,
        events=events,
        busy_us=busy_us,
        mean_us=busy_us / events if events else None,
        p50_ms=percentile_ms(latencies, 0.5),
        p99_ms=percentile_ms(latencies, 0.99),
    )


def _instances(
    overview: Overview, record: PlanRecord, component: StormComponent, window: WindowName
) -> tuple[Instance, ...]:
    snapshot = overview.snapshot
    planned = stage_instances(snapshot, record.key, record.compiled) if record.compiled is not None else ()
    known = {one.id: one for one in planned}
    executors = {executor.name: executor for executor in component.executors}
    found = []
    for index in range(component.planned.parallel):
        name = instance_name(component.name, index)
        one, executor = known[name], executors.get(name)
        counts = (
            instance_counts(component, executor, window, snapshot.now_ms, overview.now_ms)
            if executor is not None
            else StageCounts()
        )
        found.append(_instance(one, counts))
    return tuple(found)


def _instance(one: DrawnInstance, counts: StageCounts) -> Instance:
    if one.task is None or one.report is None:
        return Instance(one.id, "expected", "", -1, 0, 0, counts)
    latest = one.task.latest
    return Instance(
        name=one.id,
        state="live" if one.live else "silent",
        host=latest.host,
        task=latest.task,
        process_id=latest.process_id,
        up_ms=latest.up_ms,
        counts=counts,
        held=one.report.held,
    )


def _inputs(
    record: PlanRecord, topology: StormTopology, component: StormComponent, window: WindowName, monotonic_ms: int
) -> tuple[StreamIn, ...]:
    metrics = component.metrics(WINDOW_OF[window], monotonic_ms)
    imported = record.compiled.imported if record.compiled is not None and component.planned.kind == "receiver" else ()
    outside = {binding.stream: binding.event_stream for binding in imported}
    return tuple(
        StreamIn(
            stream=stream,
            producers=() if component.planned.kind == "receiver" else topology.producers(component, stream),
            event_stream=outside.get(stream, ""),
            grouping=component.planned.grouping(stream),
            received=metrics.received.get(stream, 0),
            received_per_second=per_second(metrics.received.get(stream, 0), metrics.covered_ms / 1_000),
        )
        for stream in component.planned.inputs
    )


def _outputs(
    record: PlanRecord, topology: StormTopology, component: StormComponent, window: WindowName, monotonic_ms: int
) -> tuple[StreamOut, ...]:
    metrics = component.metrics(WINDOW_OF[window], monotonic_ms)
    leaves = component.planned.kind == "publisher"
    exported = record.compiled.exported if record.compiled is not None and leaves else ()
    outside = {binding.stream: binding.event_stream for binding in exported}
    return tuple(
        StreamOut(
            stream=stream,
            consumers=() if leaves else _consumers(topology, component, stream),
            event_stream=outside.get(stream, ""),
            emitted=metrics.emitted.get(stream, 0),
            transferred=component.transferred({stream: metrics.emitted.get(stream, 0)})[stream],
            emitted_per_second=per_second(metrics.emitted.get(stream, 0), metrics.covered_ms / 1_000),
        )
        for stream in component.planned.outputs
    )


def _consumers(topology: StormTopology, producer: StormComponent, stream: str) -> tuple[str, ...]:
    return tuple(
        one.name
        for one in topology.components
        if one is not producer
        and one.planned.kind not in ("receiver", "trigger")
        and producer.planned.feeds(one.planned, stream)
    )
