"""The HTTP interface of a worker: accepts events, and serves streams, health and metrics.

Views parse the request, call the gateway and format the response.

Every error is JSON: `{"code": …, "message": …, "details": [{"index": …, "attribute": …, "problem": …}]}`.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Hashable
from concurrent.futures import Future
from itertools import chain
from typing import IO, Any, Protocol

import msgspec
import pyarrow as pa
from flask import Flask, Response, current_app, request
from werkzeug.exceptions import HTTPException

from cep_common.errors import InputError, UnauthorisedError
from cep_common.ids import PlanKey, parse_tenant
from cep_common.monitoring.http_refusals import refusal_metrics
from cep_common.monitoring.metric_families import Metrics
from cep_common.security.access import Permission, is_granted
from cep_common.security.web import Gate, answer_for, callers_tenant, guard, shown_token
from cep_common.web.health import add_health_routes
from cep_worker.failed_events.service import MOST_SHOWN, EntrySelection, FailedEventService
from cep_worker.formats.source_mappers.registry import BodyReader
from cep_worker.formats.transport_properties import with_properties
from cep_worker.http.event_posts import HttpSource, read_events
from cep_worker.http.idempotency import AnsweredRequests, RequestKey, request_key
from cep_worker.http.permissions import CALLS
from cep_worker.http.refusals import RefusedAnswer, RoomError, http_refusal, no_room, over_limit, refused_answer
from cep_worker.http.request_bodies import body_stream
from cep_worker.http.unknown_paths import nothing_at
from cep_worker.plans.streams import EventStream, StreamDirectory
from cep_worker.runtime.prometheus import worker_metrics
from cep_worker.runtime.worker_metrics import WorkerMetrics
from cep_worker.serving.orphaned_events import OrphanedEventService
from cep_worker.storage.records import BatchOrigin

logger = logging.getLogger(__name__)

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LONGEST_LIMIT = len(str(MOST_SHOWN))


class Gateway(Protocol):
    """The interface of the worker for the HTTP server. Thread-safe."""

    def imported(self) -> StreamDirectory:
        """Return the event streams that accept events now."""

    def submit(
        self, source: Hashable, stream: EventStream, batch: pa.RecordBatch, origin: BatchOrigin | None = None
    ) -> Future[None]:
        """Offer `batch` to the stream's inflows, once if it has an `origin`."""

    def answered(self) -> AnsweredRequests:
        """Return the answers kept for requests with an idempotency key."""

    def http_source(self, path: str) -> HttpSource | None:
        """Return the source at `path`, if there is one."""

    def plan_key(self, tenant: int, name: str) -> PlanKey:
        """Return the plan that has the name now.

        Raises:
            InputError: the name is a former name of a plan.
        """

    def failed_event_service(self) -> FailedEventService:
        """Return the service that lists, replays and discards failed events."""

    def orphan_service(self) -> OrphanedEventService:
        """Return the service that lists, restores and discards events of missing plans."""

    def limit_wait_ms(self, tenant: int) -> int:
        """Return how long the tenant must wait because it exceeded its limit; 0: not at all."""

    def events_per_s(self, tenant: int) -> int:
        """Return the tenant's limit of events per second; 0: unlimited."""

    def now_ms(self) -> int:
        """Return the worker's clock."""

    def leaving(self) -> bool:
        """Return whether the worker shuts down and accepts no more events."""

    def health(self) -> dict[str, Any]:
        """Return the status of the worker, for monitoring."""

    def not_live(self) -> str:
        """Return why the worker should be restarted, or ""."""

    def not_ready(self) -> str:
        """Return why the worker cannot serve plans now, or ""."""

    def metrics(self) -> WorkerMetrics:
        """Return the metrics of the worker."""


def create_app(gateway: Gateway, body_bytes: int, wait_ms: int, gate: Gate) -> Flask:
    """Return the worker's HTTP interface; the built-in server and sources on ports of their own all serve it.

    Every request passes `gate`.
    """
    app = Flask("cep_worker", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = body_bytes
    guard(app, gate, CALLS, _refused)
    app.before_request(_refuse_pages)

    @app.post("/events/<path:name>")
    def post_events(name: str) -> Response:
        _known_parameters("timestamp", "tenant")
        tenant = _tenant()
        stream = gateway.imported().resolve(name, tenant)
        return _accept(gateway, HttpSource(("http", tenant, name), stream, request.args.get("timestamp")), wait_ms)

    @app.get("/streams")
    def get_streams() -> Response:
        return _json({"streams": [_described(stream) for stream in gateway.imported().event_streams(_tenant())]})

    @app.get("/streams/<path:name>")
    def get_stream(name: str) -> Response:
        return _json(_described(gateway.imported().resolve(name, _tenant())))

    @app.get("/health")
    def get_health() -> Response:
        """Without a token, report only that the worker is up: all other information belongs to tenants."""
        health = gateway.health()
        return _json(health if _sees_system(gate) else {"status": health["status"]})

    add_health_routes(app, gateway.not_live, gateway.not_ready)
    _kept_routes(app, gateway)
    metrics = Metrics(lambda: chain(worker_metrics(gateway.metrics()), refusal_metrics()))

    @app.get("/metrics")
    def get_metrics() -> Response:
        text, content_type = metrics.scrape(request.headers.get("Accept", ""))
        return Response(text, content_type=content_type)

    @app.post("/<path:path>")
    def post_source(path: str) -> Response:
        _known_parameters()
        source = gateway.http_source(f"{request.environ['cep.address']}/{path}")
        if source is None:
            raise nothing_at(gateway.imported(), path)
        answer_for(source.stream.tenant())
        return _accept(gateway, source, wait_ms)

    app.register_error_handler(UnauthorisedError, lambda error: _refused(403, error.code, error.message))
    app.register_error_handler(InputError, _refusal)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _failure)
    return app


def _kept_routes(app: Flask, gateway: Gateway) -> None:
    """Add the routes for failed events and for events of missing plans."""

    @app.get("/errors")
    def get_errors() -> Response:
        _known_parameters("tenant", "plan", "id", "limit")
        plan = _plan(gateway, request.args.get("plan", ""), request.args.get("id", ""))
        return _json(gateway.failed_event_service().listed(plan, _limit()))

    @app.post("/errors/replay")
    def replay_errors() -> Response:
        chosen = _choice()
        return _json(gateway.failed_event_service().replay(_plan(gateway, chosen.plan, chosen.id), chosen))

    @app.post("/errors/discard")
    def discard_errors() -> Response:
        chosen = _choice()
        return _json(
            {"discarded": gateway.failed_event_service().discard(_plan(gateway, chosen.plan, chosen.id), chosen)}
        )

    @app.get("/wal")
    def get_wal() -> Response:
        _known_parameters("tenant")
        return _json({"entries": gateway.orphan_service().listed(_tenant())})

    @app.post("/wal/<id_>/restore")
    def restore_wal(id_: str) -> Response:
        _refuse_cross_site()
        return _json(gateway.orphan_service().restore(_tenant(), id_))

    @app.post("/wal/<id_>/discard")
    def discard_wal(id_: str) -> Response:
        _refuse_cross_site()
        return _json(gateway.orphan_service().discard(_tenant(), id_))


def _accept(gateway: Gateway, source: HttpSource, wait_ms: int) -> Response:
    """Accept all events of the request, or none."""
    if gateway.leaving():
        raise RoomError("leaving", "the worker is shutting down; send the events to another worker, or later")
    reader = source.reader()
    body = body_stream(request, current_app.config["MAX_CONTENT_LENGTH"])
    given = request.headers.get("Idempotency-Key")
    if given is None:
        return _taken(gateway, source, reader, body, wait_ms, None)
    whole = body.read()
    key = request_key(given, source.stream.lasting_name(), source.stream.tenant(), whole)
    answered = gateway.answered()
    before = answered.begin(key, gateway.now_ms())
    if before is not None:
        return _json({"accepted": before}, 202)
    try:
        return _taken(gateway, source, reader, io.BytesIO(whole), wait_ms, key)
    except BaseException:
        answered.failed(key)
        raise


def _taken(
    gateway: Gateway, source: HttpSource, reader: BodyReader, body: IO[bytes], wait_ms: int, key: RequestKey | None
) -> Response:
    batch = read_events(reader, body, request.mimetype, gateway.now_ms())
    if source.properties:
        batch = with_properties(batch, source.stream.schema, source.properties, request.headers.get)
    if batch.num_rows:
        _submit(gateway, source, batch, wait_ms, key.origin() if key is not None else None)
    if key is not None:
        gateway.answered().done(key, batch.num_rows)
    return _json({"accepted": batch.num_rows}, 202)


def _submit(
    gateway: Gateway, source: HttpSource, batch: pa.RecordBatch, wait_ms: int, origin: BatchOrigin | None
) -> None:
    tenant = source.stream.tenant()
    if (limited_ms := gateway.limit_wait_ms(tenant)) > wait_ms:  # waiting would occupy this thread in vain
        raise over_limit(tenant, limited_ms)
    taken = gateway.submit(source.source, source.stream, batch, origin)
    try:
        taken.result(timeout=wait_ms / 1000)
    except TimeoutError:
        if taken.cancel():
            if limited_ms := gateway.limit_wait_ms(tenant):
                raise over_limit(tenant, limited_ms) from None
            raise no_room(source.stream.schema.stream) from None
        taken.result()  # it was accepted at this moment


def _sees_system(gate: Gate) -> bool:
    """Return whether the caller may see data of all tenants."""
    if not gate.needs_token():
        return True
    principal = gate.principal(shown_token())
    return principal is not None and is_granted(principal, Permission.SEE_SYSTEM)


def _tenant() -> int:
    """Return the tenant of the request: the query parameter or header `tenant`, else the caller's."""
    written = request.args.get("tenant") or request.headers.get("tenant")
    try:
        return callers_tenant() if written is None else parse_tenant(written)
    except ValueError as error:
        raise InputError("unknown-tenant", str(error)) from error


def _plan(gateway: Gateway, name: str, plan_id: str) -> PlanKey:
    """Return the plan of the request's tenant: that of `plan_id`, or the one that has the name now."""
    tenant = _tenant()
    return PlanKey(tenant, name, plan_id) if plan_id else gateway.plan_key(tenant, name)


def _refuse_cross_site() -> None:
    _known_parameters("tenant")
    if "Origin" in request.headers or request.headers.get("Sec-Fetch-Site", "none") != "none":
        raise InputError("cross-site", "browser pages cannot replay or discard events here; use the manager's console")


def _choice() -> EntrySelection:
    _refuse_cross_site()
    try:
        return msgspec.json.decode(request.get_data(cache=False), type=EntrySelection)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        wanted = '{"plan": …, "ids": […]}, or "all": true for the ids'
        raise InputError("bad-request", f"the body must be {wanted}: {error}") from error


def _refuse_pages() -> None:
    """Reject events sent by a web page through a visitor's browser, unless the request has a token.

    Browsers send the page's origin, and a page can have a token only if it was given one.
    """
    shown = request.authorization
    if request.method in SAFE_METHODS or (shown is not None and shown.type == "bearer"):
        return
    if "Origin" in request.headers or request.headers.get("Sec-Fetch-Site", "none") != "none":
        raise InputError("cross-site", "browser pages cannot send events here; use a program, or send a bearer token")


def _limit() -> int:
    written = request.args.get("limit", str(MOST_SHOWN))
    limit = int(written) if written.isascii() and written.isdecimal() and len(written) <= LONGEST_LIMIT else 0
    if not 1 <= limit <= MOST_SHOWN:
        raise InputError("bad-request", f"limit must be a number from 1 to {MOST_SHOWN}")
    return limit


def _known_parameters(*known: str) -> None:
    for name in request.args:
        if name not in known:
            hint = f"known: {', '.join(known)}" if known else "there are none here"
            raise InputError("unknown-parameter", f"unknown parameter {name[:40]}; {hint}")


def _described(stream: EventStream) -> dict[str, Any]:
    return {
        "stream": stream.schema.stream,
        "attributes": [{"name": name, "type": kind} for name, kind in stream.schema.attributes],
        "plans": [{"tenant": m.key.tenant, "plan": m.key.plan, "stream": m.binding.stream} for m in stream.members],
    }


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, mimetype="application/json")


def _refused(status: int, code: str, message: str) -> Response:
    return _json({"code": code, "message": message, "details": []}, status)


def _refusal(error: InputError) -> Response:
    return _answered(refused_answer(error))


def _http_error(error: HTTPException) -> Response:
    return _answered(http_refusal(error))


def _answered(refused: RefusedAnswer) -> Response:
    return Response(refused.body, refused.status, list(refused.headers), mimetype="application/json")


def _failure(error: Exception) -> Response:
    logger.error("request failed: path=%s", request.path, exc_info=error)
    message = "the worker failed to handle the request; its log says more"
    return _json({"code": "failed", "message": message, "details": []}, 500)
