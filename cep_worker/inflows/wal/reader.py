"""Read a log from a position on, across its segments. Unreadable records are skipped and counted."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence

from cep_worker.inflows.wal.segment import Segment
from cep_worker.storage.records import (
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    DamagedRecord,
    StoredRecord,
    missing_bytes,
    scan,
)

logger = logging.getLogger(__name__)

CHUNK_BYTES = 262_144


class LogReader:
    """Reads the records after the position `after`, in order, each once.

    Belongs to the log's thread.

    `segments` returns the current segments of the log, which may grow and lose its oldest ones meanwhile. `lost` is
    called with the number of missing rows, their place, and the position of the next record, 0 if the end of a file is
    missing. Raises OSError if an existing file cannot be opened.
    """

    def __init__(
        self,
        segments: Callable[[], Sequence[Segment]],
        after: int,
        lost: Callable[[int, str, int], None],
        rows_to_after: int = 0,
    ) -> None:
        """Start after `after`; at least `rows_to_after` rows precede it."""
        self._segments = segments
        self._after = after
        self._lost = lost
        self._segment: Segment | None = None
        self._descriptor: int | None = None
        self._seed = 0
        self._offset = 0
        self._rows = 0
        """Rows of the current segment that were read, skipped or reported as lost."""
        self._start = after
        self._rows_to_start = rows_to_after
        self._skipped = 0
        """Those of them up to `after`."""
        self._prepared: list[StoredRecord] = []

    def rows_left(self, rows_ever: int) -> int:
        """Return the number of remaining rows of a log to which `rows_ever` were appended since its beginning."""
        if not self._prepared:
            self._prepared = self.read()
        if self._segment is None:
            return 0
        done = self._segment.header.rows_before + self._rows
        return rows_ever - done + sum(record.rows for record in self._prepared)

    def read(self) -> list[StoredRecord]:
        """Return the next records, one chunk at most; none at the end of the log."""
        if self._prepared:
            held, self._prepared = self._prepared, []
            return held
        while self._segment is not None or self._enter(self._first()):
            records = self._chunk()
            # a segment may begin before `after`, and a record may only repeat origins
            wanted = [record for record in records or () if record.position > self._after]
            if wanted:
                self._after = wanted[-1].position
                return wanted
            if records is None and not self._enter(self._following()):
                break
        return []

    def records(self) -> Iterator[StoredRecord]:
        """Return all remaining records."""
        while records := self.read():
            yield from records

    def close(self) -> None:
        """Close the file. Records that were read can still be used."""
        if self._descriptor is not None and self._segment is not None:
            os.close(self._descriptor)
            self._segment.readers -= 1
        self._descriptor = None

    def _first(self) -> Segment | None:
        """Return the segment with the record after `after`."""
        chosen = None
        for segment in self._segments():
            # the last segment that begins early enough, or the first one if all begin later because the rest is lost
            if chosen is None or segment.header.first_position <= self._after + 1:
                chosen = segment
        return chosen

    def _following(self) -> Segment | None:
        present = self._segment.header.first_position if self._segment is not None else 0
        return next((one for one in self._segments() if one.header.first_position > present), None)

    def _enter(self, segment: Segment | None) -> bool:
        """Continue with `segment`, if it exists.

        Missing rows of the previous segment are lost.
        """
        if segment is None:
            return False
        if self._segment is not None:
            # missing rows that are no longer needed are not counted as lost
            begin = max(self._segment.header.rows_before + self._skipped, self._rows_to_start)
            missing = segment.header.rows_before - begin - (self._rows - self._skipped)
            if missing > 0:
                self._tell("rows are missing", missing, f"before {segment.header.first_position}")
        # Segments with readers are not recycled, so each is released as soon as the next one is opened.
        self.close()
        self._segment, self._offset, self._rows, self._seed = segment, SEGMENT_HEADER_BYTES, 0, segment.header.seed()
        self._skipped = 0
        try:
            self._descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
            segment.readers += 1
        except FileNotFoundError:
            logger.error("segment is missing: file=%s", segment.path)  # noqa: TRY400 - the text says it all
        return True

    def _chunk(self) -> list[StoredRecord] | None:
        """Return records from the current position on, or None at the end of the segment, which may still grow."""
        segment = self._segment
        if segment is None or self._descriptor is None or self._offset >= segment.size:
            return None
        rest = segment.size - self._offset
        try:
            # in chunks, so that memory is bounded; the rest at once only when damage hides where the next record begins
            found = self._scan(min(CHUNK_BYTES, rest)) or self._scan_large(rest) or self._scan(rest)
        except OSError as error:
            logger.error("segment cannot be read: file=%s reason=%s", segment.path, error.strerror)  # noqa: TRY400 - the text says it all
            found = []
        if not found:
            # only a following segment can prove that nothing is missing and the rest is padding, not damage
            if not self._has_all_rows(segment):
                logger.error("segment damaged: file=%s offset=%d bytes=%d", segment.path, self._offset, rest)
            self._offset = segment.size
        return found

    def _has_all_rows(self, segment: Segment) -> bool:
        """Return whether no record was lost at the end of the file.

        The rest was then not truncated by a crash of the host, and contains zeros or old data of a recycled file.
        """
        following = self._following()
        return following is not None and following.header.rows_before == segment.header.rows_before + self._rows

    def _scan_large(self, rest: int) -> list[StoredRecord]:
        """Return the next record if its header says that it is longer than a chunk."""
        assert self._descriptor is not None  # noqa: S101 - asked by _chunk
        beginning = os.pread(self._descriptor, RECORD_HEADER_BYTES, self._offset)
        length = RECORD_HEADER_BYTES + missing_bytes(memoryview(beginning), 0, self._seed)
        return self._scan(length) if CHUNK_BYTES < length <= rest else []

    def _scan(self, length: int) -> list[StoredRecord]:
        assert self._descriptor is not None  # noqa: S101 - asked by _chunk
        records: list[StoredRecord] = []
        begin = self._offset
        lost = 0
        for found in scan(memoryview(os.pread(self._descriptor, length, begin)), seed=self._seed):
            # the scan continues at the next intact header after damaged records
            self._offset = begin + found.end
            self._rows += found.rows
            if isinstance(found, DamagedRecord):
                lost = found.rows
                logger.error("segment damaged: file=%s offset=%d bytes=%d",
                             self._segment.path if self._segment else "", begin + found.start,
                             found.end - found.start)  # fmt: skip
                continue
            # Reported with the first intact record after the damage, whose position shows whether the lost one was
            # needed.
            if lost and found.position > self._after:
                self._tell(
                    "a record is damaged", lost, self._segment.path.name if self._segment else "", found.position
                )
            lost = 0
            if found.position <= self._start:
                self._skipped = self._rows
            records.append(found)
        return records

    def _tell(self, what: str, rows: int, place: str, position: int = 0) -> None:
        path = self._segment.path if self._segment is not None else ""
        logger.error("accepted events lost, %s: file=%s events=%d", what, path, rows)
        self._lost(rows, place, position)
