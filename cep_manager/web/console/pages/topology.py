"""A plan's page and its stages' pages, and what can be done to a plan from there."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, redirect, render_template, request

from cep_common.ids import PlanKey
from cep_manager.commands.plan_commands import MOST_WORKERS
from cep_manager.errors import BadRequestError, PlanInvalidError
from cep_manager.graph.child_apps import ChildApp, child_apps
from cep_manager.graph.topology_view.component import component_view
from cep_manager.graph.topology_view.model import TopologyHead, TopologyView, WindowName
from cep_manager.graph.topology_view.page import topology_head, topology_view
from cep_manager.scaling.model import PlanScaling
from cep_manager.web.api.requests import read_number, read_tenant
from cep_manager.web.console.page import Page, fragment, link, notice_of_deed, page
from cep_manager.web.console.texts.highlight import siddhi_lines, xml_lines
from cep_manager.web.console.texts.metric_columns import COMPONENT_COLUMNS, METRICS
from cep_manager.web.console.texts.presenters import present_plan
from cep_manager.web.console.texts.topology import (
    WINDOW_WORDS,
    actions,
    capacity_step,
    connection_texts,
    error_words,
    histogram_bars,
    plan_lines,
    query_text,
    share_of_core,
    stage_tables,
    summary,
)
from cep_manager.web.ports import ManagerView, PlanPort
from cep_manager.web.secret_masking import shown_query_plan, shown_text

PICTURE = (640.0, 120.0)
"""Width and height of the latencies' picture, in its units."""

MOST_APPS = 64
"""The number of child apps that are shown; `cep status PLAN --apps` lists all."""

_WORDS = {
    "metrics": METRICS,
    "window_words": WINDOW_WORDS,
    "capacity_step": capacity_step,
    "error_words": error_words,
    "share_of_core": share_of_core,
}
"""What the templates of these pages ask for."""


def topology_pages(console: Blueprint, view: ManagerView) -> None:
    """Add them to `console`."""
    _plan_pages(console, view)
    _stage_pages(console, view)
    _undeploying(console, view)


def _plan_pages(console: Blueprint, view: ManagerView) -> None:
    @console.get("/plans/<name>")
    @page
    def show_plan(name: str) -> Page:
        shown = _topology_view(view, name)
        plan = view.plan(_key(view, name))
        compiled = view.overview().snapshot.record(_key(view, name)).compiled
        queries = {stage.name: stage.queries for stage in compiled.components} if compiled is not None else {}
        return render_template(
            "plan.html",
            **_of_page(shown, _apps(view, name), view.scaling(_key(view, name))),
            text=plan_lines(siddhi_lines(shown_text(plan.text)), queries),
            query_plan=_query_plan(view, _key(view, name)),
            notice=notice_of_deed(name),
        )

    @console.get("/fragments/plans/<name>/head")
    @fragment
    def plan_head_fragment(name: str) -> Page:
        overview, key = view.overview(), _key(view, name)
        overview.snapshot.record(key)
        return render_template("fragments/plan_head.html", **_of_head(topology_head(overview, key)))

    @console.get("/fragments/plans/<name>")
    @fragment
    def plan_fragment(name: str) -> Page:
        shown, scaling = _topology_view(view, name), view.scaling(_key(view, name))
        return render_template("fragments/plan.html", **_of_page(shown, _apps(view, name), scaling))


def _stage_pages(console: Blueprint, view: ManagerView) -> None:
    @console.get("/plans/<name>/components/<path:component>")
    @page
    def show_component(name: str, component: str) -> Page:
        return render_template("component.html", **_of_stage(view, name, component), notice=notice_of_deed(name))

    @console.get("/fragments/plans/<name>/components/<path:component>")
    @fragment
    def component_fragment(name: str, component: str) -> Page:
        return render_template("fragments/component.html", **_of_stage(view, name, component))

    @console.post("/plans/<name>/sample")
    @page
    def sample_plan(name: str) -> Page:
        component = request.form.get("component", "")
        percent = read_number(request.form.get("percent", ""), "percent")
        seconds = read_number(request.form.get("for_s", "60"), "for_s")
        view.sample(_key(view, name), component, percent, seconds)
        if component:
            return redirect(link("console.show_component", name=name, component=component, _anchor="samples"), code=303)
        return redirect(link("console.show_plan", name=name, notice="sample" if percent else "unsample"), code=303)


def _undeploying(console: Blueprint, view: ManagerView) -> None:
    @console.get("/plans/<name>/undeploy")
    @page
    def undeploy_form(name: str) -> Page:
        plan = view.plan(_key(view, name))
        return render_template("undeploy.html", plan=present_plan(plan), waiting=plan.status.unprocessed)

    @console.post("/plans/<name>/undeploy")
    @page
    def undeploy_plan(name: str) -> Page:
        done = view.undeploy(_key(view, name), discard=request.form.get("discard") == "yes")
        if done.draining:
            return redirect(link("console.list_plans", notice="draining", plan=name), code=303)
        dropped = {"events": done.discarded_events, "results": done.discarded_results}
        notice = "discarded" if any(dropped.values()) else "undeployed"
        return redirect(link("console.list_plans", notice=notice, plan=name, **dropped), code=303)


def _topology_view(view: ManagerView, name: str) -> TopologyView:
    overview, key = view.overview(), _key(view, name)
    overview.snapshot.record(key)
    return topology_view(overview, key, _window())


def _apps(view: ManagerView, name: str) -> tuple[ChildApp, ...]:
    """Return the child apps of a plan that has several; none of another plan."""
    overview, key = view.overview(), _key(view, name)
    apps = child_apps(overview.snapshot, overview.snapshot.record(key), texts=False)
    return apps if len(apps) > 1 else ()


def _of_head(head: TopologyHead) -> dict[str, Any]:
    return {
        **_WORDS,
        "told": head,
        "summary": summary(head),
        "most_workers": MOST_WORKERS,
        "actions": actions(head.status, stages=head.tasks > 0),
    }


def _of_page(topology: TopologyView, apps: tuple[ChildApp, ...], scaling: PlanScaling) -> dict[str, Any]:
    return {
        "apps": apps[:MOST_APPS],
        "apps_left_out": max(0, len(apps) - MOST_APPS),
        **_of_head(topology),
        "scaling": scaling,
        "tables": stage_tables(topology),
        "connections": connection_texts(topology.connections),
    }


def _of_stage(view: ManagerView, name: str, component: str) -> dict[str, Any]:
    overview, key = view.overview(), _key(view, name)
    record = overview.snapshot.record(key)
    shown = component_view(overview, key, component, _window())
    return {
        **_WORDS,
        "told": shown,
        "columns": COMPONENT_COLUMNS[shown.stage.kind],
        "bars": histogram_bars(shown.latencies, *PICTURE),
        "picture": PICTURE,
        "queries": [(query, siddhi_lines(shown_text(query_text(record.text, query)))) for query in shown.queries],
    }


def _window() -> WindowName:
    """Return the window that the address asks for. Raises BadRequestError."""
    written = request.args.get("window", "10m")
    for name in WINDOW_WORDS:
        if written == name:
            return name
    raise BadRequestError(f"window must be one of {', '.join(WINDOW_WORDS)}, not {written[:40]!r}")


def _query_plan(view: PlanPort, key: PlanKey) -> list[list[tuple[str, str]]]:
    """Return the XML's lines; none when the stored text no longer compiles (the status says why)."""
    try:
        return xml_lines(shown_query_plan(view.query_plan(key), view.plan(key).text))
    except PlanInvalidError:
        return []


def _key(view: PlanPort, name: str) -> PlanKey:
    return view.plan_key(read_tenant(request), name)
