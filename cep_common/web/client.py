"""A web client that limits the size of responses and the time until they are complete.

All requests to HTTP servers use it: web hooks, identity providers, managers, workers. The limits apply to everything
that the server sends, including its head, because the socket enforces them.
"""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPResponse
from types import TracebackType
from typing import Any, Self

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
)

Addresses = Callable[[str, str, int], list[str]]
"""Returns the addresses that may be connected to, for scheme, host and port."""

MOST_BYTES = 64 * 1024
"""The limit for responses of which only the status or a short text matters."""
HEAD_BYTES = 64 * 1024
READ_AT_ONCE = 16 * 1024


class AnswerError(requests.RequestException):
    """A response cannot be used; the text says why."""


class TooLongError(OSError):
    """A peer sent more than the limit."""


class BoundedSocket(io.RawIOBase):
    """A socket that limits what a peer sends.

    Raises TooLongError for more than `most_bytes`, and TimeoutError when not all of it arrives within the socket's
    time-out. `renew` resets both limits.
    """

    def __init__(self, sock: socket.socket, most_bytes: int) -> None:
        """Wrap a connected socket.

        Args:
            sock: The socket to read from.
            most_bytes: The most that may be read until the next call of `renew`.
        """
        self._socket = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._most_bytes = most_bytes
        self.renew()

    def renew(self) -> None:
        """Reset the limit of bytes, and the deadline by the socket's present time-out."""
        self._left_bytes = self._most_bytes
        self._timeout_s = self._socket.gettimeout()
        self._deadline_s = None if self._timeout_s is None else time.monotonic() + self._timeout_s

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        """Read available bytes into `buffer`.

        Returns:
            The number of bytes, 0 at the end, None when a non-blocking socket has none.

        Raises:
            TooLongError: The peer sent more than the limit.
        """
        if self._left_bytes <= 0:
            raise TooLongError(f"it sends more than {self._most_bytes // 1024:,} KiB")
        if self._deadline_s is not None:
            left_s = self._deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("the answer was not complete in time")
            self._socket.settimeout(left_s)
        try:
            count = self._raw.readinto(memoryview(buffer)[: self._left_bytes])
        finally:
            self._socket.settimeout(self._timeout_s)
        self._left_bytes -= count or 0
        return count

    def close(self) -> None:
        """Close the socket."""
        self._raw.close()
        super().close()


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. `problem` says why its body was not read to the end; empty: it was."""

    status: int
    headers: Mapping[str, str]
    problem: str
    body: bytes

    @property
    def ok(self) -> bool:
        """Return whether the server reports success."""
        return 200 <= self.status < 300

    def content(self) -> bytes:
        """Return the whole body. Raises AnswerError."""
        if self.problem:
            raise AnswerError(self.problem)
        return self.body

    def json(self) -> Any:
        """Return the decoded JSON body. Raises AnswerError."""
        try:
            return json.loads(self.content())
        except (ValueError, RecursionError) as error:
            raise AnswerError(f"its answer is not JSON: {type(error).__name__}") from error


class WebClient:
    """A client with persistent connections that does not follow redirections. Belongs to one thread."""

    def __init__(
        self,
        most_bytes: int = MOST_BYTES,
        auth: tuple[str, str] | None = None,
        addresses: Addresses | None = None,
        *,
        trusted: str = "",
        certificate: str = "",
    ) -> None:
        """Create a client that reads at most `most_bytes` of a body.

        A connection that sends more is closed. `auth` is added to every request. With `addresses` each connection goes
        to an address that it returns for scheme, host and port; `request` propagates its exceptions. Requests through a
        proxy do not use it. `.netrc` is not read. `trusted` is a PEM file with the certificates that may sign the
        server's, `certificate` one with the client's own certificate and key.
        """
        self._most_bytes = most_bytes
        self._trusted = trusted
        self._certificate = certificate
        self._session = _Session()
        self._session.auth = auth or (None if addresses is None else _no_credentials)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, _Adapter(most_bytes + HEAD_BYTES, addresses))

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the client's connections."""
        self.close()

    def request(
        self,
        method: str,
        url: str,
        *,
        timeout_s: float,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
    ) -> Answer:
        """Send a request and return the response. Connecting, sending and receiving may take `timeout_s` each.

        Raises:
            RequestException: There is no response.
        """
        with self._session.request(
            method,
            url,
            params=params,
            data=data,
            headers={**(headers or {}), "Accept-Encoding": "identity"},
            auth=auth,
            timeout=timeout_s,
            allow_redirects=False,
            stream=True,
            verify=self._trusted or None,
            cert=self._certificate or None,
        ) as response:
            body, problem = self._read(response, timeout_s)
            return Answer(response.status_code, response.headers, problem, body)

    def close(self) -> None:
        """Close all connections."""
        self._session.close()

    def _read(self, response: requests.Response, timeout_s: float) -> tuple[bytes, str]:
        """Return the body, or the part that was received, and why it is incomplete."""
        encoding = response.headers.get("Content-Encoding", "").strip().casefold()
        if encoding not in ("", "identity"):
            return b"", f"its answer is encoded ({encoding[:20]}), which was not asked for"
        body = bytearray()
        try:
            while found := response.raw.read(READ_AT_ONCE, decode_content=False):
                body += found
                if len(body) > self._most_bytes:
                    return b"", f"it answered more than {self._most_bytes // 1024:,} KiB"
        except (ReadTimeoutError, TimeoutError):
            return bytes(body), f"its answer was not complete after {timeout_s:g} s"
        except (HTTPError, OSError, ValueError) as error:
            return bytes(body), f"its answer broke off: {type(error).__name__}"
        return bytes(body), ""


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Treat no response as a redirection: its whole body would be read and decompressed."""
        return None


class _BoundedResponse(HTTPResponse):
    """A response that is read through a `BoundedSocket`."""

    def __init__(self, most_bytes: int, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp.close()
        self.fp = io.BufferedReader(BoundedSocket(sock, most_bytes))


class _Adapter(HTTPAdapter):
    """Read at most `most_bytes` of each response."""

    def __init__(self, most_bytes: int, addresses: Addresses | None) -> None:
        self._pools = _pools(most_bytes, addresses)
        self._pools_of_proxies = _pools(most_bytes, None)
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **options)
        if not proxy.casefold().startswith("socks"):
            manager.pool_classes_by_scheme = self._pools_of_proxies
        return manager


def _no_credentials(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _connect(connection: Any, scheme: str, addresses: Addresses, connect: Callable[[], socket.socket]) -> socket.socket:
    """Connect to the first address that accepts; the host's name is not resolved again."""
    host = connection._dns_host
    try:
        found = addresses(scheme, host, connection.port)
    except OSError as error:
        raise NameResolutionError(host, connection, socket.gaierror(*error.args)) from error
    try:
        for address in found[:-1]:
            connection._dns_host = address
            with suppress(NewConnectionError, ConnectTimeoutError):
                return connect()
        connection._dns_host = found[-1]
        return connect()
    finally:
        connection._dns_host = host


def _pools(most_bytes: int, addresses: Addresses | None) -> dict[str, type[HTTPConnectionPool]]:
    answer: Any = staticmethod(partial(_BoundedResponse, most_bytes))

    class Plain(HTTPConnection):
        response_class = answer

        def _new_conn(self) -> socket.socket:
            connect = super()._new_conn
            return connect() if addresses is None else _connect(self, "http", addresses, connect)

    class Encrypted(HTTPSConnection):
        response_class = answer

        def _new_conn(self) -> socket.socket:
            connect = super()._new_conn
            return connect() if addresses is None else _connect(self, "https", addresses, connect)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class EncryptedPool(HTTPSConnectionPool):
        ConnectionCls = Encrypted

    return {"http": PlainPool, "https": EncryptedPool}
