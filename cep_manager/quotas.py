"""What tenants may use, against what they use. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cep_common.ids import PlanKey
from cep_common.messages import TenantLimit
from cep_manager.config import Quota, QuotasConfig
from cep_manager.errors import QuotaError
from cep_manager.plan_record import PlanRecord, Submission
from cep_manager.plan_state import PlanState


def check_plans(quota: Quota, key: PlanKey, plans: Iterable[PlanKey]) -> None:
    """The tenant may have one plan more. Raises QuotaError."""
    deployed = sum(plan.tenant == key.tenant for plan in plans)
    if quota.plans and deployed >= quota.plans:
        raise QuotaError(f"tenant {key.tenant} has {deployed} plans deployed and may have {quota.plans}")


def check_workers(quota: Quota, key: PlanKey, workers: int, cores: int = 1) -> None:
    """A topology of so many workers of so many cores can run at all within the quota. Raises QuotaError."""
    if quota.slots and workers * cores > quota.slots:
        each = f" of {cores} cores" if cores > 1 else ""
        raise QuotaError(
            f"{key.plan} asks for {workers} topology workers{each}, "
            f"tenant {key.tenant} may use {quota.slots} slots in all"
        )


def held_back(quota: Quota, record: PlanRecord, plans: Mapping[PlanKey, PlanRecord]) -> str:
    """Why the plan, which is about to be submitted, must wait for others of its tenant; empty when it need not.

    `plans` stand in the order in which they came: those that wait are not overtaken by later ones.
    """
    used, came_before = 0, True
    for other in plans.values():
        if other.key == record.key:
            came_before = False
        elif other.key.tenant == record.key.tenant and other.state is not PlanState.FAILED:
            used += other.slots if came_before or other.submission is not Submission.NEW else 0
    if not quota.slots or used + record.slots <= quota.slots:
        return ""
    return (
        f"needs {record.slots} slots; tenant {record.key.tenant} may use {quota.slots}, "
        f"its other plans use {used} of them"
    )


def share_of_events(quotas: QuotasConfig, plans: Iterable[PlanKey], workers: int) -> tuple[TenantLimit, ...]:
    """What each of so many workers may take in for the tenants of `plans`."""
    limited = {tenant: quotas.of(tenant).events_per_s for tenant in sorted({plan.tenant for plan in plans})}
    return tuple(TenantLimit(tenant, max(1, rate // max(1, workers))) for tenant, rate in limited.items() if rate)
