"""The envelope of a snapshot: what it is, of which version and app, and whether it is whole.

magic   version   app        checksum   length of the body   body
CEPS    2 bytes   16 bytes   4 bytes    8 bytes              …
"""

from __future__ import annotations

import hashlib
import struct
import zlib

from siddhi.engine.state import StateError

FORMAT_VERSION = 4
"""Must grow with every change of what operators save."""

_MAGIC = b"CEPS"
_HEADER = struct.Struct("<4sH16sIQ")


def fingerprint(text: str) -> bytes:
    """What stands for the app with this text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def sealed(body: bytes, app: bytes) -> bytes:
    """`body` as the snapshot of the app with the fingerprint `app`."""
    return _HEADER.pack(_MAGIC, FORMAT_VERSION, app, zlib.crc32(body), len(body)) + body


def unsealed(data: bytes, app: bytes) -> memoryview:
    """The body that was sealed for `app`; `StateError` says why there is none."""
    if len(data) < _HEADER.size or data[: len(_MAGIC)] != _MAGIC:
        raise StateError("these bytes are no snapshot")
    _, version, owner, checksum, length = _HEADER.unpack_from(data)
    if version != FORMAT_VERSION:
        raise StateError(f"it was written in format {version}, and this engine reads format {FORMAT_VERSION}")
    body = memoryview(data)[_HEADER.size :]
    if len(body) != length or zlib.crc32(body) != checksum:
        raise StateError(f"it is torn: {len(body)} of {length} bytes, or some of them changed")
    if owner != app:
        raise StateError("it is of another app")
    return body
