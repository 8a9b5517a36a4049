"""The event flow of a tenant: sources → event streams → plans → event streams → sinks, as one graph. Pure.

A stream that one plan exports and another imports is two nodes, one on each side, and an edge between them; so are the
sinks and sources that meet over a topic (`inMemory`). Outside cycles, a plan is drawn behind the plans that feed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.registry import Connector, StreamBinding
from cep_common.protocol.worker_reports import ConnectorReport
from cep_manager.control.members import undelivered_results
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.graph.ends import sink_nodes, source_nodes
from cep_manager.graph.model import NodeState
from cep_manager.monitoring.degraded import degraded_parts
from cep_manager.monitoring.status import WorkerReports, plan_status, worker_reports
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.state import PlanState
from query_plan.connectors.distribution import destinations_of

FlowKind = Literal["source", "stream", "plan", "sink"]

_SOURCES, _IMPORTED, _PLANS, _EXPORTED, _SINKS = range(5)
_DEPTH_LAYERS = 5
"""All that belongs to a plan precedes what belongs to those that it feeds."""
_IN_MEMORY = "inMemory"
_RUNNING = (
    PlanState.ACTIVE,
    PlanState.DEGRADED,
    PlanState.INACTIVE,
    PlanState.UPDATING,
    PlanState.REBALANCING,
    PlanState.DRAINING,
)


class FlowNode(msgspec.Struct, frozen=True):
    """A node of the event flow.

    It is a source or sink of a plan (`label` is its type, `stream` its event stream), an event stream with its
    `attributes` (those of the first plan by name that uses it), or a plan (`words` is its state).

    Events are counted by workers since they started; for what leaves a plan, delivered events count. Rates are events
    per second over the last seconds. `waiting` events wait for a sink. `problem` is the error of a source, sink or plan
    since the time of day `since_ms` (0: not known).
    """

    id: str
    kind: FlowKind
    label: str
    layer: int
    state: NodeState
    plan: str = ""
    stream: str = ""
    words: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    events: int = 0
    events_per_second: float = 0.0
    emitted: int = 0
    emitted_per_second: float = 0.0
    waiting: int = 0
    problem: str = ""
    since_ms: int = 0


class FlowEdge(msgspec.Struct, frozen=True):
    """Events go from one node to another; `events` is None if they are not counted."""

    source: str
    target: str
    stream: str
    connected: bool
    events: int | None = None
    events_per_second: float | None = None


class EventFlow(msgspec.Struct, frozen=True):
    """The graph of a tenant at one moment; plans whose text no longer compiles have no streams."""

    tenant: int
    nodes: tuple[FlowNode, ...]
    edges: tuple[FlowEdge, ...]


class _Counted(msgspec.Struct, frozen=True):
    events: int = 0
    rate: float = 0.0

    def __add__(self, other: _Counted) -> _Counted:
        return _Counted(self.events + other.events, self.rate + other.rate)


class _FlowBuilder:
    """Collects nodes in order of their first mention, and edges; `depths` is the number of plans before each."""

    def __init__(self, depths: dict[str, int]) -> None:
        self.nodes: dict[str, FlowNode] = {}
        self.edges: list[FlowEdge] = []
        self._depths = depths
        self._giving: dict[str, list[str]] = {}
        """The nodes that feed plans, by topic; nodes that are fed by plans are in the other dictionary."""
        self._taking: dict[str, list[str]] = {}

    def add_plan(self, snapshot: ClusterSnapshot, key: PlanKey) -> None:
        record = snapshot.plans[key]
        topology = plan_status(snapshot, key).topology
        state, problem = topology.state, topology.reason
        shown: NodeState = "live" if state in _RUNNING else "silent" if state is PlanState.FAILED else "expected"
        if state is PlanState.DEGRADED:
            shown = "failing"
        plan = f"plan:{key.plan}"
        words, layer = state.value, self._layer(key.plan, _PLANS)
        if record.compiled is None:
            self.nodes[plan] = FlowNode(plan, "plan", key.plan, layer, shown, key.plan, words=words, problem=problem)
            return
        workers = worker_reports(snapshot, key, record.epoch)
        sent = _sums(
            (node.stream, node.emitted, node.emitted_per_second) for node in source_nodes(record.compiled, workers)
        )
        got = _sums(
            (node.stream, node.received, node.received_per_second) for node in sink_nodes(record.compiled, workers, 0)
        )
        into, out = _whole(sent), _whole(got)
        self.nodes[plan] = FlowNode(
            plan, "plan", key.plan, layer, shown, key.plan, "", words, (), into.events, into.rate, out.events, out.rate,
            sum(undelivered_results(report) for _, report in workers), problem,
        )  # fmt: skip
        self._add_ends(key, record.compiled, sent, got, workers, shown in ("live", "failing"))

    def _add_ends(
        self,
        key: PlanKey,
        compiled: CompiledPlan,
        sent: dict[str, _Counted],
        got: dict[str, _Counted],
        workers: WorkerReports,
        live: bool,
    ) -> None:
        plan = key.plan
        for bound in compiled.imported:
            stream = self._stream("imported", bound, self._layer(plan, _IMPORTED), sent[bound.stream], live)
            self._edge(stream, f"plan:{plan}", bound.event_stream, sent[bound.stream], live)
            for end in self._connectors("source", key, bound, compiled.sources, workers, live):
                self.edges.append(FlowEdge(end, stream, bound.event_stream, live))
        for bound in compiled.exported:
            stream = self._stream("exported", bound, self._layer(plan, _EXPORTED), got[bound.stream], live)
            self._edge(f"plan:{plan}", stream, bound.event_stream, got[bound.stream], live)
            for end in self._connectors("sink", key, bound, compiled.sinks, workers, live):
                self.edges.append(FlowEdge(stream, end, bound.event_stream, live))

    def add_feeds(self) -> None:
        """Edge between what some plans give and others take."""
        for topic, givers in self._giving.items():
            for giver in givers:
                for taker in self._taking.get(topic, ()):
                    gives, takes = self.nodes[giver], self.nodes[taker]
                    live = gives.state == takes.state == "live"
                    fits = sorted(gives.attributes) == sorted(takes.attributes)  # connectors have none
                    self.edges.append(FlowEdge(giver, taker, gives.stream, live and fits))

    def _layer(self, plan: str, layer: int) -> int:
        return _DEPTH_LAYERS * self._depths[plan] + layer

    def _edge(self, source: str, target: str, stream: str, counted: _Counted, live: bool) -> None:
        self.edges.append(FlowEdge(source, target, stream, live, counted.events, round(counted.rate, 3)))

    def _stream(self, side: str, bound: StreamBinding, layer: int, counted: _Counted, live: bool) -> str:
        """Return the node of an event stream, which plans share; its counts are the sum of theirs.

        It is drawn in front of all plans that import it, or behind all that export it.
        """
        id_ = f"{side}:{bound.event_stream}"
        before = self.nodes.get(id_)
        if before is not None:
            layer = (min if side == "imported" else max)(before.layer, layer)
        elif _named(bound):
            (self._taking if side == "imported" else self._giving).setdefault(_stream_topic(bound), []).append(id_)
        whole = counted + _Counted(before.events, before.events_per_second) if before else counted
        self.nodes[id_] = FlowNode(
            id=id_,
            kind="stream",
            label=bound.event_stream,
            layer=layer,
            state="live" if live or (before is not None and before.state == "live") else "expected",
            stream=bound.event_stream,
            words=side,
            attributes=before.attributes if before else bound.attributes,
            events=whole.events,
            events_per_second=round(whole.rate, 3),
        )
        return id_

    def _connectors(
        self,
        kind: Literal["source", "sink"],
        key: PlanKey,
        bound: StreamBinding,
        connectors: tuple[Connector, ...],
        workers: WorkerReports,
        live: bool,
    ) -> Iterator[str]:
        plan = key.plan
        layer = self._layer(plan, _SOURCES if kind == "source" else _SINKS)
        mine = [one for one in connectors if one.stream == bound.stream]
        for number, connector in enumerate(mine):
            id_ = f"{kind}:{plan}:{bound.stream}:{number}"
            twin = sum(one.type == connector.type for one in mine[:number])
            statuses = _statuses_of(kind, key, connector, twin, workers)
            failing = next((one for one in statuses if one.error), None)
            behind = sum(
                part.waiting_events
                for part in degraded_parts(key, workers)
                if (part.kind, part.type, part.stream) == (kind, connector.type, connector.stream)
            )
            state: NodeState = "failing" if failing else "live" if live else "expected"
            self.nodes[id_] = FlowNode(
                id_, kind, connector.type, layer, state, plan, bound.event_stream, connector.mapper,
                events=sum(one.delivered_events for one in statuses),
                waiting=max(behind, sum(one.waiting_events for one in statuses)),
                problem=failing.error if failing else "",
                since_ms=failing.since_ms if failing else 0,
            )  # fmt: skip
            if connector.type == _IN_MEMORY:
                ends = self._taking if kind == "source" else self._giving
                for topic in {_topic(one) for one in destinations_of(connector)}:
                    ends.setdefault(topic, []).append(id_)
            yield id_


def _statuses_of(
    direction: str, key: PlanKey, connector: Connector, twin: int, workers: WorkerReports
) -> list[ConnectorReport]:
    """Return the workers' reports on a source or sink of the plan.

    `twin` is its number among those of the same type and stream.
    """
    wanted = (direction, connector.type, key.tenant, key.plan, connector.stream)

    def is_it(one: ConnectorReport) -> bool:
        return (one.direction, one.type, one.tenant, one.plan, one.stream) == wanted

    alike = [[one for one in worker.latest.connectors if is_it(one)] for worker, _ in workers]
    return [found[twin] for found in alike if twin < len(found)]


def event_flow(snapshot: ClusterSnapshot, tenant: int) -> EventFlow:
    """Return the graph of all plans of `tenant`, in order of name."""
    keys = sorted(key for key in snapshot.plans if key.tenant == tenant)
    flow = _FlowBuilder(_depths({key.plan: snapshot.plans[key].compiled for key in keys}))
    for key in keys:
        flow.add_plan(snapshot, key)
    flow.add_feeds()
    return EventFlow(tenant, tuple(flow.nodes.values()), tuple(flow.edges))


def _sums(counted: Iterable[tuple[str, int, float]]) -> dict[str, _Counted]:
    """Return events and rates by stream, all workers together."""
    sums: dict[str, _Counted] = {}
    for stream, events, rate in counted:
        sums[stream] = sums.get(stream, _Counted()) + _Counted(events, rate)
    return sums


def _whole(sums: dict[str, _Counted]) -> _Counted:
    return sum(sums.values(), _Counted())


def _depths(plans: dict[str, CompiledPlan | None]) -> dict[str, int]:
    """Return for each plan the length of the longest chain of plans that feeds it.

    A cycle starts at the first of its plans that is not fed by others, or else at the first by name.
    """
    givers: dict[str, set[str]] = {}
    for plan, compiled in plans.items():
        for topic in _given(compiled) if compiled is not None else ():
            givers.setdefault(topic, set()).add(plan)
    feeders = {
        plan: set().union(*(givers.get(topic, ()) for topic in _taken(compiled))) - {plan} if compiled else set()
        for plan, compiled in plans.items()
    }
    depths: dict[str, int] = {}
    waiting = dict.fromkeys(plans)
    while waiting:
        fed = [plan for plan in waiting if feeders[plan] <= depths.keys()]
        begun = [plan for plan in waiting if feeders[plan] & depths.keys()]
        for plan in fed or begun[:1] or [next(iter(waiting))]:
            depths[plan] = max((depths[feeder] + 1 for feeder in feeders[plan] if feeder in depths), default=0)
            del waiting[plan]
    return depths


def _given(compiled: CompiledPlan) -> set[str]:
    """Return the topics to which the plan gives events."""
    streams = {_stream_topic(bound) for bound in compiled.exported if _named(bound)}
    sinks = (each for sink in compiled.sinks if sink.type == _IN_MEMORY for each in destinations_of(sink))
    return streams | {_topic(sink) for sink in sinks}


def _taken(compiled: CompiledPlan) -> set[str]:
    """Return the topics from which the plan takes events."""
    streams = {_stream_topic(bound) for bound in compiled.imported if _named(bound)}
    return streams | {_topic(source) for source in compiled.sources if source.type == _IN_MEMORY}


def _named(bound: StreamBinding) -> bool:
    """Workers feed the streams that `@Export` and `@Import` name, with a version, not those with an id in the plan."""
    return ":" in bound.event_stream


def _stream_topic(bound: StreamBinding) -> str:
    return f"event stream {bound.event_stream}"


def _topic(connector: Connector) -> str:
    return f"topic {connector.options.get('topic', '')}"
