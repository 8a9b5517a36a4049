"""The envelope of a snapshot: magic number, version, app and checksum.

magic   version   app        checksum   length of the body   body
CEPS    2 bytes   16 bytes   4 bytes    8 bytes              …
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Sequence

from siddhi.engine.columnar.state_tree import Buffer
from siddhi.errors import Problem, SnapshotError

FORMAT_VERSION = 20
"""Must be increased with every change of the state of operators."""
READABLE = (FORMAT_VERSION,)
"""Before 14, partitions had a copy of each window for every key; before 15, one of each join and output rate.

Before 16, `min` and `max` did not count the rows of each value; before 18, expression windows had one state for each
key; before 19, NaN stayed in a sum after its row had left; before 20, attributes could have names of internal columns.
"""

READABLE_FORMATS = " and ".join(map(str, READABLE))

_MAGIC = b"CEPS"
_HEADER = struct.Struct("<4sH16sIQ")


def fingerprint(text: str) -> bytes:
    """Return the fingerprint of `text`: equal texts have equal fingerprints, others differ."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def sealed(body: Sequence[Buffer], app: bytes) -> bytes:
    """Return the pieces of `body`, preceded by the envelope, as the snapshot of the app with the fingerprint `app`."""
    checksum = length = 0
    for piece in body:
        checksum = zlib.crc32(piece, checksum)
        length += piece.nbytes if isinstance(piece, memoryview) else len(piece)
    return b"".join([_HEADER.pack(_MAGIC, FORMAT_VERSION, app, checksum, length), *body])


def format_of(data: Buffer) -> int:
    """Return the format in which a snapshot was written, from its first bytes; 0 when they are not from a snapshot."""
    if len(data) < _HEADER.size or bytes(data[: len(_MAGIC)]) != _MAGIC:
        return 0
    version: int = _HEADER.unpack_from(data)[1]
    return version


def unsealed(data: Buffer) -> tuple[bytes, memoryview]:
    """Return the fingerprint of the app in the snapshot `data`, and the body.

    Raise `SnapshotError`, with the reason, when `data` is not a snapshot.
    """
    if len(data) < _HEADER.size or bytes(data[: len(_MAGIC)]) != _MAGIC:
        raise unusable("snapshot-unknown", "these bytes are not a snapshot")
    _, version, app, checksum, length = _HEADER.unpack_from(data)
    if version not in READABLE:
        raise unusable(
            "snapshot-format", f"it was written in format {version}, and this engine reads {READABLE_FORMATS}"
        )
    body = memoryview(data)[_HEADER.size :]
    if len(body) != length or zlib.crc32(body) != checksum:
        raise unusable("snapshot-torn", f"it is torn: {len(body)} of {length} bytes, or some of them changed")
    return app, body


_WAYS_OUT = {
    "snapshot-unknown": "use the bytes of a snapshot of this engine",
    "snapshot-format": "run the version that wrote it, or begin with empty state (cep restart PLAN --from none)",
    "snapshot-torn": "take the snapshot before it",
    "snapshot-damaged": "take the snapshot before it",
    "snapshot-of-another-app": "migrate the unchanged parts, or start without a snapshot",
    "snapshot-not-by-key": "keep the number of instances",
}


def unusable(code: str, message: str) -> SnapshotError:
    """Return the error for a snapshot that cannot be restored because of `message`."""
    return SnapshotError(Problem(code, f"the snapshot cannot be restored: {message}", _WAYS_OUT[code]))
