"""Liveness and readiness of a process over HTTP, for container platforms.

A process that is not live is to be restarted. One that is not ready is healthy, but must not be sent work yet: it has
no manager, no Spark session or no database.
"""

from __future__ import annotations

from collections.abc import Callable

from flask import Flask, Response, jsonify

from cep_common.security.access import Permission

LIVE, READY = "health_live", "health_ready"
HEALTH_CALLS = {LIVE: Permission.OPEN, READY: Permission.OPEN}
"""Both require no authentication: they report whether the process is up, and nothing about plans or data."""

STALLED_MS = 30_000
"""How long an iteration of a loop may last until it counts as hung. Allows for slow disks, full garbage collections and
suspended hosts."""

Check = Callable[[], str]
"""Returns what is wrong; empty if nothing is."""


def add_health_routes(app: Flask, live: Check, ready: Check) -> None:
    """Add `GET /health/live` and `GET /health/ready` to `app`: 200 if the check finds nothing wrong, else 503.

    Args:
        app: The application of the process. Its access guard must know `HEALTH_CALLS`.
        live: Returns why the process should be restarted, or "".
        ready: Returns why the process cannot take work now, or "". A process that is not live is not ready either.
    """

    def show_live() -> Response:
        return _answer("live", live())

    def show_ready() -> Response:
        return _answer("ready", live() or ready())

    app.add_url_rule("/health/live", LIVE, show_live)
    app.add_url_rule("/health/ready", READY, show_ready)


def stalled(loop: str, silent_ms: int) -> str:
    """Return what is wrong with a loop whose iteration has lasted `silent_ms`; empty within `STALLED_MS`."""
    return f"{loop} has been stuck for {silent_ms // 1000} s" if silent_ms >= STALLED_MS else ""


def _answer(status: str, problem: str) -> Response:
    answer = jsonify(status=f"not {status}", reason=problem) if problem else jsonify(status=status)
    answer.status_code = 503 if problem else 200
    answer.headers["Cache-Control"] = "no-store"
    return answer
