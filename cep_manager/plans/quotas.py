"""Compares the usage of tenants with their quotas. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.registry import TenantLimit
from cep_manager.config import Quota, QuotasConfig
from cep_manager.errors import QuotaError
from cep_manager.plans.record import PlanRecord, Submission
from cep_manager.plans.state import PlanState


def check_plans(quota: Quota, key: PlanKey, plans: Iterable[PlanKey]) -> None:
    """Raise QuotaError if the tenant may not have one plan more."""
    deployed = sum(plan.tenant == key.tenant for plan in plans)
    if quota.plans and deployed >= quota.plans:
        raise QuotaError(
            f"tenant {key.tenant} has {deployed} plans deployed and may have {quota.plans}",
            {"config": "quotas.plans", "tenant": key.tenant, "most": quota.plans},
        )


def check_workers(quota: Quota, key: PlanKey, workers: int, cores: int = 1) -> None:
    """Raise QuotaError if a topology with these workers and cores can never run within the quota."""
    if quota.slots and workers * cores > quota.slots:
        each = f" of {cores} cores" if cores > 1 else ""
        raise QuotaError(
            f"{key.plan} asks for {workers} topology workers{each}, "
            f"tenant {key.tenant} may use {quota.slots} slots in all",
            {"config": "quotas.slots", "tenant": key.tenant, "most": quota.slots},
        )


class Room(msgspec.Struct, frozen=True):
    """How a topology may replace another one of the same plan.

    `one_by_one` says why both may not run at once, and `held_back` why it may not even run alone (each empty if it
    may).
    """

    one_by_one: str = ""
    held_back: str = ""


def held_back(quota: Quota, key: PlanKey, slots: int, plans: Mapping[PlanKey, PlanRecord]) -> str:
    """Return why a topology that takes `slots` slots must wait for others of its tenant; empty if it need not.

    `plans` are in order of arrival: later plans do not overtake those that wait, unless these could not even run alone.
    """
    used, came_before = 0, True
    for other in plans.values():
        if other.key == key:
            came_before = False
        elif _competes(other.key, key):
            waits = other.state is not PlanState.FAILED and other.submission is Submission.NEW
            used += other.slots if waits and came_before and other.slots <= quota.slots else _held(other)
    if not quota.slots or used + slots <= quota.slots:
        return ""
    return f"needs {slots} slots; tenant {key.tenant} may use {quota.slots}, its other plans use {used} of them"


def room_for_change(quota: Quota, record: PlanRecord, slots: int, plans: Mapping[PlanKey, PlanRecord]) -> Room:
    """Return how a topology of `slots` slots may replace the plan's present one.

    The present one's slots are the plan's own, so the new one never waits for others unless it needs more.
    """
    others = sum(_held(other) for other in plans.values() if _competes(other.key, record.key))
    one_by_one = ""
    if record.compiled is not None and record.compiled.delivery == "exactly-once":
        one_by_one = (
            "its results are final only after a last checkpoint of the running topology, which must be "
            "complete before the new one starts"
        )
    elif quota.slots and others + record.slots + slots > quota.slots:
        one_by_one = "the quota of the tenant has no slots for both topologies at once"
    return Room(one_by_one, held_back(quota, record.key, slots, plans) if slots > record.slots else "")


def _competes(other: PlanKey, key: PlanKey) -> bool:
    return other != key and other.tenant == key.tenant


def _held(record: PlanRecord) -> int:
    """Return the slots that the plan's topologies hold, or will hold once the driver has them."""
    if record.state is PlanState.FAILED:
        return 0
    present = record.slots if record.submission is not Submission.NEW else 0
    trial = record.trial
    return present + (trial.version.slots if trial is not None and trial.submission is not Submission.NEW else 0)


def share_of_events(quotas: QuotasConfig, plans: Iterable[PlanKey], workers: int) -> tuple[TenantLimit, ...]:
    """Return how much each of `workers` workers may accept for the tenants of `plans`."""
    limited = {tenant: quotas.of(tenant).events_per_s for tenant in sorted({plan.tenant for plan in plans})}
    return tuple(TenantLimit(tenant, max(1, rate // max(1, workers))) for tenant, rate in limited.items() if rate)
