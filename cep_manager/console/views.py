"""The console's pages: views parse the request, ask the manager, present."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, get_args

from flask import Blueprint, Response, redirect, render_template, request, url_for
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as AnyResponse

from cep_common.errors import CepError
from cep_common.ids import SUPER_TENANT, PlanKey
from cep_manager.api.failures import answer_http, status_of
from cep_manager.api.requests import read_number, read_tenant, read_text
from cep_manager.compiled_plan import PlanProblem
from cep_manager.console.highlight import siddhi_lines, xml_lines
from cep_manager.console.presenters import present_cluster, present_connections, present_plan, present_problem
from cep_manager.errors import BadRequestError, PlanExistsError, PlanInvalidError, UnknownStreamError
from cep_manager.events.model import Side
from cep_manager.manager_view import ManagerView, Outcome

Page = tuple[str, int] | str | AnyResponse

NOTICES = {
    "deployed": "{plan} was deployed.",
    "redeployed": "{plan} is being updated; what ran before runs on until the new topology does.",
    "unchanged": "{plan} is deployed with the same text; nothing was changed.",
    "undeployed": "{plan} was undeployed.",
    "activate": "{plan} was activated: workers take events in for it.",
    "deactivate": "{plan} was deactivated: workers take no events in for it, its state is kept.",
    "restart": "{plan} is restarted.",
    "trace": "{plan} is traced: workers write its events to their logs.",
    "untrace": "{plan} is not traced any more.",
    "rebalance": "{plan} is being rebalanced; what ran before runs on until the new topology does.",
    "rename": "{plan} has its new name.",
    "as-before": "{plan} is as asked for already; nothing was changed.",
}

STARTING_TEXT = """\
@Plan:name('ExecutionPlan')
@Plan:description('What the plan is for')

@Import('InStream:1.0.0')
define stream InStream (name string, value double);

@Export('OutStream:1.0.0')
define stream OutStream (name string, value double);

@info(name='large')
from InStream[value > 100.0]
select name, value
insert into OutStream;
"""


def console_blueprint(view: ManagerView) -> Blueprint:
    """All pages and their assets, at the root of the site."""
    console = Blueprint("console", __name__, template_folder="templates", static_folder="static")
    console.app_context_processor(lambda: {"link": _link})
    console.app_errorhandler(404)(_no_page)
    _list_pages(console, view)
    _deploy_pages(console, view)
    _editor_fragments(console, view)
    _plan_pages(console, view)
    _life_cycle_actions(console, view)
    _event_pages(console, view)
    _flow_pages(console)
    _cluster_pages(console, view)
    return console


def _list_pages(console: Blueprint, view: ManagerView) -> None:
    @console.get("/")
    @_page
    def list_plans() -> Page:
        return render_template("plans.html", plans=_rows(view), notice=_notice())

    @console.get("/fragments/plans")
    @_fragment
    def list_fragment() -> Page:
        return render_template("fragments/plans.html", plans=_rows(view))


def _deploy_pages(console: Blueprint, view: ManagerView) -> None:
    @console.get("/deploy")
    @_page
    def deploy_form() -> Page:
        name = request.args.get("plan")
        text = view.plan(PlanKey(read_tenant(request), name)).text if name else STARTING_TEXT
        return _deploy_page(text, replace=bool(name), edited=name or "")

    @console.post("/deploy")
    @_page
    def deploy_plan() -> Page:
        # Browsers end the lines of a form's text with CR LF; what is stored is the text as it was written.
        text = request.form.get("text", "").replace("\r\n", "\n")
        replace = request.form.get("replace") == "yes"
        edited = request.form.get("edited", "")
        rename = request.form.get("rename") == "yes"
        if request.form.get("action") == "validate":
            found = view.validate(text)
            return _deploy_page(text, replace, edited, found.problems, warnings=found.warnings, valid_plan=found.plan)
        tenant = read_tenant(request)
        try:
            deployed = view.deploy(tenant, text, replace, edited or None, rename)
        except PlanInvalidError as error:
            return _deploy_page(text, replace, edited, error.problems), status_of(error)
        except CepError as error:  # whatever it is: the text stays on the page
            remedy = "" if rename else _remedy(error, edited)
            return _deploy_page(text, replace, edited, refusal=error.message, remedy=remedy), status_of(error)
        notice = "unchanged" if not deployed.changed else "deployed" if deployed.created else "redeployed"
        return redirect(_link("console.show_plan", name=deployed.plan, notice=notice), code=303)


def _editor_fragments(console: Blueprint, view: ManagerView) -> None:
    @console.post("/fragments/query-plan")
    @_fragment
    def query_plan_fragment() -> Page:
        found = view.preview(read_tenant(request), read_text(request))
        return render_template(
            "fragments/query_plan.html", explanation=found.explanation, query_plan=xml_lines(found.query_plan)
        )


def _remedy(error: CepError, edited: str) -> str:
    """What to tick so that the same text is taken; empty when nothing would help."""
    if isinstance(error, PlanExistsError):
        return "Replace the deployed plan"
    return f"Rename {edited}" if isinstance(error, BadRequestError) and edited else ""


def _deploy_page(
    text: str,
    replace: bool,
    edited: str,
    problems: tuple[PlanProblem, ...] = (),
    warnings: tuple[PlanProblem, ...] = (),
    refusal: str = "",
    remedy: str = "",
    valid_plan: str = "",
) -> str:
    return render_template(
        "deploy.html",
        text=text,
        replace=replace,
        edited=edited,
        problems=[present_problem(problem) for problem in problems],
        warnings=[present_problem(problem) for problem in warnings],
        refusal=refusal,
        remedy=remedy,
        valid_plan=valid_plan,
    )


def _plan_pages(console: Blueprint, view: ManagerView) -> None:
    @console.get("/plans/<name>")
    @_page
    def show_plan(name: str) -> Page:
        key = PlanKey(read_tenant(request), name)
        plan = view.plan(key)
        return render_template(
            "plan.html",
            plan=present_plan(plan),
            connections=present_connections(view.graph(key)),
            text=siddhi_lines(plan.text),
            query_plan=_query_plan(view, key),
            notice=_notice(name),
            intake=plan.status.topology.intake,
            trace=plan.status.topology.trace,
            workers=plan.status.topology.tasks_required,
        )

    @console.get("/fragments/plans/<name>")
    @_fragment
    def plan_fragment(name: str) -> Page:
        key = PlanKey(read_tenant(request), name)
        connections = present_connections(view.graph(key))
        return render_template("fragments/plan.html", plan=present_plan(view.plan(key)), connections=connections)

    @console.get("/plans/<name>/undeploy")
    @_page
    def undeploy_form(name: str) -> Page:
        return render_template("undeploy.html", plan=present_plan(view.plan(PlanKey(read_tenant(request), name))))

    @console.post("/plans/<name>/undeploy")
    @_page
    def undeploy_plan(name: str) -> Page:
        view.undeploy(PlanKey(read_tenant(request), name))
        return redirect(_link("console.list_plans", notice="undeployed", plan=name), code=303)


def _life_cycle_actions(console: Blueprint, view: ManagerView) -> None:
    @console.post("/plans/<name>/<any(activate, deactivate, trace, untrace, restart, rebalance, rename):action>")
    @_page
    def act_on_plan(name: str, action: str) -> Page:
        outcome = _act(view, PlanKey(read_tenant(request), name), action)
        notice = action if outcome.changed else "as-before"
        return redirect(_link("console.show_plan", name=outcome.plan, notice=notice), code=303)


def _act(view: ManagerView, key: PlanKey, action: str) -> Outcome:
    match action:
        case "rename":
            return view.rename(key, request.form.get("name", "").strip())
        case "rebalance":
            return view.rebalance(key, read_number(request.form.get("workers", ""), "workers"))
        case "restart":
            return view.restart(key)
        case "trace" | "untrace":
            return view.set_trace(key, trace=action == "trace")
        case _:
            return view.set_intake(key, intake=action == "activate")


def _flow_pages(console: Blueprint) -> None:
    @console.get("/event-flow")
    @_page
    def show_event_flow() -> Page:
        return render_template("event_flow.html")


def _event_pages(console: Blueprint, view: ManagerView) -> None:
    @console.get("/events")
    @_page
    def list_event_streams() -> Page:
        streams = view.event_streams(read_tenant(request))
        sides = [(side, [one for one in streams if one.side == side]) for side in get_args(Side)]
        return render_template("events.html", sides=sides)

    @console.get("/events/<any(imported, exported):side>/<path:name>")
    @_page
    def show_event_stream(side: str, name: str) -> Page:
        tenant = read_tenant(request)
        found = [one for one in view.event_streams(tenant) if (one.side, one.name) == (side, name)]
        if not found:
            raise UnknownStreamError(f"there is no {side} event stream {name}")
        return render_template("event_stream.html", stream=found[0])


def _cluster_pages(console: Blueprint, view: ManagerView) -> None:
    @console.get("/cluster")
    @_page
    def show_cluster() -> Page:
        return render_template("cluster.html", cluster=present_cluster(view.cluster()))

    @console.get("/fragments/cluster")
    @_fragment
    def cluster_fragment() -> Page:
        return render_template("fragments/cluster.html", cluster=present_cluster(view.cluster()))


def _no_page(error: HTTPException) -> Page:
    """What is under `/api` is asked for by programs; all else by people."""
    if request.path.startswith("/api/"):
        return answer_http(error)
    return render_template("failure.html", code="not-found", message="There is no such page."), 404


def _page(show: Callable[..., Page]) -> Callable[..., Page]:
    """The view with errors shown as a page."""

    @functools.wraps(show)
    def shown(**arguments: str) -> Page:
        try:
            return show(**arguments)
        except CepError as error:
            status = status_of(error)
            return render_template("failure.html", code=error.code, message=error.message), status

    return shown


def _fragment(show: Callable[..., Page]) -> Callable[..., Page]:
    """The view with errors shown in place of the fragment; the status tells the page's script."""

    @functools.wraps(show)
    def shown(**arguments: str) -> Page:
        try:
            return show(**arguments)
        except CepError as error:
            text = render_template("fragments/failure.html", code=error.code, message=error.message)
            return Response(text, status_of(error))

    return shown


def _rows(view: ManagerView) -> list[object]:
    return [present_plan(plan) for plan in view.plans(read_tenant(request))]


def _query_plan(view: ManagerView, key: PlanKey) -> list[list[tuple[str, str]]]:
    """The XML's lines; none when the stored text cannot be compiled any more (the status says why)."""
    try:
        return xml_lines(view.query_plan(key))
    except PlanInvalidError:
        return []


def _notice(plan: str = "") -> str:
    text = NOTICES.get(request.args.get("notice", ""), "")
    return text.format(plan=plan or request.args.get("plan", ""))


def _link(endpoint: str, **values: Any) -> str:
    """The address of a page, for the same tenant."""
    return url_for(endpoint, **{**_tenant_query(), **values})


def _tenant_query() -> dict[str, Any]:
    """What links must carry so that they stay with the tenant."""
    try:
        tenant = read_tenant(request)
    except CepError:
        return {}
    return {} if tenant == SUPER_TENANT else {"tenant": tenant}
