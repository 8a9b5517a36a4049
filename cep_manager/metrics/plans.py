"""Metrics of plans: states, tasks, connections. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from cep_common.ids import PlanKey
from cep_common.metric_families import counter, gauge
from cep_manager.plan_state import PlanState
from cep_manager.snapshot import Snapshot
from cep_manager.status import PlanStatus, plan_status

PLAN = ("tenant", "plan")
TASK = (*PLAN, "task", "host")


def plan_metrics(snapshot: Snapshot) -> Iterator[Metric]:
    """Everything about plans but what their stages did."""
    told = {key: plan_status(snapshot, key) for key in sorted(snapshot.plans)}
    yield from _states(snapshot, told)
    yield from _connections(told)
    yield from _tasks(snapshot)


def _of(key: PlanKey) -> tuple[object, ...]:
    return key.tenant, key.plan


def _states(snapshot: Snapshot, told: dict[PlanKey, PlanStatus]) -> Iterator[Metric]:
    yield gauge(
        "cep_plan_state",
        "1 for the state that the plan is in, 0 for the others",
        (*PLAN, "state"),
        (
            ((*_of(key), state.value), status.topology.state is state)
            for key, status in told.items()
            for state in PlanState
            if state is not PlanState.KILLED
        ),
    )
    yield gauge(
        "cep_plan_state_age_seconds",
        "How long the plan has been in its state",
        PLAN,
        ((_of(key), status.topology.since_ms / 1_000) for key, status in told.items()),
    )
    yield gauge(
        "cep_plan_epoch",
        "The plan's epoch: how often it was submitted",
        PLAN,
        ((_of(key), snapshot.plans[key].epoch) for key in told),
    )
    yield counter(
        "cep_plan_restarts_total",
        "How often the driver has started the plan's topology again, in its present epoch",
        PLAN,
        ((_of(key), status.topology.restarts) for key, status in told.items()),
    )
    yield gauge(
        "cep_plan_tasks",
        "Tasks of the plan that are heard",
        PLAN,
        ((_of(key), status.topology.tasks_live) for key, status in told.items()),
    )
    yield gauge(
        "cep_plan_tasks_required",
        "Tasks that the plan is to have",
        PLAN,
        ((_of(key), status.topology.tasks_required) for key, status in told.items()),
    )


def _connections(told: dict[PlanKey, PlanStatus]) -> Iterator[Metric]:
    yield gauge(
        "cep_plan_inflow_connections",
        "Connections from workers to the plan's receivers that stand",
        PLAN,
        ((_of(key), sum(one.established for one in status.inflow)) for key, status in told.items()),
    )
    yield gauge(
        "cep_plan_inflow_connections_required",
        "Connections from workers to the plan's receivers that should stand",
        PLAN,
        ((_of(key), sum(one.required for one in status.inflow)) for key, status in told.items()),
    )
    yield gauge(
        "cep_plan_outflow_connections",
        "Publishers of the plan that are connected to a worker",
        PLAN,
        ((_of(key), status.outflow.connected) for key, status in told.items()),
    )
    yield gauge(
        "cep_plan_outflow_connections_required",
        "Publishers of the plan that should be connected to a worker",
        PLAN,
        ((_of(key), status.outflow.required) for key, status in told.items()),
    )


def _tasks(snapshot: Snapshot) -> Iterator[Metric]:
    tasks = [
        ((*_of(key), task.latest.task, task.latest.host), task)
        for key in sorted(snapshot.tasks)
        for task in snapshot.tasks[key]
    ]
    yield gauge(
        "cep_task_heartbeat_age_seconds",
        "How long ago the task was heard",
        TASK,
        ((of, (snapshot.now_ms - task.heard_ms) / 1_000) for of, task in tasks),
    )
    yield gauge(
        "cep_task_uptime_seconds",
        "How long the task has been there",
        TASK,
        ((of, task.latest.up_ms / 1_000) for of, task in tasks),
    )
    yield gauge(
        "cep_task_memory_bytes",
        "Memory that the task's process holds for itself",
        TASK,
        ((of, task.latest.memory_bytes) for of, task in tasks),
    )
    yield counter(
        "cep_task_cpu_seconds_total",
        "Processor time that the task's process has used since the task began",
        TASK,
        ((of, task.latest.cpu_ms / 1_000) for of, task in tasks),
    )
