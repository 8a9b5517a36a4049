"""A plan's page: all of its topology at one moment. Pure: derived from an overview."""

from __future__ import annotations

from cep_common.ids import PlanKey
from cep_common.monitoring.latency import percentile_ms
from cep_manager.checkpoints.view import checkpoint_list, usable_savepoints
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.graph.ends import connections
from cep_manager.graph.topology_view.model import (
    LastCheckpoint,
    TaskPlace,
    TopologyHead,
    TopologyView,
    WindowName,
    WindowTotal,
)
from cep_manager.graph.topology_view.stages import WINDOW_OF, per_second, stage_of
from cep_manager.history.samples import NONE
from cep_manager.history.windowed_metrics import added_up
from cep_manager.monitoring.cluster_model import Overview
from cep_manager.monitoring.status import plan_status, topology_up_ms, worker_reports
from cep_manager.monitoring.storm_topology.model import StormTopology, topology_of
from cep_manager.plans.record import PlanRecord


def topology_head(overview: Overview, key: PlanKey) -> TopologyHead:
    """Return the head of a deployed plan's page. KeyError when it is not deployed."""
    return _head(overview, topology_of(overview.snapshot, overview.snapshot.plans[key]))


def topology_view(overview: Overview, key: PlanKey, window: WindowName) -> TopologyView:
    """Return the page of a deployed plan; without stages when its text cannot be compiled.

    KeyError when it is not deployed.
    """
    snapshot = overview.snapshot
    topology = topology_of(snapshot, snapshot.plans[key])
    head = _head(overview, topology)
    return TopologyView(
        **{field: getattr(head, field) for field in head.__struct_fields__},
        window=window,
        windows=tuple(_total(topology, name, snapshot.now_ms) for name in WINDOW_OF),
        stages=tuple(stage_of(one, window, snapshot.now_ms, overview.now_ms) for one in topology.components),
        connections=tuple(connections(worker_reports(snapshot, key, head.epoch))),
    )


def _head(overview: Overview, topology: StormTopology) -> TopologyHead:
    snapshot, record = overview.snapshot, topology.record
    key = record.key
    return TopologyHead(
        plan=key.plan,
        tenant=key.tenant,
        topology=key.topology(),
        identifier=topology.identifier,
        description=record.compiled.description if record.compiled is not None else "",
        epoch=record.epoch,
        created_ms=record.stored.created_ms,
        updated_ms=record.stored.updated_ms,
        up_ms=topology_up_ms(snapshot, key),
        status=plan_status(snapshot, key),
        delivery=record.compiled.delivery if record.compiled is not None else "at-least-once",
        workers=record.workers,
        executors=topology.executors(),
        tasks=sum(component.planned.parallel for component in topology.components),
        restart_reason=record.interruption if record.restarts else "",
        last_checkpoint=_last_checkpoint(snapshot, record),
        savepoints=tuple(usable_savepoints(snapshot, key)),
        places=_places(snapshot, record),
        samples=snapshot.samples.get(key, NONE).running(snapshot.now_ms),
    )


def _last_checkpoint(snapshot: ClusterSnapshot, record: PlanRecord) -> LastCheckpoint | None:
    checkpoints = checkpoint_list(snapshot, record.key, record.epoch).checkpoints
    one = next((one for one in reversed(checkpoints) if one.state == "complete"), None)
    return LastCheckpoint(one.checkpoint, one.began_ms, one.duration_ms, one.size_bytes) if one is not None else None


def _total(topology: StormTopology, window: WindowName, monotonic_ms: int) -> WindowTotal:
    measured = [(stage, stage.metrics(WINDOW_OF[window], monotonic_ms)) for stage in topology.components]
    received = added_up(metrics for stage, metrics in measured if stage.planned.kind == "receiver")
    emitted = added_up(metrics for stage, metrics in measured if stage.planned.kind == "publisher")
    covered_ms = max((metrics.covered_ms for _, metrics in measured), default=0)
    p50_ms, p95_ms, p99_ms = (percentile_ms(received.latencies, share) for share in (0.5, 0.95, 0.99))
    return WindowTotal(
        window=window,
        covered_ms=covered_ms,
        received=received.events_received(),
        emitted=emitted.events_emitted(),
        transferred=sum(sum(stage.transferred(metrics.emitted).values()) for stage, metrics in measured),
        dropped=sum(metrics.dropped for _, metrics in measured),
        received_per_second=per_second(received.events_received(), covered_ms / 1_000),
        emitted_per_second=per_second(emitted.events_emitted(), covered_ms / 1_000),
        mean_ms=received.stay_latency_ms(),
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        p99_ms=p99_ms,
    )


def _places(snapshot: ClusterSnapshot, record: PlanRecord) -> tuple[TaskPlace, ...]:
    return tuple(
        TaskPlace(
            task=task.latest.task,
            host=task.latest.host,
            process_id=task.latest.process_id,
            live=task.live(snapshot.now_ms, snapshot.lease_ms),
            up_ms=task.latest.up_ms,
            memory_bytes=task.latest.memory_bytes,
            cpu_ms=task.latest.cpu_ms,
            instances=tuple(component.instance for component in task.latest.components),
        )
        for task in snapshot.tasks.get(record.key, ())
    )
