"""Links from clients: the built-in ingress, and sources of type `zeromq`."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import zmq

from cep_common.errors import InputError
from cep_common.protocol.links import Data, MarkIdle, OpenLink, StreamSchema
from cep_common.protocol.registry import Rejected
from cep_common.security.context import refusal_of
from cep_common.security.roles import SocketKind
from cep_common.sockets.transport import readable
from cep_worker.formats.event_times import LATEST_MS, WRONG_TIME, strange_times
from cep_worker.formats.object_values import WRONG_JSON, unreadable_object
from cep_worker.inflows.wal.errors import WalFullError
from cep_worker.ingest.routing import Route
from cep_worker.plans.streams import EventStream, check_schema
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.storage.group_commit import DiskSync
from siddhi.column_names import KIND, TIMESTAMP
from topology.events.frames import CURRENT
from topology.links.server import FrameArrived, IncomingLink, LinkArrived, LinkGone, LinkServer

logger = logging.getLogger(__name__)

KEY_SHARE = 4
"""The maximum share of all links for one restricted key."""
JUDGE_MS = 1_000
PARKED_BYTES, ALL_PARKED_BYTES = 64 * 1024 * 1024, 256 * 1024 * 1024
"""The bytes that may wait of one link, and of all, while there is no room: the window limits rows, not bytes.
"""
SHARE_BYTES = 1024 * 1024
"""The bytes of each link that may wait even if others use up the total."""
FRAME_BYTES = 512
"""The memory of a waiting frame in addition to its body."""

Resolve = Callable[[str, int], EventStream]
"""Returns the event stream that a tenant's client refers to by a name. Raises InputError."""

MakeRoute = Callable[[Hashable, StreamSchema, EventStream], Route]
"""Returns a route for a source that sends batches of the given schema to an event stream's inflows."""


@dataclass(slots=True, eq=False)
class _IngressClient:
    """An open link: a route for each of its streams, and frames that found no room."""

    link: IncomingLink
    routes: dict[str, Route] = field(default_factory=dict)
    parked: deque[FrameArrived] = field(default_factory=deque)
    parked_bytes: int = 0
    closed: bool = False


class LinkIngress:
    """Accepts links from clients and passes their batches to routes.

    A frame is acknowledged when every inflow has accepted it and it is durable; until then it waits here, limited by
    the link's window and in bytes. Belongs to the data thread.
    """

    def __init__(
        self, event_loop: EventLoop, disk_sync: DiskSync, resolve: Resolve, make_route: MakeRoute, most_links: int
    ) -> None:
        self._event_loop = event_loop
        self._disk_sync = disk_sync
        self._resolve = resolve
        self._make_route = make_route
        self._most_links = most_links
        self._clients: dict[bytes, _IngressClient] = {}
        self._parked: dict[_IngressClient, None] = {}
        self._server: LinkServer | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._parked_bytes = 0
        self._judged_ms = 0
        """When the restrictions of keys were last checked for open links."""

    def listen(self, context: zmq.Context[zmq.Socket[bytes]], host: str, port: int, window_rows: int) -> None:
        """Accept links at `host:port`.

        Raises PortInUseError.
        """
        self._server = LinkServer.listen(
            context, SocketKind.INGRESS, host, port, window_rows, self._accept, trusted=False
        )
        self._context = context
        self._server.permit = self._permit
        self._event_loop.watch(self._server.socket, self._handle)

    def retry(self, now_ms: int) -> None:
        """Process waiting frames while there is room."""
        for client in list(self._parked):
            while client.parked and self._take(client, client.parked[0], now_ms):
                self._note_parked(client, -_size(client.parked.popleft()))
            if not client.parked:
                del self._parked[client]
                if client.closed:
                    self._leave(client)

    def reroute(self, now_ms: int) -> None:
        """Follow a change of the deployed plans: end links whose streams no longer exist and reroute the others."""
        for peer, client in list(self._clients.items()):
            try:
                routes = self._routes(client.link)
            except InputError as error:
                self._forget(peer)
                if self._server is not None:
                    self._server.drop(client.link, error.reason_code, error.message)
                continue
            for name, route in routes.items():
                if route.inflows != client.routes[name].inflows:
                    client.routes[name].leave()
                    client.routes[name] = route
                    route.join(now_ms)

    def tick(self, now_ms: int) -> None:
        """Remove silent clients."""
        server = self._server
        if server is None:
            return
        self._handle(now_ms)
        if now_ms - self._judged_ms >= JUDGE_MS:
            self._judged_ms = now_ms
            self._judge(server)
        if not readable(server.socket):
            for gone in server.expire(now_ms):
                self._forget(gone.link.peer)

    def close(self) -> None:
        """Stop listening and end all links; waiting frames are not acknowledged."""
        if self._server is None:
            return
        for peer, client in list(self._clients.items()):
            self._server.drop(
                client.link, "leaving", "the worker is shutting down; send the unacknowledged events again"
            )
            self._forget(peer)
        self._event_loop.unwatch(self._server.socket)
        self._server.flush()
        self._server.socket.close(linger=200)
        self._server = None

    def _permit(self, user: str, opening: OpenLink) -> Rejected | None:
        """Refuse a client whose key does not permit the streams, or has its share of the links."""
        refusal = self._not_allowed(user, opening)
        if refusal is None and ":" in user:
            open_links = sum(client.link.user == user for client in self._clients.values())
            if open_links >= max(1, self._most_links // KEY_SHARE):
                return Rejected("too-many-links", f"{open_links} links with this key are already open")
        return refusal

    def _not_allowed(self, user: str, opening: OpenLink) -> Rejected | None:
        for offered in opening.streams:
            reason = refusal_of(self._context, user, "send", opening.tenant, offered.stream)
            if not reason and ":" in user:
                # A source belongs to the tenant of its plan's stream, whatever tenant a client names.
                with suppress(InputError):
                    owner = self._resolve(offered.stream, opening.tenant).tenant()
                    reason = refusal_of(self._context, user, "send", owner, offered.stream)
            if reason:
                return Rejected("not-authorised", reason)
        return None

    def _judge(self, server: LinkServer) -> None:
        """End links whose keys were revoked or no longer permit their streams."""
        for peer, client in list(self._clients.items()):
            refusal = self._not_allowed(client.link.user, client.link.opening) if ":" in client.link.user else None
            if refusal is not None:
                self._forget(peer)
                server.drop(client.link, refusal.code, refusal.reason)

    def _accept(self, opening: OpenLink) -> Rejected | None:
        if len(self._clients) >= self._most_links:
            return Rejected("too-many-links", f"{self._most_links} links are already open")
        if opening.key is not None:
            return Rejected("wrong-endpoint", "this is a worker's ingress; links of a plan go to its stages")
        try:
            for offered in opening.streams:
                self._route(None, offered, opening.tenant)
        except InputError as error:
            return Rejected(error.reason_code, error.message)
        return None

    def _routes(self, link: IncomingLink) -> dict[str, Route]:
        source = ("link", id(self), link.peer)
        opening = link.opening
        return {offered.stream: self._route(source, offered, opening.tenant) for offered in opening.streams}

    def _route(self, source: Hashable, offered: StreamSchema, tenant: int) -> Route:
        stream = self._resolve(offered.stream, tenant)
        check_schema(offered, stream.schema)
        return self._make_route(source, offered, stream)

    def _handle(self, now_ms: int) -> None:
        server = self._server
        if server is None:
            return
        for event in server.receive(now_ms):
            match event:
                case LinkArrived(link=link):
                    self._arrived(link, now_ms)
                case FrameArrived(link=link):
                    self._frame(self._clients[link.peer], event, now_ms)
                case LinkGone(link=link, reason="closed"):
                    self._closed(link.peer)
                case LinkGone(link=link, reason=reason):
                    logger.info("client gone: sender=%s reason=%s", link.opening.sender, reason)
                    self._forget(link.peer)
        self._event_loop.defer(self._flush)

    def _flush(self, now_ms: int) -> None:
        if self._server is not None:
            again_ms = self._server.flush(now_ms)
            if again_ms is not None:
                self._event_loop.call_at(again_ms, self._flush)

    def _arrived(self, link: IncomingLink, now_ms: int) -> None:
        self._forget(link.peer)  # the peer may open another link
        client = _IngressClient(link, self._routes(link))
        self._clients[link.peer] = client
        for route in client.routes.values():
            route.join(now_ms)

    def _closed(self, peer: bytes) -> None:
        """Handle an orderly close by the client; frames that it sent are still processed."""
        client = self._clients.pop(peer)
        client.closed = True
        if not client.parked:
            self._leave(client)

    def _forget(self, peer: bytes) -> None:
        """Remove a disconnected client; it sends unacknowledged events again."""
        client = self._clients.pop(peer, None)
        if client is not None:
            self._parked.pop(client, None)
            self._note_parked(client, -client.parked_bytes)
            self._leave(client)

    def _leave(self, client: _IngressClient) -> None:
        for route in client.routes.values():
            route.leave()

    def _frame(self, client: _IngressClient, frame: FrameArrived, now_ms: int) -> None:
        if client.parked or not self._take(client, frame, now_ms):
            most = PARKED_BYTES if self._parked_bytes < ALL_PARKED_BYTES else SHARE_BYTES
            if client.parked_bytes >= most:
                self._refuse_more(client)
                return
            client.parked.append(frame)
            self._note_parked(client, _size(frame))
            self._parked[client] = None

    def _note_parked(self, client: _IngressClient, size: int) -> None:
        client.parked_bytes += size
        self._parked_bytes += size

    def _refuse_more(self, client: _IngressClient) -> None:
        """End a link that sends more than may wait; its client must resend unacknowledged events."""
        reason = f"{client.parked_bytes} bytes are already waiting for room; send the unacknowledged events again later"
        logger.warning("client exceeds its limit of waiting bytes: sender=%s bytes=%d", client.link.opening.sender,
                       client.parked_bytes)  # fmt: skip
        self._forget(client.link.peer)
        if self._server is not None:
            self._server.drop(client.link, "too-much-waiting", reason)

    def _take(self, client: _IngressClient, frame: FrameArrived, now_ms: int) -> bool:
        """Return whether the frame has been handled; False when there is no room for it."""
        server = self._server
        if server is None:
            return False
        match frame.message:
            case Data(stream=stream, watermark_ms=promised_ms) if frame.batch is not None:
                route = client.routes[stream]
                if not route.has_room():
                    return False
                problem = _problem(frame.batch, promised_ms)
                if problem:
                    server.refuse_frame(client.link, "bad-events", f"{stream}: {problem}")
                else:
                    try:
                        route.offer(frame.batch, frame.bodies[0], promised_ms, now_ms)
                    except WalFullError:  # the inflow reports why
                        return False
                    except InputError as error:
                        server.refuse_frame(client.link, error.reason_code, error.message)
            case MarkIdle():
                for route in client.routes.values():
                    route.rest()
            case message:
                server.refuse_frame(client.link, "unexpected", f"a {message.TYPE} is not expected here")
        self._disk_sync.when_safe(partial(self._done, client.link, frame.sequence))
        return True

    def _done(self, link: IncomingLink, sequence: int) -> None:
        if self._server is not None:
            self._server.done(link, sequence)
            self._event_loop.defer(self._flush)


def _size(frame: FrameArrived) -> int:
    return FRAME_BYTES + sum(memoryview(body).nbytes for body in frame.bodies)


def _problem(batch: pa.RecordBatch, promised_ms: int) -> str:
    """Return why a batch or its watermark is invalid; empty if it is valid."""
    if promised_ms > LATEST_MS:
        return f"the watermark {promised_ms} is beyond the year 9999"
    kinds = batch.column(KIND)
    if kinds.null_count or batch.column(TIMESTAMP).null_count:
        return f"{TIMESTAMP} and {KIND} may not be null"
    if kinds.to_numpy(zero_copy_only=True).any():  # CURRENT is 0
        return f"{KIND} must be {CURRENT}"
    if strange := strange_times(batch.column(TIMESTAMP)):
        return f"{TIMESTAMP} of row {strange[0]} {WRONG_TIME}"
    found = unreadable_object(batch)
    return f"{found[1]} of row {found[0]} {WRONG_JSON}" if found is not None else ""
