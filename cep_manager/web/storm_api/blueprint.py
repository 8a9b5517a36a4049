"""Storm UI's REST API as one blueprint: views parse the request, ask the manager, present."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

import msgspec
from flask import Blueprint, Response, request
from werkzeug.exceptions import HTTPException

from cep_common.errors import CepError, UnauthorisedError
from cep_common.security.web import answer_for
from cep_manager.monitoring.cluster_model import Overview
from cep_manager.monitoring.storm_topology.errors import NotAliveError, StormRequestError
from cep_manager.monitoring.storm_topology.model import Slots, StormTopology, supervisors, topologies, topology
from cep_manager.monitoring.storm_topology.texts import StormWindow
from cep_manager.web.api.requests import read_flag, read_number, read_tenant
from cep_manager.web.ports import ManagerView
from cep_manager.web.storm_api import cluster
from cep_manager.web.storm_api.actions import StormOperations
from cep_manager.web.storm_api.component_page import component_page
from cep_manager.web.storm_api.stream_metrics import stream_metrics
from cep_manager.web.storm_api.topology_page import topology_page, topology_workers
from cep_manager.web.storm_api.visualization import visualization, visualization_table

logger = logging.getLogger(__name__)

PREFIX = "/storm/api/v1"


class _Moment:
    """All that one request may see: of the tenant that it names, else of all tenants that its principal acts for."""

    def __init__(self, view: ManagerView, operations: StormOperations) -> None:
        """Raise BadRequestError for parameters that every call takes and that cannot be understood."""
        if "callback" in request.args:
            raise StormRequestError(
                "only JSON is supported: callbacks (JSONP) for pages of other sites are not allowed"
            )
        read_flag(request, "sys")  # no component and no stream is the system's own
        overview = view.overview()
        visible = {key: record for key, record in overview.snapshot.plans.items() if _is_visible(key.tenant)}
        snapshot = msgspec.structs.replace(overview.snapshot, plans=visible)
        self.overview: Overview = msgspec.structs.replace(overview, snapshot=snapshot)
        self.killed = operations.kills.pending()
        self.window = StormWindow(request.args.get("window"))

    def all(self) -> tuple[StormTopology, ...]:
        return tuple(topologies(self.overview, self.killed))

    def topology(self, identifier: str) -> StormTopology:
        return topology(self.overview, identifier, self.killed)

    def slots(self) -> tuple[Slots, ...]:
        return supervisors(self.overview, self.all())


def _is_visible(tenant: int) -> bool:
    if ("tenant" in request.args or "tenant" in request.headers) and read_tenant(request) != tenant:
        return False
    try:
        answer_for(tenant)
    except UnauthorisedError:
        return False
    return True


def storm_blueprint(view: ManagerView) -> Blueprint:
    """Return everything under `/storm/api/v1`."""
    storm = Blueprint("storm", __name__, url_prefix=PREFIX)
    operations = StormOperations(view)
    _cluster_routes(storm, view, operations)
    _topology_routes(storm, view, operations)
    _log_routes(storm, view, operations)
    _operation_routes(storm, view, operations)
    storm.add_url_rule("/<path:call>", "unknown_call", _unknown_call, methods=["GET", "POST", "PUT", "DELETE"])
    storm.register_error_handler(CepError, _known_failure)
    storm.register_error_handler(HTTPException, _http_failure)
    storm.register_error_handler(Exception, _unexpected_failure)
    return storm


def _cluster_routes(storm: Blueprint, view: ManagerView, operations: StormOperations) -> None:
    @storm.get("/cluster/summary")
    def cluster_summary() -> Response:
        moment = _Moment(view, operations)
        return _json(cluster.cluster_summary(moment.overview, moment.all(), moment.slots()))

    @storm.get("/cluster/configuration")
    def cluster_configuration() -> Response:
        return _json(cluster.cluster_configuration(_Moment(view, operations).overview))

    @storm.get("/nimbus/summary")
    def nimbus_summary() -> Response:
        return _json(cluster.nimbus_summary(_Moment(view, operations).overview))

    @storm.get("/supervisor/summary")
    def supervisor_summary() -> Response:
        moment = _Moment(view, operations)
        return _json(cluster.supervisor_summary(moment.overview, moment.slots()))

    @storm.get("/supervisor")
    def supervisor() -> Response:
        moment = _Moment(view, operations)
        identifier, host = request.args.get("id"), request.args.get("host")
        chosen = [one for one in moment.slots() if identifier == one.executor.executor or host == one.executor.host]
        return _json(cluster.supervisor_page(moment.overview, chosen))

    @storm.get("/topology/summary")
    def topology_summary() -> Response:
        moment = _Moment(view, operations)
        return _json(cluster.topology_summary(moment.all(), moment.overview.now_ms))

    @storm.get("/history/summary")
    def history_summary() -> Response:
        return _json(cluster.history_summary(_Moment(view, operations).all()))

    @storm.get("/owner-resources", defaults={"owner": None})
    @storm.get("/owner-resources/<owner>")
    def owner_resources(owner: str | None) -> Response:
        return _json(cluster.owner_resources(_Moment(view, operations).all(), owner))


def _topology_routes(storm: Blueprint, view: ManagerView, operations: StormOperations) -> None:
    @storm.get("/topology/<identifier>")
    def show_topology(identifier: str) -> Response:
        moment = _Moment(view, operations)
        return _json(topology_page(moment.overview, moment.topology(identifier), moment.slots(), moment.window))

    @storm.get("/topology/<identifier>/component/<path:name>")
    def show_component(identifier: str, name: str) -> Response:
        moment = _Moment(view, operations)
        found = moment.topology(identifier)
        component = found.component(name)
        if component is None:
            raise StormRequestError(f"topology {identifier} has no component {name[:80]}")
        return _json(component_page(moment.overview, found, component, moment.window))

    @storm.get("/topology/<identifier>/metrics")
    def show_metrics(identifier: str) -> Response:
        moment = _Moment(view, operations)
        return _json(stream_metrics(moment.overview, moment.topology(identifier), moment.window))

    @storm.get("/topology/<identifier>/visualization")
    def show_visualization(identifier: str) -> Response:
        moment = _Moment(view, operations)
        return _json(visualization(moment.overview, moment.topology(identifier), moment.window))

    @storm.get("/topology/<identifier>/visualization-init")
    def show_streams(identifier: str) -> Response:
        found = _Moment(view, operations).topology(identifier)
        return _json({"visualizationTable": visualization_table(found)})

    @storm.get("/topology-workers/<identifier>")
    def show_workers(identifier: str) -> Response:
        return _json(topology_workers(_Moment(view, operations).topology(identifier)))

    @storm.get("/topology/<identifier>/lag")
    def show_lag(identifier: str) -> Response:
        _Moment(view, operations).topology(identifier)
        return _json({})  # no receiver reads from Kafka: workers do


def _log_routes(storm: Blueprint, view: ManagerView, operations: StormOperations) -> None:
    @storm.get("/topology/<identifier>/logconfig")
    def show_log_levels(identifier: str) -> Response:
        _Moment(view, operations).topology(identifier)
        return _json({"namedLoggerLevels": {}})

    @storm.post("/topology/<identifier>/logconfig")
    def set_log_levels(identifier: str) -> Response:
        _Moment(view, operations).topology(identifier)
        raise StormRequestError(
            "log levels are part of each process's configuration and cannot be changed while it runs"
        )

    @storm.route("/topology/<identifier>/profiling/<path:what>", methods=["GET", "POST"])
    def profile(identifier: str, what: str) -> Response:
        _Moment(view, operations).topology(identifier)
        raise StormRequestError(f"tasks cannot be profiled through this API ({what[:40]})")


def _operation_routes(storm: Blueprint, view: ManagerView, operations: StormOperations) -> None:
    def found(identifier: str) -> StormTopology:
        return _Moment(view, operations).topology(identifier)

    @storm.post("/topology/<identifier>/activate")
    def activate(identifier: str) -> Response:
        return _json(operations.activate(found(identifier)))

    @storm.post("/topology/<identifier>/deactivate")
    def deactivate(identifier: str) -> Response:
        return _json(operations.deactivate(found(identifier)))

    @storm.post("/topology/<identifier>/rebalance/<wait>")
    def rebalance(identifier: str, wait: str) -> Response:
        read_number(wait, "the wait")
        return _json(operations.rebalance(found(identifier), request.get_data()))

    @storm.post("/topology/<identifier>/kill/<wait>")
    def kill(identifier: str, wait: str) -> Response:
        return _json(operations.kill(found(identifier), read_number(wait, "the wait")))

    @storm.post("/topology/<identifier>/debug/<any(enable, disable):action>/<percent>")
    def debug(identifier: str, action: str, percent: str) -> Response:
        read_number(percent, "the share")
        return _json(operations.debug(found(identifier), action))

    @storm.post("/topology/<identifier>/component/<path:name>/debug/<path:what>")
    def debug_component(identifier: str, name: str, what: str) -> Response:
        found(identifier)
        raise StormRequestError(
            f"events are logged where they come in and go out, not at {name[:80]} (debug/{what[:40]})"
        )


def _unknown_call(call: str) -> Response:
    return _failure(404, "404 Not Found", f"no such call: {request.method} {PREFIX}/{call[:80]}; see docs/storm-api.md")


def _json(body: dict[str, Any], status: int = 200) -> Response:
    answer = Response(msgspec.json.encode(body), status, content_type="application/json;charset=utf-8")
    answer.headers["Cache-Control"] = "no-cache, no-store"
    return answer


def _failure(status: int, error: str, message: str) -> Response:
    return _json({"error": error, "errorMessage": message}, status)


def _known_failure(error: CepError) -> Response:
    """Storm answers 500 to whatever it cannot do, an unknown topology included, and clients look for that."""
    message = error.message if isinstance(error, NotAliveError) else f"{error.message} [{error.code}]"
    return _failure(500, "500 Internal Server Error", message)


def storm_refusal(status: int, message: str) -> Response:
    """Return the response to a request that is refused before it is handled."""
    return _failure(status, f"{status} {HTTPStatus(status).phrase}", message)


def _http_failure(error: HTTPException) -> Response:
    status = error.code or 500
    return _failure(status, f"{status} {error.name}", error.description or error.name)


def _unexpected_failure(error: Exception) -> Response:
    logger.error("request failed method=%s path=%s", request.method, request.path, exc_info=error)
    return _failure(500, "500 Internal Server Error", "the manager failed; its log says more")
