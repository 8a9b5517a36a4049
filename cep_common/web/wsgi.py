"""Runs a WSGI application for requests, and sends its responses at once or as a stream.

Runs on the threads of the server's pool; only `_WsgiAnswer._send` schedules work on the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from cep_common.web.answers import date_line, error_body, status_line, whole_answer
from cep_common.web.requests import Exchange

logger = logging.getLogger(__name__)

WsgiApp = Callable[..., Any]

STOPPING = "cep.stopping"
"""The key in a request's environment of the event that is set when the server stops, at which endless responses end."""

AT_ONCE_BYTES = 65_536
"""The bytes of a response that are joined before they are sent."""
UNDER_WAY = 8
"""The number of parts of a response that may wait for the loop's thread."""
NO_BODY = ("1", "204", "304")

_OF_PROXIES = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto",
                         b"x-forwarded-port", b"x-forwarded-by"})  # fmt: skip
"""Headers that only a trusted proxy may set, and none is configured."""
_PLAIN = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}


def is_stopping(environ: Mapping[str, Any]) -> bool:
    """Return whether the server of the request is to stop."""
    stopping: threading.Event | None = environ.get(STOPPING)
    return stopping is not None and stopping.is_set()


class ClientGoneError(ConnectionError):
    """The client has closed the connection."""


class WsgiServer:
    """Runs the WSGI application of one server."""

    def __init__(
        self,
        app: WsgiApp,
        host: str,
        port: int,
        scheme: str,
        loop: asyncio.AbstractEventLoop,
        stopping: threading.Event,
    ) -> None:
        """Serve `app` at the address."""
        self._app = app
        self._loop = loop
        self._same = {
            "SCRIPT_NAME": "",
            "SERVER_NAME": host,
            "SERVER_PORT": str(port),
            "SERVER_SOFTWARE": "cep",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": scheme,
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            "wsgi.input_terminated": True,
            STOPPING: stopping,
        }

    def answer(self, exchange: Exchange) -> None:
        """Run the application for the exchange; called on a thread of the pool."""
        answer = _WsgiAnswer(exchange, self._loop)
        try:
            environ = self._environ(exchange)
            found = self._app(environ, answer.start)
            try:
                for piece in found:
                    answer.add(piece, _length_of(found))
                answer.finish()
            finally:
                if hasattr(found, "close"):
                    found.close()
        except ClientGoneError as gone:
            logger.debug("%s: address=%s", gone, exchange.connection.address)
            answer.give_up()
        except Exception:
            logger.exception("a request failed: path=%s", exchange.request.target[:200])
            answer.fail()

    def _environ(self, exchange: Exchange) -> dict[str, Any]:
        request, connection = exchange.request, exchange.connection
        path, query = split_target(request.target)
        environ: dict[str, Any] = {
            **self._same,
            "REQUEST_METHOD": request.method.decode("latin-1"),
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            "QUERY_STRING": query.decode("latin-1"),
            "SERVER_PROTOCOL": f"HTTP/{request.version}",
            "REMOTE_ADDR": connection.address,
            "REMOTE_HOST": connection.address,
            "REMOTE_PORT": str(connection.port),
            "wsgi.input": request.stream(),
        }
        for name, value in request.headers.items():
            # in the environment a name with "_" looks like one with "-", which proxies may have removed
            if b"_" in name or name in _OF_PROXIES:
                continue
            key = _PLAIN.get(name) or "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
            environ[key] = value.decode("latin-1")
        if request.chunked:
            environ.pop("HTTP_TRANSFER_ENCODING", None)
            environ["CONTENT_LENGTH"] = str(request.body_bytes)
        return environ


class _WsgiAnswer:
    """One response. Used by one thread."""

    def __init__(self, exchange: Exchange, loop: asyncio.AbstractEventLoop) -> None:
        self._exchange = exchange
        self._loop = loop
        self._status = ""
        self._headers: list[tuple[str, str]] = []
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._sent = False
        """Whether the head, and perhaps more, was given to the loop's thread."""
        self._chunked = False
        self._under_way = threading.BoundedSemaphore(UNDER_WAY)

    def start(self, status: str, headers: list[tuple[str, str]], failure: Any = None) -> Callable[[bytes], None]:
        """Start the response; this is WSGI's `start_response`."""
        if failure is not None and self._sent:
            raise failure[1].with_traceback(failure[2])
        self._status, self._headers = status, headers
        return lambda piece: self.add(piece, None)

    def add(self, piece: bytes, whole: int | None) -> None:
        """Add a part; `whole` is the length of the whole body, if known."""
        if not piece:
            return
        self._pieces.append(piece)
        self._bytes += len(piece)
        if self._bytes < AT_ONCE_BYTES and (whole is not None or self._length() is not None):
            return
        if not self._sent:
            self._send(self._head(whole))
        self._flush()

    def finish(self) -> None:
        """End the response."""
        if not self._sent:
            whole = b"".join(self._pieces)
            head = self._head(len(whole))
            data = head + whole if self._has_body() else head
            self._soon(self._exchange.finish, data)
            return
        self._flush()
        if self._chunked:
            self._send(b"0\r\n\r\n")
        self._soon(self._exchange.connection.end)

    def fail(self) -> None:
        """Send an error, or close the connection when a part of the response was sent already."""
        if self._sent:
            self.give_up()
            return
        self._exchange.closes = True
        body = error_body("failed", "the server failed to handle the request; its log says more")
        self._soon(self._exchange.finish, whole_answer(500, body, closes=True))

    def give_up(self) -> None:
        """Close the connection: the response cannot be completed."""
        self._soon(self._exchange.connection.abort)

    def _has_body(self) -> bool:
        return self._exchange.request.method != b"HEAD" and not self._status.startswith(NO_BODY)

    def _length(self) -> int | None:
        return next((int(value) for name, value in self._headers if name.lower() == "content-length"), None)

    def _head(self, whole: int | None) -> bytes:
        request, exchange = self._exchange.request, self._exchange
        lines = [status_line(self._status)]
        names = set()
        for name, value in self._headers:
            names.add(name.lower())
            lines.append(f"{name}: {value}\r\n".encode("latin-1"))
        if "date" not in names:
            lines.append(date_line())
        if "content-length" not in names and not self._status.startswith(NO_BODY):
            if whole is not None:
                lines.append(b"Content-Length: %d\r\n" % whole)
            elif request.version == "1.1":
                self._chunked = self._has_body()
                lines.append(b"Transfer-Encoding: chunked\r\n")
            else:
                exchange.closes = True
        if exchange.closes:
            lines.append(b"Connection: close\r\n")
        elif request.version == "1.0":
            lines.append(b"Connection: keep-alive\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    def _flush(self) -> None:
        data, self._pieces, self._bytes = b"".join(self._pieces), [], 0
        if data and self._has_body():
            self._send(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def _send(self, data: bytes) -> None:
        """Send a part once the client has read enough of the earlier ones."""
        self._sent = True
        connection = self._exchange.connection
        connection.writable.wait()
        self._under_way.acquire()

        def write() -> None:
            self._under_way.release()
            connection.write(data)

        if connection.lost.is_set():
            raise ClientGoneError("the client has closed the connection")
        self._soon(write)

    def _soon(self, call: Callable[..., Any], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError as error:  # the loop is closed, and with it all connections
            raise ClientGoneError("the server has stopped") from error


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """Return path and query of a request's target, which may be a whole URL."""
    if not target.startswith(b"/") and b"://" in target:
        try:
            parts = urlsplit(target)
        except ValueError:  # not a valid address, so nothing is found there
            return b"/", b""
        return parts.path or b"/", parts.query
    path, _, query = target.partition(b"?")
    return path, query


def _length_of(found: Iterable[bytes]) -> int | None:
    """Return the length of a complete response."""
    return len(found[0]) if isinstance(found, list | tuple) and len(found) == 1 else None
