"""The call of the REST API for the system at a glance, and what the console's page asks for as well."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from flask import g, request

from cep_common.security.access import Permission, Principal, is_granted
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.monitoring.cluster_model import Overview
from cep_manager.monitoring.overview.alerts import AlertContext
from cep_manager.monitoring.overview.system_overview import SystemOverview, system_overview
from cep_manager.web.api.calls import Api
from cep_manager.web.api.requests import read_tenant
from cep_manager.web.ports import ClusterPort

GOOD_FOR_MS = 900
"""The maximum age of an overview that another request has computed."""
MOST_KEPT = 256


def overview_routes(api: Api, view: ClusterPort) -> None:
    """Add it to `api`."""

    @api.get(
        "/overview",
        "The system at a glance: traffic, latency, plans by state, and alerts, the worst first",
        answers=SystemOverview,
    )
    def show_overview() -> SystemOverview:
        return asked_overview(view)


def asked_overview(view: ClusterPort) -> SystemOverview:
    """Return the overview that the present request's caller may see."""
    return overview_of(view, read_tenant(request), sees_system())


class OverviewQuery:
    """Caches the latest overviews: many pages ask at once, and one answer serves all."""

    def __init__(self) -> None:
        self._overviews: dict[tuple[int, bool], tuple[ClusterSnapshot, SystemOverview]] = {}

    def at(self, snapshot: ClusterSnapshot, tenant: int, system: bool) -> SystemOverview | None:
        """Return the cached overview of this snapshot, or of one that is hardly older."""
        before = self._overviews.get((tenant, system))
        if before is None or not (before[0] is snapshot or 0 < snapshot.now_ms - before[0].now_ms < GOOD_FOR_MS):
            return None
        return before[1]

    def keep(self, snapshot: ClusterSnapshot, tenant: int, system: bool, overview: SystemOverview) -> None:
        """Cache the overview of `snapshot`, and drop those that are too old, with their snapshots."""
        now_ms = snapshot.now_ms
        kept = {key: one for key, one in tuple(self._overviews.items()) if now_ms - one[0].now_ms < GOOD_FOR_MS}
        if len(kept) >= MOST_KEPT:
            kept.clear()
        self._overviews = {**kept, (tenant, system): (snapshot, overview)}


_recent: WeakKeyDictionary[ClusterPort, OverviewQuery] = WeakKeyDictionary()


def overview_of(view: ClusterPort, tenant: int, system: bool) -> SystemOverview:
    """Return the tenant's overview, with the `system` part if the caller may see it; at most a moment old."""
    overview = view.overview()
    recent = _recent.setdefault(view, OverviewQuery())
    known = recent.at(overview.snapshot, tenant, system)
    if known is None:
        known = _overview(view, overview, tenant, system)
        recent.keep(overview.snapshot, tenant, system, known)
    return known


def _overview(view: ClusterPort, overview: Overview, tenant: int, system: bool) -> SystemOverview:
    picture = AlertContext(
        overview.now_ms,
        overview.snapshot,
        overview.manager,
        view.election(),
        view.cluster().file_problems,
        view.metric_tables().problem,
    )
    return system_overview(picture, tenant, system)


def sees_system() -> bool:
    """Return whether the present request's caller may see what belongs to all tenants."""
    principal: Principal | None = g.get("principal")
    return principal is None or is_granted(principal, Permission.SEE_SYSTEM)
