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
from cep_common.security.config import SecurityConfig
from cep_common.security.context import about_silence, open_context
from cep_common.security.roles import Role, SocketKind
from cep_common.security.tokens import bearer
from cep_common.web.client import WebClient
from topology.events.frames import arrow_schema, encode_batch
from topology.events.watermarks import NO_WATERMARK
from topology.links.sender import LinkSender, LinkState

LOOK_EVERY_MS = 10
"""While there is room, a sender takes in answers only so often."""

STEP_MS = 100
"""How often a wait looks at the link's health."""

MOST_SCHEMA_BYTES = 2**20

NO_KEYS = SecurityConfig()
"""Of a client of a worker that has no keys either."""


class EventSender:
    """A link into a worker's ingress for events of one stream.

    Raises InputError when the worker refuses the stream or events, PeerError when it does not answer or is gone;
    `acknowledged_rows` then tells how many were taken over.
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
        """Open the link. `security` names the keys, which a worker with keys requires."""
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
        """Send `batch`, of `arrow_schema`; later events are of `watermark_ms` or after.

        `NO_WATERMARK` promises nothing. Blocks while the window of unacknowledged events is full, for as long as the
        worker lives.
        """
        if batch.schema != self.arrow_schema:
            batch = batch.select(self.arrow_schema.names).cast(self.arrow_schema)
        if not self._link.has_room() or _now_ms() - self._looked_ms >= LOOK_EVERY_MS:
            self._look()
            self._wait(self._link.has_room, None)
        self._link.send(self.schema.stream, encode_batch(batch), batch.num_rows, watermark_ms)
        self.sent_rows += batch.num_rows

    def mark_idle(self) -> None:
        """Nothing more comes for now: nobody need wait for this link's watermark."""
        self._wait(self._link.has_room, None)
        self._link.mark_idle()

    def flush(self, timeout_ms: int | None = None) -> None:
        """Everything that was sent has been taken over by the worker.

        PeerError after `timeout_ms` (None: wait on).
        """
        self._wait(lambda: not self._link.outbox.pending, timeout_ms)

    def close(self) -> None:
        """Close the link in order. Call `flush` before, to be sure of all events."""
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
        """Take in acknowledgements and refusals.

        Raises what they amount to.
        """
        link = self._link
        self._looked_ms = _now_ms()
        self.acknowledged_rows += link.handle()
        link.tick(self._looked_ms)
        if link.refusals:
            refusal = link.refusals[0]
            raise InputError(refusal.code.removeprefix("frame-"), refusal.reason)
        if link.state is LinkState.LOST and not link.answered:
            raise PeerError(f"the worker at {self._where()} did not answer; {about_silence(self._context)}")
        if link.state is LinkState.LOST:
            open_rows = link.outbox.in_flight_rows
            raise PeerError(f"the worker at {self._where()} is gone; {open_rows} events were not acknowledged")

    def _where(self) -> str:
        return f"{self._link.endpoint.host}:{self._link.endpoint.port}"


def fetch_schema(
    http_address: str, event_stream: str, tenant: int = SUPER_TENANT, timeout_ms: int = 5_000, token: str = ""
) -> StreamSchema:
    """Return the schema of an imported event stream, from a worker's HTTP address (`http://host:port`).

    Raises:
        InputError: there is no such stream.
        PeerError: the worker does not answer.
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
        raise InputError(str(body.get("code", "refused")), str(body.get("message", answer.status)))
    attributes = tuple((item["name"], item["type"]) for item in body["attributes"])
    return StreamSchema(body["stream"], attributes)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
