"""Waitress with limits for each address, deadlines for requests, and a look at a request before its body is read."""

from __future__ import annotations

import functools
import logging
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher
from waitress.utilities import Error

from cep_common.monitoring.paced_log import PacedLog
from cep_common.security.web_limits import AdmitBody, BodyHead, BodyRefusal, WebLimits

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

IDLE_S = 60
"""A connection on which nothing is asked is closed after so long."""
UNREAD_S = 30
"""So is one whose client reads nothing of an answer."""
BODY_GRACE_S = 5
"""So long a body may come as slowly as it likes."""
LINGER_S, LINGER_BYTES = 2.0, 1_048_576
"""A client whose body is refused may go on sending so long and so much, and reads the answer; else it would only see
that the connection is gone."""
RECEIVED_BYTES = 65_536
ACCEPTED_AT_ONCE = 64
REPLACED_PER_S = 2_000
"""So many connections of an address make room for others of it a second; it gets no more new ones then."""
SMALL_BODY_BYTES = 65_536
"""Smaller bodies are not looked at one by one."""
REASONS = {401: "Unauthorized", 413: "Request Entity Too Large", 503: "Service Unavailable"}


class _RefusedError(Error):  # type: ignore[misc] # waitress has no types
    """An answer in the form of the servers' other errors."""

    def __init__(self, refusal: BodyRefusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal

    def to_response(self, ident: str | None = None) -> tuple[str, list[tuple[str, str]], bytes]:
        status, code, message = self.refusal
        headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
        if status == 401:
            headers.append(("WWW-Authenticate", 'Bearer realm="cep"'))
        if status == 503:
            headers.append(("Retry-After", "1"))
        body = msgspec.json.encode({"code": code, "message": message, "details": []})
        return f"{status} {REASONS.get(status, 'Refused')}", headers, body


class GuardedParser(HTTPRequestParser):  # type: ignore[misc]
    """Refuses a body once the head of its request is there."""

    def __init__(self, adj: Adjustments, channel: GuardedChannel) -> None:
        super().__init__(adj)
        self._channel = channel
        self._looked_at = SMALL_BODY_BYTES

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        if self.content_length or self.chunked:
            length = None if self.chunked else self.content_length
            head = BodyHead(
                self.command,
                self.path,
                self.headers.get("AUTHORIZATION", ""),
                self.headers.get("COOKIE", ""),
                length,
            )
            self._refuse(self._channel.server.refusal(head) or self._beyond_budget(self.content_length))

    def received(self, data: bytes) -> int:
        consumed = super().received(data)
        if self.chunked and not self.completed and self.body_bytes_received > self._looked_at:
            self._looked_at = 2 * self.body_bytes_received
            self._refuse(self._beyond_budget(self._looked_at))
        return int(consumed)

    def reserved(self) -> int:
        """Return how many bytes of body it has or is to get."""
        return max(int(self.content_length), int(self.body_bytes_received))

    def _beyond_budget(self, length: int) -> BodyRefusal | None:
        return self._channel.server.beyond_budget(self._channel, length) if length > SMALL_BODY_BYTES else None

    def _refuse(self, refusal: BodyRefusal | None) -> None:
        if refusal is not None:
            self.error = _RefusedError(refusal)
            self.completed = True
            self.content_length = 0  # else waitress would put an error of its own in place
            self.expect_continue = False  # else waitress would ask for the body
            self._channel.refused = True


class GuardedChannel(HTTPChannel):  # type: ignore[misc]
    """A connection that knows how long it is waited for."""

    server: GuardedServer

    def __init__(
        self,
        server: GuardedServer,
        sock: socket.socket,
        addr: Any,
        adj: Adjustments,
        map: Any = None,  # noqa: A002
    ) -> None:
        self.address = server.address_of(addr)
        self.refused = False
        self._served = 0
        self._began = time.time()
        self._lingers_until = 0.0
        self._lingered = 0
        super().__init__(server, sock, addr, adj, map=map)
        self.parser_class = functools.partial(GuardedParser, channel=self)
        server.arrived(self)

    def half_open(self) -> bool:
        """Return whether a request, or the first one, is not there as a whole."""
        return not self.requests and not self.will_close and (self.request is not None or not self._served)

    def idle(self) -> bool:
        """Return whether nothing is being asked or answered."""
        return not self.requests and not self.total_outbufs_len

    def reserved(self) -> int:
        """Return how many bytes its bodies take, or are to take."""
        requests = (self.request, *self.requests)
        return sum(one.reserved() for one in requests if one is not None)

    def overdue(self, now: float, limits: WebLimits) -> bool:
        """Return whether it has been waited for long enough."""
        if self._lingers_until:
            return now > self._lingers_until
        if self.total_outbufs_len:
            return bool(now - self.last_activity > UNREAD_S)
        if self.requests:
            return False
        if self.request is None:
            return bool(now - self.last_activity > (IDLE_S if self._served else limits.head_s))
        age = now - self._began
        if not self.request.headers_finished:
            return age > limits.head_s
        least = limits.body_bytes_per_s * (age - BODY_GRACE_S)
        return age > limits.body_s or self.request.body_bytes_received < least

    def received(self, data: bytes) -> bool:
        if self.request is None:
            self._began = time.time()
        taken: bool = super().received(data)
        self._served += self.request is None
        return taken

    def service(self) -> None:
        super().service()
        self._began = time.time()

    def readable(self) -> bool:
        return bool(self._lingers_until) or super().readable()

    def writable(self) -> bool:
        return bool(super().writable())

    def handle_read(self) -> None:
        if not self._lingers_until:
            super().handle_read()
            return
        try:
            data = self.recv(self.adj.recv_bytes)
        except OSError:
            data = b""
        self._lingered += len(data)
        if not data or self._lingered > LINGER_BYTES:
            self.handle_close()

    def handle_write(self) -> None:
        closing: Any = self
        if self.refused and closing.close_when_flushed and not closing.will_close:
            self._flush_exception(self._flush_some)
            if not self.total_outbufs_len and not closing.will_close:
                self.close_when_flushed = False
                self._lingers_until = time.time() + LINGER_S
                try:
                    self.socket.shutdown(socket.SHUT_WR)
                except OSError:
                    self.will_close = True
                return
        super().handle_write()

    def del_channel(self, map: Any = None) -> None:  # noqa: A002
        super().del_channel(map)
        self.server.left(self)


class GuardedServer(TcpWSGIServer):  # type: ignore[misc]
    """Used by the thread that serves all connections, but where it says otherwise."""

    channel_class = GuardedChannel

    def __init__(
        self,
        app: Any,
        listening: socket.socket,
        limits: WebLimits,
        admit: AdmitBody | None,
        client: Callable[[int], str | None] | None,
        map: dict[int, Any],  # noqa: A002
        **settings: Any,
    ) -> None:
        """`client` tells whose connection comes from a port of this host, where something stands in front."""
        self.limits = limits
        self._admit = admit
        self._client = client
        self._of_address: dict[str, dict[GuardedChannel, None]] = {}
        self._replaced: dict[str, int] = {}
        """How many connections of each address made room for others since the last look at all of them."""
        # Waitress stops accepting at its own limit, which would shut out everybody; here others make room before.
        adj = Adjustments(
            connection_limit=2 * limits.connections + 100, cleanup_interval=1, recv_bytes=RECEIVED_BYTES, **settings
        )
        dispatcher = ThreadedTaskDispatcher()
        dispatcher.set_thread_count(adj.threads)
        place = (listening.family, listening.type, listening.proto, listening.getsockname())
        super().__init__(app, map, _sock=listening, dispatcher=dispatcher, adj=adj, bind_socket=False, sockinfo=place)

    def address_of(self, addr: Any) -> str:
        """Return the address of the client at the other end."""
        if self._client is None:
            return str(addr[0])
        return self._client(int(addr[1])) or "unknown"

    def refusal(self, head: BodyHead) -> BodyRefusal | None:
        """Return why the body is not to be read."""
        if head.length is not None and head.length >= self.adj.max_request_body_size:
            most = self.adj.max_request_body_size - 1
            return BodyRefusal(413, "too-large", f"the body has {head.length:,} bytes; {most:,} are the most")
        return self._admit(head) if self._admit is not None else None

    def beyond_budget(self, channel: GuardedChannel, length: int) -> BodyRefusal | None:
        """Return why a body of the length has no room beside those that are not worked off."""
        own = _reserved(one for one in self._of_address.get(channel.address, ()) if one is not channel)
        if own + length > self.limits.bodies_bytes_per_address:
            return _no_room("security.limits.bodies_bytes_per_address", channel.address)
        if _reserved(one for one in self.active_channels.values() if one is not channel) + length > (
            self.limits.bodies_bytes
        ):
            return _no_room("security.limits.bodies_bytes", channel.address)
        return None

    def handle_accept(self) -> None:
        """Take the connections that wait: one at a time, as waitress does, would have each wait for all others."""
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted = self.accept()
                if accepted is None:
                    return
                connection, addr = accepted
                if self._replaced.get(self.address_of(addr), 0) >= REPLACED_PER_S:
                    connection.close()
                    continue
                self.set_socket_options(connection)
            except OSError as lost:
                logger.debug("a connection was gone before it was accepted: reason=%s", lost)
                continue
            self.channel_class(self, connection, self.fix_addr(addr), self.adj, map=self._map)

    def arrived(self, channel: GuardedChannel) -> None:
        """Make room for a connection where there are too many."""
        own = self._of_address.setdefault(channel.address, {})
        own[channel] = None
        if len(own) > self.limits.half_open_per_address:
            half_open = [one for one in own if one.half_open()]
            if len(half_open) > self.limits.half_open_per_address:
                self._end(half_open[0], "security.limits.half_open_per_address")
        if len(own) > self.limits.connections_per_address:
            self._end(_least_used(own), "security.limits.connections_per_address")
        if len(self.active_channels) > self.limits.connections:
            most = max(self._of_address.values(), key=len)
            self._end(_least_used(most), "security.limits.connections")

    def left(self, channel: GuardedChannel) -> None:
        """Forget a connection."""
        own = self._of_address.get(channel.address)
        if own is not None:
            own.pop(channel, None)
            if not own:
                del self._of_address[channel.address]

    def maintenance(self, now: float) -> None:
        self._replaced.clear()
        for channel in self.active_channels.values():
            if channel.overdue(now, self.limits):
                channel.will_close = True

    def _end(self, channel: GuardedChannel, key: str) -> None:
        paced_logger.problem(key, "a connection made room for others: address=%s see=%s", channel.address, key)
        self._replaced[channel.address] = self._replaced.get(channel.address, 0) + 1
        # It is closed when its turn comes: closed here, its number could be that of a new one with its events.
        channel.will_close = True


def _least_used(channels: Iterable[GuardedChannel]) -> GuardedChannel:
    """Return the connection to drop first: half-open ones first, then idle ones, the longest silent first."""
    return min(channels, key=lambda one: (one.will_close, not one.half_open(), not one.idle(), one.last_activity))


def _reserved(channels: Iterable[GuardedChannel]) -> int:
    return sum(channel.reserved() for channel in channels)


def _no_room(key: str, address: str) -> BodyRefusal:
    paced_logger.problem(key, "bodies were refused: address=%s see=%s", address, key)
    return BodyRefusal(503, "no-room", f"too many large bodies are being worked on; send it again later ({key})")
