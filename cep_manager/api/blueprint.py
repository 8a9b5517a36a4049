"""The REST API as one blueprint: views parse the request, ask the manager, present."""

from __future__ import annotations

from typing import Any

import msgspec
from flask import Blueprint, Response, request

from cep_common.ids import PlanKey
from cep_manager.api.checkpoint_routes import checkpoint_routes
from cep_manager.api.event_routes import event_routes
from cep_manager.api.requests import read_flag, read_json, read_tenant, read_text
from cep_manager.api.statistics_routes import statistics_routes
from cep_manager.authoring.model import Trial
from cep_manager.manager_view import ManagerView, PlanSummary


class PlanList(msgspec.Struct, frozen=True):
    """The plans of a tenant."""

    tenant: int
    plans: tuple[PlanSummary, ...]


class Rebalancing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """On how many topology workers a plan should run."""

    workers: int


class Tracing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a plan's events are to be written to the workers' logs."""

    on: bool


class Renaming(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan's other name."""

    name: str


def api_blueprint(view: ManagerView) -> Blueprint:
    """Everything under `/api/v1`."""
    api = Blueprint("api", __name__, url_prefix="/api/v1")
    _plan_routes(api, view)
    _life_cycle_routes(api, view)
    _topology_routes(api, view)
    statistics_routes(api, view)
    checkpoint_routes(api, view)
    _authoring_routes(api, view)
    event_routes(api, view)
    _cluster_routes(api, view)
    return api


def _plan_routes(api: Blueprint, view: ManagerView) -> None:
    @api.get("/plans")
    def list_plans() -> Response:
        tenant = read_tenant(request)
        return _json(PlanList(tenant, view.plans(tenant)))

    @api.post("/plans")
    def deploy_plan() -> Response:
        deployed = view.deploy(
            read_tenant(request),
            read_text(request),
            replace=read_flag(request, "replace"),
            restore=request.args.get("from", ""),
        )
        return _json(deployed, 201 if deployed.created else 200)

    @api.get("/plans/<name>")
    def show_plan(name: str) -> Response:
        return _json(view.plan(_key(name)))

    @api.put("/plans/<name>")
    def replace_plan(name: str) -> Response:
        rename = read_flag(request, "rename")
        deployed = view.deploy(
            read_tenant(request),
            read_text(request),
            replace=True,
            name=name,
            rename=rename,
            restore=request.args.get("from", ""),
        )
        return _json(deployed, 201 if deployed.created else 200)

    @api.delete("/plans/<name>")
    def undeploy_plan(name: str) -> Response:
        view.undeploy(_key(name), drain=read_flag(request, "drain"))
        return Response(status=204)


def _life_cycle_routes(api: Blueprint, view: ManagerView) -> None:
    @api.post("/plans/<name>/activate")
    def activate_plan(name: str) -> Response:
        return _json(view.set_intake(_key(name), intake=True))

    @api.post("/plans/<name>/deactivate")
    def deactivate_plan(name: str) -> Response:
        return _json(view.set_intake(_key(name), intake=False))

    @api.post("/plans/<name>/trace")
    def trace_plan(name: str) -> Response:
        return _json(view.set_trace(_key(name), read_json(request, Tracing).on))

    @api.post("/plans/<name>/restart")
    def restart_plan(name: str) -> Response:
        return _json(view.restart(_key(name), restore=request.args.get("from", "")))

    @api.post("/plans/<name>/rebalance")
    def rebalance_plan(name: str) -> Response:
        return _json(view.rebalance(_key(name), read_json(request, Rebalancing).workers))

    @api.post("/plans/<name>/rename")
    def rename_plan(name: str) -> Response:
        return _json(view.rename(_key(name), read_json(request, Renaming).name))


def _topology_routes(api: Blueprint, view: ManagerView) -> None:
    @api.get("/plans/<name>/status")
    def show_status(name: str) -> Response:
        return _json(view.plan(_key(name)).status)

    @api.get("/plans/<name>/query-plan")
    def show_query_plan(name: str) -> Response:
        return Response(view.query_plan(_key(name)), content_type="application/xml; charset=utf-8")

    @api.get("/plans/<name>/topology")
    def show_topology(name: str) -> Response:
        return _json(view.graph(_key(name)))


def _authoring_routes(api: Blueprint, view: ManagerView) -> None:
    @api.get("/language")
    def show_language() -> Response:
        return _json(view.language())

    @api.post("/validate")
    def validate_plan() -> Response:
        return _json(view.validate(read_text(request)))

    @api.post("/preview")
    def preview_plan() -> Response:
        return _json(view.preview(read_tenant(request), read_text(request)))

    @api.post("/try")
    def try_plan() -> Response:
        return _json(view.try_plan(read_json(request, Trial)))


def _cluster_routes(api: Blueprint, view: ManagerView) -> None:
    @api.get("/event-flow")
    def show_event_flow() -> Response:
        return _json(view.event_flow(read_tenant(request)))

    @api.get("/cluster")
    def show_cluster() -> Response:
        return _json(view.cluster())

    @api.get("/health")
    def show_health() -> Response:
        health = view.health()
        return _json(health, 200 if health.ok else 503)


def _key(name: str) -> PlanKey:
    return PlanKey(read_tenant(request), name)


def _json(body: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, content_type="application/json")
