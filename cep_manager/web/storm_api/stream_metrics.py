"""Storm's metrics of a topology by stream (`GET /topology/ID/metrics`). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cep_manager.history.windowed_metrics import Figures
from cep_manager.monitoring.cluster_model import Overview
from cep_manager.monitoring.storm_topology.model import Component, Topology
from cep_manager.monitoring.storm_topology.texts import Window, decimal
from cep_manager.web.storm_api.rows import acked_by_stream

Values = list[dict[str, Any]]


def stream_metrics(overview: Overview, topology: Topology, window: Window) -> dict[str, Any]:
    """Every component with its values by stream."""
    monotonic_ms = overview.snapshot.now_ms
    told = [(component, component.figures(window, monotonic_ms)) for component in topology.components]
    return {
        "window": window.written,
        "window-hint": window.hint,
        "spouts": [_spout(component, figures) for component, figures in told if component.is_spout],
        "bolts": [_bolt(topology, component, figures) for component, figures in told if not component.is_spout],
    }


def _spout(component: Component, figures: Figures) -> dict[str, Any]:
    streams = component.planned.outputs
    return {
        "id": component.name,
        **_output(component, figures),
        "acked": [
            {"stream_id": stream, "value": events} for stream, events in acked_by_stream(component, figures).items()
        ],
        "failed": [{"stream_id": stream, "value": 0} for stream in streams],
        "complete_ms_avg": [{"stream_id": stream, "value": decimal(figures.stay_latency_ms())} for stream in streams],
    }


def _bolt(topology: Topology, component: Component, figures: Figures) -> dict[str, Any]:
    executed = {stream: figures.received.get(stream, 0) for stream in component.planned.inputs}
    failed = {stream: figures.dropped if len(executed) == 1 else 0 for stream in executed}
    execute, process = decimal(figures.execute_latency_ms()), decimal(figures.stay_latency_ms())
    return {
        "id": component.name,
        **_output(component, figures),
        "acked": _inputs(topology, component, executed.items()),
        "failed": _inputs(topology, component, failed.items()),
        "process_ms_avg": _inputs(topology, component, ((stream, process) for stream in executed)),
        "executed": _inputs(topology, component, executed.items()),
        "executed_ms_avg": _inputs(topology, component, ((stream, execute) for stream in executed)),
    }


def _output(component: Component, figures: Figures) -> dict[str, Values]:
    emitted = {stream: figures.emitted.get(stream, 0) for stream in component.planned.outputs}
    return {
        "emitted": [{"stream_id": stream, "value": events} for stream, events in emitted.items()],
        "transferred": [
            {"stream_id": stream, "value": events} for stream, events in component.transferred(emitted).items()
        ],
    }


def _inputs(topology: Topology, component: Component, values: Iterable[tuple[str, Any]]) -> Values:
    return [
        {"component_id": topology.producer(component, stream), "stream_id": stream, "value": value}
        for stream, value in values
    ]
