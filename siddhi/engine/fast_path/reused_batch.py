"""Batches over the lines of a small batch, for expressions that nodes evaluate."""

from __future__ import annotations

from collections.abc import Mapping

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.fast_path.small_batch import SmallBatch
from siddhi.engine.jit.arrays import AnyArray
from siddhi.engine.streams.clock import AppClock
from siddhi.language.ast import AttributeType


class ReusedBatch(EventBatch):
    """The rows of a small batch, which the next batch overwrites: its arrays must not be kept.

    The clock is computed on access.
    """

    __slots__ = ("clock",)
    clock: AppClock

    def _from_origin(self, name: str) -> AnyArray:
        if name != "clocks":
            raise AssertionError(f"rows of a selection by itself have no {name}")
        return self.clock.at_rows(self.timestamps)


class ReusedBatches:
    """Views of the attributes `read` in the lines of `few`, by number of rows."""

    def __init__(self, few: SmallBatch, read: Mapping[str, AttributeType], pool: StringPool) -> None:
        self._columns = {name: (type_, few.values[name], few.addresses[name]) for name, type_ in read.items()}
        self._stamps = few.stamps
        self._pool = pool
        self._batches: dict[int, ReusedBatch] = {}

    def of(self, rows: int, clock: AppClock) -> ReusedBatch:
        """Return the first `rows` rows; `clock` is the app's clock before them."""
        batch = self._batches.get(rows)
        if batch is None:
            columns = {
                name: Column(type_, self._pool, values[:rows], None, None, None, address)
                for name, (type_, values, address) in self._columns.items()
            }
            batch = self._batches[rows] = ReusedBatch(self._stamps[:rows], None, None, None, columns, only_current=True)
        batch.clock, batch._clocks = clock, None
        return batch
