"""One connection to an HTTP server, used again for each request as long as the server keeps it open."""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import dataclass
from typing import Any

import httptools

RECEIVE_BYTES = 262_144
STREAM = b"text/event-stream"


@dataclass(slots=True)
class Answer:
    """What a server responded, and how long after the whole request was sent its response was complete."""

    status: int
    took_s: float
    text: bytes = b""


class _Reader:
    """Collects one response."""

    def __init__(self) -> None:
        self.complete = False
        self.streams = False
        self.body = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type" and value.startswith(STREAM):
            self.streams = True

    def on_body(self, body: bytes) -> None:
        if len(self.body) < RECEIVE_BYTES:
            self.body += body

    def on_message_complete(self) -> None:
        self.complete = True


def raw_request(port: int, request: dict[str, Any]) -> bytes:
    """Return the bytes of a request of `hostile_input`."""
    query = f"?{request['query_string']}" if request["query_string"] else ""
    data = request["data"]
    headers = {"Host": f"127.0.0.1:{port}", **request["headers"]}
    if data is not None:
        headers["Content-Length"] = str(len(data))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"{request['method']} {request['path']}{query} HTTP/1.1\r\n{lines}\r\n"
    return head.encode("latin-1", errors="replace") + (data or b"")


class KeepAlive:
    """Sends requests to a port of this machine, one after the other."""

    def __init__(self, port: int, timeout_s: float) -> None:
        self._port, self._timeout_s = port, timeout_s
        self._socket: socket.socket | None = None

    def send(self, raw: bytes) -> Answer:
        """Send a request. A stream of server-sent events is closed behind its head.

        Raises:
            OSError: The server did not respond.
        """
        if self._socket is not None:
            # The server may have closed the connection meanwhile, as it may close any that is idle.
            with contextlib.suppress(ConnectionError):
                return self._exchange(self._socket, raw)
            self.close()
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=self._timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._exchange(self._socket, raw)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exchange(self, connected: socket.socket, raw: bytes) -> Answer:
        reader = _Reader()
        parser = httptools.HttpResponseParser(reader)
        with contextlib.suppress(ConnectionError):  # a server that refuses a body responds, and then closes
            connected.sendall(raw)
        began_s = time.monotonic()
        while not reader.complete:
            try:
                piece = connected.recv(RECEIVE_BYTES)
            except OSError:
                self.close()
                raise
            if not piece:
                self.close()
                raise ConnectionResetError("the connection was closed without a whole response")
            parser.feed_data(piece)
            if reader.streams:
                break
        answer = Answer(parser.get_status_code(), time.monotonic() - began_s, reader.body)
        if reader.streams or not parser.should_keep_alive():
            self.close()
        return answer
