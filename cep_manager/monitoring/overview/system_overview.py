"""The overview: the system, its traffic and health at a glance, and what needs attention first. Pure."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import msgspec

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_manager.monitoring.cluster_model import ManagerMember
from cep_manager.monitoring.overview.alerts import Alert, AlertContext, in_order, system_alerts
from cep_manager.monitoring.overview.plan_alerts import plan_alerts
from cep_manager.monitoring.overview.plan_metrics import PlanMetrics, Traffic, metrics_of_plan, traffic
from cep_manager.monitoring.status import plan_state
from cep_manager.plans.state import PlanState


class TenantShare(msgspec.Struct, frozen=True):
    """A tenant's deployed plans, and the slots that they use."""

    tenant: int
    plans: int
    active: int
    slots: int
    received_per_second: float
    emitted_per_second: float


class SystemView(msgspec.Struct, frozen=True):
    """The system's parts.

    `stage_hosts` processes, each with its own slot, run `hosted_plans` plans. `driver` and the four after it are of the
    driver that was heard last, empty without one; `driver_missing` says why none can be asked.
    """

    managers: tuple[ManagerMember, ...]
    driver: str
    driver_missing: str
    spark_master: str
    spark_url: str
    executors: int
    slots_total: int
    slots_free: int
    workers: int
    workers_silent: int
    tasks: int
    tenants: tuple[TenantShare, ...]
    stage_hosts: int = 0
    hosted_plans: int = 0


class SystemOverview(msgspec.Struct, frozen=True):
    """The overview at the time of day `now_ms`: of one `tenant`, or of all (None).

    `plans` counts them by state. `system` is None for callers without permission to see it.
    """

    now_ms: int
    tenant: int | None
    plans: dict[str, int]
    metrics: PlanMetrics
    traffic: Traffic
    alerts: tuple[Alert, ...]
    system: SystemView | None


def system_overview(picture: AlertContext, tenant: int, sees_system: bool) -> SystemOverview:
    """Return the overview for `tenant`; with the right to see the system, the super tenant sees all."""
    scope = None if sees_system and tenant == SUPER_TENANT else tenant
    snapshot = picture.snapshot
    keys = [key for key in sorted(snapshot.plans) if scope in (None, key.tenant)]
    states = Counter(plan_state(snapshot, key).value for key in keys)

    about_system = system_alerts(picture) if sees_system else ()
    metrics = metrics_of_plan(snapshot, keys)
    return SystemOverview(
        now_ms=picture.now_ms,
        tenant=scope,
        plans={state.value: states[state.value] for state in PlanState if states[state.value]},
        metrics=metrics,
        traffic=traffic(snapshot, keys),
        alerts=in_order(chain(about_system, plan_alerts(picture, scope, sees_system))),
        system=_system(picture, metrics if scope is None else None) if sees_system else None,
    )


def _system(picture: AlertContext, metrics: PlanMetrics | None) -> SystemView:
    snapshot = picture.snapshot
    tenants = sorted({key.tenant for key in snapshot.plans})
    driver = snapshot.driver.latest if snapshot.driver is not None else None
    return SystemView(
        managers=picture.election.managers,
        driver=driver.driver if driver is not None else "",
        driver_missing=snapshot.driver_missing,
        spark_master=driver.master if driver is not None else "",
        spark_url=driver.web_url if driver is not None else "",
        executors=len(driver.executors) if driver is not None else 0,
        slots_total=driver.slots_total if driver is not None else 0,
        slots_free=driver.slots_free if driver is not None else 0,
        workers=len(snapshot.workers),
        workers_silent=len(snapshot.lost_workers),
        tasks=sum(task.live(snapshot.now_ms, snapshot.lease_ms) for tasks in snapshot.tasks.values() for task in tasks),
        tenants=tuple(_share(picture, tenant, metrics if len(tenants) == 1 else None) for tenant in tenants),
        stage_hosts=len(driver.stage_hosts) if driver is not None else 0,
        hosted_plans=sum(one.plans for one in driver.stage_hosts) if driver is not None else 0,
    )


def _share(picture: AlertContext, tenant: int, metrics: PlanMetrics | None) -> TenantShare:
    """Return the tenant's share; `metrics` are those of its plans, where they are known already."""
    snapshot = picture.snapshot
    mine: list[PlanKey] = [key for key in snapshot.plans if key.tenant == tenant]
    metric = metrics if metrics is not None else metrics_of_plan(snapshot, mine)
    return TenantShare(
        tenant=tenant,
        plans=len(mine),
        active=sum(snapshot.plans[key].state is PlanState.ACTIVE for key in mine),
        slots=sum(snapshot.plans[key].slots for key in mine),
        received_per_second=metric.received_per_second,
        emitted_per_second=metric.emitted_per_second,
    )
