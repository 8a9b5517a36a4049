"""Event streams by hand: which there are, watching one, sending events into one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import get_args

import msgspec
from flask import Blueprint, Request, Response, request

from cep_manager.api.requests import read_number, read_tenant
from cep_manager.errors import BadRequestError
from cep_manager.events.model import EventFilter, EventStreamView, Operator
from cep_manager.manager_view import ManagerView, Tail

BEAT_S = 1.0
"""How often whoever watches hears something, events or not."""

LONGEST_LOOK_MS = 5_000


class EventStreamList(msgspec.Struct, frozen=True):
    """The event streams of a tenant."""

    tenant: int
    streams: tuple[EventStreamView, ...]


def event_routes(api: Blueprint, view: ManagerView) -> None:
    """The calls are on `api`."""

    @api.get("/event-streams")
    def list_event_streams() -> Response:
        tenant = read_tenant(request)
        return _json(EventStreamList(tenant, view.event_streams(tenant)))

    @api.get("/event-streams/<path:name>/tail")
    def tail_events(name: str) -> Response:
        tail = view.open_tail(read_tenant(request), name, _read_filter(request))
        answer = Response(_server_sent(tail), content_type="text/event-stream")
        answer.headers["X-Accel-Buffering"] = "no"
        # Also when nobody has asked for the first of it.
        answer.call_on_close(tail.close)
        return answer

    @api.get("/event-streams/<path:name>/look")
    def look_at_events(name: str) -> Response:
        wait_ms = read_number(request.args.get("wait_ms", "1000"), "wait_ms")
        if wait_ms > LONGEST_LOOK_MS:
            raise BadRequestError(f"wait_ms must be at most {LONGEST_LOOK_MS}, not {wait_ms}")
        with closing(view.open_tail(read_tenant(request), name, _read_filter(request))) as tail:
            return _json(tail.take(wait_ms / 1_000))

    @api.post("/event-streams/<path:name>/events")
    def send_events(name: str) -> Response:
        authorization = request.headers.get("Authorization", "")
        sent = view.send_events(read_tenant(request), name, request.get_data(), request.mimetype, authorization)
        return _json(sent)


def _server_sent(tail: Tail) -> Iterator[bytes]:
    """The reports of a tail as server-sent events until it ends, at least one each second."""
    yield b": watching\n\n"
    while True:
        report = tail.take(BEAT_S)
        kind = b"event: ended\n" if report.ended else b""
        yield kind + b"data: " + msgspec.json.encode(report) + b"\n\n"
        if report.ended:
            return


def _read_filter(request: Request) -> EventFilter | None:
    """The filter in the query parameters `attribute`, `operator` and `value`. Raises BadRequestError."""
    attribute = request.args.get("attribute", "")
    if not attribute:
        return None
    operator = request.args.get("operator", "eq")
    if operator not in get_args(Operator):
        raise BadRequestError(f"operator must be {', '.join(get_args(Operator))}, not {operator[:40]!r}")
    return msgspec.convert(
        {"attribute": attribute, "operator": operator, "value": request.args.get("value", "")}, EventFilter
    )


def _json(body: object) -> Response:
    return Response(msgspec.json.encode(body), content_type="application/json")
