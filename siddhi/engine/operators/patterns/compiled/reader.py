"""Convert the rows of a step to arrays for the compiled loop."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import NO_POSITIONS, AnyArray, Int64Array
from siddhi.engine.jit.kernels import kernel_array
from siddhi.engine.operators.base.operator import MergedRows, Step
from siddhi.engine.operators.expressions.evaluation import Evaluation
from siddhi.engine.operators.patterns.base.conditions import EventFilter
from siddhi.engine.operators.patterns.compiled.expressions import Feed
from siddhi.engine.operators.patterns.compiled.kernels.memory import Rows
from siddhi.engine.tuning import INITIAL_EVENT_ROOM
from siddhi.language.ast import AttributeType


class RowReader:
    """Reads the batches of the sources into arrays that are reused between steps.

    `feeds` are the values read from each source, `filters` the filters of each element, by place, over the event alone;
    `fed_by` is the source of each place.
    """

    def __init__(self, feeds: Sequence[Feed], filters: Sequence[EventFilter], fed_by: Sequence[int]) -> None:
        self._feeds = feeds
        self._filters = filters
        self._fed_by = fed_by
        self.whole_count = max(len(feed.whole) for feed in feeds)
        self.fraction_count = max(len(feed.fractions) for feed in feeds)
        self._computed = [any(column.node is not None for column in (*f.whole, *f.fractions)) for f in feeds]
        self._make_room(INITIAL_EVENT_ROOM)

    def _make_room(self, count: int) -> None:
        self._nulls: Int64Array = np.zeros(count, dtype=np.int64)
        self._whole: Int64Array = np.zeros((count, self.whole_count), dtype=np.int64)
        self._fractions: AnyArray = np.zeros((count, self.fraction_count), dtype=np.float64)
        self._passing = np.zeros((len(self._filters), count), dtype=np.int8)
        self._skipped = np.zeros(count, dtype=np.int8)
        self._times: Int64Array = np.zeros(count, dtype=np.int64)
        self._instances: Int64Array = np.zeros(count, dtype=np.int64)

    def fill(self, source: int, batch: EventBatch, start: int) -> None:
        """Write the values of the events of `batch` from row `start` on."""
        stop = start + batch.size
        evaluation = Evaluation(batch)
        nulls = self._nulls[start:stop]
        nulls[:] = 0
        feed = self._feeds[source]
        for column in feed.whole:
            column.fill(self._whole[start:stop, column.number], nulls, column.number, batch, evaluation)
        for column in feed.fractions:
            bit = self.whole_count + column.number
            column.fill(self._fractions[start:stop, column.number], nulls, bit, batch, evaluation)

    def values(self, source: int, batch: EventBatch) -> tuple[Int64Array, Int64Array, AnyArray]:
        """Return the nulls, whole numbers and fractions of the events of `batch`."""
        if batch.size > len(self._nulls):
            self._make_room(2 * batch.size)
        self.fill(source, batch, 0)
        return self._nulls[: batch.size], self._whole[: batch.size], self._fractions[: batch.size]

    def read(self, inputs: MergedRows, step: Step) -> Rows:
        """Return the rows of `inputs`, which are valid until the next call."""
        batches = inputs.batches
        offsets = [0, *itertools.accumulate(batch.size for batch in batches)]
        if offsets[-1] > len(self._nulls):
            self._make_room(2 * offsets[-1])
        for source, batch in enumerate(batches):
            if batch.size:
                self._read_batch(source, batch, offsets[source])
        sources, rows = inputs.sources, inputs.rows
        if len(batches) > 1:
            rows = rows + np.array(offsets, dtype=np.int64)[sources]
        opened = NO_OPENED
        if len(step.opened):
            opened = np.stack([step.opened, step.opened_orders, step.opened_clocks]).astype(np.int64)
        return Rows(
            self._times,
            self._instances,
            self._skipped,
            self._nulls,
            self._whole,
            self._fractions,
            self._passing,
            kernel_array(rows),
            kernel_array(sources),
            kernel_array(inputs.orders),
            kernel_array(inputs.clocks),
            kernel_array(step.clocks),
            np.array([step.floor, step.final_order, step.final_clock], dtype=np.int64),
            opened,
            NO_POSITIONS,
        )

    def _read_batch(self, source: int, batch: EventBatch, start: int) -> None:
        stop = start + batch.size
        self._times[start:stop] = batch.timestamps
        self._instances[start:stop] = 0 if batch.partitions is None else batch.partitions
        if batch.only_current:
            self._skipped[start:stop] = 0
        else:
            self._skipped[start:stop] = batch.kinds > EXPIRED
        self.fill(source, batch, start)
        for place, fed_by in enumerate(self._fed_by):
            if fed_by == source:
                condition = self._filters[place]
                self._passing[place, start:stop] = 1 if condition.always else condition.mask(batch)


def null_events(types: Mapping[str, AttributeType], count: int, pool: StringPool) -> EventBatch:
    """Return `count` events with only null attributes."""
    zeros = np.zeros(count, dtype=np.int64)
    columns = {name: Column.nulls(type_, pool, count) for name, type_ in types.items()}
    return EventBatch(zeros, np.full(count, CURRENT, dtype=np.int8), zeros, zeros, columns)


NO_OPENED: Int64Array = np.zeros((3, 0), dtype=np.int64)
