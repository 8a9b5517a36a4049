"""The calls of the REST API for a plan's page: the topology in metrics, its stages, samples of events."""

from __future__ import annotations

from typing import Annotated

import msgspec
from flask import Response
from msgspec import Meta

from cep_manager.commands.sample_commands import LONGEST_S
from cep_manager.errors import (
    BadRequestError,
    InsightBusyError,
    PlanNotRunningError,
    ProcessSilentError,
    QueryInvalidError,
    UnknownComponentError,
    UnknownPlanError,
)
from cep_manager.graph.child_apps import ChildApp, child_apps
from cep_manager.graph.topology_view.component import component_view
from cep_manager.graph.topology_view.mermaid import mermaid
from cep_manager.graph.topology_view.model import ComponentView, TopologyView, WindowName
from cep_manager.graph.topology_view.page import topology_view
from cep_manager.history.samples import SampleReport
from cep_manager.state_queries.model import StateList, StateQuestion, StateRows
from cep_manager.web.api.calls import Api, Media, json_body, plan_key
from cep_manager.web.ports import ManagerView


class TopologyQuery(msgspec.Struct, frozen=True):
    """In which window."""

    window: Annotated[
        WindowName, Meta(description="Window of the counters: the last ten minutes, three hours, day, or all time")
    ] = "10m"


class StageQuery(msgspec.Struct, frozen=True):
    """Query parameters: the stage."""

    component: Annotated[str, Meta(description="Only this stage")] = ""


class SampleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which events of a plan to sample.

    About `percent` of a hundred events that pass the stage `component` (empty: any), for `for_s` seconds; a `percent`
    of 0 stops sampling.
    """

    component: str = ""
    percent: Annotated[float, Meta(ge=0, le=100)] = 10
    for_s: Annotated[int, Meta(ge=1, le=LONGEST_S)] = 60


def topology_routes(api: Api, view: ManagerView) -> None:
    """Add them to `api`."""

    @api.get(
        "/plans/<name>/components",
        "The plan's page: summary, windows, stages in metrics, tasks, connections",
        answers=TopologyView,
        query=TopologyQuery,
        fails=(UnknownPlanError,),
    )
    def list_components(name: str, query: TopologyQuery) -> TopologyView:
        key, overview = plan_key(view, name), view.overview()
        overview.snapshot.record(key)
        return topology_view(overview, key, query.window)

    @api.get(
        "/plans/<name>/components/<path:component>",
        "A stage: its instances, streams, queries, latencies, errors and sampled events",
        answers=ComponentView,
        query=TopologyQuery,
        fails=(UnknownPlanError, UnknownComponentError),
    )
    def show_component(name: str, component: str, query: TopologyQuery) -> ComponentView:
        key, overview = plan_key(view, name), view.overview()
        overview.snapshot.record(key)
        return component_view(overview, key, component, query.window)

    @api.get(
        "/plans/<name>/apps",
        "The plan's child apps: the queries, place and rate of each instance of its execution groups",
        answers=list[ChildApp],
        fails=(UnknownPlanError,),
    )
    def list_child_apps(name: str) -> list[ChildApp]:
        key, snapshot = plan_key(view, name), view.overview().snapshot
        record = snapshot.record(key)
        return list(child_apps(snapshot, record))

    @api.get(
        "/plans/<name>/topology.mmd",
        "The live graph as Mermaid's text",
        answers=Media("text/plain", "A flow chart"),
        fails=(UnknownPlanError,),
    )
    def draw_topology(name: str) -> Response:
        return Response(mermaid(view.graph(plan_key(view, name))), content_type="text/plain; charset=utf-8")

    @api.get(
        "/plans/<name>/state",
        "The tables, named windows and aggregations of the plan that can be queried",
        answers=StateList,
        fails=(UnknownPlanError, PlanNotRunningError),
    )
    def list_state(name: str) -> StateList:
        return view.state_list(plan_key(view, name))

    @api.post(
        "/plans/<name>/query",
        "Read a table, named window or aggregation of the running plan with an on-demand query",
        answers=StateRows,
        body=json_body(StateQuestion),
        fails=(UnknownPlanError, QueryInvalidError, PlanNotRunningError, ProcessSilentError, InsightBusyError),
    )
    def query_state(name: str, body: StateQuestion) -> StateRows:
        return view.query_state(plan_key(view, name), body)

    @api.post(
        "/plans/<name>/sample",
        "Sample events that pass through the plan's stages, for a limited time",
        answers=SampleReport,
        body=json_body(SampleRequest),
        fails=(UnknownPlanError, BadRequestError),
    )
    def sample_plan(name: str, body: SampleRequest) -> SampleReport:
        return view.sample(plan_key(view, name), body.component, body.percent, body.for_s)

    @api.get(
        "/plans/<name>/samples",
        "The sampling settings of the plan, and the newest sampled events",
        answers=SampleReport,
        query=StageQuery,
        fails=(UnknownPlanError,),
    )
    def list_samples(name: str, query: StageQuery) -> SampleReport:
        return view.samples(plan_key(view, name), query.component)
