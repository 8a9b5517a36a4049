"""One request as the server reads it, and what answers it."""

from __future__ import annotations

import io
import tempfile
import threading
from typing import IO, Protocol

from cep_common.security.web_limits import BodyHead

IN_MEMORY_BYTES = 1_048_576
"""What a body has beyond this goes to a temporary file."""

ONE_VALUE = frozenset({b"host", b"content-length", b"transfer-encoding", b"content-type", b"authorization"})
"""Headers of which there may be one only: two readers of a request could each believe another one."""


class Request:
    """A request: its head is complete before it is used, its body before it is answered.

    Names of headers are in lower case; several of one name are joined, as RFC 9110 allows.
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
        """Bytes that its body takes of the server's room for bodies."""
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
        """Return what is known before the body is read."""
        get = self.headers.get
        return BodyHead(
            self.method.decode("latin-1"),
            self.target.partition(b"?")[0].decode("latin-1"),
            get(b"authorization", b"").decode("latin-1"),
            get(b"cookie", b"").decode("latin-1"),
            None if self.chunked else self.length,
        )


class AnsweredConnection(Protocol):
    """What answers go to: one client's connection. `lost` and `writable` may be used by any thread."""

    address: str
    port: int
    lost: threading.Event
    writable: threading.Event

    def busy(self) -> bool:
        """Return whether something is not answered."""

    def is_recent(self, now: float, within_s: float) -> bool:
        """Return whether a request is being read, or something came within so many seconds."""

    def overdue(self, now: float) -> bool:
        """Return whether it has been waited for long enough."""

    def is_idle(self) -> bool:
        """Return whether the client waits for no response: between two requests, or after a refusal."""

    def flush(self) -> None:
        """Send the answers that are there, in the order of their requests."""

    def write(self, data: bytes) -> None:
        """Send a part of the answer that the application gives piece by piece."""

    def end(self) -> None:
        """Finish the exchange that the application has answered piece by piece."""

    def abort(self) -> None:
        """Close the connection at once."""


class Exchange:
    """A request and its answer. Used by the server's thread, but where it says otherwise."""

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
        """The connection ends behind the answer."""
        self.general = False
        """The application answers it, in a thread of its own."""

    def finish(self, answer: bytes) -> None:
        """Answer it with a whole message, once those before it on the connection are answered."""
        self.answer = answer
        self.connection.flush()
