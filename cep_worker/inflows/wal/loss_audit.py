"""Count the rows that a log has lost, by comparing its files with the stored counts when it is opened."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from cep_worker.inflows.wal.identity import COUNTED_FORMAT, read_begun
from cep_worker.inflows.wal.row_counts import RowCounts
from cep_worker.inflows.wal.segment import RecoveredSegment, Segment
from cep_worker.storage.losses import Losses
from cep_worker.storage.records import StoredRecord, scan

logger = logging.getLogger(__name__)


class LossAudit:
    """The audit of one opened log with its `segments`, of which `last` was recovered.

    Rows missing within segments, or between two, are counted when they are read.
    """

    def __init__(
        self, folder: Path, segments: Sequence[Segment], last: RecoveredSegment | None, secured: int, losses: Losses
    ) -> None:
        self._folder = folder
        self._segments = segments
        self._last = last
        self._secured = secured
        self._losses = losses

    def count(self, tally: RowCounts, damaged: Sequence[Path], log_format: int) -> None:
        """Count accepted rows that no segment contains; `damaged` files were set aside."""
        missing = tally.missing(self._segments, self._last)
        if missing is None:  # an earlier version wrote the log, or its counts are lost, too
            before = self._losses.rows
            for aside in damaged:
                self._note_quarantined(aside)
            if log_format >= COUNTED_FORMAT and not tally.are_known:
                self._note_uncounted(counted=self._losses.rows > before)
                tally.prepare()
            return
        first = self._segments[0].header.first_position if self._segments else 0
        last = self._last.last_position if self._last is not None else self._secured
        for rows, place in ((missing.before, f"before {first}"), (missing.behind, f"behind {last}")):
            if rows:
                logger.error("accepted events lost, no file of the log has them: folder=%s events=%d place=%s",
                             self._folder, rows, place)  # fmt: skip
                self._losses.note(rows, place)

    def _note_uncounted(self, *, counted: bool) -> None:
        """Count at least one event if the counts are lost together with files or ends of files.

        `counted` says whether missing rows were counted otherwise.
        """
        last = self._last
        is_cut = last is None or last.torn_bytes > 0 or last.damaged_bytes > 0
        logger.error("both counts of a log are lost%s: folder=%s",
                     ", and accepted events: their number is unknown" if is_cut else "", self._folder)  # fmt: skip
        if is_cut and not counted:
            self._losses.note(1, f"with its counts, after {read_begun(self._folder)}")

    def _note_quarantined(self, aside: Path) -> None:
        """Count the known events in a file whose header is damaged."""
        first = [segment.header.first_position for segment in self._segments]
        if first and aside.stem.isdecimal() and first[0] < int(aside.stem) < first[-1]:
            return
        records = (one for one in scan(memoryview(aside.read_bytes())) if isinstance(one, StoredRecord))
        rows = sum(record.rows for record in records if record.position > self._secured)
        if rows:
            logger.error("accepted events lost, their file is damaged: file=%s events=%d", aside, rows)
            self._losses.note(rows, aside.name)
