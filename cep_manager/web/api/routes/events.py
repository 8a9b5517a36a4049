"""Event streams by hand: which there are, watching one, sending events into one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Annotated, Any

import msgspec
from flask import Request, Response, request
from msgspec import Meta

from cep_common.web.server import is_stopping
from cep_manager.errors import (
    EventFileError,
    NoWorkerError,
    TailsBusyError,
    UnknownStreamError,
    WorkerFailedError,
    WorkerRejectedEventsError,
)
from cep_manager.events.model import EventStreamView, Operator, SentEvents, TailFilter, TailReport
from cep_manager.events.parquet import MOST_FILE_BYTES, read_parquet
from cep_manager.web.api.calls import JSON, Api, Body, Media
from cep_manager.web.api.requests import read_tenant, shown_to_workers
from cep_manager.web.ports import EventPort, Tail

BEAT_S = 1.0
"""How often viewers hear something, events or not."""

LONGEST_LOOK_MS = 5_000


class EventStreamList(msgspec.Struct, frozen=True):
    """The event streams of a tenant."""

    tenant: int
    streams: tuple[EventStreamView, ...]


class TailQuery(msgspec.Struct, frozen=True):
    """Which events of a stream are wanted: those whose `attribute` compares so with `value`, or all."""

    attribute: Annotated[str, Meta(description="Only events with a certain value of this attribute")] = ""
    operator: Annotated[Operator, Meta(description="Operator of the comparison")] = "eq"
    value: Annotated[str, Meta(description="With what")] = ""

    def filter(self) -> TailFilter | None:
        """Return the wanted filter; None for all events."""
        return TailFilter(self.attribute, self.operator, self.value) if self.attribute else None


class TailSampleQuery(TailQuery, frozen=True):
    """Query parameters of a watch: a filter, and the duration."""

    wait_ms: Annotated[int, Meta(ge=0, le=LONGEST_LOOK_MS, description="Duration")] = 1_000


_TAIL = (UnknownStreamError, NoWorkerError, WorkerFailedError, TailsBusyError)


def event_routes(api: Api, view: EventPort) -> None:
    """Add them to `api`."""

    @api.get("/event-streams", "The tenant's event streams with their attributes and plans", answers=EventStreamList)
    def list_event_streams() -> EventStreamList:
        tenant = read_tenant(request)
        return EventStreamList(tenant, view.event_streams(tenant))

    @api.get(
        "/event-streams/<path:name>/tail",
        "Follow the events of an exported stream",
        answers=Media("text/event-stream", "A report (as `look` gives) each second, `data: {…}`"),
        query=TailQuery,
        fails=_TAIL,
    )
    def tail_events(name: str, query: TailQuery) -> Response:
        tail = view.open_tail(read_tenant(request), name, query.filter())
        answer = Response(_server_sent(tail, request.environ), content_type="text/event-stream")
        answer.headers["X-Accel-Buffering"] = "no"
        # Also if the first item was never requested.
        answer.call_on_close(tail.close)
        return answer

    @api.get(
        "/event-streams/<path:name>/look",
        "The events of an exported stream within `wait_ms`",
        answers=TailReport,
        query=TailSampleQuery,
        fails=_TAIL,
    )
    def look_at_events(name: str, query: TailSampleQuery) -> TailReport:
        with closing(view.open_tail(read_tenant(request), name, query.filter())) as tail:
            return tail.take(query.wait_ms / 1_000)

    @api.post(
        "/event-streams/<path:name>/events",
        "Send the events in the body to an imported stream",
        answers=SentEvents,
        body=Body(Request.get_data, Any, (JSON, "application/x-ndjson")),
        fails=(UnknownStreamError, NoWorkerError, WorkerFailedError, WorkerRejectedEventsError),
    )
    def send_events(name: str, body: bytes) -> SentEvents:
        return view.send_events(read_tenant(request), name, body, request.mimetype, shown_to_workers(request))

    @api.post(
        "/event-streams/<path:name>/parquet",
        "Convert a Parquet file to events of that imported stream, without sending them",
        answers=Media("application/x-ndjson", "One event per line"),
        body=Body(_read_file, Any, ("application/vnd.apache.parquet",)),
        fails=(UnknownStreamError, EventFileError),
    )
    def read_event_file(name: str, body: bytes) -> Response:
        streams = view.event_streams(read_tenant(request))
        found = next((one for one in streams if (one.side, one.name) == ("imported", name)), None)
        if found is None:
            raise UnknownStreamError(f"there is no imported event stream {name}")
        return Response(read_parquet(body, found.attributes), content_type="application/x-ndjson")


def _read_file(asked: Request) -> bytes:
    """Return the body, which may be longer than those of other calls."""
    asked.max_content_length = MOST_FILE_BYTES
    return asked.get_data()


def _server_sent(tail: Tail, environ: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the reports of a tail as server-sent events until it or the server ends, at least one each second."""
    yield b": watching\n\n"
    while not is_stopping(environ):
        report = tail.take(BEAT_S)
        kind = b"event: ended\n" if report.ended else b""
        yield kind + b"data: " + msgspec.json.encode(report) + b"\n\n"
        if report.ended:
            return
