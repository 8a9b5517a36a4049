"""A stream inside a running app: its schema, who listens, and what happens to events whose reader failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from siddhi.analysis import model
from siddhi.engine.batch import Column, EventBatch, renumber_chunks
from siddhi.engine.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.strings import StringPool
from siddhi.language.ast import AttributeType

Listener = Callable[[pa.RecordBatch], None]


class Junction:
    """`key` is the stream's id, with `#` or `!` in front for inner and fault streams; `empty` a batch without rows."""

    def __init__(self, key: str, schema: model.Schema, pool: StringPool, on_error: str = "LOG") -> None:
        self.key = key
        self.pool = pool
        self.names = schema.names()
        self.types = dict(schema.attributes)
        self.on_error = on_error
        self.listeners: list[Listener] = []
        self.events = 0
        self.failures = 0
        self.empty = empty_batch(schema.attributes, pool)

    def tell(self, batch: EventBatch) -> None:
        """Counts the events of `batch` and hands them to the listeners."""
        self.events += batch.size
        if self.listeners:
            records = batch.to_arrow(self.names)
            for listener in self.listeners:
                listener(records)


def empty_batch(attributes: tuple[tuple[str, AttributeType], ...], pool: StringPool) -> EventBatch:
    """A batch of no rows with the columns `attributes`."""
    none = np.zeros(0, dtype=np.int64)
    columns: Mapping[str, Column] = {name: Column.nulls(type_, pool, 0) for name, type_ in attributes}
    return EventBatch(none, np.zeros(0, dtype=np.int8), none, none, columns)


def as_inserted(batch: EventBatch) -> EventBatch:
    """The events of a query's output as they arrive in a stream: expired events become current, resets stay behind."""
    if not batch.kinds.any():
        return batch
    resets = batch.kinds == RESET
    if resets.any():
        batch = batch.take(np.flatnonzero(~resets))
    return batch.with_kinds(np.full(batch.size, CURRENT, dtype=np.int8)) if (batch.kinds == EXPIRED).any() else batch


def merge_producers(batches: list[EventBatch]) -> EventBatch:
    """The rows of several producers of one stream in one order: by (order, clock), ties by the place in the list."""
    if len(batches) == 1:
        return batches[0]
    whole = EventBatch.concat(batches)
    place = np.lexsort((whole.clocks, whole.orders))
    merged = whole.take(place)
    if merged.chunks is None:
        return merged
    return EventBatch(
        merged.timestamps,
        merged.kinds,
        merged.orders,
        merged.clocks,
        merged.columns,
        renumber_chunks(merged.chunks),
        merged.partitions,
    )
