"""The part of the REST API that is about plans and their lives."""

from __future__ import annotations

from typing import Annotated

import msgspec
from flask import Response, request
from msgspec import Meta

from cep_common.protocol.drivers import PlanHost
from cep_manager.commands.plan_commands import MOST_WORKERS
from cep_manager.errors import (
    CannotDrainError,
    ChangeUnderWayError,
    PlanExistsError,
    PlanInvalidError,
    PlansBusyError,
    PlanStoreError,
    PlanTooCostlyError,
    QuotaError,
    UnknownPlanError,
    UnknownSavepointError,
)
from cep_manager.graph.model import TopologyGraph
from cep_manager.monitoring.operations import OperationKind
from cep_manager.monitoring.overview.plan_list import PlanFilter, matching
from cep_manager.monitoring.plan_model import PlanDetails, PlanSummary
from cep_manager.monitoring.status import PlanStatus
from cep_manager.plans.outcomes import Outcome
from cep_manager.plans.stored_plan import SettingsPatch
from cep_manager.web.api.calls import Api, Media, json_body, plan_key, plan_text
from cep_manager.web.api.requests import read_tenant
from cep_manager.web.api.routes.operations import (
    StartedOperation,
    StartedUndeployment,
    change_begun,
    restart_begun,
    undeployment_begun,
)
from cep_manager.web.ports import ManagerView, PlanPort
from cep_manager.web.secret_masking import shown_details, shown_query_plan

RestoreFrom = Annotated[str, Meta(description="Savepoint to start from; `none`: without state")]


class PlanList(msgspec.Struct, frozen=True):
    """The plans of a tenant that were asked for; `total` match, whether listed or not."""

    tenant: int
    plans: tuple[PlanSummary, ...]
    total: int


class PlanListQuery(PlanFilter, frozen=True):
    """Which plans are listed."""

    q: Annotated[
        str, Meta(description="Only plans with all of these words in name, description, state or rule set")
    ] = ""
    state: Annotated[str, Meta(description="Only plans in this state")] = ""
    rule_set: Annotated[str, Meta(description="Only plans of this rule set")] = ""
    offset: Annotated[int, Meta(ge=0, description="Number of plans to skip")] = 0
    limit: Annotated[int, Meta(ge=1, le=100_000, description="Maximum number of plans")] = 100_000


class DeployRequest(msgspec.Struct, frozen=True):
    """How a plan is deployed."""

    replace: Annotated[bool, Meta(description="Replace a deployed plan of that name")] = False
    restore: RestoreFrom = msgspec.field(name="from", default="")


class ReplaceRequest(msgspec.Struct, frozen=True):
    """How a plan is replaced."""

    rename: Annotated[bool, Meta(description="Allow a text with another plan name, and rename the plan")] = False
    restore: RestoreFrom = msgspec.field(name="from", default="")


class RestartRequest(msgspec.Struct, frozen=True):
    """How a plan is restarted."""

    restore: RestoreFrom = msgspec.field(name="from", default="")


class UndeployRequest(msgspec.Struct, frozen=True):
    """How a plan is undeployed."""

    discard: Annotated[bool, Meta(description="Drop accepted events that are not processed yet")] = False


class RebalanceRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """On how many topology workers a plan should run, and where; omitted fields stay unchanged."""

    workers: Annotated[int, Meta(ge=1, le=MOST_WORKERS)] | None = None
    host: Annotated[
        PlanHost | None, Meta(description="`shared`: in a stage host; `own`: in Spark tasks of its own")
    ] = None


class TraceRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a plan's events are to be written to the workers' logs."""

    on: bool


class ReleaseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Streams whose first event a plan must not wait for; none: all that it waits for."""

    streams: tuple[str, ...] = ()


class RenameRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan's other name."""

    name: Annotated[str, Meta(min_length=1)]


_COSTLY = (PlansBusyError, PlanTooCostlyError)
_DEPLOYMENT = (PlanInvalidError, QuotaError, UnknownSavepointError, PlanStoreError, *_COSTLY)
_CHANGE = (UnknownPlanError, PlanStoreError)


def plan_routes(api: Api, view: ManagerView) -> None:
    """Add them to `api`."""
    _store_routes(api, view)
    _reading_routes(api, view)
    _life_cycle_routes(api, view)


def _store_routes(api: Api, view: ManagerView) -> None:
    @api.get("/plans", "The tenant's plans with their status", answers=PlanList, query=PlanListQuery)
    def list_plans(query: PlanListQuery) -> PlanList:
        tenant = read_tenant(request)
        found = sorted(one.key for one in matching(view.overview().snapshot, tenant, query))
        return PlanList(tenant, view.plans(tenant, found[query.offset :][: query.limit]), len(found))

    @api.post(
        "/plans",
        "Deploy the plan in the body",
        answers={201: StartedOperation, 200: StartedOperation},
        query=DeployRequest,
        body=plan_text(),
        fails=(*_DEPLOYMENT, PlanExistsError, ChangeUnderWayError),
    )
    def deploy_plan(query: DeployRequest, body: str) -> Response:
        deployed = view.deploy(read_tenant(request), body, replace=query.replace, restore=query.restore)
        return _deployed(view, deployed, "deploy" if deployed.created else "update")

    @api.put(
        "/plans/<name>",
        "Replace the plan of that name with the one in the body",
        answers={200: StartedOperation, 201: StartedOperation},
        query=ReplaceRequest,
        body=plan_text(),
        fails=(*_DEPLOYMENT, UnknownPlanError, PlanExistsError, ChangeUnderWayError),
    )
    def replace_plan(name: str, query: ReplaceRequest, body: str) -> Response:
        tenant = read_tenant(request)
        deployed = view.deploy(tenant, body, replace=True, name=name, rename=query.rename, restore=query.restore)
        if deployed.plan != name:
            return _deployed(view, deployed, "rename")
        return _deployed(view, deployed, "deploy" if deployed.created else "update")

    @api.delete(
        "/plans/<name>",
        "Undeploy the plan once its accepted events are processed",
        answers={202: StartedUndeployment, 200: StartedUndeployment},
        query=UndeployRequest,
        fails=(*_CHANGE, CannotDrainError),
    )
    def undeploy_plan(name: str, query: UndeployRequest) -> Response:
        return undeployment_begun(view, view.undeploy(plan_key(view, name), discard=query.discard))


def _deployed(view: ManagerView, deployed: Outcome, kind: OperationKind) -> Response:
    return change_begun(view, kind, deployed, 201 if deployed.created else 200)


def _reading_routes(api: Api, view: PlanPort) -> None:
    @api.get(
        "/plans/<name>",
        "One plan: text, bindings to event streams, status",
        answers=PlanDetails,
        fails=(UnknownPlanError,),
    )
    def show_plan(name: str) -> PlanDetails:
        return shown_details(view.plan(plan_key(view, name)))

    @api.get("/plans/<name>/status", "Only the plan's status", answers=PlanStatus, fails=(UnknownPlanError,))
    def show_status(name: str) -> PlanStatus:
        return view.plan(plan_key(view, name)).status

    @api.get(
        "/plans/<name>/query-plan",
        "The plan's query plan",
        answers=Media("application/xml", "The query plan; docs/query-plan/xml.md describes it"),
        fails=(UnknownPlanError, PlanInvalidError, *_COSTLY),
    )
    def show_query_plan(name: str) -> Response:
        key = plan_key(view, name)
        shown = shown_query_plan(view.query_plan(key), view.plan(key).text)
        return Response(shown, content_type="application/xml; charset=utf-8")

    @api.get(
        "/plans/<name>/topology",
        "The plan's live graph and connections",
        answers=TopologyGraph,
        fails=(UnknownPlanError,),
    )
    def show_topology(name: str) -> TopologyGraph:
        return view.graph(plan_key(view, name))


def _life_cycle_routes(api: Api, view: ManagerView) -> None:
    @api.post(
        "/plans/<name>/activate",
        "Activate the plan: workers accept events for it again",
        answers=Outcome,
        fails=_CHANGE,
    )
    def activate_plan(name: str) -> Outcome:
        return view.change_settings(plan_key(view, name), SettingsPatch(intake=True))

    @api.post(
        "/plans/<name>/deactivate",
        "Deactivate the plan: workers accept no events for it, but its state is kept",
        answers=Outcome,
        fails=_CHANGE,
    )
    def deactivate_plan(name: str) -> Outcome:
        return view.change_settings(plan_key(view, name), SettingsPatch(intake=False))

    @api.post(
        "/plans/<name>/trace",
        "Switch on or off that workers write the plan's events to their logs",
        answers=Outcome,
        body=json_body(TraceRequest),
        fails=_CHANGE,
    )
    def trace_plan(name: str, body: TraceRequest) -> Outcome:
        return view.change_settings(plan_key(view, name), SettingsPatch(trace=body.on))

    @api.post(
        "/plans/<name>/release",
        "Let event time go on without the first event of these streams; nothing is restarted",
        answers=Outcome,
        body=json_body(ReleaseRequest),
        fails=_CHANGE,
    )
    def release_streams(name: str, body: ReleaseRequest) -> Outcome:
        return view.release(plan_key(view, name), body.streams)

    @api.post(
        "/plans/<name>/restart",
        "Restart the plan's topology from its newest checkpoint, or from the one in `from`",
        answers=StartedOperation,
        query=RestartRequest,
        fails=(*_CHANGE, ChangeUnderWayError, UnknownSavepointError),
    )
    def restart_plan(name: str, query: RestartRequest) -> Response:
        return restart_begun(view, view.restart(plan_key(view, name), restore=query.restore))

    @api.post(
        "/plans/<name>/rebalance",
        "Change the number of topology workers of the plan, or move it into or out of a stage host",
        answers=StartedOperation,
        body=json_body(RebalanceRequest),
        fails=(*_CHANGE, ChangeUnderWayError, QuotaError, PlanInvalidError, *_COSTLY),
    )
    def rebalance_plan(name: str, body: RebalanceRequest) -> Response:
        return change_begun(view, "rebalance", view.rebalance(plan_key(view, name), body.workers, body.host))

    @api.post(
        "/plans/<name>/rename",
        "Rename the plan",
        answers=StartedOperation,
        body=json_body(RenameRequest),
        fails=(*_CHANGE, ChangeUnderWayError, PlanExistsError, PlanInvalidError, QuotaError, *_COSTLY),
    )
    def rename_plan(name: str, body: RenameRequest) -> Response:
        return change_begun(view, "rename", view.rename(plan_key(view, name), body.name))
