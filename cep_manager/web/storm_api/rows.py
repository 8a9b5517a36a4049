"""Rows that several of Storm's answers share: topologies, workers, spouts and bolts with their metrics. Pure."""

from __future__ import annotations

from typing import Any

from cep_common.protocol.tasks import RegisterTask
from cep_manager.control.members import ClusterMember
from cep_manager.history.windowed_metrics import WindowMetrics
from cep_manager.monitoring.storm_topology.model import ComponentError, StormComponent, StormTopology
from cep_manager.monitoring.storm_topology.texts import StormWindow, decimal, encoded, megabytes, shortened, uptime

API_VERSION = "2.8.0"
"""The version of Storm whose answers these have the fields of: clients choose by it what they ask for."""

SHARE_OF_A_CORE = 100
"""Storm counts processor time in hundredths of a core."""

SAMPLING_PERCENT = 10
"""Storm's percentage of the events that are written to a log, shown while there are none."""

Row = dict[str, Any]


def topology_row(topology: StormTopology, now_ms: int) -> Row:
    """Return the fields that a topology's summary and page share; `now_ms` is the time of day."""
    record = topology.record
    up_s = topology.up_s(now_ms)
    requested = record.compiled.memory_bytes * record.workers if record.compiled is not None else 0
    held = sum(task.latest.memory_bytes for task in topology.tasks)
    cpu = SHARE_OF_A_CORE * topology.cores
    return {
        "id": topology.identifier,
        "encodedId": encoded(topology.identifier),
        "name": topology.key.topology(),
        "owner": topology.owner,
        "status": topology.status(),
        "uptime": uptime(up_s),
        "uptimeSeconds": up_s,
        "tasksTotal": topology.executors(),
        "workersTotal": len(topology.tasks),
        "executorsTotal": topology.executors(),
        "replicationCount": 1,
        "schedulerInfo": topology.scheduler_info(),
        "requestedMemOnHeap": megabytes(requested),
        "requestedMemOffHeap": 0.0,
        "requestedTotalMem": megabytes(requested),
        "requestedCpu": float(cpu * record.workers),
        "requestedGenericResources": "",
        "assignedMemOnHeap": megabytes(held),
        "assignedMemOffHeap": 0.0,
        "assignedTotalMem": megabytes(held),
        "assignedCpu": float(cpu * len(topology.tasks)),
        "assignedGenericResources": "",
        "topologyVersion": str(record.epoch),
        "stormVersion": API_VERSION,
    }


def worker_row(topology: StormTopology, task: ClusterMember[RegisterTask], supervisor: str) -> Row:
    """Return a task of a topology as Storm's tables of workers have it."""
    mine = [component.name for component in topology.components for one in component.executors if one.task is task]
    up_s = task.latest.up_ms // 1_000
    return {
        "supervisorId": supervisor,
        "host": task.latest.host,
        "port": task.latest.task,
        "topologyId": topology.identifier,
        "topologyName": topology.key.topology(),
        "owner": topology.owner,
        "executorsTotal": len(mine),
        "assignedMemOnHeap": megabytes(task.latest.memory_bytes),
        "assignedMemOffHeap": 0.0,
        "assignedCpu": float(SHARE_OF_A_CORE * topology.cores),
        "componentNumTasks": {name: mine.count(name) for name in mine},
        "uptime": uptime(up_s),
        "uptimeSeconds": up_s,
        "workerLogLink": "",
    }


def spout_counts(component: StormComponent, metrics: WindowMetrics) -> Row:
    """Return the counts of a receiver or trigger, or of one instance.

    An event is acknowledged when all its results have left for a worker or entered a state; the complete latency is the
    mean time until then.
    """
    return {
        "emitted": metrics.events_emitted(),
        "transferred": sum(component.transferred(metrics.emitted).values()),
        "completeLatency": decimal(metrics.stay_latency_ms()),
        "acked": sum(metrics.latencies.values()),
        "failed": metrics.dropped,
    }


def acked_by_stream(component: StormComponent, metrics: WindowMetrics) -> dict[str, int]:
    """Return a receiver's acknowledged events by stream, shared out in proportion to the events received."""
    acked, received = sum(metrics.latencies.values()), metrics.events_received()
    return {
        stream: round(acked * metrics.received.get(stream, 0) / received) if received else 0
        for stream in component.planned.outputs
    }


def bolt_counts(component: StormComponent, metrics: WindowMetrics, capacity: float) -> Row:
    """Return the counts of a processing or publisher stage, or of one instance.

    The execute latency is the mean time to process an event, the process latency the mean time in the stage, waiting
    included.
    """
    return {
        "emitted": metrics.events_emitted(),
        "transferred": sum(component.transferred(metrics.emitted).values()),
        "capacity": decimal(capacity),
        "executeLatency": decimal(metrics.execute_latency_ms()),
        "executed": metrics.events_received(),
        "processLatency": decimal(metrics.stay_latency_ms()),
        "acked": metrics.events_received(),
        "failed": metrics.dropped,
    }


def component_row(component: StormComponent, window: StormWindow, monotonic_ms: int, now_ms: int) -> Row:
    """Return a spout or bolt in the tables of a topology."""
    metrics = component.metrics(window, monotonic_ms)
    kind = "spout" if component.is_spout else "bolt"
    if component.is_spout:
        counts = spout_counts(component, metrics)
    else:
        counts = bolt_counts(component, metrics, component.capacity(monotonic_ms))
    errors = component.errors()
    return {
        f"{kind}Id": component.name,
        f"encoded{kind.capitalize()}Id": encoded(component.name),
        "executors": len(component.executors),
        "tasks": len(component.executors),
        **counts,
        **requested("requestedGenericResourcesComp"),
        **last_error(errors[-1] if errors else None, now_ms),
    }


def requested(generic: str) -> Row:
    """Return the resources that a component requests: none of its own.

    `@Plan:resources` applies to tasks, which components share.
    """
    return {"requestedMemOnHeap": 0.0, "requestedMemOffHeap": 0.0, "requestedCpu": 0.0, generic: ""}


def last_error(error: ComponentError | None, now_ms: int) -> Row:
    """Return the newest error in a row of a table, empty when there is none."""
    if error is None:
        return {
            "lastError": "",
            "errorHost": "",
            "errorPort": "",
            "errorTime": None,
            "errorLapsedSecs": None,
            "errorWorkerLogLink": "",
        }
    return {
        "lastError": shortened(error.text),
        "errorHost": error.host,
        "errorPort": error.port,
        "errorTime": error.at_ms // 1_000,
        "errorLapsedSecs": max(0, now_ms - error.at_ms) // 1_000,
        "errorWorkerLogLink": "",
    }


def sampling_percent(topology: StormTopology) -> int:
    """Return the percentage of events that workers log: 100 for a plan that is traced."""
    return 100 if topology.record.traced() else SAMPLING_PERCENT
