"""The ends of the live graph: streams at workers, and the connections between workers and stages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cep_common.protocol.registry import Connector, RegisterWorker, StreamBinding, WorkerPlanReport
from cep_common.protocol.worker_reports import PublisherReport
from cep_manager.control.members import ClusterMember
from cep_manager.graph.model import GraphConnection, GraphEdge, GraphNode
from cep_manager.graph.stages import DrawnInstance
from cep_manager.monitoring.degraded import degraded_parts
from cep_manager.monitoring.rates import per_second
from cep_manager.monitoring.status import WorkerReports
from cep_manager.plans.compiled_plan import CompiledPlan


def source_nodes(compiled: CompiledPlan, workers: WorkerReports) -> tuple[GraphNode, ...]:
    """Return a node for each imported stream at each worker; one without a worker while there is none."""
    return tuple(
        _source_node(binding, kinds, worker, report)
        for binding, kinds in _with_connectors(compiled.imported, compiled.sources)
        for worker, report in workers or ((None, None),)
    )


def sink_nodes(compiled: CompiledPlan, workers: WorkerReports, layer: int) -> tuple[GraphNode, ...]:
    """Return a node for each exported stream at each worker; one without a worker while there is none."""
    return tuple(
        _sink_node(binding, kinds, worker, report, layer)
        for binding, kinds in _with_connectors(compiled.exported, compiled.sinks)
        for worker, report in workers or ((None, None),)
    )


def _with_connectors(
    bindings: tuple[StreamBinding, ...], connectors: tuple[Connector, ...]
) -> Iterator[tuple[StreamBinding, tuple[str, ...]]]:
    for binding in bindings:
        yield binding, tuple(connector.type for connector in connectors if connector.stream == binding.stream)


def _source_node(
    binding: StreamBinding,
    kinds: tuple[str, ...],
    worker: ClusterMember[RegisterWorker] | None,
    report: WorkerPlanReport | None,
) -> GraphNode:
    if worker is None or report is None:
        return GraphNode(
            _source(None, binding.stream),
            "source",
            binding.event_stream,
            0,
            "expected",
            connectors=kinds,
            stream=binding.stream,
        )
    sent, waiting = _sent(report, binding.stream)
    error = _failing(worker, report, "source", binding.stream)
    return GraphNode(
        id=_source(worker.latest.worker, binding.stream),
        kind="source",
        label=binding.event_stream,
        layer=0,
        state="failing" if error else "live",
        last_error=error,
        stream=binding.stream,
        host=worker.latest.host,
        process_id=worker.latest.process_id,
        emitted=sent,
        emitted_per_second=_sent_rate(worker, report, binding.stream),
        waiting=waiting,
        connectors=kinds,
    )


def _sink_node(
    binding: StreamBinding,
    kinds: tuple[str, ...],
    worker: ClusterMember[RegisterWorker] | None,
    report: WorkerPlanReport | None,
    layer: int,
) -> GraphNode:
    if worker is None or report is None:
        return GraphNode(
            _sink(None, binding.stream),
            "sink",
            binding.event_stream,
            layer,
            "expected",
            connectors=kinds,
            stream=binding.stream,
        )
    error = _failing(worker, report, "sink", binding.stream)
    return GraphNode(
        id=_sink(worker.latest.worker, binding.stream),
        kind="sink",
        label=binding.event_stream,
        layer=layer,
        state="failing" if error else "live",
        stream=binding.stream,
        host=worker.latest.host,
        process_id=worker.latest.process_id,
        received=_delivered(report, binding.stream),
        received_per_second=_rate(worker, report, lambda one: _delivered(one, binding.stream)),
        waiting=_waiting(report, binding.stream),
        last_error=error,
        connectors=kinds,
    )


def inflow_edges(
    sources: tuple[GraphNode, ...], instances: tuple[DrawnInstance, ...], workers: WorkerReports
) -> Iterator[GraphEdge]:
    """Return an edge for each inflow connection.

    Sources without one get a severed edge to the first receiver.
    """
    receivers = [instance.id for instance in instances if instance.component.kind == "receiver"]
    streams = {source.id: source.stream for source in sources}
    linked = set()
    for worker, report in workers:
        for connection in report.inflow:
            source = _source(worker.latest.worker, connection.stream)
            if source in streams and connection.receiver in receivers:
                linked.add(source)
                rate = _sent_rate(worker, report, connection.stream)
                yield GraphEdge(
                    source=source,
                    target=connection.receiver,
                    stream=connection.stream,
                    connected=connection.connected,
                    events=connection.sent_events,
                    events_per_second=rate,
                    under_way=connection.in_flight_rows,
                    window=connection.window_rows,
                )
    for source, stream in streams.items():
        if source not in linked and receivers:
            yield GraphEdge(source, receivers[0], stream, connected=False)


def outflow_edges(
    sinks: tuple[GraphNode, ...], instances: tuple[DrawnInstance, ...], workers: WorkerReports
) -> Iterator[GraphEdge]:
    """Return an edge for each outflow connection and stream.

    Sinks without one get a severed edge from the first publisher.
    """
    publishers = [instance for instance in instances if instance.component.kind == "publisher"]
    streams = {sink.id: sink.stream for sink in sinks}
    linked = set()
    for worker, report in workers:
        mine = [publisher for publisher in publishers if publisher.id in report.publishers]
        for publisher in mine:
            for stream in publisher.component.inputs:
                sink = _sink(worker.latest.worker, stream)
                linked.add(sink)
                alone = len(mine) == 1
                yield GraphEdge(
                    source=publisher.id,
                    target=sink,
                    stream=stream,
                    connected=publisher.live,
                    events=_got(report, stream) if alone else None,
                    events_per_second=_got_rate(worker, report, stream) if alone else None,
                    under_way=_link(report, publisher.id).in_flight_rows,
                    window=_link(report, publisher.id).window_rows,
                )
    for sink, stream in streams.items():
        if sink not in linked and publishers:
            yield GraphEdge(publishers[0].id, sink, stream, connected=False)


def connections(workers: WorkerReports) -> Iterator[GraphConnection]:
    """Every connection between a worker and the topology, worker by worker."""
    for worker, report in workers:
        name, host = worker.latest.worker, worker.latest.host
        for inflow in report.inflow:
            yield GraphConnection(
                direction="inflow",
                worker=name,
                host=host,
                what=inflow.stream,
                peer=inflow.receiver,
                connected=inflow.connected,
                events=inflow.sent_events,
                waiting=inflow.waiting_events,
                events_per_second=_sent_rate(worker, report, inflow.stream),
                under_way=inflow.in_flight_rows,
                window=inflow.window_rows,
            )
        received = sum(outflow.received_events for outflow in report.outflow)
        for publisher in report.publishers:
            # The worker counts by stream; with several publishers it cannot be determined who sent what.
            alone, link = len(report.publishers) == 1, _link(report, publisher)
            yield GraphConnection(
                direction="outflow",
                worker=name,
                host=host,
                what=publisher,
                peer=publisher,
                connected=True,
                events=received if alone else None,
                waiting=0,
                events_per_second=_all_got_rate(worker, report) if alone else None,
                under_way=link.in_flight_rows,
                window=link.window_rows,
            )


def _failing(worker: ClusterMember[RegisterWorker], report: WorkerPlanReport, direction: str, stream: str) -> str:
    """Return the error of a source or sink of the stream at the worker; empty if there is none."""
    parts = degraded_parts(report.key, ((worker, report),))
    return next((part.error for part in parts if (part.kind, part.stream) == (direction, stream)), "")


def _source(worker: str | None, stream: str) -> str:
    return f"source:{worker or ''}:{stream}"


def _sink(worker: str | None, stream: str) -> str:
    return f"sink:{worker or ''}:{stream}"


def _sent(report: WorkerPlanReport, stream: str) -> tuple[int, int]:
    """Return events sent and waiting, over all connections that carry `stream`."""
    mine = [connection for connection in report.inflow if connection.stream == stream]
    return sum(one.sent_events for one in mine), sum(one.waiting_events for one in mine)


def _sent_rate(worker: ClusterMember[RegisterWorker], report: WorkerPlanReport, stream: str) -> float:
    """Return an inflow outlives its epoch, and counts on."""

    def sent(latest: RegisterWorker) -> int | None:
        found = next((one for one in latest.plans if one.key == report.key), None)
        known = found is not None and any(one.stream == stream for one in found.inflow)
        return _sent(found, stream)[0] if found is not None and known else None

    return per_second(worker, sent)


def _got(report: WorkerPlanReport, stream: str) -> int:
    return sum(outflow.received_events for outflow in report.outflow if outflow.stream == stream)


def _delivered(report: WorkerPlanReport, stream: str) -> int:
    return sum(outflow.delivered_events for outflow in report.outflow if outflow.stream == stream)


def _waiting(report: WorkerPlanReport, stream: str) -> int:
    """Return how many events wait for the stream's sinks in memory, and for the plan's sinks on disk."""
    prepared = report.prepared.events if report.prepared is not None else 0
    return prepared + sum(outflow.waiting_events for outflow in report.outflow if outflow.stream == stream)


def _rate(
    worker: ClusterMember[RegisterWorker], report: WorkerPlanReport, counted: Callable[[WorkerPlanReport], int]
) -> float:
    """Return the rate of a counter of the plan at the worker, over those of its reports that name the plan."""

    def counter(latest: RegisterWorker) -> int | None:
        found = next((one for one in latest.plans if one.key == report.key), None)
        return counted(found) if found is not None else None

    return per_second(worker, counter)


def _got_rate(worker: ClusterMember[RegisterWorker], report: WorkerPlanReport, stream: str) -> float:
    return _rate(worker, report, lambda one: _got(one, stream))


def _all_got_rate(worker: ClusterMember[RegisterWorker], report: WorkerPlanReport) -> float:
    return _rate(worker, report, lambda one: sum(outflow.received_events for outflow in one.outflow))


def _link(report: WorkerPlanReport, publisher: str) -> PublisherReport:
    """Return the worker's report on the publisher's link."""
    return next((link for link in report.links if link.instance == publisher), PublisherReport(publisher, 0, 0))
