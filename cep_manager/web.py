"""The web application: REST API and console over a `ManagerView`, with what holds for every request."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, Response, request

from cep_common.security.web import Gate, guard, open_gate
from cep_manager.access import CALLS
from cep_manager.accounts.page_context import add_page_context
from cep_manager.api.blueprint import api_blueprint
from cep_manager.api.failures import answer_failures, failure
from cep_manager.console.views import console_blueprint
from cep_manager.manager_view import ManagerView
from cep_manager.metrics.blueprint import metrics_blueprint
from cep_manager.standby import send_to_leader
from cep_manager.storm_api.blueprint import PREFIX as STORM
from cep_manager.storm_api.blueprint import storm_blueprint, storm_refusal

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def create_app(view: ManagerView, body_bytes: int, gate: Gate | None = None) -> Flask:
    """The application that shows and commands `view`; request bodies are at most `body_bytes` long. Every request
    passes `gate`; without one the application is for loopback, and asks nobody for a token."""
    app = Flask("cep_manager", static_folder=None, template_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = body_bytes
    app.config["MAX_FORM_MEMORY_SIZE"] = body_bytes
    guard(app, gate or open_gate(), CALLS, _refuse)
    app.before_request(_refuse_other_sites)
    app.before_request(send_to_leader(view))
    app.after_request(_protect)
    answer_failures(app)
    add_page_context(app)
    app.register_blueprint(api_blueprint(view))
    app.register_blueprint(console_blueprint(view))
    app.register_blueprint(storm_blueprint(view))
    app.register_blueprint(metrics_blueprint(view))
    return app


def _refuse(status: int, code: str, message: str) -> Response:
    """A refusal in the form of the API that was called."""
    return storm_refusal(status, message) if request.path.startswith(f"{STORM}/") else failure(status, code, message)


def _refuse_other_sites() -> Response | None:
    """A page of another site may not change anything in its visitor's name: browsers say where requests come from."""
    if request.method in SAFE_METHODS:
        return None
    origin = request.headers.get("Origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.host
    if foreign or request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return _refuse(403, "cross-site", "changes are taken from the console's own pages and from scripts only")
    return None


def _protect(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = CONTENT_POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers.setdefault("Cache-Control", "no-store")
    return response
