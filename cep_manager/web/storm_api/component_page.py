"""Storm's answer on one component of a topology. Pure."""

from __future__ import annotations

from typing import Any

from cep_manager.history.windowed_metrics import WindowMetrics
from cep_manager.monitoring.cluster_model import Overview
from cep_manager.monitoring.storm_topology.model import ComponentError, StormComponent, StormExecutor, StormTopology
from cep_manager.monitoring.storm_topology.texts import WINDOWS, StormWindow, decimal, encoded, shortened, uptime
from cep_manager.web.storm_api.rows import Row, acked_by_stream, bolt_counts, requested, sampling_percent, spout_counts


def component_page(
    overview: Overview, topology: StormTopology, component: StormComponent, window: StormWindow
) -> dict[str, Any]:
    """`GET /topology/ID/component/NAME`."""
    monotonic_ms = overview.snapshot.now_ms
    specific = (
        _spout(component, window, monotonic_ms)
        if component.is_spout
        else _bolt(topology, component, window, monotonic_ms)
    )
    return {
        "user": None,
        "id": component.name,
        "encodedId": encoded(component.name),
        "name": topology.key.topology(),
        "executors": len(component.executors),
        "tasks": len(component.executors),
        **requested("requestedGenericResources"),
        "schedulerDisplayResource": False,
        "topologyId": topology.identifier,
        "encodedTopologyId": encoded(topology.identifier),
        "topologyStatus": topology.status(),
        "window": window.written,
        "windowHint": window.hint,
        "componentType": "spout" if component.is_spout else "bolt",
        "debug": topology.record.traced(),
        "samplingPct": sampling_percent(topology),
        "profilingAndDebuggingCapable": False,
        "profileActionEnabled": False,
        "profilerActive": [],
        "componentErrors": [_error(error, overview.now_ms) for error in component.errors()],
        **specific,
    }


def _spout(component: StormComponent, window: StormWindow, monotonic_ms: int) -> Row:
    return {
        "spoutSummary": [
            {
                "window": one.written,
                "windowPretty": one.hint,
                **spout_counts(component, component.metrics(one, monotonic_ms)),
                "lastError": _last_error(component),
            }
            for one in WINDOWS
        ],
        "outputStats": _spout_outputs(component, component.metrics(window, monotonic_ms)),
        "executorStats": [
            {**_executor(one), **spout_counts(component, one.metrics(window, monotonic_ms))}
            for one in component.executors
        ],
    }


def _bolt(topology: StormTopology, component: StormComponent, window: StormWindow, monotonic_ms: int) -> Row:
    capacity = component.capacity(monotonic_ms)
    metrics = component.metrics(window, monotonic_ms)
    return {
        "boltStats": [
            {
                "window": one.written,
                "windowPretty": one.hint,
                **bolt_counts(component, component.metrics(one, monotonic_ms), capacity),
            }
            for one in WINDOWS
        ],
        "inputStats": [_input(topology, component, stream, metrics) for stream in component.planned.inputs],
        "outputStats": [_output(component, stream, metrics) for stream in component.planned.outputs],
        "executorStats": [
            {**_executor(one), **bolt_counts(component, one.metrics(window, monotonic_ms), one.capacity(monotonic_ms))}
            for one in component.executors
        ],
    }


def _spout_outputs(component: StormComponent, metrics: WindowMetrics) -> list[Row]:
    """Yield the outputs of a spout; the latency is that of all streams."""
    acked = acked_by_stream(component, metrics)
    return [
        {
            **_output(component, stream, metrics),
            "completeLatency": decimal(metrics.stay_latency_ms()),
            "acked": acked[stream],
            "failed": 0,
        }
        for stream in component.planned.outputs
    ]


def _output(component: StormComponent, stream: str, metrics: WindowMetrics) -> Row:
    emitted = metrics.emitted.get(stream, 0)
    transferred = component.transferred({stream: emitted})[stream]
    return {"stream": stream, "emitted": emitted, "transferred": transferred}


def _input(topology: StormTopology, component: StormComponent, stream: str, metrics: WindowMetrics) -> Row:
    """Return the row of an input stream, under the first of the components that emit it.

    The stage counts by stream; latencies are those of the whole stage.
    """
    producer = topology.producer(component, stream)
    executed = metrics.received.get(stream, 0)
    return {
        "component": producer,
        "encodedComponentId": encoded(producer),
        "encodedComponent": encoded(producer),
        "stream": stream,
        "executeLatency": decimal(metrics.execute_latency_ms()),
        "processLatency": decimal(metrics.stay_latency_ms()),
        "executed": executed,
        "acked": executed,
        "failed": metrics.dropped if len(component.planned.inputs) == 1 else 0,
    }


def _executor(executor: StormExecutor) -> Row:
    up_s = executor.task.latest.up_ms // 1_000
    return {
        "id": executor.identifier(),
        "encodedId": encoded(executor.identifier()),
        "uptime": uptime(up_s),
        "uptimeSeconds": up_s,
        "host": executor.task.latest.host,
        "port": executor.task.latest.task,
        "workerLogLink": "",
    }


def _last_error(component: StormComponent) -> str:
    errors = component.errors()
    return shortened(errors[-1].text) if errors else ""


def _error(error: ComponentError, now_ms: int) -> Row:
    """Return an error with the time of day in seconds, and in milliseconds as 0.9.x had it."""
    return {
        "errorTime": error.at_ms // 1_000,
        "time": error.at_ms,
        "errorHost": error.host,
        "errorPort": error.port,
        "error": error.text,
        "errorLapsedSecs": max(0, now_ms - error.at_ms) // 1_000,
        "errorWorkerLogLink": "",
    }
