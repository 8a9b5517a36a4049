"""The format of logs: segment headers, records, and resynchronisation after damaged records. Pure.

    segment   header │ record │ record │ … │ zeros in allocated space, or old contents of a recycled file
    record    header: magic, checksum of the header, length and checksum of the body, rows, position, watermark, and
                      how many bytes at the end of the body describe the origin
              body: an Arrow IPC message; for a batch that may be repeated its origin (source and number); padded with
              zeros to a multiple of 8 bytes
    origins   the first record of a segment, if there are origins: without rows and message, at position 0, with
              the newest origins of all batches before it

All numbers are little-endian. Checksums are CRC-32. Records begin at multiples of 8, so that bodies can be used without
copying. A segment in a recycled file has version 2: the checksums of its records' headers are seeded with that of the
segment's header (`seed`), so that old records in the file are invalid.
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
"""Versions of the segment format."""
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

    In a `recycled` file old contents may follow the last record.
    """

    first_position: int
    rows_before: int
    log: str
    recycled: bool = False

    def seed(self) -> int:
        """Return the initial value of the checksums of its records' headers."""
        return _checksum(_checked(self), RECYCLED) if self.recycled else 0


@dataclass(frozen=True, slots=True)
class BatchOrigin:
    """Identifies a batch that may be repeated: its source (`SOURCE_BYTES`) and its number, which increases."""

    source: bytes
    number: int


KEYED = -1
"""The number of a batch whose source is the key of a single request (`Idempotency-Key`)."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A stored batch between the offsets `start` and `end` of the data that was read."""

    position: int
    rows: int
    watermark_ms: int
    body: memoryview
    start: int
    end: int
    origins: tuple[BatchOrigin, ...] = ()
    """The origin of the batch, if it may be repeated; at `NOWHERE` the origins of earlier batches."""


NOWHERE = 0
"""The position of a record without a batch; batches have greater positions."""


@dataclass(frozen=True, slots=True)
class DamagedRecord:
    """Damaged bytes from `start` to `end`, which contained at least `rows` rows."""

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
    """Return the header at the beginning of `data`, or None if it is invalid."""
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
    """Return the consecutive parts of a record to write; `body` has `length` bytes and is not copied."""
    behind = b"".join(_ORIGIN.pack(origin.source, origin.number) for origin in origins)
    whole = length + len(behind)
    fields = _FIELDS.pack(whole, rows, position, watermark_ms, crc32(behind, crc32(body)), len(behind))
    return _HEAD.pack(RECORD_MAGIC, crc32(fields, seed)) + fields, body, behind + bytes(-whole % ALIGNMENT)


def record_bytes(length: int, origins: int = 0) -> int:
    """Return the size of a record with a body of `length` bytes and this many `origins`."""
    whole = length + origins * ORIGIN_BYTES
    return RECORD_HEADER_BYTES + whole + -whole % ALIGNMENT


def scan(data: memoryview, offset: int = 0, seed: int = 0) -> Iterator[StoredRecord | DamagedRecord]:
    """Yield the records of `data` from `offset` on, and the damage between them.

    The rest after the last record is not reported: an incomplete record, zeros, or old contents of a recycled file.
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
    """Return the complete and intact record at `offset`, or None."""
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
    """Return how many bytes are missing after `data` to complete the record at `offset`.

    0 if there is no header of a record that continues beyond `data`.
    """
    if len(data) - offset < RECORD_HEADER_BYTES:
        return RECORD_HEADER_BYTES
    header = _header_at(data, offset, seed)
    return 0 if header is None else max(0, offset + record_bytes(header.length) - len(data))


def unfinished_bytes(data: memoryview, offset: int, seed: int) -> int:
    """Return the size of an incomplete record at `offset` within `data`; 0 without a header of one."""
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

    Not within a record with an intact header, since senders control the contents of bodies.
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
