"""Metrics of plans: states, tasks, connections. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from prometheus_client.core import Metric

from cep_common.ids import PlanKey
from cep_common.monitoring.metric_families import MetricFamily, families_for, gauge
from cep_common.protocol.tasks import RegisterTask, StatisticsLevel
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.monitoring.status import PlanStatus, plan_status
from cep_manager.plans.state import PlanState

PLAN = ("tenant", "plan")
TASK = (*PLAN, "task", "host")


_STATUS: tuple[MetricFamily[PlanStatus], ...] = (
    MetricFamily(
        "cep_plan_state_age_seconds",
        "Time since the plan entered its current state",
        lambda one: one.topology.since_ms / 1_000,
    ),
    MetricFamily(
        "cep_plan_restarts_total",
        "Restarts of the plan's topology by the driver in its current epoch",
        lambda one: one.topology.restarts,
    ),
    MetricFamily("cep_plan_tasks", "Tasks of the plan that send heartbeats", lambda one: one.topology.tasks_live),
    MetricFamily("cep_plan_tasks_required", "Tasks that the plan requires", lambda one: one.topology.tasks_required),
    MetricFamily(
        "cep_plan_inflow_connections",
        "Established connections from workers to the plan's receivers",
        lambda one: sum(inflow.established for inflow in one.inflow),
    ),
    MetricFamily(
        "cep_plan_inflow_connections_required",
        "Required connections from workers to the plan's receivers",
        lambda one: sum(inflow.required for inflow in one.inflow),
    ),
    MetricFamily(
        "cep_plan_outflow_connections",
        "Publishers of the plan that are connected to a worker",
        lambda one: one.outflow.connected,
    ),
    MetricFamily(
        "cep_plan_outflow_connections_required",
        "Publishers of the plan that should be connected to a worker",
        lambda one: one.outflow.required,
    ),
)

_TASK: tuple[MetricFamily[RegisterTask], ...] = (
    MetricFamily("cep_task_uptime_seconds", "Uptime of the task", lambda one: one.up_ms / 1_000),
    MetricFamily("cep_task_memory_bytes", "Private memory of the task's process", lambda one: one.memory_bytes),
    MetricFamily(
        "cep_task_cpu_seconds_total",
        "CPU time that the task's process has used since the task started",
        lambda one: one.cpu_ms / 1_000,
    ),
)


def plan_metrics(snapshot: ClusterSnapshot) -> Iterator[Metric]:
    """Yield the metrics of plans, except those of their stages."""
    statuses = {key: plan_status(snapshot, key) for key in sorted(snapshot.plans)}
    yield gauge(
        "cep_plan_state",
        "1 for the state that the plan is in, 0 for the others",
        (*PLAN, "state"),
        (
            ((*_of(key), state.value), status.topology.state is state)
            for key, status in statuses.items()
            for state in PlanState
            if state is not PlanState.KILLED
        ),
    )
    yield gauge(
        "cep_plan_statistics_level",
        "1 for the level at which the plan's stages count, 0 for the others",
        (*PLAN, "level"),
        (
            ((*_of(key), level), status.topology.statistics == level)
            for key, status in statuses.items()
            for level in get_args(StatisticsLevel)
        ),
    )
    yield gauge(
        "cep_plan_epoch",
        "The plan's epoch: how often it was submitted",
        PLAN,
        ((_of(key), snapshot.plans[key].epoch) for key in statuses),
    )
    yield from families_for(_STATUS, PLAN, ((_of(key), status) for key, status in statuses.items()))
    tasks = [
        ((*_of(key), task.latest.task, task.latest.host), task)
        for key in statuses
        for task in snapshot.tasks.get(key, ())
    ]
    yield gauge(
        "cep_task_heartbeat_age_seconds",
        "Time since the task's last heartbeat",
        TASK,
        ((of, (snapshot.now_ms - task.heard_ms) / 1_000) for of, task in tasks),
    )
    yield from families_for(_TASK, TASK, ((of, task.latest) for of, task in tasks))


def _of(key: PlanKey) -> tuple[object, ...]:
    return key.tenant, key.plan
