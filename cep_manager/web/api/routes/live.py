"""Pictures that are sent as they change, as server-sent events."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from flask import Response, request

from cep_common.web.server import is_stopping
from cep_manager.errors import StreamsBusyError, UnknownPlanError
from cep_manager.live.broadcaster import LiveSubscription, Look
from cep_manager.live.plan_view import live_plan_view
from cep_manager.web.api.calls import Api, Media, plan_key
from cep_manager.web.api.requests import read_tenant
from cep_manager.web.api.routes.overview import overview_of, sees_system
from cep_manager.web.ports import LivePort, ManagerView

BEAT_S = 5.0
"""Interval of keep-alive comments on a stream without changes, which also detect that the client is gone."""

LOOK_UP_S = 0.5
"""How often a stream checks whether the server is stopping."""

AGAIN_AFTER_MS = 1_000
"""A client whose stream has ended asks again after so long."""

LONGEST_S = 600.0
"""The time after which a stream ends, so that its reader must authenticate again."""

STREAM = "text/event-stream"


def live_routes(api: Api, view: ManagerView) -> None:
    """Add them to `api`."""

    @api.get(
        "/plans/<name>/live",
        "Follow the plan's status and live graph: first all, then every second the changes",
        answers=Media(STREAM, "Events `picture`, then `change` (a JSON merge patch, RFC 7396); `ended` with a failure"),
        fails=(UnknownPlanError, StreamsBusyError),
    )
    def watch_plan(name: str) -> Response:
        key = plan_key(view, name)
        return _stream(view, ("plan", key), lambda: live_plan_view(view.overview().snapshot, key))

    @api.get(
        "/overview/live",
        "Follow `/overview`: first all, then every second the changes",
        answers=Media(STREAM, "Events `picture`, then `change` (a JSON merge patch, RFC 7396); `ended` with a failure"),
        fails=(StreamsBusyError,),
    )
    def watch_overview() -> Response:
        tenant, system = read_tenant(request), sees_system()
        return _stream(view, ("overview", tenant, system), lambda: overview_of(view, tenant, system))


def _stream(view: LivePort, name: Hashable, look: Look) -> Response:
    watch = view.watch(name, look)
    answer = Response(_server_sent(watch, request.environ), content_type=STREAM)
    answer.headers["X-Accel-Buffering"] = "no"
    # Also if the first item was never requested.
    answer.call_on_close(watch.close)
    return answer


def _server_sent(watch: LiveSubscription, environ: Mapping[str, Any]) -> Iterator[bytes]:
    until = time.monotonic() + LONGEST_S
    yield f"retry: {AGAIN_AFTER_MS}\n\n".encode()
    quiet_s = 0.0
    while time.monotonic() < until and not is_stopping(environ):
        message = watch.take(LOOK_UP_S)
        if message is None:
            quiet_s += LOOK_UP_S
            if quiet_s >= BEAT_S:
                quiet_s = 0.0
                yield b": still there\n\n"
            continue
        quiet_s = 0.0
        yield b"event: " + message.event.encode() + b"\ndata: " + message.data + b"\n\n"
        if message.event == "ended":
            return
