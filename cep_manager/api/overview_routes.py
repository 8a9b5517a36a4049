"""The call of the REST API for the system at a glance, and what the console's page asks for as well."""

from __future__ import annotations

from flask import g, request

from cep_common.security.access import Permission, Principal, is_granted
from cep_manager.api.calls import Api
from cep_manager.api.requests import read_tenant
from cep_manager.attention import Picture
from cep_manager.manager_view import ManagerView
from cep_manager.system_overview import SystemOverview, system_overview


def overview_routes(api: Api, view: ManagerView) -> None:
    """Adds it to `api`."""

    @api.get(
        "/overview",
        "The system at a glance: traffic, latency, plans by state, and what needs attention, the worst first",
        answers=SystemOverview,
    )
    def show_overview() -> SystemOverview:
        return asked_overview(view)


def asked_overview(view: ManagerView) -> SystemOverview:
    """What whoever makes the present request gets to see."""
    return overview_of(view, read_tenant(request), sees_system())


def overview_of(view: ManagerView, tenant: int, system: bool) -> SystemOverview:
    """What is told of the tenant, and of the `system` as a whole to whoever may see it."""
    told = view.overview()
    picture = Picture(told.now_ms, told.snapshot, told.manager, view.election(), view.cluster().file_problems)
    return system_overview(picture, tenant, system)


def sees_system() -> bool:
    """True when whoever makes the present request may see what belongs to all tenants."""
    principal: Principal | None = g.get("principal")
    return principal is None or is_granted(principal, Permission.SEE_SYSTEM)
