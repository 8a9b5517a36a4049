"""Small posts of events, accepted on the loop's thread of an HTTP server and joined across connections.

    POST ─▶ decoded ─┐
    POST ─▶ decoded ─┼─▶ lane of the source ──▶ one batch ──▶ data thread: log, disk, passive node ──▶ every POST: 202
    POST ─▶ decoded ─┘    (collects posts while the previous batch is in flight)

All other requests, such as those that are refused, are left to the application, which gives detailed reasons: this is a
fast path with the same results.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any
from urllib.parse import parse_qsl, unquote

import pyarrow as pa
from flask import Flask
from werkzeug.datastructures import Authorization
from werkzeug.exceptions import HTTPException

from cep_common.errors import InputError, UnauthorisedError
from cep_common.ids import SUPER_TENANT, parse_tenant
from cep_common.security.access import Permission, Principal, is_granted, speaks_for
from cep_common.security.web import Gate, token_of
from cep_common.web.answers import date_line, whole_answer
from cep_common.web.requests import Exchange, Request
from cep_worker.config import WorkerHttpConfig
from cep_worker.formats.rejections import EventsRejectedError
from cep_worker.formats.source_mappers.csv_mapper import CsvFormat
from cep_worker.formats.source_mappers.json_path_mapper import JsonFormat
from cep_worker.formats.source_mappers.registry import BodyReader, JoiningReader
from cep_worker.formats.source_mappers.text_mapper import TextFormat
from cep_worker.formats.source_mappers.xml_mapper import XmlFormat
from cep_worker.formats.transport_properties import with_properties
from cep_worker.http.app import Gateway
from cep_worker.http.event_posts import NDJSON, HttpSource, read_small
from cep_worker.http.idempotency import RequestKey, request_key
from cep_worker.http.refusals import RoomError, no_room, over_limit, refused_answer
from cep_worker.http.request_bodies import decoded_body
from cep_worker.http.unknown_paths import UnknownPaths
from cep_worker.plans.streams import StreamDirectory
from topology.events.frames import concatenate

logger = logging.getLogger(__name__)

SMALL_BYTES = 65_536
"""Larger bodies are left to threads, since decoding them would block all connections."""
MOST_ROWS, MOST_BYTES = 4_096, 1_048_576
"""The maximum number of events, and size of bodies, that are combined into one batch."""
LIMITED_SHARE = 20
"""For a tenant with a limit, at most this share of a second's events is joined, since a whole batch is accepted while
any budget is left."""
WAITING_ROWS = 65_536
"""The number of events of a source that may wait for its batch; further requests are refused at once."""
MOST_TARGETS = 4_096
EVENTS = b"/events/"
QUICK_FORMATS = (JsonFormat, CsvFormat, TextFormat, XmlFormat)
"""Formats that are decoded without blocking. Others may wait for a schema registry, which must only delay their own
connection."""
LINES = frozenset(name.encode() for name in NDJSON)
TOO_MANY = "too many requests a second; send them more slowly"


@dataclass(frozen=True, slots=True, eq=False)
class _Target:
    """The meaning of a path for posts, valid until plans or sources change."""

    source: HttpSource
    tenant: int
    reader: BodyReader
    joining: JoiningReader | None


@dataclass(slots=True)
class _Post:
    """A request that is being processed, with its events."""

    exchange: Exchange
    target: _Target
    rows: int
    until: float
    events: list[Any] | None
    batch: pa.RecordBatch | None
    key: RequestKey | None


@dataclass(slots=True)
class _Lane:
    """The posts to one source, in their order."""

    waiting: deque[_Post] = field(default_factory=deque)
    rows: int = 0
    under_way: int = 0
    scheduled: bool = False


class DirectIntake:
    """The direct calls of one server. Used by its loop's thread."""

    def __init__(self, gateway: Gateway, gate: Gate, config: WorkerHttpConfig, app: Flask, address: str) -> None:
        """Take events for the sources at `address` (`host:port`); `app` answers everything else."""
        self._gateway = gateway
        self._unknown = UnknownPaths(app)
        self._gate = gate
        self._address = address
        self._wait_s = config.wait_ms / 1_000
        self._wait_ms = config.wait_ms
        self._lanes: dict[Any, _Lane] = {}
        self._targets: dict[tuple[bytes, bytes | None, int], _Target] = {}
        self._directory: StreamDirectory | None = None
        self._hosts: dict[bytes, bool] = {}

    def take(self, exchange: Exchange) -> bool:
        """Return whether it handles the exchange: an ordinary small post of events, or an unknown path."""
        request = exchange.request
        headers = request.headers
        if request.body_bytes > SMALL_BYTES or request.version != "1.1" or self._gateway.leaving():
            return False
        if b"origin" in headers or b"sec-fetch-site" in headers:
            return False
        try:
            principal = self._principal(request)
            if not self._known_host(request):
                return False
            target = self._target(request, principal) if request.method == b"POST" else None
            if target is None:
                return self._refuse(exchange, principal)
            return request.body_bytes > 0 and self._read(exchange, target)
        except (InputError, UnauthorisedError, HTTPException, ValueError):
            return False  # the application reports what is wrong, and where

    def _refuse(self, exchange: Exchange, principal: Principal | None) -> bool:
        """Refuse a request to an unknown path. Return whether it was refused."""
        request = exchange.request
        if (principal is not None and principal.tenant is not None) or b"tenant" in request.headers:
            return False
        if self._gateway.http_source(f"{self._address}{request.target.decode('latin-1')}") is not None:
            return False  # a format that is decoded in a thread
        refused = self._unknown.answer(request, self._gateway.imported())
        if refused is None:
            return False
        if not self._gate.admit(exchange.connection.address):
            refused = refused_answer(RoomError("too-many-requests", TOO_MANY))
        exchange.answer = whole_answer(refused.status, refused.body, refused.headers, closes=exchange.closes)
        return True

    # ---- what a request means ---------------------------------------------------------------------------------------

    def _principal(self, request: Request) -> Principal | None:
        """Return the caller, or None if anonymous posts are allowed.

        Raises:
            UnauthorisedError: the caller may not send events.
        """
        if not self._gate.needs_token():
            return None
        principal = self._gate.principal(_token(request.headers.get(b"authorization", b"")))
        if principal is None or not is_granted(principal, Permission.SEND):
            raise UnauthorisedError("not known, or not granted")
        return principal

    def _target(self, request: Request, principal: Principal | None) -> _Target | None:
        directory = self._gateway.imported()
        if directory is not self._directory or len(self._targets) > MOST_TARGETS:
            self._targets.clear()
            self._directory = directory
        named = request.headers.get(b"tenant")
        unnamed = SUPER_TENANT if principal is None or principal.tenant is None else principal.tenant
        name = (request.target, named, unnamed)
        target = self._targets.get(name)
        if target is None or not self._is_present(target, request.target):
            target = self._resolve(directory, request.target, named, unnamed)
            if target is None:
                return None
            self._targets[name] = target
        return target if principal is None or speaks_for(principal, target.tenant) else None

    def _is_present(self, target: _Target, path: bytes) -> bool:
        """Return whether the path still refers to the target; `_target` handles changed names of streams."""
        if path.startswith(EVENTS):
            return True
        return self._gateway.http_source(f"{self._address}{path.decode('latin-1')}") is target.source

    def _resolve(self, directory: StreamDirectory, target: bytes, named: bytes | None, unnamed: int) -> _Target | None:
        path, _, query = target.decode("latin-1").partition("?")
        if not target.startswith(EVENTS):
            if named is not None or query or "%" in path or not path.startswith("/"):
                return None
            source = self._gateway.http_source(f"{self._address}{path}")
            return None if source is None else _targeted(source, source.stream.tenant())
        given = parse_qsl(query, keep_blank_values=True)
        if any(name != "timestamp" for name, _ in given) or len(given) > 1:
            return None
        name = unquote(path[len(EVENTS) :])
        tenant = unnamed if named is None else parse_tenant(named.decode("latin-1"))
        stream = directory.resolve(name, tenant)
        return _targeted(HttpSource(("http", tenant, name), stream, given[0][1] if given else None), tenant)

    def _known_host(self, request: Request) -> bool:
        host = request.headers.get(b"host", b"")
        known = self._hosts.get(host)
        if known is None:
            known = self._gate.knows(host.decode("latin-1"))
            if len(self._hosts) > MOST_TARGETS:
                self._hosts.clear()
            self._hosts[host] = known
        return known

    # ---- events -----------------------------------------------------------------------------------------------------

    def _read(self, exchange: Exchange, target: _Target) -> bool:
        """Decode the events and add the post to its lane. Raises errors that the application turns into a response."""
        request = exchange.request
        body = request.body() or b""
        headers = request.headers
        if b"content-encoding" in headers:
            body = decoded_body(body, headers[b"content-encoding"].decode("latin-1"), SMALL_BYTES)
        content_type = headers.get(b"content-type", b"")
        joining = None if content_type.partition(b";")[0].strip().lower() in LINES else target.joining
        source, events, batch = target.source, None, None
        if joining is not None and not source.properties:
            events = joining.decode(body)
            rows = len(events)
        else:
            batch = read_small(target.reader, body, content_type.decode("latin-1"), self._gateway.now_ms())
            if source.properties:
                batch = with_properties(batch, source.stream.schema, source.properties, partial(_header, headers))
            rows = batch.num_rows
        if not self._gate.admit(exchange.connection.address):
            exchange.answer = _refused(RoomError("too-many-requests", TOO_MANY), closes=exchange.closes)
            return True
        key: RequestKey | None = None
        if b"idempotency-key" in headers:
            given = headers[b"idempotency-key"].decode("latin-1")
            key = request_key(given, source.stream.lasting_name(), target.tenant, body)
            before = self._gateway.answered().begin(key, self._gateway.now_ms())
            if before is not None:
                exchange.answer = _accepted(before, closes=exchange.closes)
                return True
        loop = asyncio.get_running_loop()
        self._add(_Post(exchange, target, rows, loop.time() + self._wait_s, events, batch, key), loop)
        return True

    def _add(self, post: _Post, loop: asyncio.AbstractEventLoop) -> None:
        """Queue the post in its lane, or set its answer, which its connection sends after this call."""
        source = post.target.source
        name = (source.source, source.timestamp_key)
        lane = self._lanes.get(name)
        if lane is None:
            self._lanes = {other: one for other, one in self._lanes.items() if one.waiting or one.under_way}
            lane = self._lanes[name] = _Lane()
        if post.rows == 0:
            self._set_answers([post], None)
        elif (limited_ms := self._gateway.limit_wait_ms(post.target.tenant)) > self._wait_ms:
            self._set_answers([post], over_limit(post.target.tenant, limited_ms))
        elif lane.rows + post.rows > WAITING_ROWS:
            self._set_answers([post], no_room(source.stream.schema.stream))
        else:
            lane.waiting.append(post)
            lane.rows += post.rows
            self._schedule(lane, loop)

    def _schedule(self, lane: _Lane, loop: asyncio.AbstractEventLoop) -> None:
        """Send the lane after everything that can be read now, unless a batch of it is in flight."""
        if lane.waiting and not lane.under_way and not lane.scheduled:
            lane.scheduled = True
            loop.call_soon(self._send, lane, loop)

    def _send(self, lane: _Lane, loop: asyncio.AbstractEventLoop) -> None:
        """Submit all waiting posts, joined as far as possible."""
        lane.scheduled = False
        while lane.waiting:
            posts = self._next_posts(lane)
            error = self._try(lane, posts, loop)
            if error is not None and len(posts) > 1:
                self._one_by_one(lane, posts, loop)
            elif error is not None:
                self._answer(posts, error)

    def _try(self, lane: _Lane, posts: list[_Post], loop: asyncio.AbstractEventLoop) -> EventsRejectedError | None:
        """Submit the posts as one batch. Return the reason if an event does not fit."""
        try:
            self._submit(lane, posts, _batch_of(posts, self._gateway.now_ms()), loop)
        except EventsRejectedError as error:
            return error
        except Exception:  # uvloop would only log it, and these clients would wait forever
            logger.exception("events could not be submitted: posts=%d", len(posts))
            self._answer(posts, _defect())
        return None

    def _next_posts(self, lane: _Lane) -> list[_Post]:
        """Take posts that can form one batch: consecutive ones of the same stream without idempotency keys."""
        first = lane.waiting.popleft()
        posts, rows, size = [first], first.rows, first.exchange.request.body_bytes
        limit = self._gateway.events_per_s(first.target.tenant)
        most = max(1, limit // LIMITED_SHARE) if limit else MOST_ROWS
        while lane.waiting and first.key is None:
            post = lane.waiting[0]
            size += post.exchange.request.body_bytes
            if post.key is not None or post.target is not first.target or rows + post.rows > most or size > MOST_BYTES:
                break
            rows += post.rows
            posts.append(lane.waiting.popleft())
        lane.rows -= rows
        return posts

    def _submit(self, lane: _Lane, posts: list[_Post], batch: pa.RecordBatch, loop: asyncio.AbstractEventLoop) -> None:
        first = posts[0]
        source = first.target.source
        origin = first.key.origin() if first.key is not None else None
        taken = self._gateway.submit(source.source, source.stream, batch, origin)
        lane.under_way += 1
        expire = loop.call_later(max(0.0, first.until - loop.time()), self._expire, lane, posts, taken, loop)

        def settled(future: Future[None]) -> None:
            if not future.cancelled():
                with suppress(RuntimeError):  # the server and all connections have stopped
                    loop.call_soon_threadsafe(self._settled, lane, posts, future, expire, loop)

        taken.add_done_callback(settled)

    def _settled(
        self,
        lane: _Lane,
        posts: list[_Post],
        taken: Future[None],
        expire: asyncio.TimerHandle,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        expire.cancel()
        lane.under_way -= 1
        failure = taken.exception()
        if failure is None:
            self._answer(posts, None)
        elif isinstance(failure, InputError):
            if failure.reason_code == "too-large" and len(posts) > 1:
                self._one_by_one(lane, posts, loop)
            else:
                self._answer(posts, failure)
        else:
            logger.error("events could not be accepted: posts=%d", len(posts), exc_info=failure)
            self._answer(posts, _defect())
        self._schedule(lane, loop)

    def _one_by_one(self, lane: _Lane, posts: list[_Post], loop: asyncio.AbstractEventLoop) -> None:
        """Submit posts alone that were refused together."""
        for post in posts:
            error = self._try(lane, [post], loop)
            if error is not None:
                self._answer([post], error)

    def _expire(self, lane: _Lane, posts: list[_Post], taken: Future[None], loop: asyncio.AbstractEventLoop) -> None:
        """Refuse posts that have waited for room too long, unless they are being accepted at this moment."""
        if not taken.cancel():
            return
        lane.under_way -= 1
        target = posts[0].target
        limited_ms = self._gateway.limit_wait_ms(target.tenant)
        reason = over_limit(target.tenant, limited_ms) if limited_ms else no_room(target.source.stream.schema.stream)
        self._answer(posts, reason)
        self._schedule(lane, loop)

    def _answer(self, posts: Sequence[_Post], reason: InputError | None) -> None:
        """Answer the posts, each connection at once."""
        self._set_answers(posts, reason)
        for connection in {post.exchange.connection: None for post in posts}:
            connection.flush()

    def _set_answers(self, posts: Sequence[_Post], reason: InputError | None) -> None:
        answered = self._gateway.answered()
        closing = {post.exchange.closes for post in posts} if reason is not None else ()
        refusals = {closes: _refused(reason, closes=closes) for closes in closing if reason is not None}
        for post in posts:
            if post.key is not None and reason is None:
                answered.done(post.key, post.rows)
            elif post.key is not None:
                answered.failed(post.key)
            exchange = post.exchange
            plain = post.rows == 1 and not exchange.closes
            accepted = _accepted_one() if plain else _accepted(post.rows, closes=exchange.closes)
            exchange.answer = refusals.get(exchange.closes, accepted)


def _targeted(source: HttpSource, tenant: int) -> _Target | None:
    if not isinstance(source.form, QUICK_FORMATS):
        return None
    reader = source.reader()
    joining = reader if isinstance(reader, JoiningReader) else None
    return _Target(source, tenant, reader, joining)


def _batch_of(posts: list[_Post], now_ms: int) -> pa.RecordBatch:
    """Return the events of the posts as one batch.

    Raises:
        EventsRejectedError: an event does not fit.
    """
    joining = posts[0].target.joining
    batches: list[pa.RecordBatch] = []
    events: list[Any] = []
    for post in posts:
        if post.events is not None:
            events += post.events
            continue
        if events and joining is not None:
            batches.append(joining.batch(events, now_ms))
            events = []
        batches.append(post.batch)
    if events and joining is not None:
        batches.append(joining.batch(events, now_ms))
    return batches[0] if len(batches) == 1 else concatenate(batches)


def _header(headers: Mapping[bytes, bytes], name: str) -> str | None:
    """Return the value of a header as WSGI decodes it."""
    value = None if "_" in name else headers.get(name.lower().encode("latin-1", "replace"))
    return None if value is None else value.decode("latin-1")


def _accepted(events: int, *, closes: bool = False) -> bytes:
    return whole_answer(202, b'{"accepted":%d}' % events, closes=closes)


_ONE: list[bytes] = [b"", b""]


def _accepted_one() -> bytes:
    """Return the answer to a post of a single event, which is formatted once a second."""
    date = date_line()
    if _ONE[0] is not date:
        _ONE[:] = [date, _accepted(1)]
    return _ONE[1]


def _refused(reason: InputError, *, closes: bool = False) -> bytes:
    refused = refused_answer(reason)
    return whole_answer(refused.status, refused.body, refused.headers, closes=closes)


def _defect() -> InputError:
    return InputError("failed", "the worker failed to handle the request; its log says more")


@lru_cache(maxsize=1_024)
def _token(header: bytes) -> str:
    """Return the token of a request."""
    return token_of(Authorization.from_header(header.decode("latin-1")))
