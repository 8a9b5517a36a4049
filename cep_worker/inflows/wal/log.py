"""A log of the batches that a worker has accepted for one imported stream: numbered, on disk until they are secured.

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
"""Share of a segment that idempotency keys may take, and the number of them that is always recorded."""
RESTART_GAP = 2**32
"""A log that is opened again continues at the next multiple of this.

Positions that were used for events that a crash of the machine lost before they were on disk are never reused.
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
        """Everything up to here was taken over and is not needed again."""
        self.unneeded = 0
        """Nothing up to here is stored any longer. Events after it may be requested again if a checkpoint is damaged.
        """
        self.rows_ever = 0
        self.problem = ""
        """Why nothing can be stored now, or nothing."""
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
        """Whether the disk has what reopening must know about the positions that are about to be used."""
        self._tally = RowCounts(folder)
        self._lock = threading.Lock()
        if folder.is_dir():
            self._recover()
        self._aside = DamagedFiles(folder)
        disk_sync.opened(self)
        # Written data survives a killed process in the page cache, but not a crash of the machine until it is synced.
        if self._writer is not None:  # a killed process may have left what has not got to the disk
            self.unsynced = True
            disk_sync.appended(self)

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments."""
        return self._sealed_bytes + (self._writer.segment.size if self._writer is not None else 0)

    @property
    def lost_rows(self) -> int:
        """Rows that were accepted and cannot be read, over all processes that had the log open."""
        return self._losses.rows

    @property
    def segments(self) -> int:
        """Number of segment files."""
        return len(self._segments)

    @property
    def spare_bytes(self) -> int:
        """Bytes of spare files, which are written over."""
        return self._spares.size_bytes

    @property
    def damaged_file_bytes(self) -> int:
        """Bytes of damaged files that were set aside."""
        return self._aside.size_bytes

    @property
    def maximum_bytes(self) -> int:
        """When it holds so much, nothing more is stored."""
        return self._limits.maximum_bytes

    def rename(self, key: PlanKey) -> None:
        """Take the plan's new name, in messages and on disk.

        If the name cannot be written now, the next start writes it.
        """
        if self.identity.plan == key.plan:
            return
        self.identity = msgspec.structs.replace(self.identity, plan=key.plan, plan_id=key.identity)
        try:
            if read_identity(self.folder) is not None:  # else it is written with the first event
                write_identity(self.folder, self.identity)
        except OSError as error:
            logger.warning("the new name of a plan cannot be saved: folder=%s reason=%s", self.folder, error.strerror)

    def define(self, attributes: Attributes) -> None:
        """Append events with these attributes from now on.

        Raises OSError.
        """
        before = self.identity
        if attributes == before.attributes:
            return
        earlier = tuple(one for one in before.earlier if one.last > self.unneeded)
        if self.last_position > self.unneeded:
            earlier += (EarlierSchema(self.last_position, before.attributes),)
        self.identity = msgspec.structs.replace(before, attributes=attributes, earlier=earlier)
        if self._segments:  # else it is written with the first segment
            write_identity(self.folder, self.identity)

    def reserve(self, length: int, origin: BatchOrigin | None = None) -> None:
        """Reserve room for a body of `length` bytes and its `origin`.

        Raises:
            WalFullError: there is no room now; the reason stays in `problem` until `recheck` or `secure`.
            BatchTooLargeError: it never fits.
        """
        # Judged against an empty log: a batch that does not even fit there would block its source forever.
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
            self._spares.clear()  # where the disk is full, space is worth more than speed
            raise

    def has_taken(self, origin: BatchOrigin) -> bool:
        """Return whether the batch was appended, or a later one of its source, by this process or a former one."""
        return self._origins.has(origin)

    def newest_of(self, source: bytes) -> int | None:
        """Return the number of the newest batch of the source that was appended, by this process or a former one."""
        return self._origins.newest_of(source)

    def append(self, body: Any, length: int, rows: int, watermark_ms: int, origin: BatchOrigin | None = None) -> int:
        """Store `body`, which outlives this process, and return its position.

        Room for its `length` bytes must be reserved.

        A batch that may be repeated has an `origin`, which is newer than any of its source.
        """
        # Reserving and appending are separate so that several logs can reserve for one batch before any of them takes
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
        # Announced once per sync, not once per batch: the group commit syncs everything written until then.
        if not self.unsynced:
            self.unsynced = True
            self._disk_sync.appended(self)
        return position

    @property
    def mirrors(self) -> bool:
        """Return whether what is appended must not be processed before `when_safe` has called."""
        return self._disk_sync.mirrors

    def when_safe(self, call: Callable[[], None]) -> None:
        """Call as soon as what was appended is as safe as the worker's policy asks for."""
        self._disk_sync.when_safe(call)

    def secure(self, position: int, unneeded: int | None = None) -> None:
        """Mark the log as secured up to `position` and free files up to `unneeded`.

        Nothing up to `unneeded` (None: up to `position`) is read again.
        """
        position = min(position, self.last_position)
        unneeded = position if unneeded is None else min(unneeded, position)
        if position <= self.secured and unneeded <= self.unneeded:
            return
        self.secured, self.unneeded = max(position, self.secured), max(unneeded, self.unneeded)
        # A segment can go when its successor begins within what is no longer needed. The last one stays: it is being
        # written, and its header carries the row count.
        freed: list[Segment] = []
        while len(self._segments) > 1 and self._segments[1].header.first_position <= self.unneeded + 1:
            freed.append(self._segments.pop(0))
        # Row counts are exact at the ends of the log and at segment headers only; reading records just to count would
        # cost more than the count is worth.
        first = self._segments[0].header if self._segments else None
        known = first.rows_before if first is not None and first.first_position <= self.secured + 1 else 0
        known = self.rows_ever if self.secured == self.last_position else known
        self._tally.secure(self.secured, self.unneeded, known)
        # Only now: without that note, a process that is killed in between would report the rows of these files as lost.
        for oldest in freed:
            self._sealed_bytes -= oldest.size
            self._spares.add(oldest)
        if self.unneeded >= self.last_position and self._is_full():
            self._free_last()  # or it would stay full of data that is no longer needed
        self.recheck()

    def tick(self, now_ms: int) -> None:
        """Pass the time."""
        self._spares.tick(now_ms)
        self._aside.tick(now_ms)
        self._losses.tick(now_ms)
        self.recheck()

    def recheck(self) -> None:
        """Clear the current problem and let `reserve` try again."""
        if self.problem and not self._is_full():
            self.problem = ""

    def reader(self, after: int, lost: Callable[[int], None] | None = None) -> LogReader:
        """Read the records after `after`; `lost` learns of rows that are missing."""

        def note(rows: int, place: str, position: int) -> None:
            self.note_lost(rows, place, position)
            if lost is not None:
                lost(rows)

        begin, secured = max(after, self.unneeded), self._tally.secured
        known = secured.rows if secured.position <= begin else 0
        return LogReader(lambda: self._segments, begin, note, known)

    def note_lost(self, rows: int, place: str, position: int = 0) -> None:
        """Count accepted rows that cannot be read.

        They should have been at `place`, those of a record at `position` there or right before it.
        """
        if position:
            self._losses.note_record(rows, place, position)
        else:
            self._losses.note(rows, place)

    def rows_waiting(self) -> int:
        """Return how many rows are not secured."""
        reader = self.reader(self.secured)
        try:
            return reader.rows_left(self.rows_ever)
        finally:
            reader.close()

    def descriptor(self) -> int | None:
        """Return a duplicate of the descriptor of the current file, which the caller closes.

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
        # Once per process and not at opening: on a full disk the log must still be readable.
        if not self._begun:
            self._note_begun()
        writer = self._writer
        # A record is never split: one that is larger than a segment gets a segment of its own size.
        largest = max(self._limits.segment_bytes, SEGMENT_HEADER_BYTES + needed)
        if writer is None or writer.segment.size + needed > largest:
            writer = self._begin_segment()
        writer.reserve(needed)

    def _is_full(self) -> bool:
        return self.size_bytes + self._aside.size_bytes >= self._limits.maximum_bytes

    def _note_begun(self) -> None:
        """Record the first position that this process uses.

        Not when the log is opened: where the disk is full, it must still be readable. Raises WalFullError.
        """
        try:
            write_begun(self.folder, self._next_position)
        except OSError as error:
            raise WalFullError(f"{self.folder} cannot be written: {error.strerror}") from error
        self._begun = True

    # ---- files ------------------------------------------------------------------------------------------------------

    def _begin_segment(self) -> SegmentWriter:
        """Return a new segment, which follows the others.

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
        # Deduplication must survive the deletion of older segments, so each segment starts with the current origins.
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
        """Begin the new segment with the newest batch of each source, as former segments may be freed.

        Raises:
            WalFullError: the segment cannot be written, and is not there.
        """
        origins = self._origins.newest(max(KEYS_AT_LEAST, self._limits.segment_bytes // KEYS_SHARE // ORIGIN_BYTES))
        if not origins:
            return
        length = record_bytes(0, len(origins))
        try:
            writer.reserve(length)
        except WalFullError:
            os.close(writer.descriptor)
            # A segment without its origins would let a repeated batch be taken twice after a restart.
            writer.segment.path.unlink()
            raise
        writer.write(record_parts(b"", 0, 0, NOWHERE, 0, writer.seed, origins), length)

    def _free_last(self) -> None:
        """Free the last segment, which is no longer needed.

        If origins must be remembered, another segment replaces it; on a full disk, counting something twice is the
        lesser evil.
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
        # Secured positions come first: segments up to there may have been deleted, and do not count as missing.
        self.secured = self.last_position = self._tally.secured.position
        self.unneeded = self._tally.unneeded
        for path in self.folder.glob(f"*{SPARE_SUFFIX}"):
            path.unlink(missing_ok=True)  # at once: the disk may be full, and something must be written now
        self._segments, damaged = find_segments(self.folder, self.identity.log)
        # Only the last segment can end in an unfinished record; the others were sealed before the next one was begun.
        found = self._recover_last() if self._segments else None
        audit = LossAudit(self.folder, self._segments, found, self.secured, self._losses)
        audit.count(self._tally, damaged, self.identity.format)
        if found is not None:
            self.last_position = max(self.last_position, found.last_position)
            self._origins.note_all(found.origins)
        else:
            self.rows_ever = max(0, self._tally.accepted.rows, self._tally.secured.rows)
        # Of the positions used since the log was last opened, none need be on disk.
        newest = max(self.last_position, self._tally.accepted.position, read_begun(self.folder))
        # A receiver may know positions that were sent but never synced. Reusing them would make it drop new events as
        # duplicates.
        self._next_position = (newest // RESTART_GAP + 1) * RESTART_GAP
        self._begun = False
        if self.unneeded >= self.last_position:
            # Nothing is waiting, so the files can go, except for the one that remembers origins.
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
