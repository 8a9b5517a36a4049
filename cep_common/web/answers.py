"""Complete HTTP responses as bytes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

import msgspec

JSON = "application/json"
NO_BODY = frozenset({204, 304})
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class _Date:
    """The header `Date`, formatted once a second."""

    def __init__(self) -> None:
        self._second = -1
        self._line = b""

    def line(self) -> bytes:
        now = int(time.time())
        if now != self._second:
            self._line = f"Date: {formatdate(now, usegmt=True)}\r\n".encode()
            self._second = now
        return self._line


_DATE = _Date()


def status_line(status: str) -> bytes:
    """Return the first line of a response; `status` is text such as `200 OK`."""
    return f"HTTP/1.1 {status}\r\n".encode("latin-1")


def date_line() -> bytes:
    """Return the header `Date`."""
    return _DATE.line()


def whole_answer(status: int, body: bytes, headers: Iterable[tuple[str, str]] = (), *, closes: bool = False) -> bytes:
    """Return a response with a JSON body."""
    lines = [status_line(f"{status} {_REASONS.get(status, 'Refused')}"), _DATE.line()]
    lines += [f"{name}: {value}\r\n".encode("latin-1") for name, value in headers]
    if closes:
        lines.append(b"Connection: close\r\n")
    lines.append(f"Content-Type: {JSON}\r\nContent-Length: {len(body)}\r\n\r\n".encode())
    return b"".join((*lines, body))


def error_body(code: str, message: str, details: Any = ()) -> bytes:
    """Return the body of an error, in the format that all servers share."""
    return msgspec.json.encode({"code": code, "message": message, "details": details})


def refusal(status: int, code: str, message: str, headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return a response after which the connection is closed."""
    headers = [*headers, ("Cache-Control", "no-store")]
    return whole_answer(status, error_body(code, message), headers, closes=True)
