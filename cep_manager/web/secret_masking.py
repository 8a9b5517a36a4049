"""Mask secrets of plans for users who may not change these plans."""

from __future__ import annotations

import msgspec
from flask import g

from cep_common.security.access import Permission, Principal, is_granted
from cep_manager.monitoring.plan_model import PlanDetails
from query_plan.secrets import mask_in, mask_plan


def sees_secrets() -> bool:
    """Return whether the user of the current request may edit plans."""
    principal: Principal | None = g.get("principal")
    return bool(g.get("anybody")) if principal is None else is_granted(principal, Permission.EDIT)


def shown_text(text: str) -> str:
    """Return the text of a plan as the caller may see it."""
    return text if sees_secrets() else mask_plan(text)


def shown_details(plan: PlanDetails) -> PlanDetails:
    """Return a plan as the caller may see it."""
    return plan if sees_secrets() else msgspec.structs.replace(plan, text=mask_plan(plan.text))


def shown_query_plan(query_plan: str, text: str) -> str:
    """Return the query plan that was made of `text`, as the caller may see it."""
    return query_plan if sees_secrets() else mask_in(query_plan, text)
