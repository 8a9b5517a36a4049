"""The common parts of routes that read rows into a small batch."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from siddhi.engine.arrow_c.copy_kernel import REFUSED
from siddhi.engine.fast_path.route import Outcome
from siddhi.engine.fast_path.small_batch import SmallBatch
from siddhi.engine.ingest.batch_reader import RecordLayout
from siddhi.engine.streams.clock import AppClock
from siddhi.engine.tuning import MAX_SMALL_BATCH_ROWS


class SmallBatchRoute(ABC):
    """A `FastRoute` for rows that are read into `few`; batches with nulls other than strings take the general path."""

    most_rows = MAX_SMALL_BATCH_ROWS

    def __init__(self, few: SmallBatch) -> None:
        self.few = few
        self.strings = few.strings
        self._cut_at = 0
        self._count = 0

    def lay_out(self, layout: RecordLayout) -> None:
        """Prepare for batches as `FastRoute.lay_out` does."""
        self.few.lay_out(layout)

    def run(self, records: pa.RecordBatch, rows: int, clock: AppClock, *, written: bool) -> Outcome | None:
        """Run the rows as `FastRoute.run` does."""
        few = self.few
        passed = few.read(records, rows)
        if passed <= 0:
            return None if passed == REFUSED else (0, few.latest(rows))
        latest = few.latest(rows)
        if passed != self._cut_at:
            self.cut(passed)
            self._cut_at = passed
        count = self.take_in(passed, clock)
        if count == REFUSED:
            return None
        self._count = count
        if not written or not count:
            self.end()
        return count, latest

    def give(self) -> pa.RecordBatch:
        """Return the results as `FastRoute.give` does."""
        try:
            return self.write(self._count)
        finally:
            self.end()

    @abstractmethod
    def cut(self, rows: int) -> None:
        """Use the first `rows` values of each line for the following batches."""

    @abstractmethod
    def take_in(self, rows: int, clock: AppClock) -> int:
        """Process the rows that were read in the query; return the number of results.

        Return `REFUSED` when they must take the general path: then the state of the query is unchanged.
        """

    @abstractmethod
    def write(self, count: int) -> pa.RecordBatch:
        """Return the `count` results of the processed rows, at least one."""

    def end(self) -> None:  # noqa: B027 - most ways leave nothing behind
        """Discard the results."""
