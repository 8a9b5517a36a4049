"""One request and its response, as the server processes them."""

from __future__ import annotations

import io
import tempfile
import threading
from typing import IO, Protocol

from cep_common.security.web_limits import BodyHead

IN_MEMORY_BYTES = 1_048_576
"""The size above which bodies are stored in a temporary file."""

ONE_VALUE = frozenset({b"host", b"content-length", b"transfer-encoding", b"content-type", b"authorization"})
"""Headers that must not be repeated: a proxy could use one value and the server another."""


class Request:
    """A request. Its head is complete before it is used, its body before it is handled.

    Names of headers are in lower case; repeated headers are joined, as RFC 9110 allows.
    """

    __slots__ = ("_file", "_parts", "body_bytes", "chunked", "headers", "keep_alive", "length", "method", "repeated",
                 "reserved", "target", "version")  # fmt: skip

    def __init__(self) -> None:
        """Create an empty request that the parser fills."""
        self.method = b""
        self.target = b""
        self.version = "1.1"
        self.headers: dict[bytes, bytes] = {}
        self.repeated = b""
        """A header of `ONE_VALUE` that came twice."""
        self.length = 0
        self.chunked = False
        self.keep_alive = True
        self.body_bytes = 0
        self.reserved = 0
        """Bytes that are reserved for its body."""
        self._parts: list[bytes] = []
        self._file: IO[bytes] | None = None

    def add_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        name = name.lower()
        before = self.headers.get(name)
        if before is None:
            self.headers[name] = value
        elif name in ONE_VALUE:
            self.repeated = name
        else:
            self.headers[name] = before + (b"; " if name == b"cookie" else b", ") + value

    def add_body(self, piece: bytes) -> None:
        """Add a piece of the body."""
        self.body_bytes += len(piece)
        if self._file is not None:
            self._file.write(piece)
            return
        self._parts.append(piece)
        if self.body_bytes > IN_MEMORY_BYTES:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the request
            for part in self._parts:
                self._file.write(part)
            self._parts.clear()

    def body(self) -> bytes | None:
        """Return the whole body; None when it is too large to be in memory."""
        if self._file is not None:
            return None
        if len(self._parts) > 1:
            self._parts = [b"".join(self._parts)]
        return self._parts[0] if self._parts else b""

    def stream(self) -> IO[bytes]:
        """Return the body to read from."""
        if self._file is None:
            return io.BytesIO(self.body() or b"")
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        """Release the body."""
        self._parts.clear()
        if self._file is not None:
            self._file.close()

    def head(self) -> BodyHead:
        """Return the head in the form for decisions about the body."""
        get = self.headers.get
        return BodyHead(
            self.method.decode("latin-1"),
            self.target.partition(b"?")[0].decode("latin-1"),
            get(b"authorization", b"").decode("latin-1"),
            get(b"cookie", b"").decode("latin-1"),
            None if self.chunked else self.length,
        )


class AnsweredConnection(Protocol):
    """The connection that responses are sent over. Any thread may use `lost` and `writable`."""

    address: str
    port: int
    lost: threading.Event
    writable: threading.Event

    def busy(self) -> bool:
        """Return whether there are unanswered requests."""

    def is_recent(self, now: float, within_s: float) -> bool:
        """Return whether a request is being read, or anything was received within this many seconds."""

    def overdue(self, now: float) -> bool:
        """Return whether a time limit of the connection has expired."""

    def is_idle(self) -> bool:
        """Return whether the client waits for no response: between two requests, or after a refusal."""

    def flush(self) -> None:
        """Send complete responses, in the order of their requests."""

    def write(self, data: bytes) -> None:
        """Send a part of a response that the application streams."""

    def end(self) -> None:
        """Finish the exchange whose response the application has streamed."""

    def abort(self) -> None:
        """Close the connection at once."""


class Exchange:
    """A request and its response. Used by the server's thread unless stated otherwise."""

    __slots__ = ("answer", "closes", "connection", "general", "request")

    def __init__(self, connection: AnsweredConnection, request: Request) -> None:
        """Create the exchange of a request and its answer.

        Args:
            connection: The connection that carries the answer.
            request: The request.
        """
        self.connection = connection
        self.request = request
        self.answer: bytes | None = None
        self.closes = not request.keep_alive
        """Whether the connection is closed after the response."""
        self.general = False
        """Whether the application handles it, in another thread."""

    def finish(self, answer: bytes) -> None:
        """Set the complete response, which is sent once earlier ones on the connection are."""
        self.answer = answer
        self.connection.flush()
