"""Storm's answers on one topology. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cep_manager.history.windowed_metrics import added_up
from cep_manager.monitoring.cluster_model import Overview
from cep_manager.monitoring.storm_topology.model import Slots, StormTopology
from cep_manager.monitoring.storm_topology.texts import WINDOWS, StormWindow, decimal
from cep_manager.web.storm_api.rows import component_row, sampling_percent, topology_row, worker_row
from cep_manager.web.storm_api.visualization import visualization_table


def topology_page(
    overview: Overview, topology: StormTopology, slots: Iterable[Slots], window: StormWindow
) -> dict[str, Any]:
    """`GET /topology/ID`."""
    row = topology_row(topology, overview.now_ms)
    monotonic_ms = overview.snapshot.now_ms
    rows = [
        (component.is_spout, component_row(component, window, monotonic_ms, overview.now_ms))
        for component in topology.components
    ]
    return {
        **row,
        "user": None,
        "msgTimeout": overview.manager.lease_ms // 1_000,
        "window": window.written,
        "windowHint": window.hint,
        "debug": topology.record.traced(),
        "samplingPct": sampling_percent(topology),
        "requestedRegularOnHeapMem": row["requestedMemOnHeap"],
        "requestedSharedOnHeapMem": 0.0,
        "requestedRegularOffHeapMem": 0.0,
        "requestedSharedOffHeapMem": 0.0,
        "assignedRegularOnHeapMem": row["assignedMemOnHeap"],
        "assignedSharedOnHeapMem": 0.0,
        "assignedRegularOffHeapMem": 0.0,
        "assignedSharedOffHeapMem": 0.0,
        "schedulerDisplayResource": False,
        "bugtracker-url": None,
        "central-log-url": None,
        "topologyStats": [_totals(topology, one, monotonic_ms) for one in WINDOWS],
        "workers": list(workers(topology, slots)),
        "spouts": [row for is_spout, row in rows if is_spout],
        "bolts": [row for is_spout, row in rows if not is_spout],
        "configuration": _configuration(overview, topology),
        "visualizationTable": visualization_table(topology),
    }


def _totals(topology: StormTopology, window: StormWindow, monotonic_ms: int) -> dict[str, Any]:
    """Return a row of the topology's statistics.

    Events are acknowledged where they came in; one that a stage dropped as too late has failed.
    """
    measured = [(component, component.metrics(window, monotonic_ms)) for component in topology.components]
    spouts = added_up(metrics for component, metrics in measured if component.planned.kind == "receiver")
    return {
        "windowPretty": window.hint,
        "window": window.written,
        "emitted": sum(metrics.events_emitted() for _, metrics in measured),
        "transferred": sum(sum(component.transferred(metrics.emitted).values()) for component, metrics in measured),
        "completeLatency": decimal(spouts.stay_latency_ms()),
        "acked": sum(spouts.latencies.values()),
        "failed": sum(metrics.dropped for _, metrics in measured),
    }


def workers(topology: StormTopology, slots: Iterable[Slots]) -> Iterator[dict[str, Any]]:
    """Yield the topology's tasks; those on no executor that the driver knows have no supervisor."""
    places = {id(task): one.executor.executor for one in slots for _, task in one.tasks}
    return (worker_row(topology, task, places.get(id(task), "")) for task in topology.tasks)


def _configuration(overview: Overview, topology: StormTopology) -> dict[str, Any]:
    record = topology.record
    return {
        "topology.name": topology.key.topology(),
        "topology.workers": record.workers,
        "topology.debug": record.traced(),
        "topology.message.timeout.secs": overview.manager.lease_ms // 1_000,
        "topology.worker.memory.bytes": record.compiled.memory_bytes if record.compiled is not None else 0,
        "topology.worker.cores": topology.cores,
        "topology.description": record.compiled.description if record.compiled is not None else "",
    }


def topology_workers(topology: StormTopology) -> dict[str, Any]:
    """`GET /topology-workers/ID`: where its tasks run."""
    places = [{"host": task.latest.host, "port": task.latest.task} for task in topology.tasks]
    return {"hostPortList": places, "logviewerPort": 0, "logviewerScheme": "http"}
