"""The REST API as one blueprint: views parse the request, ask the manager, present the answer."""

from __future__ import annotations

import msgspec
from flask import Blueprint, Flask, Response, current_app, request

from cep_manager.accounts.accounts import Accounts
from cep_manager.graph.event_flow import EventFlow
from cep_manager.monitoring.cluster_model import Cluster, Health
from cep_manager.web.api.calls import Api, Media
from cep_manager.web.api.openapi import Table, describe_api
from cep_manager.web.api.requests import read_tenant
from cep_manager.web.api.routes.accounts import account_routes
from cep_manager.web.api.routes.authoring import authoring_routes
from cep_manager.web.api.routes.checkpoints import checkpoint_routes
from cep_manager.web.api.routes.events import event_routes
from cep_manager.web.api.routes.failed_events import error_routes
from cep_manager.web.api.routes.health import health_routes
from cep_manager.web.api.routes.live import live_routes
from cep_manager.web.api.routes.nodes import node_routes
from cep_manager.web.api.routes.operations import operation_routes
from cep_manager.web.api.routes.overview import overview_routes
from cep_manager.web.api.routes.plans import plan_routes
from cep_manager.web.api.routes.processes import insight_routes
from cep_manager.web.api.routes.rule_sets import rule_routes
from cep_manager.web.api.routes.statistics import statistics_routes
from cep_manager.web.api.routes.topology import topology_routes
from cep_manager.web.api.routes.wal import wal_routes
from cep_manager.web.ports import ManagerView

PREFIX = "/api/v1"
CALLS_OF_APP, DESCRIPTION_OF_APP = "cep-api-calls", "cep-api-description"


def api_blueprint(view: ManagerView, accounts: Accounts | None = None) -> Blueprint:
    """Return everything under `/api/v1`. Without `accounts` no login is required."""
    blueprint = Blueprint("api", __name__, url_prefix=PREFIX)
    api = Api(blueprint, "Plans")
    plan_routes(api, view)
    operation_routes(api.in_area("Operations"), view)
    rule_routes(api.in_area("Rule sets"), view)
    topology_routes(api, view)
    checkpoint_routes(api.in_area("Checkpoints and savepoints"), view)
    statistics_routes(api.in_area("Statistics"), view)
    authoring_routes(api.in_area("Writing plans"), view)
    event_routes(api.in_area("Events"), view)
    error_routes(api.in_area("Failed events"), view)
    wal_routes(api.in_area("Events of missing plans"), view)
    health_routes(api.in_area("Errors, workers, checkpoints of all plans"), view)
    overview_routes(api.in_area("The system"), view)
    live_routes(api.in_area("The system"), view)
    node_routes(api.in_area("The system"), view)
    insight_routes(api.in_area("Logs and configuration"), view)
    account_routes(api.in_area("Accounts"), accounts)
    _system_routes(api.in_area("The system"), view)
    blueprint.record(lambda state: state.app.extensions.setdefault(CALLS_OF_APP, tuple(api.calls)))
    return blueprint


def api_description(app: Flask) -> Table:
    """Return the description of the API that `app` serves. It is written once, as that takes a fifth of a second."""
    if DESCRIPTION_OF_APP not in app.extensions:
        app.extensions[DESCRIPTION_OF_APP] = describe_api(app.extensions[CALLS_OF_APP])
    description: Table = app.extensions[DESCRIPTION_OF_APP]
    return description


def _system_routes(api: Api, view: ManagerView) -> None:
    @api.get("/event-flow", "Sources, event streams, plans and sinks of the tenant as one graph", answers=EventFlow)
    def show_event_flow() -> EventFlow:
        return view.event_flow(read_tenant(request))

    @api.get(
        "/cluster",
        "Manager, all managers, driver, workers, tasks, endpoints, and files of the watched folder that differ "
        "from the running plans",
        answers=Cluster,
        of_tenant=False,
    )
    def show_cluster() -> Cluster:
        return view.cluster()

    @api.get("/health", "200 if the manager works, else 503", answers={200: Health, 503: Health}, of_tenant=False)
    def show_health() -> tuple[Health, int]:
        health = view.health()
        return health, 200 if health.ok else 503

    @api.get("/openapi.json", "This description", answers=Media("application/json", "OpenAPI 3.1"), of_tenant=False)
    def describe() -> Response:
        return Response(msgspec.json.encode(api_description(current_app)), content_type="application/json")
