"""The write-ahead log of one imported stream: accepted batches, numbered, on disk until they are secured.

Segments are freed as a whole, oldest first:

    segment 1          segment 2              segment 3
    ──────────────────┬──────────────────────┬─────────────▶ appended here
      secured: spare  │    secured ▲   kept  │  kept
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from cep_common.ids import PlanKey
from cep_common.process.private_folders import make_private
from cep_worker.inflows.wal.deduplication import SeenOrigins
from cep_worker.inflows.wal.errors import BatchTooLargeError, WalFullError
from cep_worker.inflows.wal.identity import (
    COUNTED_FORMAT,
    EarlierSchema,
    LastReceiver,
    LogIdentity,
    read_begun,
    read_identity,
    write_begun,
    write_former,
    write_identity,
)
from cep_worker.inflows.wal.loss_audit import LossAudit
from cep_worker.inflows.wal.notes import LogNotes
from cep_worker.inflows.wal.reader import LogReader
from cep_worker.inflows.wal.recovery import find_segments
from cep_worker.inflows.wal.recycled_segments import SUFFIX as SPARE_SUFFIX
from cep_worker.inflows.wal.recycled_segments import RecycledSegments, renamed
from cep_worker.inflows.wal.row_counts import RowCounts
from cep_worker.inflows.wal.segment import RecoveredSegment, Segment, SegmentWriter, recover, segment_path
from cep_worker.storage.damaged_files import DamagedFiles
from cep_worker.storage.group_commit import DiskSync
from cep_worker.storage.losses import Losses
from cep_worker.storage.records import (
    NOWHERE,
    ORIGIN_BYTES,
    SEGMENT_HEADER_BYTES,
    BatchOrigin,
    SegmentHeader,
    record_bytes,
    record_parts,
)

logger = logging.getLogger(__name__)

Attributes = tuple[tuple[str, str], ...]

KEYS_SHARE, KEYS_AT_LEAST = 4, 16
"""The share of a segment that idempotency keys may take, and the number of keys that are always recorded."""
RESTART_GAP = 2**32
"""A log that is opened again continues at the next multiple of this.

Positions of events that a crash of the machine lost before they were on disk are never reused.
"""


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Limits on the size of a log and of its segments."""

    maximum_bytes: int
    segment_bytes: int


class StreamLog:
    """The write-ahead log of one stream. Not thread-safe, except for `descriptor`.

    Nothing is written before the first `reserve`.
    """

    def __init__(self, folder: Path, identity: LogIdentity, limits: LogLimits, disk_sync: DiskSync) -> None:
        """Open the log in `folder`.

        Raises:
            OSError: that cannot be read.
        """
        self.folder = folder
        self.notes = LogNotes(folder)
        self.identity = identity
        self.last_position = 0
        """The last position in use."""
        self.secured = 0
        """Everything up to here is in a checkpoint."""
        self.unneeded = 0
        """Events up to here may be deleted. Later ones may be requested again if a checkpoint is damaged.
        """
        self.rows_ever = 0
        self.problem = ""
        """Why nothing can be stored now; empty if something can."""
        self.unsynced = False
        """Whether data was written that may not be on disk yet; reset before each sync."""
        self._losses = Losses(folder)
        self._origins = SeenOrigins()
        self._limits = limits
        self._disk_sync = disk_sync
        self._segments: list[Segment] = []
        self._sealed_bytes = 0
        self._spares = RecycledSegments(limits.maximum_bytes, limits.segment_bytes, disk_sync.deleted)
        self._writer: SegmentWriter | None = None
        self._next_position = 1
        self._begun = True
        """Whether the first position of this process is on disk, which reopening needs."""
        self._tally = RowCounts(folder)
        self._lock = threading.Lock()
        if folder.is_dir():
            self._recover()
        self._aside = DamagedFiles(folder)
        disk_sync.opened(self)
        # Written data survives a killed process in the page cache, but not a crash of the machine until it is synced.
        if self._writer is not None:  # a killed process may have left unsynced data
            self.unsynced = True
            disk_sync.appended(self)

    @property
    def size_bytes(self) -> int:
        """Return the bytes in all segments."""
        return self._sealed_bytes + (self._writer.segment.size if self._writer is not None else 0)

    @property
    def lost_rows(self) -> int:
        """Return the number of accepted rows that could not be read, over all processes that had the log open."""
        return self._losses.rows

    @property
    def segments(self) -> int:
        """Return the number of segment files."""
        return len(self._segments)

    @property
    def spare_bytes(self) -> int:
        """Return the bytes of spare files for reuse."""
        return self._spares.size_bytes

    @property
    def damaged_file_bytes(self) -> int:
        """Return the bytes of damaged files that were set aside."""
        return self._aside.size_bytes

    @property
    def maximum_bytes(self) -> int:
        """Return the maximum size of the log."""
        return self._limits.maximum_bytes

    def rename(self, key: PlanKey) -> None:
        """Use the plan's new name in messages and on disk.

        If the name cannot be written now, the next start writes it.
        """
        if self.identity.plan == key.plan:
            return
        self.identity = msgspec.structs.replace(self.identity, plan=key.plan, plan_id=key.identity)
        try:
            if read_identity(self.folder) is not None:  # without segments it is written with the first event
                write_identity(self.folder, self.identity)
        except OSError as error:
            logger.warning("the new name of a plan cannot be saved: folder=%s reason=%s", self.folder, error.strerror)

    def define(self, attributes: Attributes) -> None:
        """Set the attributes of events that are appended from now on.

        Raises OSError.
        """
        before = self.identity
        if attributes == before.attributes:
            return
        earlier = tuple(one for one in before.earlier if one.last > self.unneeded)
        if self.last_position > self.unneeded:
            earlier += (EarlierSchema(self.last_position, before.attributes),)
        self.identity = msgspec.structs.replace(before, attributes=attributes, earlier=earlier)
        if self._segments:  # without segments it is written with the first one
            write_identity(self.folder, self.identity)

    def reserve(self, length: int, origin: BatchOrigin | None = None) -> None:
        """Reserve room for a body of `length` bytes and its `origin`.

        Raises:
            WalFullError: there is no room now; the reason stays in `problem` until `recheck` or `secure`.
            BatchTooLargeError: it never fits.
        """
        # a batch that does not even fit into an empty log would block its source forever
        needed = record_bytes(length, origin is not None)
        if SEGMENT_HEADER_BYTES + needed >= self._limits.maximum_bytes:
            raise BatchTooLargeError(
                f"stream {self.identity.stream} of plan {self.identity.plan}: events that were sent together "
                f"need {needed} bytes on disk, wal.maximum_bytes is {self._limits.maximum_bytes}; send fewer at once"
            )
        try:
            self._reserve(needed)
        except WalFullError as error:
            if not self.problem:
                logger.warning("sources must wait: %s", error.message)
            self.problem = error.message
            self._spares.clear()  # on a full disk, free space matters more than speed
            raise

    def has_taken(self, origin: BatchOrigin) -> bool:
        """Return whether this or an earlier process appended the batch or a later one of its source."""
        return self._origins.has(origin)

    def newest_of(self, source: bytes) -> int | None:
        """Return the number of the newest batch of the source that this or an earlier process appended."""
        return self._origins.newest_of(source)

    def append(self, body: Any, length: int, rows: int, watermark_ms: int, origin: BatchOrigin | None = None) -> int:
        """Append `body` and return its position.

        Room for its `length` bytes must be reserved.

        A batch that may be repeated has an `origin`, newer than all others of its source.
        """
        # Reserving and appending are separate, so that several logs can reserve room for one batch before any appends
        # it.
        assert self._writer is not None  # noqa: S101 - made by reserve
        position = self._next_position
        origins = () if origin is None else (origin,)
        parts = record_parts(body, length, rows, position, watermark_ms, self._writer.seed, origins)
        self._writer.write(parts, record_bytes(length, len(origins)))
        self._origins.note_all(origins)
        self._next_position = position + 1
        self.last_position = position
        self.rows_ever += rows
        self._tally.taken(position, self.rows_ever)
        # once per sync, not once per batch: the group commit syncs everything written until then
        if not self.unsynced:
            self.unsynced = True
            self._disk_sync.appended(self)
        return position

    @property
    def mirrors(self) -> bool:
        """Return whether appended events must not be processed before `when_safe` has called back."""
        return self._disk_sync.mirrors

    def when_safe(self, call: Callable[[], None]) -> None:
        """Call `call` once appended events are as durable as the worker's policy requires."""
        self._disk_sync.when_safe(call)

    def secure(self, position: int, unneeded: int | None = None) -> None:
        """Mark the log as secured up to `position` and free files up to `unneeded`.

        Events up to `unneeded` (None: up to `position`) are not read again.
        """
        position = min(position, self.last_position)
        unneeded = position if unneeded is None else min(unneeded, position)
        if position <= self.secured and unneeded <= self.unneeded:
            return
        self.secured, self.unneeded = max(position, self.secured), max(unneeded, self.unneeded)
        # A segment can be freed when its successor begins at a position that is no longer needed. The last one stays:
        # it is being written, and its header has the row count.
        freed: list[Segment] = []
        while len(self._segments) > 1 and self._segments[1].header.first_position <= self.unneeded + 1:
            freed.append(self._segments.pop(0))
        # Row counts are exact at the ends of the log and at segment headers only; reading records just to count is not
        # worth its cost.
        first = self._segments[0].header if self._segments else None
        known = first.rows_before if first is not None and first.first_position <= self.secured + 1 else 0
        known = self.rows_ever if self.secured == self.last_position else known
        self._tally.secure(self.secured, self.unneeded, known)
        # after the counts were written, or a process that is killed in between would make the next one report lost rows
        for oldest in freed:
            self._sealed_bytes -= oldest.size
            self._spares.add(oldest)
        if self.unneeded >= self.last_position and self._is_full():
            self._free_last()  # otherwise the log would stay full of data that is no longer needed
        self.recheck()

    def tick(self, now_ms: int) -> None:
        """Perform due tasks."""
        self._spares.tick(now_ms)
        self._aside.tick(now_ms)
        self._losses.tick(now_ms)
        self.recheck()

    def recheck(self) -> None:
        """Clear the current problem and let `reserve` try again."""
        if self.problem and not self._is_full():
            self.problem = ""

    def reader(self, after: int, lost: Callable[[int], None] | None = None) -> LogReader:
        """Return a reader of the records after `after`; `lost` is called for missing rows."""

        def note(rows: int, place: str, position: int) -> None:
            self.note_lost(rows, place, position)
            if lost is not None:
                lost(rows)

        begin, secured = max(after, self.unneeded), self._tally.secured
        known = secured.rows if secured.position <= begin else 0
        return LogReader(lambda: self._segments, begin, note, known)

    def note_lost(self, rows: int, place: str, position: int = 0) -> None:
        """Count accepted rows that cannot be read.

        They are missing at `place`: those of a record at `position` or just before it.
        """
        if position:
            self._losses.note_record(rows, place, position)
        else:
            self._losses.note(rows, place)

    def rows_waiting(self) -> int:
        """Return the number of rows that are not secured."""
        reader = self.reader(self.secured)
        try:
            return reader.rows_left(self.rows_ever)
        finally:
            reader.close()

    def descriptor(self) -> int | None:
        """Return a duplicate of the descriptor of the current file, which the caller must close.

        Any thread may call it.
        """
        with self._lock:
            return os.dup(self._writer.descriptor) if self._writer is not None else None

    def keep_former(self, former: LastReceiver) -> None:
        """Save the receiver for the next process of the worker.

        Raises:
            OSError: the disk fails.
        """
        if read_identity(self.folder) is None:
            self._describe()
        write_former(self.folder, former)

    def close(self) -> None:
        """Close all files; segments stay, spare files are deleted."""
        self._disk_sync.closed(self)
        self._losses.close()
        self._seal()
        self._spares.clear()
        self._tally.close()

    def _reserve(self, needed: int) -> None:
        if self._is_full():
            aside = self._aside.size_bytes
            damaged = f", and {aside} of damaged files (remove {self.folder / '*.unreadable'})" if aside else ""
            raise WalFullError(
                f"stream {self.identity.stream} of plan {self.identity.plan}: {self.size_bytes} bytes of "
                f"accepted events are already on disk{damaged}, wal.maximum_bytes is {self._limits.maximum_bytes}"
            )
        # not when the log is opened, since it must be readable on a full disk
        if not self._begun:
            self._note_begun()
        writer = self._writer
        # records are never split: one that is larger than a segment gets a segment of its size
        largest = max(self._limits.segment_bytes, SEGMENT_HEADER_BYTES + needed)
        if writer is None or writer.segment.size + needed > largest:
            writer = self._begin_segment()
        writer.reserve(needed)

    def _is_full(self) -> bool:
        return self.size_bytes + self._aside.size_bytes >= self._limits.maximum_bytes

    def _note_begun(self) -> None:
        """Record the first position that this process uses.

        Not when the log is opened, since it must be readable on a full disk. Raises WalFullError.
        """
        try:
            write_begun(self.folder, self._next_position)
        except OSError as error:
            raise WalFullError(f"{self.folder} cannot be written: {error.strerror}") from error
        self._begun = True

    # ---- files ------------------------------------------------------------------------------------------------------

    def _begin_segment(self) -> SegmentWriter:
        """Create a segment after the others.

        Raises WalFullError.
        """
        self._seal()
        spare = self._spares.take()
        try:
            if not self._segments:
                self._describe()
            header = SegmentHeader(self._next_position, self.rows_ever, self.identity.log, spare is not None)
            path = segment_path(self.folder, self._next_position)
            segment = Segment(path, header, SEGMENT_HEADER_BYTES)
            writer = SegmentWriter.create(segment) if spare is None else SegmentWriter.recycle(segment, spare)
        except OSError as error:
            if spare is not None:
                self._disk_sync.deleted(spare)
            raise WalFullError(f"{self.folder} cannot be written: {error.strerror}") from error
        # each segment starts with the current origins, since deduplication must survive the deletion of older segments
        self._tell_origins(writer)
        with self._lock:
            self._writer = writer
        self._segments.append(writer.segment)
        self._disk_sync.created(self.folder)
        return writer

    def _describe(self) -> None:
        """Write the log's identity, after its counts.

        Raises OSError.
        """
        make_private(self.folder)
        self._tally.prepare()
        if self._tally.are_known:
            self.identity = msgspec.structs.replace(self.identity, format=COUNTED_FORMAT)
        write_identity(self.folder, self.identity)

    def _tell_origins(self, writer: SegmentWriter) -> None:
        """Begin the new segment with the newest batch of each source, since earlier segments may be freed.

        Raises:
            WalFullError: the segment cannot be written; it was deleted.
        """
        origins = self._origins.newest(max(KEYS_AT_LEAST, self._limits.segment_bytes // KEYS_SHARE // ORIGIN_BYTES))
        if not origins:
            return
        length = record_bytes(0, len(origins))
        try:
            writer.reserve(length)
        except WalFullError:
            os.close(writer.descriptor)
            # without its origins a repeated batch could be accepted twice after a restart
            writer.segment.path.unlink()
            raise
        writer.write(record_parts(b"", 0, 0, NOWHERE, 0, writer.seed, origins), length)

    def _free_last(self) -> None:
        """Free the last segment, which is no longer needed.

        If origins must be remembered, another segment replaces it, unless the disk is full: then batches may be
        accepted twice.
        """
        if self._origins:
            try:
                self._begin_segment()
            except WalFullError as error:
                logger.warning("cannot save the numbers of received results: reason=%s", error.message)
        if len(self._segments) == 1:
            self._seal()
        freed = self._segments.pop(0)
        self._sealed_bytes -= freed.size
        self._spares.add(freed)

    def _seal(self) -> None:
        with self._lock:
            writer, self._writer = self._writer, None
        if writer is not None:
            self._sealed_bytes += writer.segment.size
            self._disk_sync.sealed(writer.seal())

    # ---- opening ----------------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        self._tally.read()
        # secured positions first: segments up to there may have been deleted and are not missing
        self.secured = self.last_position = self._tally.secured.position
        self.unneeded = self._tally.unneeded
        for path in self.folder.glob(f"*{SPARE_SUFFIX}"):
            path.unlink(missing_ok=True)  # at once, since the disk may be full and space is needed now
        self._segments, damaged = find_segments(self.folder, self.identity.log)
        # only the last segment can end in an unfinished record, the others were sealed before the next one was created
        found = self._recover_last() if self._segments else None
        audit = LossAudit(self.folder, self._segments, found, self.secured, self._losses)
        audit.count(self._tally, damaged, self.identity.format)
        if found is not None:
            self.last_position = max(self.last_position, found.last_position)
            self._origins.note_all(found.origins)
        else:
            self.rows_ever = max(0, self._tally.accepted.rows, self._tally.secured.rows)
        # none of the positions used since the log was last opened need be on disk
        newest = max(self.last_position, self._tally.accepted.position, read_begun(self.folder))
        # A receiver may know positions that were sent but never synced. Reusing them would make it drop new events as
        # duplicates.
        self._next_position = (newest // RESTART_GAP + 1) * RESTART_GAP
        self._begun = False
        if self.unneeded >= self.last_position:
            # nothing is waiting, so the files can be freed, except for the one that remembers origins
            kept = self._segments[-1:] if self._origins else []
            for segment in self._segments[: len(self._segments) - len(kept)]:
                self._disk_sync.deleted(renamed(segment.path))
            self._segments = kept
        if self._segments or self._tally.accepted.position or self._tally.secured.position:
            self._tally.begin(self._segments, found, self.secured, self.rows_ever)
        if not self._segments:
            return
        self._sealed_bytes = sum(segment.size for segment in self._segments[:-1])
        # Continue the last file rather than begin another one: a worker that restarts often would otherwise fill the
        # folder with small segments.
        self._writer = SegmentWriter.reopen(self._segments[-1])

    def _recover_last(self) -> RecoveredSegment:
        last = self._segments[-1]
        found = recover(last.path.read_bytes(), last.header, self.secured)
        if found.torn_bytes:
            logger.warning("log ends with an unfinished record, cut off: file=%s bytes=%d",
                           last.path, found.torn_bytes)  # fmt: skip
        if found.damaged_bytes:
            logger.error("segment damaged: file=%s bytes=%d", last.path, found.damaged_bytes)
        last.size = found.size
        self.rows_ever = last.header.rows_before + found.rows
        return found
