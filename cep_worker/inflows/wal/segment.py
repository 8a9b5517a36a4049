"""Segment files of a log: appending, reading, recovering and recycling them."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cep_worker.inflows.wal.errors import WalFullError
from cep_worker.storage.file_changes import appended
from cep_worker.storage.records import (
    SEGMENT_HEADER_BYTES,
    BatchOrigin,
    SegmentHeader,
    StoredRecord,
    encode_segment_header,
    scan,
    unfinished_bytes,
)

SUFFIX = ".segment"
RESERVED_BYTES = 1_048_576
"""The unit in which disk space is allocated ahead of writing.

So a full disk is detected before any event is acknowledged.
"""


@dataclass(slots=True)
class Segment:
    """A file of records.

    `size` is the end of the last record; the file may be longer while it is written. `readers` is the number of readers
    that have it open.
    """

    path: Path
    header: SegmentHeader
    size: int
    readers: int = 0


@dataclass(frozen=True, slots=True)
class RecoveredSegment:
    """The content of the last segment of a log.

    Its last position, its rows, the end of its last record, the bytes of an incomplete record after that, the damaged
    bytes between records, and the origins of batches in it and before. `rows_after` of its rows are not secured;
    `positions` has the rows of the segment up to each record.
    """

    last_position: int
    rows: int
    size: int
    torn_bytes: int
    damaged_bytes: int
    origins: tuple[BatchOrigin, ...]
    rows_after: int = 0
    positions: tuple[tuple[int, int], ...] = ()


def segment_path(folder: Path, first_position: int) -> Path:
    """Return the path of the segment that begins at `first_position`; names sort by position."""
    return folder / f"{first_position:020d}{SUFFIX}"


def recover(data: bytes, header: SegmentHeader, secured: int = 0) -> RecoveredSegment:
    """Read a segment file that may not have been closed in order; the log is secured up to `secured`."""
    last_position = header.first_position - 1
    rows = damaged = kept = 0
    positions: list[tuple[int, int]] = []
    origins: list[BatchOrigin] = []
    size = SEGMENT_HEADER_BYTES
    view = memoryview(data)
    seed = header.seed()
    for found in scan(view, size, seed):
        rows += found.rows
        # damaged parts count up to their end, since records after them are intact and must not be overwritten
        size = found.end
        if isinstance(found, StoredRecord):
            last_position = max(last_position, found.position)
            origins += found.origins
            if found.position:
                positions.append((found.position, rows))
            kept = rows if found.position <= secured else kept
        else:
            damaged += found.end - found.start
    # A new file has zeros after its records, so any other byte there is part of an unfinished record. A recycled file
    # has old records there, which the seed distinguishes from new ones.
    torn = unfinished_bytes(view, size, seed) if header.recycled else len(data[size:].rstrip(b"\0"))
    return RecoveredSegment(last_position, rows, size, torn, damaged, tuple(origins), rows - kept, tuple(positions))


class SegmentWriter:
    """Appends to a segment.

    Belongs to one thread; `descriptor` may be duplicated by others under the log's lock.
    """

    def __init__(self, segment: Segment, descriptor: int, reserved: int) -> None:
        self.segment = segment
        self.descriptor = descriptor
        self.seed = segment.header.seed()
        self._reserved = reserved

    @classmethod
    def create(cls, segment: Segment) -> SegmentWriter:
        """Return a new file, which must not exist yet.

        Raises:
            WalFullError: the disk is full.
        """
        # O_EXCL: positions are never reused, so an existing file would mean two writers
        descriptor = os.open(segment.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        writer = cls(segment, descriptor, 0)
        try:
            writer.reserve(SEGMENT_HEADER_BYTES)
            os.pwrite(descriptor, encode_segment_header(segment.header), 0)
        except BaseException:
            os.close(descriptor)
            segment.path.unlink()
            raise
        segment.size = SEGMENT_HEADER_BYTES
        appended(segment.path, segment.size)
        return writer

    @classmethod
    def recycle(cls, segment: Segment, spare: Path) -> SegmentWriter:
        """Reuse the file `spare`, whose space is allocated, for `segment`.

        It gets the new header, which invalidates its old content, before the new name.

        Raises:
            OSError: the disk fails.
        """
        descriptor = os.open(spare, os.O_RDWR | os.O_CLOEXEC)
        try:
            # the header first: its new seed invalidates the old records, so a crash between the two steps leaves a file
            # that is ignored instead of one that repeats old events
            os.pwrite(descriptor, encode_segment_header(segment.header), 0)
            spare.rename(segment.path)
            appended(segment.path, SEGMENT_HEADER_BYTES)
            return cls(segment, descriptor, os.fstat(descriptor).st_size)
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def reopen(cls, segment: Segment) -> SegmentWriter:
        """Continue the file at `segment.size` and cut off the rest."""
        descriptor = os.open(segment.path, os.O_RDWR | os.O_CLOEXEC)
        # the unfinished record is removed, since its bytes after the next records could be read as a record
        os.ftruncate(descriptor, segment.size)
        return cls(segment, descriptor, segment.size)

    def reserve(self, length: int) -> None:
        """Reserve disk space for another `length` bytes.

        Raises:
            WalFullError: the disk is full.
        """
        end = self.segment.size + length
        if end <= self._reserved:
            return
        # Allocated ahead, since a write into a sparse file can fail for lack of space after the source was informed
        # that its events were accepted.
        wanted = max(end, self._reserved + RESERVED_BYTES)
        try:
            os.posix_fallocate(self.descriptor, self._reserved, wanted - self._reserved)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            with contextlib.suppress(OSError):
                # A failed allocation may have taken part of the space; give it back to others on the full disk.
                os.ftruncate(self.descriptor, self._reserved)
            raise WalFullError(
                f"no space for accepted events at {self.segment.path.parent}: {error.strerror}"
            ) from error
        self._reserved = wanted

    def write(self, parts: tuple[Any, ...], length: int) -> None:
        """Append `parts`, `length` bytes in all, for which space is reserved."""
        written = os.pwritev(self.descriptor, parts, self.segment.size)
        if written != length:  # interrupted by a signal, or limited by the system
            rest = b"".join(parts)
            while written < length:
                written += os.pwrite(self.descriptor, rest[written:], self.segment.size + written)
        self.segment.size += length
        appended(self.segment.path, self.segment.size)

    def seal(self) -> int:
        """Truncate the file after its last record, and stop writing to it.

        Returns:
            The descriptor, which the caller must close.
        """
        # release the reserved space, since nothing more is written
        os.ftruncate(self.descriptor, self.segment.size)
        return self.descriptor
