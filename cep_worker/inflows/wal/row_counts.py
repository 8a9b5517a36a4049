"""Counts of the accepted and the secured rows of a log.

Two files beside the segments store these counts. At the next start they show how many rows the segments should have,
even if segments were truncated or deleted.

rows     0 ────────── secured ───────────────── accepted
segments      (gone)     │ first │ … │ last │
                      lost before         lost after
"""

from __future__ import annotations

import logging
import os
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from cep_common.monitoring.paced_log import PacedLog
from cep_worker.inflows.wal.segment import RecoveredSegment, Segment
from cep_worker.storage.file_changes import replaced

paced_logger = PacedLog(logging.getLogger(__name__))

SECURED_FILE = "secured"
ACCEPTED_FILE = "accepted"
MOST_MARKS = 65_536
"""The number of newest batches for which the count of earlier rows is remembered."""

_NOTE = struct.Struct("<qqqqqI")
_CHECKED = struct.Struct("<qqqqq")
_FORMER = struct.Struct("<qI")
UNKNOWN = -1


class PositionCount(NamedTuple):
    """The number of `rows` up to `position`; `UNKNOWN` if an earlier version recorded only the position."""

    position: int = 0
    rows: int = UNKNOWN


class StoredCounts(NamedTuple):
    """The counts of accepted and secured rows, and the position up to which nothing must be kept."""

    accepted: PositionCount = PositionCount()
    secured: PositionCount = PositionCount()
    unneeded: int = 0


class CountFile:
    """A file of counts that is overwritten often; it has two copies, since one of them may be damaged.

    Belongs to one thread.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def read(self) -> StoredCounts | None:
        """Return the last counts; None if nothing can be read.

        Raises OSError.
        """
        data = self._path.read_bytes() if self._path.exists() else b""
        # the first intact copy: writing is not atomic, so a crash may damage one of them, but not both
        for offset in range(0, len(data) - _NOTE.size + 1, _NOTE.size):
            *noted, unneeded, checksum = _NOTE.unpack_from(data, offset)
            if checksum == crc32(data[offset : offset + _CHECKED.size]):
                return StoredCounts(PositionCount(*noted[:2]), PositionCount(*noted[2:]), unneeded)
        if len(data) == _FORMER.size:
            position, checksum = _FORMER.unpack(data)
            if checksum == crc32(data[:8]):
                return StoredCounts(secured=PositionCount(position), unneeded=position)
        return None

    def note(self, counts: StoredCounts) -> None:
        """Write the counts.

        A disk error is logged; later processes may then report losses less precisely.
        """
        checked = _CHECKED.pack(*counts.accepted, *counts.secured, counts.unneeded)
        one = checked + crc32(checked).to_bytes(4, "little")
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # not synced, since a sync for each batch would cost more than the batch
            os.pwrite(self._descriptor, one + one, 0)
        except OSError as error:
            paced_logger.problem(str(self._path), "cannot save the row counts of a log: file=%s reason=%s",
                                 self._path, error.strerror)  # fmt: skip

    def changed(self) -> None:
        """Mirror the file at once; later changes are found when the folder is compared."""
        replaced(self._path)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@dataclass(frozen=True, slots=True)
class MissingRows:
    """Rows that were accepted, not secured, and are missing before the first or after the last segment."""

    before: int = 0
    behind: int = 0


class RowCounts:
    """The counts of one log. Both files have both counts, written with each batch, so that one file may be lost.

    Belongs to the log's thread.
    """

    def __init__(self, folder: Path) -> None:
        self._accepted_file = CountFile(folder / ACCEPTED_FILE)
        self._secured_file = CountFile(folder / SECURED_FILE)
        self.accepted = PositionCount()
        self.secured = PositionCount()
        self.unneeded = 0
        self.are_known = False
        """Whether counts of an earlier process were read, or this process has written its own."""
        self._marks: deque[tuple[int, int]] = deque()
        """Positions with the number of rows up to each."""

    def read(self) -> None:
        """Read the counts of an earlier process.

        Raises OSError.
        """
        found = [counts for counts in (self._accepted_file.read(), self._secured_file.read()) if counts is not None]
        self.are_known = bool(found)
        # Counts only grow, so the larger is the newer.
        self.accepted = max((one.accepted for one in found), default=PositionCount())
        self.secured = max((one.secured for one in found), default=PositionCount())
        self.unneeded = max((one.unneeded for one in found), default=0)

    def prepare(self) -> None:
        """Write the counts of a log before its first files.

        So a log without counts has lost them, and cannot be confused with an empty one.
        """
        if not self.are_known:
            self._note()
            # the counts must be mirrored before the log's description
            self._secured_file.changed()
            self._accepted_file.changed()

    def taken(self, position: int, rows: int) -> None:
        """Count `rows` appended rows, the last ones at `position`."""
        if not self.accepted.position and not self.secured.position:  # the log is new
            self.secured = PositionCount(0, 0)
        self.accepted = PositionCount(position, rows)
        self._note()
        self._mark(position, rows)

    def secure(self, position: int, unneeded: int, at_least: int) -> None:
        """Record that the log is secured up to `position` and not needed up to `unneeded`.

        At least `at_least` rows are secured.
        """
        self.unneeded = unneeded
        rows = max(self.secured.rows, at_least)
        while self._marks and self._marks[0][0] <= position:
            rows = max(rows, self._marks.popleft()[1])
        self._note_secured(position, rows)

    def missing(self, segments: Sequence[Segment], last: RecoveredSegment | None) -> MissingRows | None:
        """Compare the `segments` with `last`, the counts that were stored last.

        Return the missing rows, or None if too little is known.
        """
        accepted, secured = self.accepted, self.secured
        # a version without row counts wrote the log: guessing would report losses that never happened
        if UNKNOWN in (accepted.rows, secured.rows):
            return None
        # everything was secured, so segments may have been deleted
        if secured.position >= accepted.position:
            return MissingRows()
        kept = secured.rows
        if not segments or last is None:
            return MissingRows(behind=max(0, accepted.rows - kept))
        first, end = segments[0].header, segments[-1].header
        # each header has the count of all rows before its segment, so a missing file shows as a gap between counts
        before = max(0, first.rows_before - kept)
        behind = accepted.rows - max(kept, end.rows_before + last.rows - last.rows_after) - last.rows_after
        return MissingRows(before, max(0, behind))

    def begin(self, segments: Sequence[Segment], last: RecoveredSegment | None, secured: int, rows: int) -> None:
        """Start from the recovered `segments`, secured up to that position, and continue counting from `rows`."""
        self._marks.clear()
        kept = rows
        if segments and last is not None:
            end = segments[-1].header
            kept = segments[0].header.rows_before
            if last.last_position <= secured:
                kept = rows
            elif end.first_position <= secured + 1:
                kept = max(kept, end.rows_before + last.rows - last.rows_after)
            else:
                known = self.secured.rows if self.secured.rows <= end.rows_before else 0
                kept = max(kept, known)
            for segment in segments[1:]:
                self._mark(segment.header.first_position - 1, segment.header.rows_before)
            for position, before in last.positions:
                self._mark(position, end.rows_before + before)
        position = max(self.accepted.position, last.last_position if last is not None else 0, secured)
        self.accepted = PositionCount(position, rows)
        self._note_secured(secured, kept)

    def close(self) -> None:
        """Close the files."""
        self._accepted_file.close()
        self._secured_file.close()

    def _note_secured(self, position: int, rows: int) -> None:
        self.secured = PositionCount(position, rows)
        self._note()

    def _note(self) -> None:
        counts = StoredCounts(self.accepted, self.secured, self.unneeded)
        self._secured_file.note(counts)
        self._accepted_file.note(counts)
        self.are_known = True

    def _mark(self, position: int, rows: int) -> None:
        self._marks.append((position, rows))
        if len(self._marks) > MOST_MARKS:  # older positions are kept more coarsely
            marks = list(self._marks)
            half = len(marks) // 2
            self._marks = deque([*marks[:half:2], *marks[half:]])
