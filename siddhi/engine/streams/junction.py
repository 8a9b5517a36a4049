"""A stream inside a running app: its schema, its listeners, and the handling of failed events."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch, empty_batch, renumber_chunks
from siddhi.engine.columnar.kinds import RESET
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.emit.batch_writer import BatchWriter
from siddhi.engine.jit.arrays import Int64Array

Listener = Callable[[pa.RecordBatch], None]


class Junction:
    """`key` is the stream's id, with `#` or `!` in front for inner and fault streams; `empty` a batch without rows."""

    def __init__(
        self, key: str, schema: model.Schema, pool: StringPool, on_error: str = "LOG", *, partitioned: bool = False
    ) -> None:
        """Create the junction of one stream.

        Args:
            key: The stream's key within the app.
            schema: Its attributes.
            pool: Holds the texts of the app.
            on_error: The @OnError action of the stream.
            partitioned: Whether rows carry the partition instance that they belong to.
        """
        self.key = key
        self.pool = pool
        self.schema = schema
        self.types = dict(schema.attributes)
        self.redirects = on_error != "LOG"
        """Events that fail go to the fault stream."""
        self.listeners: list[Listener] = []
        self.events = 0
        self.failures = 0
        self._outlet = BatchWriter(self.types, pool)
        self.empty = empty_batch(schema.attributes, pool)
        if partitioned:
            self.empty = self.empty.with_partitions(np.zeros(0, dtype=np.int64))

    def notify_converted(self, records: pa.RecordBatch) -> None:
        """Notify listeners as `tell` does, of a batch that is counted and converted already."""
        for listener in self.listeners:
            listener(records)

    def tell(self, batch: EventBatch) -> None:
        """Count the events of `batch` and pass them to the listeners."""
        self.events += batch.size
        if self.listeners:
            records = self._outlet.records(batch)
            for listener in self.listeners:
                listener(records)


def as_inserted(batch: EventBatch) -> EventBatch:
    """Return the events of a query's output as they arrive in a stream.

    Expired events become current; resets are dropped.
    """
    if batch.only_current or not batch.size:
        return batch
    kinds = batch.kinds
    last = kinds.max()
    if last == RESET:
        batch = batch.take(np.flatnonzero(kinds != RESET))
    return batch.as_current()


def merge_producers(batches: list[EventBatch], ranks: Int64Array | None = None) -> EventBatch:
    """Return the rows of several producers of one stream in one order.

    They are sorted by (order, clock), ties by the `ranks` of all rows, or else by the place in the list.
    """
    if len(batches) == 1:
        return batches[0]
    whole = EventBatch.concat(batches)
    place = _order(whole, ranks)
    merged = whole.take(place)
    if merged.units is not None:
        merged = merged.with_units(renumber_chunks(merged.units), whole=merged.whole_units)
    return merged if merged.chunks is None else merged.with_chunks(renumber_chunks(merged.chunks))


def _order(whole: EventBatch, ranks: Int64Array | None) -> Int64Array:
    """Return the positions of the rows of `whole` in their common order."""
    orders = whole.orders
    if ranks is not None and (orders & 1).all():  # what events cause has the clocks of these
        place: Int64Array = np.argsort(orders * (int(ranks.max()) + 1) + ranks, kind="stable")  # merges lines in order
        return place
    return np.lexsort((whole.clocks, orders) if ranks is None else (ranks, whole.clocks, orders))
