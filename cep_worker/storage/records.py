"""The bytes of a log: segment headers, records, and how records are found again behind damaged ones. Pure.

    segment   header │ record │ record │ … │ zeros, as far as space was taken for more; or what a recycled file held
    record    header: magic, checksum of the header, length and checksum of the body, rows, position, watermark, and
                      how many bytes at the end of the body describe the origin
              body: an Arrow IPC message; for a batch that may come again its origin, source and number; filled up with
                    zeros to a multiple of 8 bytes
    origins   the first record of a segment, when there is something to tell: of no rows and at position 0, with no
              message, and the newest origins of all batches before it

All numbers are little-endian. Checksums are CRC-32. Records begin at multiples of 8, so that bodies can be used where
they were read. A segment in a recycled file is of version 2: the checksums of its records' headers begin with that of
the segment's header (`seed`), so that a record of the file's former life is none of this one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

ALIGNMENT = 8
SEGMENT_MAGIC = b"CEPSPOOL"
NEW, RECYCLED = 1, 2
"""Versions of segments."""
RECORD_MAGIC = b"CEPr"

_SEGMENT = struct.Struct("<8sIIqq16s")
_SEGMENT_CHECKED = struct.Struct("<qq16s")
_FIELDS = struct.Struct("<IIqqII")
_HEAD = struct.Struct("<4sI")

SEGMENT_HEADER_BYTES = _SEGMENT.size
RECORD_HEADER_BYTES = _HEAD.size + _FIELDS.size

SOURCE_BYTES = 16
_ORIGIN = struct.Struct(f"<{SOURCE_BYTES}sq")
ORIGIN_BYTES = _ORIGIN.size


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The first position in the segment, the number of rows before it, and the log's identity.

    In a `recycled` file something of its former life may follow the last record.
    """

    first_position: int
    rows_before: int
    log: str
    recycled: bool = False

    def seed(self) -> int:
        """With what the checksums of its records' headers begin."""
        return _checksum(_checked(self), RECYCLED) if self.recycled else 0


@dataclass(frozen=True, slots=True)
class BatchOrigin:
    """Which batch it is of those that come from one source (`SOURCE_BYTES`) and may come again: numbers rise."""

    source: bytes
    number: int


KEYED = -1
"""The number of a batch whose source is the key of a single request (`Idempotency-Key`)."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A stored batch, found at `start` and followed by something else at `end` (offsets in what was read)."""

    position: int
    rows: int
    watermark_ms: int
    body: memoryview
    start: int
    end: int
    origins: tuple[BatchOrigin, ...] = ()
    """Where the batch came from, if it may come again; at `NOWHERE`, of what came before."""


NOWHERE = 0
"""The position of a record that holds no batch; those of batches begin behind it."""


@dataclass(frozen=True, slots=True)
class DamagedRecord:
    """Bytes from `start` to `end` that are no record; at least `rows` rows are lost with them."""

    start: int
    end: int
    rows: int


@dataclass(frozen=True, slots=True)
class _RecordHeader:
    length: int
    rows: int
    position: int
    watermark_ms: int
    body_checksum: int
    origin_bytes: int


def encode_segment_header(header: SegmentHeader) -> bytes:
    """Return the first bytes of a segment file."""
    checked = _checked(header)
    version = RECYCLED if header.recycled else NEW
    return SEGMENT_MAGIC + struct.pack("<II", version, _checksum(checked, version)) + checked


def decode_segment_header(data: bytes) -> SegmentHeader | None:
    """Return the header at the beginning of `data`, or None when there is none that can be read."""
    if len(data) < SEGMENT_HEADER_BYTES:
        return None
    magic, version, checksum, first_position, rows_before, log = _SEGMENT.unpack_from(data)
    checked = data[SEGMENT_HEADER_BYTES - _SEGMENT_CHECKED.size : SEGMENT_HEADER_BYTES]
    if magic != SEGMENT_MAGIC or version not in (NEW, RECYCLED) or checksum != _checksum(checked, version):
        return None
    return SegmentHeader(first_position, rows_before, log.hex(), version == RECYCLED)


def record_parts(
    body: Any,
    length: int,
    rows: int,
    position: int,
    watermark_ms: int,
    seed: int = 0,
    origins: Sequence[BatchOrigin] = (),
) -> tuple[bytes, Any, bytes]:
    """Return what is written for a record, one behind the other: `body` has `length` bytes and is not copied."""
    behind = b"".join(_ORIGIN.pack(origin.source, origin.number) for origin in origins)
    whole = length + len(behind)
    fields = _FIELDS.pack(whole, rows, position, watermark_ms, crc32(behind, crc32(body)), len(behind))
    return _HEAD.pack(RECORD_MAGIC, crc32(fields, seed)) + fields, body, behind + bytes(-whole % ALIGNMENT)


def record_bytes(length: int, origins: int = 0) -> int:
    """Return how much room a record takes with a body of `length` bytes and so many `origins`."""
    whole = length + origins * ORIGIN_BYTES
    return RECORD_HEADER_BYTES + whole + -whole % ALIGNMENT


def scan(data: memoryview, offset: int = 0, seed: int = 0) -> Iterator[StoredRecord | DamagedRecord]:
    """Return the records of `data` from `offset` on, and what is between them.

    What comes behind the last record is not told: a torn tail, zeros, what a recycled file held, or a record that goes
    on beyond `data`.
    """
    while True:
        found = record_at(data, offset, seed)
        if found is None:
            following = _next_record(data, _behind(data, offset, seed), seed)
            if following is None:
                return
            yield DamagedRecord(offset, following.start, _rows_at(data, offset, following, seed))
            found = following
        yield found
        offset = found.end


def record_at(data: memoryview, offset: int, seed: int = 0) -> StoredRecord | None:
    """Return the whole and sound record at `offset`, or None."""
    header = _header_at(data, offset, seed)
    if header is None:
        return None
    begin = offset + RECORD_HEADER_BYTES
    body = data[begin : begin + header.length]
    if len(body) < header.length or crc32(body) != header.body_checksum:
        return None
    end = offset + record_bytes(header.length)
    origins: tuple[BatchOrigin, ...] = ()
    if header.origin_bytes:
        place = header.length - header.origin_bytes
        origins = tuple(BatchOrigin(*found) for found in _ORIGIN.iter_unpack(body[place:]))
        body = body[:place]
    return StoredRecord(header.position, header.rows, header.watermark_ms, body, offset, end, origins)


def missing_bytes(data: memoryview, offset: int, seed: int = 0) -> int:
    """Return how many bytes must follow `data` for the record at `offset` to be complete.

    0 when there is no header of a record that goes beyond `data`.
    """
    if len(data) - offset < RECORD_HEADER_BYTES:
        return RECORD_HEADER_BYTES
    header = _header_at(data, offset, seed)
    return 0 if header is None else max(0, offset + record_bytes(header.length) - len(data))


def unfinished_bytes(data: memoryview, offset: int, seed: int) -> int:
    """Return how much of `data` from `offset` on a record takes that is not whole; 0 when there is no header of one."""
    header = _header_at(data, offset, seed)
    return 0 if header is None else min(record_bytes(header.length), len(data) - offset)


def _checked(header: SegmentHeader) -> bytes:
    return _SEGMENT_CHECKED.pack(header.first_position, header.rows_before, bytes.fromhex(header.log))


def _checksum(checked: bytes, version: int) -> int:
    return crc32(checked, version - NEW)


def _header_at(data: memoryview, offset: int, seed: int) -> _RecordHeader | None:
    if len(data) - offset < RECORD_HEADER_BYTES:
        return None
    magic, checksum = _HEAD.unpack_from(data, offset)
    if magic != RECORD_MAGIC or checksum != crc32(data[offset + _HEAD.size : offset + RECORD_HEADER_BYTES], seed):
        return None
    found = _RecordHeader(*_FIELDS.unpack_from(data, offset + _HEAD.size))
    whole = found.origin_bytes % ORIGIN_BYTES == 0 and found.origin_bytes <= found.length
    return found if whole else None


def _behind(data: memoryview, offset: int, seed: int) -> int:
    """Return where the next record may begin.

    Not within a record of which only the header is sound: senders choose what is in bodies.
    """
    header = _header_at(data, offset, seed)
    return offset + (ALIGNMENT if header is None else record_bytes(header.length))


def _next_record(data: memoryview, offset: int, seed: int) -> StoredRecord | None:
    whole = data.obj if isinstance(data.obj, bytes) and len(data) == len(data.obj) else bytes(data)
    while (offset := whole.find(RECORD_MAGIC, offset)) >= 0:
        if offset % ALIGNMENT == 0:
            record = record_at(data, offset, seed)
            if record is not None:
                return record
        offset += 1
    return None


def _rows_at(data: memoryview, offset: int, following: StoredRecord, seed: int) -> int:
    """Return the rows of a damaged record with a readable header, if it is the only one before `following`."""
    header = _header_at(data, offset, seed)
    if header is None or offset + record_bytes(header.length) > following.start:
        return 0
    return header.rows
