"""Errors as the web shows them. Pure: from a snapshot."""

from __future__ import annotations

from cep_common.ids import PlanKey
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.history.errors import ErrorList, PlanErrors, ProcessErrors


def plan_errors(snapshot: ClusterSnapshot, key: PlanKey) -> PlanErrors:
    """Return the errors of the plan. Raises UnknownPlanError."""
    snapshot.record(key)
    errors = snapshot.errors.get(key, ())
    return PlanErrors(key.plan, key.tenant, next((one for one in errors if one.kind == "failure"), None), errors)


def tenant_errors(snapshot: ClusterSnapshot, tenant: int) -> ErrorList:
    """Return the errors of all plans of the tenant."""
    found = (one for key, errors in snapshot.errors.items() if key and key.tenant == tenant for one in errors)
    return ErrorList(tenant, tuple(sorted(found, key=lambda one: (-one.last_ms, one.id))))


def process_errors(snapshot: ClusterSnapshot) -> ProcessErrors:
    """Return the errors of processes, apart from plans."""
    return ProcessErrors(snapshot.errors.get(None, ()))
