"""Metrics of the cluster: manager, driver, slots, workers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from cep_common.monitoring.metric_families import counter, gauge
from cep_common.protocol.registry import WorkerPlanReport
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.monitoring.cluster_model import Overview

WORKER = ("worker", "host")
WORKER_PLAN = ("worker", "tenant", "plan")
WORKER_STREAM = (*WORKER_PLAN, "stream")


def cluster_metrics(overview: Overview) -> Iterator[Metric]:
    """Yield the metrics that do not belong to one plan."""
    snapshot = overview.snapshot
    manager = overview.manager
    yield gauge("cep_build_info", "Always 1; the labels hold the version", ("version",), [((manager.version,), 1)])
    yield gauge("cep_manager_uptime_seconds", "Uptime of the manager", (), [((), manager.up_ms / 1_000)])
    yield gauge("cep_plans", "Deployed plans", (), [((), len(snapshot.plans))])
    yield from _driver(snapshot)
    yield from _workers(snapshot)


def _driver(snapshot: ClusterSnapshot) -> Iterator[Metric]:
    driver = snapshot.driver
    live = driver is not None and driver.live(snapshot.now_ms, snapshot.lease_ms)
    yield gauge("cep_driver_up", "1 while a driver sends heartbeats", (), [((), live)])
    heard = [] if driver is None else [((driver.latest.driver, driver.latest.host), snapshot.now_ms - driver.heard_ms)]
    yield gauge(
        "cep_driver_heartbeat_age_seconds",
        "Time since the driver's last heartbeat",
        ("driver", "host"),
        ((of, age_ms / 1_000) for of, age_ms in heard),
    )
    latest = driver.latest if driver is not None and live else None
    yield gauge("cep_slots", "Spark task slots", (), [((), latest.slots_total if latest else 0)])
    yield gauge("cep_slots_free", "Free Spark task slots", (), [((), latest.slots_free if latest else 0)])
    hosts = latest.stage_hosts if latest else ()
    labels = ("stage_host", "tenant")
    yield gauge(
        "cep_stage_host_plans",
        "Plans in each stage host",
        labels,
        (((one.host, str(one.tenant)), one.plans) for one in hosts),
    )
    yield gauge(
        "cep_stage_host_memory_bytes",
        "Private memory of the stage host's process",
        labels,
        (((one.host, str(one.tenant)), one.memory_bytes) for one in hosts),
    )
    yield gauge(
        "cep_executor_slots",
        "Task slots of each Spark executor that can be used",
        ("executor", "host"),
        (((one.executor, one.host), one.slots) for one in (latest.executors if latest else ())),
    )


def _workers(snapshot: ClusterSnapshot) -> Iterator[Metric]:
    yield gauge(
        "cep_worker_heartbeat_age_seconds",
        "Time since the worker's last heartbeat",
        WORKER,
        (
            ((one.latest.worker, one.latest.host), (snapshot.now_ms - one.heard_ms) / 1_000)
            for one in (*snapshot.workers, *snapshot.lost_workers)
        ),
    )
    yield gauge(
        "cep_worker_inflow_connections",
        "Established inflow connections of the worker, by plan",
        WORKER_PLAN,
        _by_plan(snapshot, lambda report: sum(one.connected for one in report.inflow)),
    )
    yield gauge(
        "cep_worker_outflow_connections",
        "Publishers that are connected to the worker, by plan",
        WORKER_PLAN,
        _by_plan(snapshot, lambda report: len(report.publishers)),
    )
    yield counter(
        "cep_worker_inflow_events_total",
        "Events that the worker has sent into topologies since it started serving the plan",
        WORKER_STREAM,
        (((*of, one.stream), one.sent_events) for of, report in _reports(snapshot) for one in report.inflow),
    )
    yield gauge(
        "cep_worker_inflow_waiting_events",
        "Events that wait in the worker for their topology",
        WORKER_STREAM,
        (((*of, one.stream), one.waiting_events) for of, report in _reports(snapshot) for one in report.inflow),
    )
    yield counter(
        "cep_worker_outflow_events_total",
        "Events that the worker has received from topologies in their current epoch",
        WORKER_STREAM,
        (((*of, one.stream), one.received_events) for of, report in _reports(snapshot) for one in report.outflow),
    )


def _reports(snapshot: ClusterSnapshot) -> Iterator[tuple[tuple[object, ...], WorkerPlanReport]]:
    for worker in snapshot.workers:
        for report in worker.latest.plans:
            yield (worker.latest.worker, report.key.tenant, report.key.plan), report


def _by_plan(
    snapshot: ClusterSnapshot, value: Callable[[WorkerPlanReport], float]
) -> Iterator[tuple[tuple[object, ...], float]]:
    return ((of, value(report)) for of, report in _reports(snapshot))
