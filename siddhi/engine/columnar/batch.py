"""Batches of rows in an app.

Columns are Arrow or numpy, whichever is available; each row also has the engine's metadata.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from siddhi.engine.columnar.column import Column, mask_or_none
from siddhi.engine.columnar.kinds import EXPIRED
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int8Array, Int64Array, filled
from siddhi.language.ast import AttributeType

_CURRENT_KINDS: Int8Array = np.zeros(8_192, dtype=np.int8)
"""Arrays of kinds of current rows, by size."""


class EventBatch:
    """`size` rows, in the order in which an engine that processes one event at a time would produce them.

    `timestamps` int64 ms; `kinds` int8 (`siddhi.engine.columnar.kinds`). `orders` int64, non-decreasing: the position
    of the row's cause in the step. Rows caused by root chunk i (counted over the whole step) have order 2i + 1, rows
    caused by a timer that fires before root chunk i have order 2i. `clocks` int64 ms, non-decreasing: the app's clock
    when the row was produced. Rows of several producers are merged by (order, clock), and ties by the position of the
    producer. `chunks` int64, non-decreasing, or None: rows with the same number form one chunk (Siddhi's aggregates
    output one row per chunk); None means that every row is its own chunk. The numbers are local to the batch.
    `deliveries` int64, non-decreasing, or None: chunks with the same number are selected one by one but leave the query
    as one chunk (a join's rows for one chunk of events, the matches that one event completes); None leaves chunks as
    they are. `partitions` int64 or None: the dense id of the partition instance that each row belongs to. `units`
    int64, non-decreasing, or None: rows with the same number fail together; None means that rows of one chunk do. If
    `whole_units` is set and one row of a unit fails, the whole unit is dropped, even if it came in several chunks.
    `only_current`: every row is known to be current, and `kinds` need not be read. `columns` by name; several inputs
    (joins, patterns) name theirs with `siddhi.engine.operators.base.scope.slot_column`.

    Batches and their arrays are immutable. Derived columns are lazy: rows taken from another batch fetch their orders,
    clocks and kinds from there on first use.
    """

    __slots__ = (
        "_clocks",
        "_kinds",
        "_orders",
        "_origin",
        "chunks",
        "columns",
        "deliveries",
        "only_current",
        "partitions",
        "size",
        "timestamps",
        "units",
        "whole_units",
    )

    def __init__(
        self,
        timestamps: Int64Array,
        kinds: Int8Array | None,
        orders: Int64Array | None,
        clocks: Int64Array | None,
        columns: Mapping[str, Column],
        chunks: Int64Array | None = None,
        partitions: Int64Array | None = None,
        deliveries: Int64Array | None = None,
        only_current: bool = False,
        origin: tuple[EventBatch, Int64Array] | None = None,
    ) -> None:
        """Create a batch.

        `kinds` may be None when `only_current`; kinds, orders and clocks may be None when `origin` is a batch and the
        positions of the rows in it.
        """
        self.size = len(timestamps)
        self.timestamps = timestamps
        self._kinds = kinds
        self._orders = orders
        self._clocks = clocks
        self._origin = origin
        self.columns = columns
        self.chunks = chunks
        self.partitions = partitions
        self.deliveries = deliveries
        self.only_current = only_current
        self.units: Int64Array | None = None
        self.whole_units = False

    @property
    def kinds(self) -> Int8Array:
        """The kind of each row: current, expired or reset."""
        kinds = self._kinds
        if kinds is None:
            kinds = self._kinds = self._current() if self.only_current else self._from_origin("kinds")
        return kinds

    @property
    def orders(self) -> Int64Array:
        """The place of each row's cause within the step, non-decreasing."""
        orders = self._orders
        if orders is None:
            orders = self._orders = self._from_origin("orders")
        return orders

    @property
    def clocks(self) -> Int64Array:
        """The app's clock at each row, in ms."""
        clocks = self._clocks
        if clocks is None:
            clocks = self._clocks = self._from_origin("clocks")
        return clocks

    def _current(self) -> Int8Array:
        size = self.size
        return _CURRENT_KINDS[:size] if size <= len(_CURRENT_KINDS) else np.zeros(size, dtype=np.int8)

    def _from_origin(self, name: str) -> AnyArray:
        if self._origin is None:
            raise AssertionError(f"a batch was made without {name}")
        batch, positions = self._origin
        taken: AnyArray = getattr(batch, name)[positions]
        return taken

    def take(self, positions: Int64Array, names: Iterable[str] | None = None) -> EventBatch:
        """Return the rows at `positions` (ascending, so that orders stay in order), with the columns `names` or all."""
        columns = self.columns
        taken = EventBatch(
            self.timestamps[positions],
            None,
            None,
            None,
            {name: columns[name].take(positions) for name in (columns if names is None else names)},
            None if self.chunks is None else self.chunks[positions],
            None if self.partitions is None else self.partitions[positions],
            None if self.deliveries is None else self.deliveries[positions],
            only_current=self.only_current,
            origin=(self, positions),
        )
        if self.units is not None:
            taken.units, taken.whole_units = self.units[positions], self.whole_units
        return taken

    def slice(self, start: int, stop: int) -> EventBatch:
        """Return the rows from `start` up to `stop`."""
        return self.take(np.arange(start, stop))

    def with_columns(self, columns: Mapping[str, Column]) -> EventBatch:
        """Return the same rows with other columns."""
        copy = EventBatch(
            self.timestamps,
            self._kinds,
            self._orders,
            self._clocks,
            columns,
            self.chunks,
            self.partitions,
            self.deliveries,
            self.only_current,
            self._origin,
        )
        copy.units, copy.whole_units = self.units, self.whole_units
        return copy

    def with_kinds(self, kinds: Int8Array) -> EventBatch:
        """Return the same rows with other kinds."""
        copy = self.with_columns(self.columns)
        copy._kinds = kinds
        copy.only_current = False
        return copy

    def as_current(self) -> EventBatch:
        """Return the same rows as current ones."""
        copy = self.with_columns(self.columns)
        copy._kinds = None
        copy.only_current = True
        return copy

    def with_timestamps(self, timestamps: Int64Array) -> EventBatch:
        """Return the same rows with other timestamps."""
        copy = self.with_columns(self.columns)
        copy.timestamps = timestamps
        return copy

    def with_chunks(self, chunks: Int64Array | None, deliveries: Int64Array | None = None) -> EventBatch:
        """Return the same rows in other chunks and deliveries."""
        copy = self.with_columns(self.columns)
        copy.chunks = chunks
        copy.deliveries = deliveries
        return copy

    def with_units(self, units: Int64Array | None, *, whole: bool = False) -> EventBatch:
        """Return the same rows, with units that fail together."""
        copy = self.with_columns(self.columns)
        copy.units, copy.whole_units = units, whole
        return copy

    def with_partitions(self, partitions: Int64Array | None) -> EventBatch:
        """Return the same rows in other partition instances."""
        copy = self.with_columns(self.columns)
        copy.partitions = partitions
        return copy

    def with_orders(self, orders: Int64Array) -> EventBatch:
        """Return the same rows with other orders."""
        copy = self.with_columns(self.columns)
        copy._orders = orders
        return copy

    def at_order(self, order: int) -> EventBatch:
        """Return the same rows, all of the order `order`."""
        copy = self.with_columns(self.columns)
        copy._orders = filled(self.size, order)
        return copy

    def event_rows(self) -> BoolArray | None:
        """Return the positions of rows that are events, current or expired, not resets or timers; None if all are."""
        return None if self.only_current else mask_or_none(self.kinds <= EXPIRED)

    def chunk_ids(self) -> Int64Array:
        """Return `chunks`, with the row numbers in place of None."""
        return np.arange(self.size) if self.chunks is None else self.chunks

    @staticmethod
    def concat(batches: Sequence[EventBatch]) -> EventBatch:
        """Return the rows of `batches` one after the other, with their chunks kept separate.

        At least one batch is required, and all have the same columns.
        """
        if len(batches) == 1:
            return batches[0]
        chunks = None
        if any(batch.chunks is not None for batch in batches):
            chunks = _apart([batch.chunk_ids() for batch in batches])
        deliveries = None
        if any(batch.deliveries is not None for batch in batches):
            deliveries = _apart(
                [batch.chunk_ids() if batch.deliveries is None else batch.deliveries for batch in batches]
            )
        partitions = None
        if all(batch.partitions is not None for batch in batches):
            partitions = np.concatenate([batch.partitions for batch in batches if batch.partitions is not None])
        whole = EventBatch(
            np.concatenate([batch.timestamps for batch in batches]),
            np.concatenate([batch.kinds for batch in batches]),
            np.concatenate([batch.orders for batch in batches]),
            np.concatenate([batch.clocks for batch in batches]),
            {name: Column.concat([batch.columns[name] for batch in batches]) for name in batches[0].columns},
            chunks,
            partitions,
            deliveries,
            only_current=all(batch.only_current for batch in batches),
        )
        if any(batch.units is not None for batch in batches):
            whole.whole_units = any(batch.whole_units for batch in batches)
            whole.units = _apart([batch.chunk_ids() if batch.units is None else batch.units for batch in batches])
        return whole


def _apart(numbers: Sequence[Int64Array]) -> Int64Array:
    """Concatenate arrays of non-decreasing numbers, shifting each above the previous one."""
    parts, above = [], 0
    for line in numbers:
        if len(line):
            parts.append(line - int(line[0]) + above)
            above += int(line[-1]) - int(line[0]) + 1
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def empty_batch(attributes: tuple[tuple[str, AttributeType], ...], pool: StringPool) -> EventBatch:
    """Return a batch of no rows with the columns `attributes`."""
    none = np.zeros(0, dtype=np.int64)
    columns: Mapping[str, Column] = {name: Column.nulls(type_, pool, 0) for name, type_ in attributes}
    return EventBatch(none, np.zeros(0, dtype=np.int8), none, none, columns)


def renumber_chunks(chunks: Int64Array) -> Int64Array:
    """Return the same chunks (equal neighbours stay together), numbered from 0 without gaps."""
    if len(chunks) == 0:
        return chunks
    starts = np.empty(len(chunks), dtype=np.int64)
    starts[0] = 0
    np.cumsum(chunks[1:] != chunks[:-1], out=starts[1:])
    return starts


def split_chunks(batch: EventBatch) -> list[EventBatch]:
    """Return the chunks of `batch`, or larger units that fail together, as separate batches."""
    if batch.size <= 1:
        return [batch] if batch.size else []
    chunks = batch.chunk_ids() if batch.units is None else batch.units
    starts = [0, *(np.flatnonzero(chunks[1:] != chunks[:-1]) + 1).tolist(), batch.size]
    return [batch.slice(start, stop) for start, stop in itertools.pairwise(starts)]
