"""Long actions: the answers of calls that begin one, and the calls that report its progress."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from flask import Response, request
from msgspec import Meta

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_manager.checkpoints.view import SavepointView
from cep_manager.errors import UnknownOperationError
from cep_manager.monitoring.operations import (
    Operation,
    OperationId,
    OperationKind,
    change_of,
    operation_now,
    operations_now,
    parse_operation,
)
from cep_manager.plans.outcomes import Outcome, Undeployed
from cep_manager.web.api.calls import JSON, Api
from cep_manager.web.api.requests import read_tenant
from cep_manager.web.ports import ClusterPort, ManagerView


class StartedOperation(Outcome, frozen=True):
    """What a command did to a plan, and the `operation` to watch; empty when nothing was changed."""

    operation: str = ""


class StartedSavepoint(SavepointView, frozen=True):
    """A savepoint that is being taken, and the `operation` to watch."""

    operation: str = ""


class StartedRemoval(msgspec.Struct, frozen=True):
    """A savepoint that is being removed, and the `operation` to watch."""

    plan: str
    tenant: int
    name: str
    operation: str


class StartedUndeployment(Undeployed, frozen=True):
    """See `Undeployed`; the `operation` to watch reports when the plan and its topology are removed."""

    operation: str = ""


class OperationList(msgspec.Struct, frozen=True):
    """Operations of a tenant, newest first."""

    tenant: int
    operations: tuple[Operation, ...]


class OperationsQuery(msgspec.Struct, frozen=True):
    """How many are listed."""

    limit: Annotated[int, Meta(ge=1, le=500, description="Maximum number")] = 50


def operation_routes(api: Api, view: ManagerView) -> None:
    """Add them to `api`."""

    @api.get("/operations", "The newest operations with their progress", answers=OperationList, query=OperationsQuery)
    def list_operations(query: OperationsQuery) -> OperationList:
        tenant = read_tenant(request)
        known = view.overview()
        return OperationList(tenant, operations_now(known.snapshot, known.now_ms, tenant, query.limit))

    @api.get(
        "/operations/<path:operation>",
        "An operation with its progress",
        answers=Operation,
        fails=(UnknownOperationError,),
    )
    def show_operation(operation: str) -> Operation:
        known = view.overview()
        asked = parse_operation(read_tenant(request), operation)
        asked = msgspec.structs.replace(asked, key=view.plan_key(asked.key.tenant, asked.key.plan))
        return operation_now(known.snapshot, known.now_ms, asked)


def change_begun(view: ManagerView, kind: OperationKind, outcome: Outcome, status: int = 200) -> Response:
    """Return the answer to a command that changed a plan's form."""
    key = view.plan_key(outcome.tenant, outcome.plan)
    begun = change_of(view.overview().snapshot, kind, key, outcome.epoch) if outcome.changed else None
    started = StartedOperation(**msgspec.structs.asdict(outcome), operation=begun.text() if begun is not None else "")
    return _answer(started, begun, status)


def restart_begun(view: ManagerView, outcome: Outcome) -> Response:
    """Return the answer to a command that starts a plan again as it is."""
    begun = OperationId("restart", view.overview().now_ms, view.plan_key(outcome.tenant, outcome.plan))
    return _answer(StartedOperation(**msgspec.structs.asdict(outcome), operation=begun.text()), begun, 200)


def undeployment_begun(view: ManagerView, done: Undeployed) -> Response:
    """Return the answer to undeploying: 202 while the plan is drained, 200 when it is removed."""
    begun = OperationId("undeploy", view.overview().now_ms, view.plan_key(done.tenant, done.plan))
    started = StartedUndeployment(**msgspec.structs.asdict(done), operation=begun.text())
    return _answer(started, begun, 202 if done.draining else 200)


def savepoint_begun(view: ManagerView, taking: SavepointView) -> Response:
    """Return the answer when a savepoint is being taken."""
    begun = OperationId("savepoint", view.overview().now_ms, view.plan_key(taking.tenant, taking.plan), taking.name)
    return _answer(StartedSavepoint(**msgspec.structs.asdict(taking), operation=begun.text()), begun, 202)


def removal_begun(view: ClusterPort, key: PlanKey, name: str) -> Response:
    """Return the answer when a savepoint is being removed."""
    begun = OperationId("savepoint-removal", view.overview().now_ms, key, name)
    return _answer(StartedRemoval(key.plan, key.tenant, name, begun.text()), begun, 202)


def _answer(body: Any, begun: OperationId | None, status: int) -> Response:
    answer = Response(msgspec.json.encode(body), status, content_type=JSON)
    if begun is not None:
        answer.headers["Location"] = _address(begun)
    return answer


def _address(begun: OperationId) -> str:
    tenant = "" if begun.key.tenant == SUPER_TENANT else f"?tenant={begun.key.tenant}"
    return f"/api/v1/operations/{quote(begun.text(), safe=':')}{tenant}"
