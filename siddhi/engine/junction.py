"""A stream inside a running app: its schema, who listens, and what happens to events whose reader failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from siddhi.analysis import model
from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import EventBatch, empty_batch, renumber_chunks
from siddhi.engine.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.outlet import Outlet
from siddhi.engine.strings import StringPool

Listener = Callable[[pa.RecordBatch], None]


class Junction:
    """`key` is the stream's id, with `#` or `!` in front for inner and fault streams; `empty` a batch without rows."""

    def __init__(
        self, key: str, schema: model.Schema, pool: StringPool, on_error: str = "LOG", *, partitioned: bool = False
    ) -> None:
        self.key = key
        self.pool = pool
        self.schema = schema
        self.types = dict(schema.attributes)
        self.redirects = on_error != "LOG"
        """Events that fail go to the fault stream."""
        self.listeners: list[Listener] = []
        self.events = 0
        self.failures = 0
        self._outlet = Outlet(self.types, pool)
        self.empty = empty_batch(schema.attributes, pool)
        if partitioned:
            self.empty = self.empty.with_partitions(np.zeros(0, dtype=np.int64))

    def tell_written(self, records: pa.RecordBatch) -> None:
        """As `tell`, where the batch is written, and counted, already."""
        for listener in self.listeners:
            listener(records)

    def tell(self, batch: EventBatch) -> None:
        """Counts the events of `batch` and hands them to the listeners."""
        self.events += batch.size
        if self.listeners:
            records = self._outlet.records(batch)
            for listener in self.listeners:
                listener(records)


def as_inserted(batch: EventBatch) -> EventBatch:
    """The events of a query's output as they arrive in a stream: expired events become current, resets stay behind."""
    if batch.only_current or not batch.kinds.any():
        return batch
    resets = batch.kinds == RESET
    if resets.any():
        batch = batch.take(np.flatnonzero(~resets))
    return batch.with_kinds(np.full(batch.size, CURRENT, dtype=np.int8)) if (batch.kinds == EXPIRED).any() else batch


def merge_producers(
    batches: list[EventBatch], timer_ranks: Sequence[int] | None = None, ranks: Int64Array | None = None
) -> EventBatch:
    """The rows of several producers of one stream in one order: by (order, clock), ties by the place in the list or by
    the `ranks` of all rows, or, of what timers caused, by `timer_ranks`."""
    if len(batches) == 1:
        return batches[0]
    whole = EventBatch.concat(batches)
    if timer_ranks is not None:
        sizes = [batch.size for batch in batches]
        of_events = np.repeat(np.arange(len(sizes)), sizes) if ranks is None else ranks
        ranks = np.where(whole.orders & 1, of_events, np.repeat(timer_ranks, sizes))
    keys = (whole.clocks, whole.orders) if ranks is None else (ranks, whole.clocks, whole.orders)
    place = np.lexsort(keys)
    merged = whole.take(place)
    if merged.units is not None:
        merged = merged.with_units(renumber_chunks(merged.units), whole=merged.whole_units)
    return merged if merged.chunks is None else merged.with_chunks(renumber_chunks(merged.chunks))
