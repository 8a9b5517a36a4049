"""The calls of the REST API for statistics by window."""

from __future__ import annotations

import msgspec
from flask import Blueprint, Response, request

from cep_common.ids import PlanKey
from cep_manager.api.requests import read_tenant
from cep_manager.errors import UnknownPlanError
from cep_manager.manager_view import ManagerView
from cep_manager.statistics.plan_statistics import plan_statistics


def statistics_routes(api: Blueprint, view: ManagerView) -> None:
    """Adds them to `api`."""

    @api.get("/plans/<name>/statistics")
    def show_statistics(name: str) -> Response:
        key = PlanKey(read_tenant(request), name)
        snapshot = view.overview().snapshot
        if key not in snapshot.plans:
            raise UnknownPlanError(f"no plan named {key.plan} is deployed for tenant {key.tenant}")
        return Response(msgspec.json.encode(plan_statistics(snapshot, key)), content_type="application/json")
