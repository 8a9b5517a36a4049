"""A client that sends events to a worker's ingress.

It belongs to one thread and owns its sockets; waiting is polling. `topology.links.event_listener` has the client of the
egress.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import pyarrow as pa
import requests
import zmq

from cep_common.errors import InputError, PeerError
from cep_common.ids import SUPER_TENANT, Endpoint
from cep_common.protocol.links import OpenLink, StreamSchema
from cep_common.protocol.registry import Rejected
from cep_common.security.config import SecurityConfig
from cep_common.security.context import about_silence, open_context
from cep_common.security.roles import Role, SocketKind
from cep_common.security.tokens import bearer
from cep_common.web.client import WebClient
from topology.events.frames import arrow_schema, encode_batch
from topology.events.watermarks import NO_WATERMARK
from topology.links.refusals import refusal_error
from topology.links.sender import LinkSender, LinkState

LOOK_EVERY_MS = 10
"""While there is room, a sender reads answers only this often."""

STEP_MS = 100
"""How often a waiting call checks the link's health."""

MOST_SCHEMA_BYTES = 2**20

NO_KEYS = SecurityConfig()
"""The settings of a client of a worker without keys."""


class EventSender:
    """A link into a worker's ingress for events of one stream.

    It belongs to the thread that created it, which also does its work: there is no background thread, so call `flush`
    before a long pause. As a context manager, it flushes at the end of a block that did not raise.

    All methods raise InputError when the worker refuses the stream or events, and PeerError when the worker does not
    respond or shuts down, or the connection is lost: connect again, to the same or to another worker. Events beyond
    `acknowledged_rows` may or may not have been accepted then.

    Attributes:
        schema: The stream's schema.
        arrow_schema: The schema of the batches to send: `_timestamp` (int64 ms), `_kind` (int8), then the attributes in
            order.
        sent_rows: Events sent so far.
        acknowledged_rows: Events that the worker has accepted, and written to its log if it has one.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        schema: StreamSchema,
        sender: str = "client",
        tenant: int = SUPER_TENANT,
        timeout_ms: int = 5_000,
        security: SecurityConfig = NO_KEYS,
    ) -> None:
        """Open the link and wait until the worker has accepted it.

        Args:
            endpoint: The worker's ingress.
            schema: The stream's schema (`fetch_schema`).
            sender: Name of the sender in the worker's reports.
            tenant: Owner of the stream.
            timeout_ms: How long to wait for the worker's answer.
            security: The keys, which a worker with keys requires.

        Raises:
            InputError: an attribute type is unknown, or the worker refuses the stream.
            PeerError: no worker answers within `timeout_ms`.
        """
        self.schema = schema
        try:
            self.arrow_schema = arrow_schema(schema)
        except KeyError as error:
            raise InputError("unknown-type", f"no such attribute type: {error.args[0]}") from error
        self.sent_rows = 0
        self.acknowledged_rows = 0
        self._looked_ms = _now_ms()
        self._timeout_ms = timeout_ms
        self._context = open_context(security, Role.CLIENT)
        opening = OpenLink(sender=sender, streams=(schema,), tenant=tenant)
        self._link = LinkSender(self._context, SocketKind.INGRESS, endpoint, opening, _now_ms())
        self._poller = zmq.Poller()
        for socket in self._link.sockets:
            self._poller.register(socket, zmq.POLLIN)
        try:
            self._wait(lambda: self._link.state is LinkState.OPEN, timeout_ms)
        except BaseException:
            self.close()
            raise

    def send(self, batch: pa.RecordBatch, watermark_ms: int = NO_WATERMARK) -> None:
        """Send a batch.

        Blocks while the window of unacknowledged events is full, for as long as the worker lives.

        Args:
            batch: Events with the columns of `arrow_schema`, in any order; other types are cast.
            watermark_ms: A promise that later events have this time or a later one, in ms since 1970; `NO_WATERMARK`
                promises nothing.

        Raises:
            InputError: the worker has refused events.
            PeerError: the connection is lost.
        """
        if batch.schema != self.arrow_schema:
            batch = batch.select(self.arrow_schema.names).cast(self.arrow_schema)
        if not self._link.has_room() or _now_ms() - self._looked_ms >= LOOK_EVERY_MS:
            self._look()
            self._wait(self._link.has_room, None)
        self._link.send(self.schema.stream, encode_batch(batch), batch.num_rows, watermark_ms)
        self.sent_rows += batch.num_rows

    def mark_idle(self) -> None:
        """Notify the worker that this link is idle, so that event time does not wait for it."""
        self._wait(self._link.has_room, None)
        self._link.mark_idle()

    def flush(self, timeout_ms: int | None = None) -> None:
        """Wait until the worker has accepted all events sent.

        Args:
            timeout_ms: How long to wait; None waits until the connection is lost.

        Raises:
            InputError: the worker has refused events.
            PeerError: the worker has ended, or `timeout_ms` have passed.
        """
        self._wait(lambda: not self._link.outbox.pending, timeout_ms)

    def poll(self, timeout_ms: int = 0) -> int:
        """Read answers of the worker, which also keeps the link alive between batches.

        Args:
            timeout_ms: How long to wait for an answer; 0 only reads those that have arrived.

        Returns:
            `acknowledged_rows`.

        Raises:
            InputError: the worker has refused events.
            PeerError: the worker has ended.
        """
        self._poller.poll(timeout_ms)
        self._look()
        return self.acknowledged_rows

    def close(self) -> None:
        """Close the link. Call `flush` before to be sure that all events were taken over."""
        self._link.close()
        self._context.destroy(linger=500)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def _wait(self, done: Callable[[], bool], timeout_ms: int | None) -> None:
        deadline_ms = None if timeout_ms is None else _now_ms() + timeout_ms
        while not done():
            left_ms = STEP_MS if deadline_ms is None else min(STEP_MS, deadline_ms - _now_ms())
            if left_ms <= 0:
                hint = about_silence(self._context)
                raise PeerError(f"the worker at {self._where()} did not answer within {timeout_ms} ms; {hint}")
            self._poller.poll(left_ms)
            self._look()

    def _look(self) -> None:
        """Process acknowledgements and refusals.

        Raises:
            InputError: the worker has refused events.
            PeerError: the connection is lost.
        """
        link = self._link
        self._looked_ms = _now_ms()
        self.acknowledged_rows += link.handle()
        link.tick(self._looked_ms)
        if link.refusals:
            raise refusal_error(link.refusals[0], self._where())
        if link.state is LinkState.LOST and not link.answered:
            raise PeerError(f"the worker at {self._where()} did not answer; {about_silence(self._context)}")
        if link.state is LinkState.LOST:
            open_rows = link.outbox.in_flight_rows
            raise PeerError(
                f"the connection to the worker at {self._where()} was lost; {open_rows} events were not acknowledged"
            )

    def _where(self) -> str:
        return f"{self._link.endpoint.host}:{self._link.endpoint.port}"


def fetch_schema(
    http_address: str, event_stream: str, tenant: int = SUPER_TENANT, timeout_ms: int = 5_000, token: str = ""
) -> StreamSchema:
    """Return the schema of an imported event stream, as a worker's HTTP server reports it.

    Args:
        http_address: The worker's address, `http://host:port`.
        event_stream: Name of the event stream.
        tenant: Owner of the stream.
        timeout_ms: How long to wait for the answer.
        token: Access token, where the worker requires one.

    Raises:
        InputError: there is no such stream.
        PeerError: the worker does not answer, has not started yet, or shuts down.
    """
    url = f"{http_address}/streams/{event_stream}"
    try:
        with WebClient(MOST_SCHEMA_BYTES) as client:
            headers = {"tenant": str(tenant), **bearer(token)}
            answer = client.request("GET", url, headers=headers, timeout_s=timeout_ms / 1000)
        body = answer.json()
    except requests.RequestException as error:
        raise PeerError(f"no worker answers at {http_address}: {type(error).__name__}") from error
    if answer.status != 200:
        refusal = Rejected(str(body.get("code", "refused")), str(body.get("message", answer.status)))
        raise refusal_error(refusal, http_address)
    attributes = tuple((item["name"], item["type"]) for item in body["attributes"])
    return StreamSchema(body["stream"], attributes)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
