"""Storm's metrics of a topology by stream (`GET /topology/ID/metrics`). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cep_manager.history.windowed_metrics import WindowMetrics
from cep_manager.monitoring.cluster_model import Overview
from cep_manager.monitoring.storm_topology.model import StormComponent, StormTopology
from cep_manager.monitoring.storm_topology.texts import StormWindow, decimal
from cep_manager.web.storm_api.rows import acked_by_stream

Values = list[dict[str, Any]]


def stream_metrics(overview: Overview, topology: StormTopology, window: StormWindow) -> dict[str, Any]:
    """Return every component with its values by stream."""
    monotonic_ms = overview.snapshot.now_ms
    measured = [(component, component.metrics(window, monotonic_ms)) for component in topology.components]
    return {
        "window": window.written,
        "window-hint": window.hint,
        "spouts": [_spout(component, metrics) for component, metrics in measured if component.is_spout],
        "bolts": [_bolt(topology, component, metrics) for component, metrics in measured if not component.is_spout],
    }


def _spout(component: StormComponent, metrics: WindowMetrics) -> dict[str, Any]:
    streams = component.planned.outputs
    return {
        "id": component.name,
        **_output(component, metrics),
        "acked": [
            {"stream_id": stream, "value": events} for stream, events in acked_by_stream(component, metrics).items()
        ],
        "failed": [{"stream_id": stream, "value": 0} for stream in streams],
        "complete_ms_avg": [{"stream_id": stream, "value": decimal(metrics.stay_latency_ms())} for stream in streams],
    }


def _bolt(topology: StormTopology, component: StormComponent, metrics: WindowMetrics) -> dict[str, Any]:
    executed = {stream: metrics.received.get(stream, 0) for stream in component.planned.inputs}
    failed = {stream: metrics.dropped if len(executed) == 1 else 0 for stream in executed}
    execute, process = decimal(metrics.execute_latency_ms()), decimal(metrics.stay_latency_ms())
    return {
        "id": component.name,
        **_output(component, metrics),
        "acked": _inputs(topology, component, executed.items()),
        "failed": _inputs(topology, component, failed.items()),
        "process_ms_avg": _inputs(topology, component, ((stream, process) for stream in executed)),
        "executed": _inputs(topology, component, executed.items()),
        "executed_ms_avg": _inputs(topology, component, ((stream, execute) for stream in executed)),
    }


def _output(component: StormComponent, metrics: WindowMetrics) -> dict[str, Values]:
    emitted = {stream: metrics.emitted.get(stream, 0) for stream in component.planned.outputs}
    return {
        "emitted": [{"stream_id": stream, "value": events} for stream, events in emitted.items()],
        "transferred": [
            {"stream_id": stream, "value": events} for stream, events in component.transferred(emitted).items()
        ],
    }


def _inputs(topology: StormTopology, component: StormComponent, values: Iterable[tuple[str, Any]]) -> Values:
    return [
        {"component_id": topology.producer(component, stream), "stream_id": stream, "value": value}
        for stream, value in values
    ]
