"""What the clients of a plan's stream get. Pure."""

from __future__ import annotations

import msgspec

from cep_common.ids import PlanKey
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.graph.model import GraphConnection, GraphEdge, GraphNode
from cep_manager.graph.topology_graph import topology_graph
from cep_manager.monitoring.status import PlanStatus, plan_status


class LivePlanView(msgspec.Struct, frozen=True):
    """A plan's status and its live graph: nodes by their ids, edges by `SOURCE TARGET STREAM`."""

    plan: str
    tenant: int
    epoch: int
    status: PlanStatus
    nodes: dict[str, GraphNode]
    edges: dict[str, GraphEdge]
    connections: tuple[GraphConnection, ...]


def live_plan_view(snapshot: ClusterSnapshot, key: PlanKey) -> LivePlanView:
    """Return the plan at the moment of the snapshot. Raises UnknownPlanError."""
    record = snapshot.record(key)
    graph = topology_graph(snapshot, key)
    return LivePlanView(
        plan=key.plan,
        tenant=key.tenant,
        epoch=record.epoch,
        status=plan_status(snapshot, key),
        nodes={node.id: node for node in graph.nodes},
        edges={f"{edge.source} {edge.target} {edge.stream}": edge for edge in graph.edges},
        connections=graph.connections,
    )
