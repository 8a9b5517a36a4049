"""The bodies of requests, which may be compressed (`Content-Encoding`).

The decompressed size is limited, too, so that a small body cannot expand to a large one.
"""

from __future__ import annotations

import io
import zlib
from typing import IO

from flask import Request
from werkzeug.exceptions import RequestEntityTooLarge

from cep_common.errors import InputError

_GZIP, _ZLIB, _RAW = 31, 15, -15
"""zlib's numbers for the formats of a compressed body."""


def body_stream(request: Request, most_bytes: int) -> IO[bytes]:
    """Return the body to read from.

    Raises InputError for an unsupported encoding, or a body that is not in its encoding.
    """
    codings = request.headers.get("Content-Encoding", "")
    if not _named(codings):
        return request.stream
    return io.BytesIO(decoded_body(request.get_data(cache=False), codings, most_bytes))


def decoded_body(body: bytes, codings: str, most_bytes: int) -> bytes:
    """Decode a body by the `codings` of its Content-Encoding.

    Raises:
        InputError: an encoding is not supported, or the body is not in it.
        RequestEntityTooLarge: the decoded body has more than `most_bytes`.
    """
    for coding in reversed(_named(codings)):
        body = _decoded(body, coding, most_bytes)
    return body


def _named(codings: str) -> list[str]:
    named = [one.strip().casefold() for one in codings.split(",")]
    return [one for one in named if one not in ("", "identity")]


def _decoded(body: bytes, coding: str, most_bytes: int) -> bytes:
    if coding in ("gzip", "x-gzip"):
        return _inflated(body, coding, _GZIP, most_bytes)
    if coding == "deflate":
        # RFC 9110 requires the zlib format, but some clients send raw deflate
        is_zlib = len(body) > 1 and body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
        return _inflated(body, coding, _ZLIB if is_zlib else _RAW, most_bytes)
    raise InputError("unsupported-encoding", f"Content-Encoding {coding[:40]} is not supported; use gzip or deflate")


def _inflated(body: bytes, coding: str, form: int, most_bytes: int) -> bytes:
    """Decompress a gzip body, which may have several members."""
    parts: list[bytes] = []
    size = 0
    try:
        while body:
            inflating = zlib.decompressobj(form)
            parts.append(inflating.decompress(body, most_bytes + 1 - size))
            size += len(parts[-1])
            if size > most_bytes:
                raise RequestEntityTooLarge
            if not inflating.eof:
                raise InputError("broken-encoding", f"the body ends before its {coding} data does")
            body = inflating.unused_data if form == _GZIP else b""
    except zlib.error as error:
        raise InputError("broken-encoding", f"the body is not {coding}: {error}") from error
    return b"".join(parts)
