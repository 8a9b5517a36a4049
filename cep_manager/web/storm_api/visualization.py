"""Storm's graph of a topology. Pure."""

from __future__ import annotations

from typing import Any

from lxml import etree

from cep_manager.monitoring.cluster_model import Overview
from cep_manager.monitoring.storm_topology.model import StormComponent, StormExecutor, StormTopology
from cep_manager.monitoring.storm_topology.texts import WINDOWS, StormWindow, encoded, sanitised

IN_A_ROW = 4
_GROUPINGS = {"global": "GLOBAL", "shuffle": "SHUFFLE", "all": "ALL"}
"""The query plan's groupings and Storm's; whatever else is by fields."""


def visualization_table(topology: StormTopology) -> list[dict[str, Any]]:
    """Return the streams in rows of four, all chosen."""
    streams = sorted({stream for component in topology.components for stream in component.planned.outputs})
    boxes = [{":stream": stream, ":sani-stream": sanitised(stream), ":checked": True} for stream in streams]
    return [{":row": boxes[start : start + IN_A_ROW]} for start in range(0, len(boxes), IN_A_ROW)]


def visualization(overview: Overview, topology: StormTopology, window: StormWindow) -> dict[str, Any]:
    """`GET /topology/ID/visualization`: components by name."""
    groupings = _groupings(topology)
    return {
        component.name: _node(overview, topology, component, window, groupings) for component in topology.components
    }


def _node(
    overview: Overview,
    topology: StormTopology,
    component: StormComponent,
    window: StormWindow,
    groupings: dict[tuple[str, int], str],
) -> dict[str, Any]:
    monotonic_ms = overview.snapshot.now_ms
    metrics = component.metrics(window, monotonic_ms)
    latency_ms = metrics.stay_latency_ms()
    capacity = 0.0 if component.is_spout else component.capacity(monotonic_ms)
    return {
        ":type": "spout" if component.is_spout else "bolt",
        ":capacity": round(capacity, 3),
        ":latency": round(latency_ms, 3) if latency_ms is not None else 0.0,
        ":transferred": component.transferred(metrics.emitted),
        ":link": f"/plans/{encoded(topology.key.plan)}?tenant={topology.key.tenant}",
        ":stats": [_instance(component, one, monotonic_ms) for one in component.executors],
        ":inputs": [
            {
                ":component": producer,
                ":stream": stream,
                ":sani-stream": sanitised(stream),
                ":grouping": groupings.get((component.name, place), "GLOBAL"),
            }
            for place, stream in enumerate(component.planned.inputs)
            for producer in (() if component.is_spout else topology.producers(component, stream))
        ],
    }


def _instance(component: StormComponent, executor: StormExecutor, monotonic_ms: int) -> dict[str, Any]:
    return {
        ":host": executor.task.latest.host,
        ":port": executor.task.latest.task,
        ":uptime_secs": executor.task.latest.up_ms // 1_000,
        ":transferred": {
            window.written: {
                sanitised(stream): events
                for stream, events in component.transferred(executor.metrics(window, monotonic_ms).emitted).items()
            }
            for window in WINDOWS
        },
    }


def _groupings(topology: StormTopology) -> dict[tuple[str, int], str]:
    """Return how each processing stage groups its inputs, by stage and position of the input."""
    if topology.record.compiled is None:
        return {}
    plan = etree.fromstring(topology.record.compiled.query_plan.encode())
    return {
        (stage.get("name", ""), place): _GROUPINGS.get(stream.get("grouping", ""), "FIELDS")
        for stage in plan.iterfind("event-processor")
        for place, stream in enumerate(stage.iterfind("input-streams/stream"))
    }
