"""What a manager that does not lead answers over HTTP: where the leader is."""

from __future__ import annotations

from collections.abc import Callable

from flask import Response, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from cep_common.sockets.transport import NO_LEADER_KNOWN
from cep_common.web.health import HEALTH_CALLS
from cep_manager.monitoring.cluster_model import ManagerMember
from cep_manager.web.api.failures import failure
from cep_manager.web.ports import ClusterPort
from cep_manager.web.storm_api.blueprint import PREFIX as STORM
from cep_manager.web.storm_api.blueprint import storm_refusal

ALWAYS_ANSWERED = frozenset(
    {*HEALTH_CALLS, "api.show_health", "api.describe", "api.list_nodes", "console.static", "metrics.show_metrics"}
)
"""What does not depend on the leader."""

CODE, NO_DATABASE = "not-leader", "plan-store"
AGAIN_AFTER_S = 1
"""Retry interval while no manager leads."""


def send_to_leader(view: ClusterPort) -> Callable[[], Response | AnyResponse | None]:
    """Return a check of every request: None when this manager leads.

    Programs and the readers of pages are sent to the leader; a form that was sent from a page of this manager is not,
    since other sites' forms are refused there.
    """

    def check() -> Response | AnyResponse | None:
        if request.endpoint in ALWAYS_ANSWERED:
            return None
        election = view.election()
        if election.leads:
            return None
        # Without the database no manager can lead, so report that as the cause.
        reported, code = _leader_text(election.leader), CODE
        if election.leader is None and election.problem:
            reported, code = f"no manager leads, as the database cannot be used: {election.problem}", NO_DATABASE
        if request.path.startswith(("/api/", f"{STORM}/")):
            return _answer(election.leader, code, reported)
        if request.path.startswith("/fragments/"):
            return Response(render_template("fragments/failure.html", code=code, message=reported), 503)
        if election.leader is not None and request.method in ("GET", "HEAD"):
            return redirect(_there(election.leader), code=307)
        return Response(render_template("failure.html", code=code, message=reported), 503)

    return check


def _answer(leader: ManagerMember | None, code: str, text: str) -> Response:
    if leader is None:
        answer = _refusal(503, code, text, {})
        answer.headers["Retry-After"] = str(AGAIN_AFTER_S)
        return answer
    answer = _refusal(307, code, text, {"leader": leader.http_address})
    answer.headers["Location"] = _there(leader)
    return answer


def _refusal(status: int, code: str, text: str, details: dict[str, str]) -> Response:
    """In the form of the API that was called."""
    if request.path.startswith(f"{STORM}/"):
        return storm_refusal(status, text)
    return failure(status, code, text, details)


def _there(leader: ManagerMember) -> str:
    """Return the same address at the leader."""
    return leader.http_address + request.full_path.removesuffix("?")


def _leader_text(leader: ManagerMember | None) -> str:
    if leader is None:
        return NO_LEADER_KNOWN
    return f"this manager is on standby and has changed nothing; the leader is at {leader.http_address}"
