"""The live graph of a topology: sources, stage instances, sinks, and what flows between them. Pure.

Every instance that the query plan asks for is a node from the first moment on, so that the picture keeps its shape
while tasks come and go.
"""

from __future__ import annotations

from cep_common.ids import PlanKey
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.graph.ends import connections, inflow_edges, outflow_edges, sink_nodes, source_nodes
from cep_manager.graph.model import TopologyGraph
from cep_manager.graph.stages import (
    DrawnInstance,
    component_layers,
    drawn,
    planned_instances,
    stage_edges,
    stage_instances,
    stage_node,
)
from cep_manager.monitoring.status import WorkerReports, worker_reports
from cep_manager.plans.compiled_plan import CompiledPlan


def topology_graph(snapshot: ClusterSnapshot, key: PlanKey) -> TopologyGraph:
    """Return the graph of a deployed plan; no nodes when its text cannot be compiled.

    KeyError when it is not deployed.
    """
    record = snapshot.plans[key]
    if record.compiled is None:
        return TopologyGraph(key.plan, key.tenant, record.epoch, (), (), ())
    workers = worker_reports(snapshot, key, record.epoch)
    instances = tuple(stage_instances(snapshot, key, record.compiled))
    return _graph(key, record.epoch, record.compiled, workers, instances, snapshot.now_ms)


def planned_graph(key: PlanKey, compiled: CompiledPlan) -> TopologyGraph:
    """Return the graph of a plan that is not deployed: everything is expected, nothing runs."""
    return _graph(key, 0, compiled, (), tuple(planned_instances(compiled)), 0)


def _graph(
    key: PlanKey,
    epoch: int,
    compiled: CompiledPlan,
    workers: WorkerReports,
    instances: tuple[DrawnInstance, ...],
    now_ms: int,
) -> TopologyGraph:
    layers, planned = component_layers(compiled), len(instances)
    instances = drawn(instances)
    sources = source_nodes(compiled, workers)
    sinks = sink_nodes(compiled, workers, layer=max(layers.values(), default=0) + 1)
    stages = tuple(stage_node(instance, layers[instance.component.name], now_ms) for instance in instances)
    edges = (
        *inflow_edges(sources, instances, workers),
        *stage_edges(instances),
        *outflow_edges(sinks, instances, workers),
    )
    return TopologyGraph(
        plan=key.plan,
        tenant=key.tenant,
        epoch=epoch,
        nodes=(*sources, *stages, *sinks),
        edges=edges,
        connections=tuple(connections(workers)),
        hidden_instances=planned - len(instances),
    )
