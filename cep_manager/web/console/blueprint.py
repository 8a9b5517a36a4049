"""The console's pages: views parse the request, ask the manager, present."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, get_args

from flask import Blueprint, redirect, render_template, request
from werkzeug.exceptions import HTTPException

from cep_common.errors import CepError
from cep_common.ids import PlanKey
from cep_common.protocol.drivers import PlanHost
from cep_common.protocol.tasks import StatisticsLevel
from cep_manager.authoring.samples import sample, samples
from cep_manager.errors import (
    BadRequestError,
    ManagerError,
    PlanExistsError,
    PlanInvalidError,
    PlanProblem,
    UnknownStreamError,
)
from cep_manager.events.model import Side
from cep_manager.plans.outcomes import Outcome
from cep_manager.plans.stored_plan import SettingsPatch
from cep_manager.web.api.caller_slots import one_at_a_time
from cep_manager.web.api.failures import answer_http, status_of
from cep_manager.web.api.requests import read_number, read_tenant, read_text
from cep_manager.web.console.page import Page, fragment, link, page
from cep_manager.web.console.pages.api import api_pages
from cep_manager.web.console.pages.checkpoints import checkpoint_pages
from cep_manager.web.console.pages.cluster import cluster_pages
from cep_manager.web.console.pages.configuration import configuration_pages
from cep_manager.web.console.pages.errors import exception_pages
from cep_manager.web.console.pages.failed_events import failed_event_pages
from cep_manager.web.console.pages.logs import log_pages
from cep_manager.web.console.pages.operators import operator_pages
from cep_manager.web.console.pages.overview import overview_pages
from cep_manager.web.console.pages.plan_list import plan_list_pages
from cep_manager.web.console.pages.state import state_pages
from cep_manager.web.console.pages.topology import topology_pages
from cep_manager.web.console.pages.workers import worker_pages
from cep_manager.web.console.texts.formats import FILTERS
from cep_manager.web.console.texts.highlight import xml_lines
from cep_manager.web.console.texts.presenters import present_problem
from cep_manager.web.ports import AuthoringPort, EventPort, ManagerView

ACTIONS = (
    "activate",
    "deactivate",
    "trace",
    "untrace",
    "restart",
    "rebalance",
    "rename",
    "savepoint",
    "statistics",
)

STARTING_TEXT = """\
@Plan:name('ExecutionPlan')
@Plan:description('Describe the plan')

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
    """Return all pages and their assets, at the root of the site."""
    console = Blueprint("console", __name__, template_folder="templates", static_folder="static")
    console.app_context_processor(lambda: {"link": link})
    for name, text in FILTERS.items():
        console.add_app_template_filter(text, name)
    console.app_errorhandler(404)(_no_page)
    overview_pages(console, view)
    plan_list_pages(console, view)
    _deploy_pages(console, view)
    _editor_fragments(console, view)
    topology_pages(console, view)
    _life_cycle_actions(console, view)
    _event_pages(console, view)
    _flow_pages(console)
    api_pages(console)
    cluster_pages(console, view)
    log_pages(console, view)
    configuration_pages(console, view)
    checkpoint_pages(console, view)
    exception_pages(console, view)
    failed_event_pages(console, view)
    state_pages(console, view)
    operator_pages(console, view)
    worker_pages(console, view)
    return console


def _deploy_pages(console: Blueprint, view: ManagerView) -> None:
    @console.get("/deploy")
    @page
    def deploy_form() -> Page:
        name = request.args.get("plan")
        begun = sample(request.args.get("sample", ""))
        new_text = begun.text if begun is not None else STARTING_TEXT
        text = view.plan(view.plan_key(read_tenant(request), name)).text if name else new_text
        return _deploy_page(text, replace=bool(name), edited=name or "")

    @console.post("/deploy")
    @page
    def deploy_plan() -> Page:
        # Browsers end the lines of a form's text with CR LF; what is stored is the text as it was written.
        text = request.form.get("text", "").replace("\r\n", "\n")
        replace = request.form.get("replace") == "yes"
        edited = request.form.get("edited", "")
        rename = request.form.get("rename") == "yes"
        if request.form.get("action") == "validate":
            with one_at_a_time():
                found = view.validate(text)
            return _deploy_page(text, replace, edited, found.problems, warnings=found.warnings, valid_plan=found.plan)
        tenant = read_tenant(request)
        try:
            deployed = view.deploy(tenant, text, replace, edited or None, rename)
        except PlanInvalidError as error:
            return _deploy_page(text, replace, edited, error.problems), status_of(error)
        except CepError as error:  # whatever it is: the text stays on the page
            remedy = "" if rename else _remedy(error, edited)
            lines = error.details.get("difference", ()) if isinstance(error, ManagerError) else ()
            page = _deploy_page(text, replace, edited, refusal=error.message, remedy=remedy, difference=lines)
            return page, status_of(error)
        notice = "unchanged" if not deployed.changed else "deployed" if deployed.created else "redeployed"
        return redirect(link("console.show_plan", name=deployed.plan, notice=notice), code=303)


def _editor_fragments(console: Blueprint, view: AuthoringPort) -> None:
    @console.post("/fragments/query-plan")
    @fragment
    def query_plan_fragment() -> Page:
        with one_at_a_time():
            found = view.preview(read_tenant(request), read_text(request))
        return render_template(
            "fragments/query_plan.html", explanation=found.explanation, query_plan=xml_lines(found.query_plan)
        )

    @console.post("/fragments/explanation")
    @fragment
    def explanation_fragment() -> Page:
        with one_at_a_time():
            found = view.explain(read_text(request))
        return render_template("fragments/operators.html", stages=found.stages)


def _remedy(error: CepError, edited: str) -> str:
    """Return the option to tick so that the same text is accepted; empty when nothing would help."""
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
    difference: Sequence[str] = (),
    valid_plan: str = "",
) -> str:
    return render_template(
        "deploy.html",
        samples=() if edited else samples(),
        text=text,
        replace=replace,
        edited=edited,
        problems=[present_problem(problem) for problem in problems],
        warnings=[present_problem(problem) for problem in warnings],
        refusal=refusal,
        remedy=remedy,
        difference=difference,
        valid_plan=valid_plan,
    )


def _life_cycle_actions(console: Blueprint, view: ManagerView) -> None:
    @console.post(f"/plans/<name>/<any({', '.join(ACTIONS)}):action>")
    @page
    def act_on_plan(name: str, action: str) -> Page:
        outcome = _act(view, view.plan_key(read_tenant(request), name), action)
        notice = action if outcome.changed else "as-before"
        if request.form.get("back") == "plans":
            return redirect(link("console.list_plans", plan=outcome.plan, notice=notice), code=303)
        return redirect(link("console.show_plan", name=outcome.plan, notice=notice), code=303)


def _act(view: ManagerView, key: PlanKey, action: str) -> Outcome:
    match action:
        case "rename":
            return view.rename(key, request.form.get("name", "").strip())
        case "rebalance":
            return view.rebalance(key, read_number(request.form.get("workers", ""), "workers"), _read_host())
        case "restart":
            return view.restart(key, restore=request.form.get("from", ""))
        case "savepoint":
            return _take_savepoint(view, key)
        case "statistics":
            return view.change_settings(key, SettingsPatch(statistics=_level(request.form.get("level", ""))))
        case "release":
            return view.release(key, ())
        case "trace" | "untrace":
            return view.change_settings(key, SettingsPatch(trace=action == "trace"))
        case _:
            return view.change_settings(key, SettingsPatch(intake=action == "activate"))


def _take_savepoint(view: ManagerView, key: PlanKey) -> Outcome:
    """Take a savepoint and return the outcome in the form of the other actions; the plan itself does not change."""
    taken = view.take_savepoint(key, request.form.get("name", "").strip())
    plan = view.plan(key)
    message = f"savepoint {taken.name} is being taken"
    return Outcome(key.plan, key.tenant, plan.topology, plan.epoch, created=False, changed=True, message=message)


def _read_host() -> PlanHost | None:
    """Return where the form says the plan is to run; None: as now. Raises BadRequestError."""
    written = request.form.get("host", "")
    if written and written not in get_args(PlanHost):
        raise BadRequestError(f"host must be one of {', '.join(get_args(PlanHost))}, not {written!r}", {"at": "host"})
    return cast("PlanHost", written) if written else None


def _level(written: str) -> StatisticsLevel:
    for level in get_args(StatisticsLevel):
        if level == written:
            return cast("StatisticsLevel", level)
    raise BadRequestError(f"level must be one of {', '.join(get_args(StatisticsLevel))}, not {written!r}")


def _flow_pages(console: Blueprint) -> None:
    @console.get("/event-flow")
    @page
    def show_event_flow() -> Page:
        return render_template("event_flow.html")


def _event_pages(console: Blueprint, view: EventPort) -> None:
    @console.get("/events")
    @page
    def list_event_streams() -> Page:
        streams = view.event_streams(read_tenant(request))
        sides = [(side, [one for one in streams if one.side == side]) for side in get_args(Side)]
        return render_template("events.html", sides=sides)

    @console.get("/events/<any(imported, exported):side>/<path:name>")
    @page
    def show_event_stream(side: str, name: str) -> Page:
        tenant = read_tenant(request)
        found = [one for one in view.event_streams(tenant) if (one.side, one.name) == (side, name)]
        if not found:
            raise UnknownStreamError(f"there is no {side} event stream {name}")
        return render_template("event_stream.html", stream=found[0])


def _no_page(error: HTTPException) -> Page:
    """Answer errors under `/api` for programs and all others as a page."""
    if request.path.startswith("/api/"):
        return answer_http(error)
    return render_template("failure.html", code="not-found", message="There is no such page."), 404
