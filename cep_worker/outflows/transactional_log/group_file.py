"""A group file: the results that a publisher sent between two checkpoints.

    header record │ frame record │ frame record │ … │ mark record

Records are framed and checksummed like those of the log (`cep_worker.storage.records`). The body of each begins with
the length of a MessagePack map and the map, padded to a multiple of 8 bytes; in a frame an Arrow batch follows. The
header is repeated where numbers are skipped, because consumers have frames of these numbers that may be lost. A file
without a mark at its end was not closed: the process or the publisher ended. The header of the next file repeats the
mark, even in a later run, since it may reach the disk before the mark does.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from cep_common.protocol.links import OpenLink, StreamSchema
from cep_worker.outflows.transactional_log.commit_decisions import Attempt
from cep_worker.storage.file_changes import appended
from cep_worker.storage.records import (
    RECORD_HEADER_BYTES,
    StoredRecord,
    missing_bytes,
    record_at,
    record_bytes,
    record_parts,
    scan,
)

SUFFIX = ".results"
_LENGTH = struct.Struct("<I")


class ReceivedRows(msgspec.Struct, frozen=True):
    """The end of file number `ordinal`: the mark of `checkpoint`, at the publisher's `position`."""

    ordinal: int
    checkpoint: int
    position: int


class GroupHeader(msgspec.Struct, frozen=True, tag="header"):
    """The header of a group file.

    `log` is the identity of this store, and `position` the publisher's position in this run before this file. Frames
    are numbered from `first_number`. `deployed_ms` is when the plan was first deployed. The file before this one ends
    with the mark of checkpoint `after` (0: it is of another run, or has no mark). `former` repeats the newest mark of
    an earlier run that no other file would show. `run_log` is the identity that the publisher drew for this run, if it
    gave one. With `at_once` the results wait only for consumers, not for a checkpoint: their plan delivers at least
    once. `rows_before` is the number of rows in earlier files. Versions that did not write a field yet leave it 0 or
    None.
    """

    log: str
    publisher: str
    epoch: int
    attempt: int
    streams: tuple[StreamSchema, ...]
    first_number: int
    position: int
    deployed_ms: int = 0
    after: int | None = None
    former: ReceivedRows | None = None
    run_log: str = ""
    at_once: bool = False
    rows_before: int | None = None

    def run(self) -> Attempt:
        return self.epoch, self.attempt

    def is_of(self, opening: OpenLink) -> bool:
        """Return whether it belongs to the run of `opening`, and not to another one with the same epoch."""
        known = "" not in (self.run_log, opening.log)
        return self.run() == (opening.epoch, opening.attempt) and (not known or self.run_log == opening.log)


class GroupFrame(msgspec.Struct, frozen=True, tag="frame"):
    """The entry before an Arrow batch of `stream`; its last event is at `position` in the publisher's run."""

    stream: str
    position: int


class CheckpointMark(msgspec.Struct, frozen=True, tag="mark"):
    """Assigns everything before it to `checkpoint`.

    `position` is that of the publisher, even if some frames are lost; 0: that of the last frame.
    """

    checkpoint: int
    position: int = 0


Entry = GroupHeader | GroupFrame | CheckpointMark
_ENTRIES = msgspec.msgpack.Decoder(Entry)
_encode = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class ResultGroup:
    """A group file and its contents up to `size_bytes`."""

    path: Path
    header: GroupHeader
    frames: int = 0
    rows: int = 0
    position: int = 0
    checkpoint: int | None = None
    size_bytes: int = 0
    lost_rows: int = 0
    """The known number of rows of the file that cannot be read."""
    missing_rows: int = 0
    """Rows of missing earlier files."""
    passed_over: int = 0
    """Frame numbers that were skipped."""
    since_ms: int | None = None
    """The monotonic time at which this process first saw its results."""
    stream_rows: Counter[str] = field(default_factory=Counter)
    """The rows by stream."""
    ordinal: int = field(init=False)

    def __post_init__(self) -> None:
        self.ordinal = ordinal_of(self.path)

    @property
    def all_rows(self) -> int:
        """Return the known number of rows written to it and all earlier files."""
        return (self.header.rows_before or 0) + self.rows + self.lost_rows

    @property
    def next_number(self) -> int:
        """The number of the frame that follows its last one."""
        return self.header.first_number + self.frames + self.passed_over


@dataclass(frozen=True, slots=True)
class StoredFrame:
    """A stored frame."""

    number: int
    stream: str
    rows: int
    body: memoryview


def group_path(folder: Path, ordinal: int) -> Path:
    """Return the path of the group `ordinal` in the folder; names sort by number."""
    return folder / f"{ordinal:020d}{SUFFIX}"


def ordinal_of(path: Path) -> int:
    """Return the number of the group at `path`.

    Raises:
        ValueError: the path is not that of a group.
    """
    return int(path.name.removesuffix(SUFFIX))


class GroupWriter:
    """Appends to a group's file.

    After an OSError the file is unchanged, and the call may be repeated.
    """

    def __init__(self, group: ResultGroup, descriptor: int) -> None:
        self.group = group
        self.descriptor = descriptor

    @classmethod
    def create(cls, path: Path, header: GroupHeader) -> GroupWriter:
        """Return a new file, which must not exist yet.

        Raises OSError.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        writer = cls(ResultGroup(path, header, position=header.position), descriptor)
        try:
            writer._append(header, b"", 0, header.first_number)
        except OSError:
            os.close(descriptor)
            path.unlink()
            raise
        return writer

    @classmethod
    def reopen(cls, group: ResultGroup) -> GroupWriter:
        """Continue the file after the contents that `group` describes.

        Raises:
            OSError: the disk fails.
        """
        descriptor = os.open(group.path, os.O_RDWR | os.O_CLOEXEC)
        os.ftruncate(descriptor, group.size_bytes)
        return cls(group, descriptor)

    def append(self, frame: GroupFrame, body: Any, rows: int) -> None:
        """Append a frame.

        Raises:
            OSError: the disk fails.
        """
        self._append(frame, body, rows, self.group.next_number)
        self.group.frames += 1
        self.group.rows += rows
        self.group.stream_rows[frame.stream] += rows
        self.group.position = max(self.group.position, frame.position)

    def mark(self, checkpoint: int, position: int = 0) -> None:
        """Complete the group; `position` is that of the publisher, if it is after the group's frames.

        Raises:
            OSError: the disk fails.
        """
        self._append(CheckpointMark(checkpoint, position), b"", 0, self.group.next_number)
        self.group.checkpoint, self.group.position = checkpoint, max(self.group.position, position)

    def pass_over(self, numbers: int) -> None:
        """Skip this many numbers, by another header with the number of the next frame.

        Raises OSError.
        """
        self._append(self.group.header, b"", 0, self.group.next_number + numbers)
        self.group.passed_over += numbers

    def _append(self, entry: Entry, body: Any, rows: int, number: int) -> None:
        parts, length = _record(entry, body, rows, number)
        start = self.group.size_bytes
        try:
            written = os.pwritev(self.descriptor, parts, start)
            if written < length:  # interrupted by a signal, or limited by the system
                rest = b"".join(parts)
                while written < length:
                    written += os.pwrite(self.descriptor, rest[written:], start + written)
        except OSError:
            os.ftruncate(self.descriptor, start)
            raise
        self.group.size_bytes += length
        appended(self.group.path, self.group.size_bytes)


class DamagedError(Exception):
    """The rest of a file cannot be read."""


class GroupReader:
    """Reads a group's frames in order, each once; damaged ones are skipped.

    Frames that are appended meanwhile are read, too.
    """

    def __init__(self, group: ResultGroup) -> None:
        self._group = group
        self._offset = 0
        self._descriptor = os.open(group.path, os.O_RDONLY | os.O_CLOEXEC)

    def next(self) -> StoredFrame | None:
        """Return the next frame; None when there are no more.

        Raises DamagedError, and OSError when the disk fails: the call may be repeated.
        """
        while self._offset < self._group.size_bytes:
            found = _next(self._descriptor, self._offset)
            if found is None:
                raise DamagedError(f"damaged at byte {self._offset}")
            self._offset = found.end
            if isinstance(found.entry, GroupFrame):
                return StoredFrame(found.number, found.entry.stream, found.rows, found.body)
        return None

    def close(self) -> None:
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class RecoveredGroup:
    """A recovered group.

    It has the number of bytes after its records, and of damaged bytes within it.
    """

    group: ResultGroup
    torn_bytes: int
    damaged_bytes: int = 0


def recover(path: Path) -> RecoveredGroup | None:
    """Return the contents of the file up to its last complete record; None if its header is damaged.

    Raises:
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = _read(descriptor, 0)
        if found is None or not isinstance(found[1], GroupHeader):
            return None
        group = ResultGroup(path, found[1], position=found[1].position, size_bytes=found[0].end)
        damaged = 0
        while group.checkpoint is None and (entry := _next(descriptor, group.size_bytes)) is not None:
            damaged += entry.damaged_bytes
            group.lost_rows += _lost_rows(group, entry)
            _note(group, entry)
        return RecoveredGroup(group, _bytes_behind(descriptor, group.size_bytes), damaged)
    finally:
        os.close(descriptor)


def rows_in(path: Path) -> int:
    """Return the number of rows in intact frames of a file whose header is damaged.

    Raises OSError.
    """
    return sum(found.rows for found in scan(memoryview(path.read_bytes())) if isinstance(found, StoredRecord))


@dataclass(frozen=True, slots=True)
class _ScannedGroup:
    """An entry, which ends at `end`, and the damage before it."""

    entry: Entry
    number: int
    rows: int
    body: memoryview
    end: int
    damaged_bytes: int = 0
    damaged_rows: int = 0


def _next(descriptor: int, offset: int) -> _ScannedGroup | None:
    """Return the first intact entry from `offset` on; None if there is none."""
    sound = _read(descriptor, offset)
    if sound is not None:
        record, entry, body = sound
        return _ScannedGroup(entry, record.position, record.rows, body, offset + record.end)
    rest = os.pread(descriptor, _bytes_behind(descriptor, offset), offset)
    rows = 0
    for found in scan(memoryview(rest)):
        sound = _read(descriptor, offset + found.start) if isinstance(found, StoredRecord) else None
        if sound is not None:
            record, entry, body = sound
            return _ScannedGroup(entry, record.position, record.rows, body, offset + found.end, found.start, rows)
        rows += found.rows
    return None


def _bytes_behind(descriptor: int, offset: int) -> int:
    """Return the number of bytes after `offset`; 0 also if only a part of the last record's padding is missing."""
    return max(0, os.fstat(descriptor).st_size - offset)


def _lost_rows(group: ResultGroup, found: _ScannedGroup) -> int:
    """Return the rows lost between the contents of `group` and `found`, by the publisher's positions if known."""
    if not found.damaged_bytes and not isinstance(found.entry, CheckpointMark):
        return 0
    position = 0 if isinstance(found.entry, GroupHeader) else found.entry.position
    return max(found.damaged_rows, position - found.rows - group.position)


def _note(group: ResultGroup, found: _ScannedGroup) -> None:
    group.size_bytes = found.end
    between = found.number - group.next_number  # lost frames, unless the header is repeated, which skips numbers
    if isinstance(found.entry, GroupHeader):
        group.passed_over += between
        return
    group.frames += between
    if isinstance(found.entry, GroupFrame):
        group.frames += 1
        group.rows += found.rows
        group.stream_rows[found.entry.stream] += found.rows
        group.position = max(group.position, found.entry.position)
    elif isinstance(found.entry, CheckpointMark):
        # damaged rows are counted here, the next file's position covers only the others
        group.position = max(group.position + found.damaged_rows, found.entry.position)
        group.checkpoint = found.entry.checkpoint


def _record(entry: Entry, body: Any, rows: int, number: int) -> tuple[tuple[bytes, Any, bytes], int]:
    described = _encode(entry)
    head = _LENGTH.pack(len(described)) + described
    whole = b"".join((head, bytes(-len(head) % 8), body))
    return record_parts(whole, len(whole), rows, number, 0), record_bytes(len(whole))


def _read(descriptor: int, offset: int) -> tuple[StoredRecord, Entry, memoryview] | None:
    """Return the record at `offset`, its decoded map, and the rest of its body; None if it is not intact."""
    head = os.pread(descriptor, RECORD_HEADER_BYTES, offset)
    missing = missing_bytes(memoryview(head), 0) if len(head) == RECORD_HEADER_BYTES else 0
    if not missing:
        return None
    record = record_at(memoryview(os.pread(descriptor, len(head) + missing, offset)), 0)
    if record is None or len(record.body) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(record.body)
    end = _LENGTH.size + length
    try:
        entry = _ENTRIES.decode(record.body[_LENGTH.size : end])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return record, entry, record.body[end + -end % 8 :]
