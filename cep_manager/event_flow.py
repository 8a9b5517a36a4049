"""The event flow of a tenant: sources → event streams → plans → event streams → sinks, as one graph. Pure.

A stream that one plan exports and another imports is two nodes: workers hand no events from plan to plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from cep_common.ids import PlanKey
from cep_common.messages import Connector, StreamBinding
from cep_manager.compiled_plan import CompiledPlan
from cep_manager.graph_ends import sink_nodes, source_nodes
from cep_manager.graph_model import NodeState
from cep_manager.plan_state import PlanState
from cep_manager.snapshot import Snapshot
from cep_manager.status import plan_status, worker_reports

FlowKind = Literal["source", "stream", "plan", "sink"]

_SOURCES, _IMPORTED, _PLANS, _EXPORTED, _SINKS = range(5)
_RUNNING = (PlanState.ACTIVE, PlanState.INACTIVE, PlanState.UPDATING, PlanState.REBALANCING)


class FlowNode(msgspec.Struct, frozen=True):
    """A source or sink of a plan (`label` is its type, `stream` its event stream), an event stream with its
    `attributes` (those of the first plan, in order of name, that is tied to it), or a plan (`words` is its state).

    Events are those that workers counted since they started; rates are events per second over the last seconds.
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


class FlowEdge(msgspec.Struct, frozen=True):
    """Events go from one node to another; `events` is None where nobody counts them."""

    source: str
    target: str
    stream: str
    connected: bool
    events: int | None = None
    events_per_second: float | None = None


class EventFlow(msgspec.Struct, frozen=True):
    """The graph of a tenant at one moment; plans whose text cannot be compiled any more have no streams."""

    tenant: int
    nodes: tuple[FlowNode, ...]
    edges: tuple[FlowEdge, ...]


class _Counted(msgspec.Struct, frozen=True):
    events: int = 0
    rate: float = 0.0

    def __add__(self, other: _Counted) -> _Counted:
        return _Counted(self.events + other.events, self.rate + other.rate)


class _Flow:
    """Collects nodes in order of their first mention, and edges."""

    def __init__(self) -> None:
        self.nodes: dict[str, FlowNode] = {}
        self.edges: list[FlowEdge] = []

    def add_plan(self, snapshot: Snapshot, key: PlanKey) -> None:
        record = snapshot.plans[key]
        state = plan_status(snapshot, key).topology.state
        shown: NodeState = "live" if state in _RUNNING else "silent" if state is PlanState.FAILED else "expected"
        plan = f"plan:{key.plan}"
        words = state.value
        if record.compiled is None:
            self.nodes[plan] = FlowNode(plan, "plan", key.plan, _PLANS, shown, key.plan, words=words)
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
            plan, "plan", key.plan, _PLANS, shown, key.plan, "", words, (), into.events, into.rate, out.events, out.rate
        )
        self._add_ends(key.plan, record.compiled, sent, got, shown == "live")

    def _add_ends(
        self, plan: str, compiled: CompiledPlan, sent: dict[str, _Counted], got: dict[str, _Counted], live: bool
    ) -> None:
        for bound in compiled.imported:
            stream = self._stream("imported", bound, _IMPORTED, sent[bound.stream], live)
            self._edge(stream, f"plan:{plan}", bound.event_stream, sent[bound.stream], live)
            for end in self._connectors("source", plan, bound, compiled.sources, _SOURCES, live):
                self.edges.append(FlowEdge(end, stream, bound.event_stream, live))
        for bound in compiled.exported:
            stream = self._stream("exported", bound, _EXPORTED, got[bound.stream], live)
            self._edge(f"plan:{plan}", stream, bound.event_stream, got[bound.stream], live)
            for end in self._connectors("sink", plan, bound, compiled.sinks, _SINKS, live):
                self.edges.append(FlowEdge(stream, end, bound.event_stream, live))

    def _edge(self, source: str, target: str, stream: str, counted: _Counted, live: bool) -> None:
        self.edges.append(FlowEdge(source, target, stream, live, counted.events, round(counted.rate, 3)))

    def _stream(self, side: str, bound: StreamBinding, layer: int, counted: _Counted, live: bool) -> str:
        """The node of an event stream, which plans share; its counts are theirs together."""
        id_ = f"{side}:{bound.event_stream}"
        before = self.nodes.get(id_)
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
        plan: str,
        bound: StreamBinding,
        connectors: tuple[Connector, ...],
        layer: int,
        live: bool,
    ) -> Iterator[str]:
        mine = [one for one in connectors if one.stream == bound.stream]
        for number, connector in enumerate(mine):
            id_ = f"{kind}:{plan}:{bound.stream}:{number}"
            state: NodeState = "live" if live else "expected"
            self.nodes[id_] = FlowNode(
                id_, kind, connector.type, layer, state, plan, bound.event_stream, connector.mapper
            )
            yield id_


def event_flow(snapshot: Snapshot, tenant: int) -> EventFlow:
    """The graph of all plans of `tenant`, in order of name."""
    flow = _Flow()
    for key in sorted(key for key in snapshot.plans if key.tenant == tenant):
        flow.add_plan(snapshot, key)
    return EventFlow(tenant, tuple(flow.nodes.values()), tuple(flow.edges))


def _sums(counted: Iterable[tuple[str, int, float]]) -> dict[str, _Counted]:
    """Events and rates by stream, all workers together."""
    sums: dict[str, _Counted] = {}
    for stream, events, rate in counted:
        sums[stream] = sums.get(stream, _Counted()) + _Counted(events, rate)
    return sums


def _whole(sums: dict[str, _Counted]) -> _Counted:
    return sum(sums.values(), _Counted())
