"""The web application: REST API and console over a `ManagerView`, with what holds for every request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from flask import Flask, Response, make_response, redirect, render_template, request, url_for

from cep_common.security.web import SENT_BY_SINK, Gate, Refuse, guard, open_gate
from cep_common.web.health import add_health_routes
from cep_manager.accounts.accounts import Accounts
from cep_manager.web.access import CALLS
from cep_manager.web.account_pages.blueprint import accounts_blueprint
from cep_manager.web.api.blueprint import api_blueprint
from cep_manager.web.api.failures import answer_failures, failure
from cep_manager.web.console.blueprint import console_blueprint
from cep_manager.web.login.account_callers import AccountCallers
from cep_manager.web.login.auditing import write_down
from cep_manager.web.login.next_page import is_page
from cep_manager.web.login.page_context import add_page_context
from cep_manager.web.login.request_checks import SAFE_METHODS, ask_for_password, refuse_forgeries
from cep_manager.web.metrics.blueprint import metrics_blueprint
from cep_manager.web.ports import ClusterPort, ManagerView
from cep_manager.web.standby import send_to_leader
from cep_manager.web.storm_api.blueprint import PREFIX as STORM
from cep_manager.web.storm_api.blueprint import storm_blueprint, storm_refusal

NOT_AUTHENTICATED = 401

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def create_app(
    view: ManagerView, body_bytes: int, gate: Gate | None = None, accounts: Accounts | None = None, secure: bool = False
) -> Flask:
    """Return the application that shows and commands `view`; request bodies are at most `body_bytes` long.

    Every request passes `gate`; without one the application is for loopback, and requires no token. With
    `accounts` people can log in, and it is kept what they do; `secure`: they use HTTPS. Raises PlanStoreError.
    """
    app = Flask("cep_manager", static_folder=None, template_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = body_bytes
    app.config["MAX_FORM_MEMORY_SIZE"] = body_bytes
    gate = gate or open_gate()
    callers = AccountCallers(app, gate, accounts, secure) if accounts is not None else None
    refuse = _refusals(log_in=accounts is not None and accounts.config.login)
    guard(app, gate, CALLS, refuse, callers)
    app.before_request(_refuse_sinks(refuse))
    app.before_request(_refuse_other_sites)
    app.before_request(refuse_forgeries(refuse))
    app.before_request(ask_for_password(refuse))
    app.before_request(send_to_leader(view))
    app.after_request(_protect)
    if accounts is not None and callers is not None:
        app.after_request(write_down(accounts))
        app.after_request(callers.end_with_caller)
    answer_failures(app)
    add_page_context(app)
    app.register_blueprint(api_blueprint(view, accounts))
    app.register_blueprint(console_blueprint(view))
    app.register_blueprint(accounts_blueprint(accounts, callers))
    app.register_blueprint(storm_blueprint(view))
    app.register_blueprint(metrics_blueprint(view))
    add_health_routes(app, partial(_not_live, view), partial(_not_ready, view))
    return app


def _not_live(view: ClusterPort) -> str:
    health = view.health()
    return "" if health.ok else health.message


def _not_ready(view: ClusterPort) -> str:
    """Return whether the manager leads, or can redirect callers to the leader."""
    election = view.election()
    if election.leads or election.leader is not None:
        return ""
    return "the database cannot be used" if election.problem else "no manager leads yet"


def _refuse_sinks(refuse: Refuse) -> Callable[[], Response | None]:
    """Refuse what a sink of a plan sends: its plan would act with the rights of the worker's host."""

    def check() -> Response | None:
        if SENT_BY_SINK not in request.headers:
            return None
        return refuse(403, "sent-by-sink", "a manager takes no requests of sinks; plans are fed through workers")

    return check


def _refusals(log_in: bool) -> Refuse:
    """Refusal in the form of what was called: an answer of its API, a page, or a part of one.

    With `log_in` readers of pages who are not logged in are sent to where they can.
    """

    def refuse(status: int, code: str, message: str) -> Response:
        if request.path.startswith("/fragments/"):
            return make_response(render_template("fragments/failure.html", code=code, message=message), status)
        if not is_page(request.path):
            return _refuse_program(status, code, message)
        if log_in and status == NOT_AUTHENTICATED and "Authorization" not in request.headers:
            asked = request.full_path.removesuffix("?") if request.method in SAFE_METHODS else None
            return make_response(redirect(url_for("accounts.login_page", next=asked), code=303))
        return make_response(render_template("failure.html", code=code, message=message), status)

    return refuse


def _refuse_program(status: int, code: str, message: str) -> Response:
    return storm_refusal(status, message) if request.path.startswith(f"{STORM}/") else failure(status, code, message)


def _refuse_other_sites() -> Response | None:
    """Refuse changes that another site's page requests in its visitor's name.

    Browsers say where requests come from.
    """
    if request.method in SAFE_METHODS:
        return None
    origin = request.headers.get("Origin")
    foreign = origin is not None and origin.partition("://")[2] != request.host
    if foreign or request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return _refuse_program(
            403, "cross-site", "changes are taken from the console's own pages and from scripts only"
        )
    return None


def _protect(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = CONTENT_POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    # Not `no-referrer`: with that, browsers do not say from which origin a form comes.
    response.headers["Referrer-Policy"] = "same-origin"
    response.headers.setdefault("Cache-Control", "no-store")
    return response
