"""One HTTP connection: reads requests, sends responses in order, and enforces limits.

    bytes ──▶ httptools ──▶ request ──▶ direct call ──────────────▶ answer ──▶ flushed in order
                               │            (on the loop's thread)     ▲
                               └──────▶ application, in a thread ──────┘

Direct calls handle pipelined requests at once, the application handles one after the other.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections import deque
from typing import Any, Protocol

import httptools

from cep_common.monitoring.http_refusals import REFUSALS
from cep_common.security.web_limits import BodyHead, BodyRefusal, WebLimits
from cep_common.web.answers import refusal
from cep_common.web.connections import ConnectionTable
from cep_common.web.requests import Exchange, Request

logger = logging.getLogger(__name__)

IDLE_S = 60
"""Seconds after which a connection without requests is closed."""
UNREAD_S = 30
"""Seconds after which a connection is closed whose client reads nothing of a response."""
HANDSHAKE_S = 10.0
BODY_GRACE_S = 5
"""Seconds for which a body has no minimum rate."""
LINGER_S, LINGER_BYTES = 2.0, 1_048_576
"""Seconds and bytes for which a client whose request is refused may continue sending, so that it can read the response;
if the connection were closed at once, it would only see a reset."""
HEAD_BYTES = 65_536
MOST_HEADERS = 200
MOST_PIPELINED = 256
"""The number of unanswered requests of a connection above which no more are read."""
SMALL_BODY_BYTES = 65_536
"""The size of a body above which its sender must be authenticated before it is read."""
UNAVAILABLE, UNAUTHENTICATED = 503, 401


class ConnectionServer(Protocol):
    """The interface of a server for its connections."""

    loop: asyncio.AbstractEventLoop
    limits: WebLimits
    table: ConnectionTable
    stopping: threading.Event

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the context for TLS; None for plain text."""

    def now(self) -> float:
        """Return the time of the server's loop in seconds."""

    def admit(self, head: BodyHead) -> BodyRefusal | None:
        """Return why the body is not read, judged by its sender."""

    def too_large(self, length: int) -> BodyRefusal | None:
        """Return why a body of this length is not read."""

    def direct(self, exchange: Exchange) -> bool:
        """Return whether a direct call answers the exchange."""

    def run_app(self, exchange: Exchange) -> None:
        """Run the application for the exchange."""


class ClientConnection(asyncio.Protocol):
    """One client's HTTP connection. Belongs to the thread of the server's loop, except `lost` and `writable`."""

    def __init__(self, server: ConnectionServer) -> None:
        """Create the protocol of one connection.

        Args:
            server: The server that accepted it.
        """
        self._server = server
        self.address = ""
        self.port = 0
        self.lost = threading.Event()
        self.writable = threading.Event()
        """Clear while the client reads more slowly than it is sent responses. Set when the connection is lost, too."""
        self.writable.set()
        self._transport: Any = None
        self._parser: Any = None
        self._request: Request | None = None
        self._in_head = False
        self._begins = False
        """Whether the head began with the last received bytes."""
        self._head_bytes = 0
        self._waiting: deque[Exchange] = deque()
        self._open: deque[Exchange] = deque()
        """Exchanges that were begun and are unanswered, in the order of their responses."""
        self._blocked = False
        """Whether the application is processing the last of those."""
        self._served = False
        self._ending = False
        """Whether nothing more is read; the connection ends when everything is answered."""
        self._paused = False
        self._began = self._active = 0.0
        self._refused = False
        self._lingers_until = 0.0
        self._lingered = 0
        self._unread = 0
        self._unread_since = 0.0
        self._handshake: asyncio.Task[None] | None = None

    # ---- asyncio ----------------------------------------------------------------------------------------------------

    def arrive(self, peer: tuple[str, int]) -> bool:
        """Register the connection, and return whether it may stay open."""
        self.address, self.port = str(peer[0]), int(peer[1])
        self._began = self._active = self._server.now()
        return self._server.table.arrived(self)

    async def shake_hands(self, accepted: socket.socket, context: ssl.SSLContext) -> None:
        """Begin TLS on a connection that has arrived."""
        self._handshake = asyncio.current_task()
        try:
            await self._server.loop.connect_accepted_socket(
                lambda: self, accepted, ssl=context, ssl_handshake_timeout=HANDSHAKE_S
            )
        except (OSError, asyncio.CancelledError) as lost:  # ssl.SSLError is one
            logger.debug("connection lost: reason=%s", lost)
            accepted.close()
            self.connection_lost(None)
        finally:
            self._handshake = None

    def connection_made(self, transport: Any) -> None:
        """Begin to read requests."""
        self._transport = transport
        if (
            not self.address and not self.arrive(transport.get_extra_info("peername") or ("unknown", 0))
        ) or self.lost.is_set():
            transport.abort()
        else:
            self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        """Read requests, or discard input after a refused one."""
        self._active = self._server.now()
        if self._parser is None:  # the connection was aborted
            return
        if self._ending:
            self._lingered += len(data)
            if self._lingers_until and self._lingered > LINGER_BYTES:
                self._transport.close()
            return
        self._begins = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # only HTTP/1.1 is supported: ignore the upgrade
            self._end_after_last()
        except httptools.HttpParserError as error:
            if isinstance(error, httptools.HttpParserCallbackError):
                logger.exception("a request could not be read: address=%s", self.address)
            if not self._ending:
                self._refuse(BodyRefusal(400, "bad-request", f"this is not a valid request: {_cause(error)}"))
        if self._in_head and not self._ending:
            self._head_bytes += 0 if self._begins else len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refuse(_too_large_head())
        if self._request is not None:
            self._server.table.half_open(self, half_open=True)
        self._start()

    def eof_received(self) -> bool:
        """Handle the end of input; the client still reads responses to earlier requests."""
        if self._request is not None or not (self._open or self._waiting):
            return False
        self._ending = True
        return self._server.tls_context() is None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection. Complete requests are still processed."""
        self.lost.set()
        self.writable.set()
        self._server.table.left(self)
        self._parser = None
        if self._request is not None:
            self._release(self._request)
            self._request = None
        for exchange in self._waiting:
            self._release(exchange.request)
        self._waiting.clear()

    def pause_writing(self) -> None:
        """Stop reading and handling requests: the client does not read its responses."""
        self.writable.clear()
        self._pause()

    def resume_writing(self) -> None:
        """Continue: the client reads again."""
        self.writable.set()
        self._start()

    # ---- httptools --------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request."""
        if self._ending:
            return
        self._request = Request()
        self._in_head = self._begins = True
        self._head_bytes = 0
        self._began = self._server.now()

    def on_url(self, url: bytes) -> None:
        """Add a piece of the target."""
        if self._request is not None:
            self._request.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        request = self._request
        if request is None:
            return
        if not self._in_head:  # a trailer, which must not change the head
            return
        request.add_header(name, value)
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES or len(request.headers) > MOST_HEADERS:
            self._refuse(_too_large_head())

    def on_headers_complete(self) -> None:
        """Decide whether the body is read."""
        request = self._request
        if request is None or self._ending:
            return
        self._in_head = False
        parser, headers = self._parser, request.headers
        request.method = parser.get_method()
        request.version = parser.get_http_version()
        request.keep_alive = parser.should_keep_alive() and not self._server.stopping.is_set()
        request.chunked = b"transfer-encoding" in headers
        length = headers.get(b"content-length")
        request.length = int(length) if length else 0
        reason = _strange(request)
        if reason is None and (request.length or request.chunked):
            reason = self._body_refusal(request)
        if reason is not None:
            self._refuse(reason)
        elif b"expect" in headers:
            self._expected(request)

    def on_body(self, body: bytes) -> None:
        """Add a piece of the body."""
        request = self._request
        if request is None or self._ending:
            return
        if request.chunked:
            reason = self._server.too_large(request.body_bytes + len(body)) or self._reserve(request, len(body))
            if reason is not None:
                self._refuse(reason)
                return
        request.add_body(body)

    def on_message_complete(self) -> None:
        """Start handling the request."""
        request, self._request = self._request, None
        if request is None or self._ending:
            return
        self._served = True
        self._server.table.used(self)
        self._waiting.append(Exchange(self, request))
        if not request.keep_alive:
            self._ending = True

    # ---- requests ---------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send complete responses, in the order of their requests."""
        open_, found, ends = self._open, [], False
        while open_ and (answer := open_[0].answer) is not None:
            exchange = open_.popleft()
            self._release(exchange.request)
            found.append(answer)
            if exchange.general:
                self._blocked = False
            if exchange.closes:
                ends = True
                break
        if not found or self.lost.is_set():
            return
        self._active = self._server.now()
        self._transport.write(found[0] if len(found) == 1 else b"".join(found))
        if ends or (self._ending and not open_ and not self._waiting):
            self._end()
        elif self._waiting or self._paused:
            self._start()

    def write(self, data: bytes) -> None:
        """Send a part of a response that the application streams."""
        if not self.lost.is_set():
            self._transport.write(data)

    def end(self) -> None:
        """Finish the exchange whose response the application has streamed."""
        if self._open:
            self._open[0].answer = b""
        self.flush()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()
        elif self._handshake is not None:
            self._handshake.cancel()

    def busy(self) -> bool:
        """Return whether there are unanswered requests."""
        return bool(self._open or self._waiting)

    def is_recent(self, now: float, within_s: float) -> bool:
        """Return whether a request is being read, or anything was received within this many seconds."""
        return not self._lingers_until and (self._request is not None or now - self._active < within_s)

    def overdue(self, now: float) -> bool:
        """Return whether a time limit of the connection has expired."""
        limits = self._server.limits
        if self._lingers_until:
            return now > self._lingers_until
        if self._parser is None:
            return False  # the TLS handshake has a deadline of its own
        if self._is_unread(now):
            return True
        if self._open or self._waiting or self._unread:
            return False
        request = self._request
        if request is None:
            return now - self._active > (IDLE_S if self._served else limits.head_s)
        age = now - self._began
        if self._in_head:
            return age > limits.head_s
        least = limits.body_bytes_per_s * (age - BODY_GRACE_S)
        return age > limits.body_s or request.body_bytes < least

    def is_idle(self) -> bool:
        """Return whether the client waits for no response: between two requests, or after a refusal."""
        return bool(self._lingers_until) or (self._served and self._request is None and not self._unread)

    def _is_unread(self, now: float) -> bool:
        """Return whether the client has read nothing of a response for too long."""
        size = self._transport.get_write_buffer_size()
        if size == 0 or size < self._unread or not self._unread:
            self._unread_since = now
        self._unread = size
        return now - self._unread_since > UNREAD_S

    def _start(self) -> None:
        """Start the waiting requests whose turn has come."""
        server = self._server
        while self._waiting and not self._blocked and self.writable.is_set():
            exchange = self._waiting[0]
            if exchange.answer is not None or (not exchange.general and server.direct(exchange)):
                self._waiting.popleft()
                self._open.append(exchange)
                continue
            exchange.general = True
            if self._open:  # a request may see the effects of those before it
                break
            self._waiting.popleft()
            self._open.append(exchange)
            self._blocked = True
            server.run_app(exchange)
        if self._open and self._open[0].answer is not None:
            self.flush()
        if len(self._open) + len(self._waiting) > MOST_PIPELINED:
            self._pause()
        elif self._paused and self.writable.is_set() and not self.lost.is_set():
            self._paused = False
            self._transport.resume_reading()

    def _pause(self) -> None:
        if not self._paused and not self.lost.is_set() and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _body_refusal(self, request: Request) -> BodyRefusal | None:
        """Return why the body is not read."""
        reason = self._server.too_large(request.length)
        if reason is None and (request.chunked or request.length > SMALL_BODY_BYTES):
            reason = self._server.admit(request.head())
        return reason or self._reserve(request, request.length)

    def _reserve(self, request: Request, length: int) -> BodyRefusal | None:
        reason = self._server.table.reserve(self, length)
        if reason is None:
            request.reserved += length
        return reason

    def _expected(self, request: Request) -> None:
        """Send `100 Continue` to a client that waits for it."""
        if request.headers[b"expect"].lower() != b"100-continue":
            self._refuse(BodyRefusal(417, "unknown-expectation", "only 100-continue is supported as Expect"))
        elif request.version == "1.1" and not self._open and not self._waiting:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _refuse(self, reason: BodyRefusal) -> None:
        """Refuse the request that is being read, and read nothing more."""
        REFUSALS.note(reason.code)
        request, self._request = self._request or Request(), None
        request.keep_alive = False
        exchange = Exchange(self, request)
        headers = [("WWW-Authenticate", 'Bearer realm="cep"')] if reason.status == UNAUTHENTICATED else []
        if reason.status == UNAVAILABLE:
            headers.append(("Retry-After", "1"))
        exchange.answer = refusal(*reason, headers)
        self._waiting.append(exchange)
        self._ending = True
        self._in_head = False
        self._refused = True
        self._server.table.half_open(self, half_open=False)

    def _end_after_last(self) -> None:
        """Close the connection after the response to the last request that was read."""
        self._ending = True
        last = (*self._open, *self._waiting)
        if last:
            last[-1].closes = True

    def _end(self) -> None:
        """Close the connection; a client that was refused may read the response first."""
        self._ending = True
        for exchange in self._waiting:
            self._release(exchange.request)
        self._waiting.clear()
        transport = self._transport
        if self._refused and transport.can_write_eof():
            self._lingers_until = self._server.now() + LINGER_S
            if self._paused:
                self._paused = False
                transport.resume_reading()
            transport.write_eof()
        else:
            transport.close()

    def _release(self, request: Request) -> None:
        if request.reserved:
            self._server.table.release(self, request.reserved)
            request.reserved = 0
        request.close()


def _strange(request: Request) -> BodyRefusal | None:
    """Return why a request is refused that servers could interpret differently (request smuggling)."""
    if request.repeated:
        return BodyRefusal(400, "bad-request", f"the header {request.repeated.decode('latin-1')} came twice")
    if not request.chunked:
        return None
    if request.headers[b"transfer-encoding"].strip().lower() != b"chunked":
        return BodyRefusal(501, "unknown-transfer-encoding", "only chunked is supported as Transfer-Encoding")
    if request.version != "1.1" or b"content-length" in request.headers:
        return BodyRefusal(400, "bad-request", "Transfer-Encoding requires HTTP/1.1 and excludes Content-Length")
    return None


def _too_large_head() -> BodyRefusal:
    return BodyRefusal(431, "too-large", f"the head of a request may have {HEAD_BYTES:,} bytes, {MOST_HEADERS} headers")


def _cause(error: Exception) -> str:
    return str(error.__context__ or error)[:200]
