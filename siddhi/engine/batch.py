"""Rows on their way through an app: columns that are Arrow or numpy, whichever is at hand, and what the engine knows of
each row besides."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from siddhi.engine.arrays import AnyArray, BoolArray, Int8Array, Int64Array, filled
from siddhi.engine.kinds import EXPIRED
from siddhi.engine.strings import NULL_CODE, StringPool, take_strings
from siddhi.language.ast import AttributeType

TIMESTAMP = "_timestamp"
KIND = "_kind"
_CURRENT_KINDS: Int8Array = np.zeros(8_192, dtype=np.int8)
"""The kinds of current rows, cut to size."""
_LEADING_FIELDS = (pa.field(TIMESTAMP, pa.int64(), nullable=False), pa.field(KIND, pa.int8(), nullable=False))

DTYPES: dict[AttributeType, np.dtype[np.generic]] = {
    AttributeType.STRING: np.dtype(np.int64),
    AttributeType.INT: np.dtype(np.int32),
    AttributeType.LONG: np.dtype(np.int64),
    AttributeType.FLOAT: np.dtype(np.float32),
    AttributeType.DOUBLE: np.dtype(np.float64),
    AttributeType.BOOL: np.dtype(np.bool_),
    AttributeType.OBJECT: np.dtype(object),
}
ARROW_TYPES: dict[AttributeType, pa.DataType] = {
    AttributeType.STRING: pa.utf8(),
    AttributeType.INT: pa.int32(),
    AttributeType.LONG: pa.int64(),
    AttributeType.FLOAT: pa.float32(),
    AttributeType.DOUBLE: pa.float64(),
    AttributeType.BOOL: pa.bool_(),
    AttributeType.OBJECT: pa.binary(),
}
"""How attribute types travel outside the engine; an object travels as its JSON text, a set as an array."""
_VIEWED = frozenset({AttributeType.INT, AttributeType.LONG, AttributeType.FLOAT, AttributeType.DOUBLE})
"""The types of which Arrow and numpy hold values alike, but for nulls."""
_INT8 = pa.int8()
_INT64 = pa.int64()


class Column:
    """n values of one attribute type.

    `values` holds numbers and bools in the type's own dtype, strings as int64 codes of `pool`, objects as a numpy
    object array; `valid` is None when no value is null. What a column was made from, Arrow or numpy, is kept, and the
    other form made only when asked for: rows that merely pass by are never decoded.
    """

    __slots__ = ("_arrow", "_valid", "_values", "pool", "type")

    def __init__(
        self,
        type_: AttributeType,
        pool: StringPool,
        *,
        values: AnyArray | None = None,
        valid: BoolArray | None = None,
        arrow: pa.Array | None = None,
    ) -> None:
        self.type = type_
        self.pool = pool
        self._values: Any = values
        self._valid = valid
        self._arrow: Any = arrow

    def __len__(self) -> int:
        return len(self._values) if self._values is not None else len(self._arrow)

    @property
    def values(self) -> AnyArray:
        """The values as numpy; what stands at a null is unspecified (codes: `NULL_CODE`, objects: None)."""
        if self._values is None:
            self._load()
        values: AnyArray = self._values
        return values

    @property
    def valid(self) -> BoolArray | None:
        """True where a value is not null, or None when all are valid."""
        if self._values is None:
            self._load()
        if self._valid is None and self._values is not None:
            if self.type is AttributeType.STRING:
                return _mask_or_none(self._values >= 0)
            if self.type is AttributeType.OBJECT:
                return _mask_or_none(np.array([value is not None for value in self._values], dtype=np.bool_))
        return self._valid

    def _load(self) -> None:
        array = self._arrow
        if self.type is AttributeType.STRING:
            self._values = self.pool.encode(array)
        elif self.type is AttributeType.OBJECT:
            self._values = objects(None if text is None else msgspec.json.decode(text) for text in array.to_pylist())
        elif array.null_count == 0:
            self._values = array.to_numpy(zero_copy_only=False)
        else:
            self._valid = array.is_valid().to_numpy(zero_copy_only=False)
            self._values = array.fill_null(False if self.type is AttributeType.BOOL else 0).to_numpy(
                zero_copy_only=False
            )

    def take(self, positions: Int64Array) -> Column:
        """The column of the values at `positions`, in that order."""
        if self._values is None:
            array = self._arrow
            if len(positions) == 0:
                return Column(self.type, self.pool, arrow=array.slice(0, 0))
            if self.type is AttributeType.STRING:
                return Column(self.type, self.pool, arrow=take_strings(array, positions))
            if self.type not in _VIEWED or array.null_count:
                return Column(self.type, self.pool, arrow=array.take(pa.array(positions)))
            self._load()  # a view without a copy, from which numpy takes much faster than Arrow
        valid = None if self._valid is None else self._valid[positions]
        return Column(self.type, self.pool, values=self._values[positions], valid=valid)

    def to_arrow(self) -> pa.Array:
        """The column as the Arrow type of `ARROW_TYPES`."""
        array = self._arrow
        if array is not None:
            return array
        if self.type is AttributeType.STRING:
            return self.pool.decode(self._values)
        if self.type is AttributeType.OBJECT:
            texts = [None if value is None else msgspec.json.encode(value) for value in self._values]
            return pa.array(texts, pa.binary())
        if self._valid is not None:
            return pa.array(self._values, mask=~self._valid)
        return (
            pa.array(self._values) if self.type is AttributeType.BOOL else _viewed(ARROW_TYPES[self.type], self._values)
        )

    def to_list(self) -> list[object]:
        """The values as Python objects, null as None."""
        if self._values is None:
            self._load()
        if self.type is AttributeType.STRING:
            return list(self.pool.texts(self._values))
        values: list[object] = self._values.tolist()
        if self._valid is None:
            return values
        return [value if valid else None for value, valid in zip(values, self._valid.tolist(), strict=True)]

    @staticmethod
    def of(type_: AttributeType, pool: StringPool, items: Sequence[object]) -> Column:
        """The column of Python values, None as null."""
        if type_ is AttributeType.STRING:
            return Column(type_, pool, values=pool.codes(items))  # type: ignore[arg-type]
        if type_ is AttributeType.OBJECT:
            return Column(type_, pool, values=objects(items))
        valid = np.array([item is not None for item in items], dtype=np.bool_)
        values = np.array([0 if item is None else item for item in items], dtype=DTYPES[type_])
        return Column(type_, pool, values=values, valid=_mask_or_none(valid))

    @staticmethod
    def nulls(type_: AttributeType, pool: StringPool, count: int) -> Column:
        """A column of `count` nulls."""
        if type_ is AttributeType.STRING:
            return Column(type_, pool, values=np.full(count, NULL_CODE, dtype=np.int64))
        if type_ is AttributeType.OBJECT:
            return Column(type_, pool, values=np.full(count, None, dtype=object))
        return Column(type_, pool, values=np.zeros(count, dtype=DTYPES[type_]), valid=np.zeros(count, dtype=np.bool_))

    @staticmethod
    def concat(columns: Sequence[Column]) -> Column:
        """The columns (at least one, all of one type) one after the other."""
        first = columns[0]
        if len(columns) == 1:
            return first
        if all(column._values is None for column in columns):
            return Column(first.type, first.pool, arrow=pa.concat_arrays([column._arrow for column in columns]))
        values = np.concatenate([column.values for column in columns])
        if first.type in (AttributeType.STRING, AttributeType.OBJECT):
            return Column(first.type, first.pool, values=values)
        masks = [column.valid for column in columns]
        if all(mask is None for mask in masks):
            return Column(first.type, first.pool, values=values)
        filled = [
            np.ones(len(column), dtype=np.bool_) if mask is None else mask
            for column, mask in zip(columns, masks, strict=True)
        ]
        return Column(first.type, first.pool, values=values, valid=np.concatenate(filled))


def _viewed(type_: pa.DataType, values: AnyArray) -> pa.Array:
    """The Arrow array of numbers without nulls, over the same memory where that lies in a row."""
    if not values.flags.c_contiguous:
        values = values.copy()
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)])


@functools.lru_cache(maxsize=256)
def _current_kinds(size: int) -> pa.Array:
    """The `_kind` of `size` current rows; kept, as batches of few sizes come again and again."""
    return _viewed(_INT8, np.zeros(size, dtype=np.int8))


def objects(items: Iterable[object]) -> AnyArray:
    """A one-dimensional object array of `items`, whatever they are (lists and sets stay whole)."""
    listed = list(items)
    array = np.empty(len(listed), dtype=object)
    for position, item in enumerate(listed):
        array[position] = item
    return array


def _mask_or_none(mask: BoolArray) -> BoolArray | None:
    return None if mask.all() else mask


class EventBatch:
    """`size` rows in the order in which an engine that takes one event at a time would have seen them.

    `timestamps` int64 ms; `kinds` int8 (`siddhi.engine.kinds`).
    `orders` int64, non-decreasing: the place of the row's cause in the step. What root chunk i (counted over the whole
    step) causes has order 2i + 1, what a timer causes that fires before root chunk i has order 2i.
    `clocks` int64 ms, non-decreasing: the app's clock when the row was made. Rows of several producers are merged by
    (order, clock), ties by the place of the producer.
    `chunks` int64, non-decreasing, or None: rows of one number travel as one chunk (Siddhi's aggregates give one row a
    chunk); None means that every row is a chunk of its own. Numbers mean nothing beyond their batch.
    `deliveries` int64, non-decreasing, or None: chunks of one number, each selected by itself, leave the query together
    as one chunk (a join's rows for one chunk of events, the matches that one event completes); None: as they are.
    `partitions` int64 or None: the dense id of the partition instance that each row belongs to.
    `only_current` True: every row is known to be current, so that nobody has to look at `kinds`.
    `columns` by name; several inputs (joins, patterns) name theirs with `siddhi.engine.scope.slot_column`.

    Batches and their arrays are never changed after they were made. What nobody asks for is not made: rows taken from
    another batch fetch their orders, clocks and kinds from there when these are first needed.
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
        *,
        only_current: bool = False,
        origin: tuple[EventBatch, Int64Array] | None = None,
    ) -> None:
        """`kinds` may be None when `only_current`; kinds, orders and clocks when `origin` is a batch and the positions
        of the rows in it."""
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

    @property
    def kinds(self) -> Int8Array:
        kinds = self._kinds
        if kinds is None:
            kinds = self._kinds = self._current() if self.only_current else self._from_origin("kinds")
        return kinds

    @property
    def orders(self) -> Int64Array:
        orders = self._orders
        if orders is None:
            orders = self._orders = self._from_origin("orders")
        return orders

    @property
    def clocks(self) -> Int64Array:
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
        """The rows at `positions` (ascending, so that orders stay in order), with the columns `names` or all."""
        columns = self.columns
        return EventBatch(
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

    def slice(self, start: int, stop: int) -> EventBatch:
        """The rows from `start` up to `stop`."""
        return self.take(np.arange(start, stop))

    def with_columns(self, columns: Mapping[str, Column]) -> EventBatch:
        """The same rows with other columns."""
        return EventBatch(
            self.timestamps,
            self._kinds,
            self._orders,
            self._clocks,
            columns,
            self.chunks,
            self.partitions,
            self.deliveries,
            only_current=self.only_current,
            origin=self._origin,
        )

    def with_kinds(self, kinds: Int8Array) -> EventBatch:
        """The same rows with other kinds."""
        copy = self.with_columns(self.columns)
        copy._kinds = kinds
        copy.only_current = False
        return copy

    def with_chunks(self, chunks: Int64Array | None, deliveries: Int64Array | None = None) -> EventBatch:
        """The same rows in other chunks and deliveries."""
        copy = self.with_columns(self.columns)
        copy.chunks = chunks
        copy.deliveries = deliveries
        return copy

    def with_partitions(self, partitions: Int64Array | None) -> EventBatch:
        """The same rows in other partition instances."""
        copy = self.with_columns(self.columns)
        copy.partitions = partitions
        return copy

    def with_orders(self, orders: Int64Array) -> EventBatch:
        """The same rows with other orders."""
        copy = self.with_columns(self.columns)
        copy._orders = orders
        return copy

    def at_order(self, order: int) -> EventBatch:
        """The same rows, all of the order `order`."""
        copy = self.with_columns(self.columns)
        copy._orders = filled(self.size, order)
        return copy

    def event_rows(self) -> BoolArray | None:
        """Where rows are events, current or expired, and no marks; None when all are."""
        return None if self.only_current else _mask_or_none(self.kinds <= EXPIRED)

    def chunk_ids(self) -> Int64Array:
        """`chunks`, with the row numbers in place of None."""
        return np.arange(self.size) if self.chunks is None else self.chunks

    def to_arrow(self, names: Iterable[str] | None = None) -> pa.RecordBatch:
        """The record batch that leaves the engine: `_timestamp`, `_kind`, then the columns `names` or all."""
        listed = tuple(self.columns if names is None else names)
        columns = [self.columns[name].to_arrow() for name in listed]
        schema = _outer_schema(listed, tuple([column.type for column in columns]))
        kinds = _current_kinds(self.size) if self.only_current else _viewed(_INT8, self.kinds)
        return pa.RecordBatch.from_arrays([_viewed(_INT64, self.timestamps), kinds, *columns], schema=schema)

    @staticmethod
    def concat(batches: Sequence[EventBatch]) -> EventBatch:
        """The rows of `batches` (at least one, all with the same columns) one after the other, chunks kept apart."""
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
        return EventBatch(
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


@functools.lru_cache(maxsize=1024)
def _outer_schema(names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> pa.Schema:
    """The schema of batches that leave the engine with columns `names`; kept, as making one costs more than a batch."""
    return pa.schema([*_LEADING_FIELDS, *map(pa.field, names, types)])


def _apart(numbers: Sequence[Int64Array]) -> Int64Array:
    """Lines of non-decreasing numbers one after the other, those of later lines above those of earlier ones."""
    parts, above = [], 0
    for line in numbers:
        if len(line):
            parts.append(line - int(line[0]) + above)
            above += int(line[-1]) - int(line[0]) + 1
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def empty_batch(attributes: tuple[tuple[str, AttributeType], ...], pool: StringPool) -> EventBatch:
    """A batch of no rows with the columns `attributes`."""
    none = np.zeros(0, dtype=np.int64)
    columns: Mapping[str, Column] = {name: Column.nulls(type_, pool, 0) for name, type_ in attributes}
    return EventBatch(none, np.zeros(0, dtype=np.int8), none, none, columns)


def renumber_chunks(chunks: Int64Array) -> Int64Array:
    """The same chunks (equal neighbours stay together) numbered from 0 upwards without a gap."""
    if len(chunks) == 0:
        return chunks
    starts = np.empty(len(chunks), dtype=np.int64)
    starts[0] = 0
    np.cumsum(chunks[1:] != chunks[:-1], out=starts[1:])
    return starts
