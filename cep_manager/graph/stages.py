"""The stages of the live graph: one node for each instance that the query plan asks for. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from cep_common.ids import PlanKey, instance_name
from cep_common.protocol.tasks import ComponentReport, RegisterTask, StreamCount
from cep_manager.control.members import ClusterMember
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.graph.model import GraphEdge, GraphNode
from cep_manager.history.counter_history import CounterHistory
from cep_manager.history.windowed_metrics import CAPACITY_WINDOW_S, WindowMetrics, window_metrics
from cep_manager.monitoring.rates import per_second
from cep_manager.plans.compiled_plan import CompiledPlan, PlannedComponent

MOST_EDGES = 4_000


class DrawnInstance(msgspec.Struct, frozen=True):
    """A planned stage instance with the task that reports it, if any does."""

    id: str
    component: PlannedComponent
    task: ClusterMember[RegisterTask] | None
    report: ComponentReport | None
    live: bool
    history: CounterHistory | None = None


def component_layers(compiled: CompiledPlan) -> dict[str, int]:
    """Return the layer of each stage: one more than the deepest stage that feeds it; receivers are in layer 1.

    Stages that feed each other in a cycle are placed in the query plan's order.
    """
    layers: dict[str, int] = {}
    written: dict[str, int] = {}
    """The deepest layer so far that writes each stream."""
    for component in compiled.components:
        # A carried stream comes from the receiver, in layer 1.
        linked = (stream for stream in component.inputs if stream in written and stream not in component.carried)
        before = max((written[stream] for stream in linked), default=1)
        layers[component.name] = 1 if component.kind in ("receiver", "trigger") else 1 + before
        for stream in component.outputs:
            written[stream] = max(written.get(stream, 0), layers[component.name])
    publishers = {component.name for component in compiled.components if component.kind == "publisher"}
    deepest = max((layer for name, layer in layers.items() if name not in publishers), default=1)
    return {name: deepest + 1 if name in publishers else layer for name, layer in layers.items()}


def drawn(instances: tuple[DrawnInstance, ...]) -> tuple[DrawnInstance, ...]:
    """Return the instances to draw: all, or only the first of each component.

    The limit keeps the picture readable and the list of edges, which connect each instance with each, short enough.
    """
    components = list({id(one.component): one.component for one in instances}.values())
    shown = max((one.parallel for one in components), default=1)
    while shown > 1 and _edges(components, shown) > MOST_EDGES:
        shown //= 2
    left = {id(one): min(one.parallel, shown) for one in components}
    found = []
    for instance in instances:
        if left[id(instance.component)]:
            left[id(instance.component)] -= 1
            found.append(instance)
    return tuple(found)


def _edges(components: list[PlannedComponent], shown: int) -> int:
    """Return the number of edges between the first `shown` instances of each component."""
    written: dict[str, int] = {}
    for one in components:
        if one.kind != "publisher":
            for stream in one.outputs:
                written[stream] = written.get(stream, 0) + min(one.parallel, shown)
    return sum(min(one.parallel, shown) * written.get(stream, 0) for one in components for stream in one.inputs)


def stage_instances(snapshot: ClusterSnapshot, key: PlanKey, compiled: CompiledPlan) -> Iterator[DrawnInstance]:
    """Yield the instances of all stages of the plan, with what their tasks report."""
    reported = {
        report.instance: (task, report) for task in snapshot.tasks.get(key, ()) for report in task.latest.components
    }
    histories = snapshot.histories.get(key, {})
    for planned in planned_instances(compiled):
        task, report = reported.get(planned.id, (None, None))
        live = task is not None and task.live(snapshot.now_ms, snapshot.lease_ms)
        yield DrawnInstance(planned.id, planned.component, task, report, live, histories.get(planned.id))


def planned_instances(compiled: CompiledPlan) -> Iterator[DrawnInstance]:
    """Every instance that the query plan asks for, in no task."""
    for component in compiled.components:
        for index in range(component.parallel):
            yield DrawnInstance(instance_name(component.name, index), component, task=None, report=None, live=False)


def stage_node(instance: DrawnInstance, layer: int, now_ms: int) -> GraphNode:
    """Return the node of an instance; `now_ms` is the monotonic time."""
    task, report, component = instance.task, instance.report, instance.component.name
    if task is None or report is None:
        return GraphNode(instance.id, instance.component.kind, instance.id, layer, "expected", component=component)
    name = instance.id
    lately = (
        window_metrics(instance.history, CAPACITY_WINDOW_S, now_ms) if instance.history is not None else WindowMetrics()
    )
    busy = per_second(task, _counter(name, lambda one: one.busy_ms)) / 1_000
    return GraphNode(
        id=name,
        kind=instance.component.kind,
        label=name,
        layer=layer,
        state="live" if instance.live else "silent",
        host=task.latest.host,
        task=task.latest.task,
        process_id=task.latest.process_id,
        received=_total(report.received),
        emitted=_total(report.emitted),
        received_per_second=_live_rate(instance, lambda one: _total(one.received)),
        emitted_per_second=_live_rate(instance, lambda one: _total(one.emitted)),
        waiting=report.queued_events,
        dropped=report.dropped_events,
        busy=round(min(1.0, busy), 4) if instance.live else 0.0,
        last_error=report.last_error,
        streams_received=report.received,
        streams_emitted=report.emitted,
        component=component,
        capacity=round(lately.busy_share(), 4),
        process_ms=lately.stay_latency_ms(),
    )


def _live_rate(instance: DrawnInstance, counter: Callable[[ComponentReport], int]) -> float:
    """Return the rate of a counter of the instance; 0.0 when it is not live."""
    if instance.task is None or not instance.live:
        return 0.0
    return per_second(instance.task, _counter(instance.id, counter))


def _counter(name: str, counter: Callable[[ComponentReport], int]) -> Callable[[RegisterTask], int | None]:
    """Return a reader of one counter of instance `name`; it gives None for a report without the instance."""

    def counted(latest: RegisterTask) -> int | None:
        found = next((report for report in latest.components if report.instance == name), None)
        return counter(found) if found is not None else None

    return counted


def _total(counts: tuple[StreamCount, ...]) -> int:
    return sum(count.events for count in counts)


def _of_stream(counts: tuple[StreamCount, ...], stream: str) -> int:
    return sum(count.events for count in counts if count.stream == stream)


def stage_edges(instances: tuple[DrawnInstance, ...]) -> Iterator[GraphEdge]:
    """Yield the edges between instances; some of these may be hidden."""
    writers: dict[str, list[DrawnInstance]] = {}
    for one in instances:
        if one.component.kind != "publisher":
            for stream in dict.fromkeys(one.component.outputs):
                writers.setdefault(stream, []).append(one)
    for consumer in instances:
        for stream in consumer.component.inputs:
            producers = [
                one
                for one in writers.get(stream, ())
                if one.component is not consumer.component and one.component.feeds(consumer.component, stream)
            ]
            planned = sum(one.parallel for one in {id(one.component): one.component for one in producers}.values())
            for producer in producers:
                yield _stage_edge(producer, consumer, stream, planned, consumer.component.parallel)


def _stage_edge(
    producer: DrawnInstance, consumer: DrawnInstance, stream: str, producers: int, siblings: int
) -> GraphEdge:
    linked = producer.report is not None and consumer.id in producer.report.peers
    together = producer.task is not None and consumer.task is producer.task
    events: int | None = None
    rate: float | None = None
    if producers == 1:
        events = _of_stream(consumer.report.received, stream) if consumer.report else 0
        rate = _live_rate(consumer, lambda one: _of_stream(one.received, stream))
    elif siblings == 1:
        events = _of_stream(producer.report.emitted, stream) if producer.report else 0
        rate = _live_rate(producer, lambda one: _of_stream(one.emitted, stream))
    return GraphEdge(
        source=producer.id,
        target=consumer.id,
        stream=stream,
        connected=producer.live and consumer.live and (linked or together),
        events=events,
        events_per_second=rate,
        grouping=consumer.component.grouping(stream) if consumer.component.parallel > 1 else "",
    )
