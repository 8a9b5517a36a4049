"""Convert record batches from outside to batches of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from siddhi.arrow_types import ARROW_TYPES
from siddhi.column_names import TIMESTAMP, column_name
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column, viewed_numbers
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.ingest.record_reader import RecordReader, null_timestamp
from siddhi.engine.ingest.string_demand import StringDemand
from siddhi.engine.jit.arrays import Int64Array, filled
from siddhi.engine.tuning import EXPORTED_COLUMNS_PER_READ_COLUMN, MAX_COPIED_READ_ROWS
from siddhi.errors import Problem, SiddhiRuntimeError
from siddhi.language.ast import AttributeType

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values

_NUMBERS = (AttributeType.DOUBLE, AttributeType.LONG, AttributeType.INT, AttributeType.FLOAT)
_Place = tuple[AttributeType, int, bool]
"""An attribute's type, its place in the batch, and whether its column must be cast."""


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The positions in a schema of the columns that a stream needs.

    These are its attributes, with a flag for each that must be cast, and the timestamps, -1 when there are none.
    """

    schema: pa.Schema
    attributes: Mapping[str, _Place]
    casts: tuple[str, ...]
    timestamp: int


class _WatchedColumn(Column):
    """An input column that notifies its inlet once its values are read."""

    __slots__ = ("_inlet", "_name")

    def __init__(
        self, inlet: BatchReader, name: str, type_: AttributeType, array: pa.Array, positions: Int64Array | None = None
    ) -> None:
        self.type = type_  # everything is inline, since calling the other constructor would double the time
        self.pool = inlet.pool
        self._values = self._valid = None
        self._arrow = array
        self._positions = positions
        self._address = 0
        self._inlet = inlet
        self._name = name

    def take(self, positions: Int64Array) -> Column:
        if self._values is not None or (len(positions) == 1 and len(self) == 1):
            return super().take(positions)
        among = positions if self._positions is None else self._positions[positions]
        return _WatchedColumn(self._inlet, self._name, self.type, self._arrow, among)

    def _load(self) -> None:
        self._inlet.asked(self._name, len(self))
        super()._load()


class _RecordColumns(dict[str, Column]):
    """The columns of a batch from outside, each built on first access; `fetch` returns the array at a position.

    A lookup costs no more than in any other dictionary; iteration builds all columns.
    """

    __slots__ = ("_fetch", "_inlet", "_places")

    def __init__(self, fetch: Callable[[int], pa.Array], places: Mapping[str, _Place], inlet: BatchReader) -> None:
        self._fetch = fetch
        self._places = places
        self._inlet = inlet

    def __missing__(self, name: str) -> Column:
        type_, place, cast = self._places[name]
        array = self._fetch(place)
        column = self[name] = self._inlet.column(name, type_, array.cast(ARROW_TYPES[type_]) if cast else array)
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def get(self, name: str, default: Any = None, /) -> Any:
        return self[name] if name in self._places else default

    def keys(self) -> dict_keys[str, Column]:
        self._complete()
        return super().keys()

    def items(self) -> dict_items[str, Column]:
        self._complete()
        return super().items()

    def values(self) -> dict_values[str, Column]:
        self._complete()
        return super().values()

    def make(self, names: Iterable[str]) -> None:
        """Build these columns, which have not been requested before."""
        for name in names:
            self.__missing__(name)

    def _complete(self) -> None:
        """Build all columns in the order of the attributes, since a dictionary's views only show existing items."""
        made = {name: self[name] for name in self._places}
        self.clear()
        self.update(made)


class BatchReader:
    """A reader of the batches from outside for `stream`, whose events enter the app at the junction `key`.

    A schema is inspected once, as all batches of a source have the same. Columns that are used are recorded: with few
    rows all numbers among them are read together from the next batch on. Strings are read together if they are in
    `always_read` (None: all are). Others are read together only while that saves time (`StringDemand`), as strings of
    filtered events should not fill the pool.
    """

    def __init__(
        self,
        stream: str,
        key: str,
        types: Mapping[str, AttributeType],
        pool: StringPool,
        always_read: frozenset[str] | None = None,
    ) -> None:
        """Create the reader of one stream's record batches.

        Args:
            stream: The stream, as errors name it.
            key: The key of the stream within the app.
            types: The names and types of its attributes.
            pool: Receives the texts of the events.
            always_read: The text attributes to read of every row; None reads all of them.
        """
        self.stream = stream
        self.key = key
        self.pool = pool
        behind = () if always_read is None else types.keys() - always_read
        self._lazy = frozenset(name for name in behind if types[name] is AttributeType.STRING)
        self._demand = StringDemand(self._lazy) if self._lazy else None
        self._types = types
        self._layout: RecordLayout | None = None
        self._wanted: dict[str, AttributeType] = {}
        self.coded: frozenset[str] = frozenset()
        """The strings that are read of every row."""
        self._reader: RecordReader | None = None

    def read(self, records: pa.RecordBatch, now_ms: int) -> tuple[Mapping[str, Column], Int64Array]:
        """Return the columns of `records` for the attributes of the stream, and the rows' times.

        Columns are found by name (`column_name`). The times are the rows' `_timestamp`, or `now_ms` for all without
        that column.

        Raise `SiddhiRuntimeError` with code `missing-attribute` or `wrong-type` when a column is missing or has another
        Arrow type, and `null-timestamp` when an event has no time.
        """
        schema, rows = records.schema, records.num_rows
        self.came(rows)
        layout = self._layout
        if layout is None or not schema.equals(layout.schema):
            layout = self._look_into(schema)
        if self._reader is not None and rows <= MAX_COPIED_READ_ROWS:
            columns = _RecordColumns(records.column, layout.attributes, self)
            stamps = self._reader.read(records, rows, columns)
        else:
            whole = records.to_struct_array()  # creates a column at half the cost
            columns = _RecordColumns(whole.field, layout.attributes, self)
            stamps = filled(rows, now_ms) if layout.timestamp < 0 else _stamps(whole.field(layout.timestamp))
        if layout.casts:
            columns.make(layout.casts)  # refuse columns that cannot be cast before anything has run
        return columns, stamps

    def came(self, rows: int) -> None:
        """Count `rows` more rows, read here or elsewhere, and update which strings are read of every row."""
        demand = self._demand
        if demand is not None and demand.came(rows):
            self._follow_demand(demand.in_demand)

    def layout_of(self, schema: pa.Schema) -> RecordLayout:
        """Return the positions of the stream's columns in batches of `schema`.

        The object stays the same as long as the schema does. Errors are those of `read`.
        """
        layout = self._layout
        return layout if layout is not None and schema.equals(layout.schema) else self._look_into(schema)

    def column(self, name: str, type_: AttributeType, array: pa.Array) -> Column:
        """Return the attribute `name`, of `type_`, of a batch in which its column is `array`."""
        if type_ in _NUMBERS:
            self._want(name)  # reading a number together with others is cheaper than passing its array on
        if name in self._wanted:
            return Column(type_, self.pool, None, None, array)
        return _WatchedColumn(self, name, type_, array)

    def asked(self, name: str, rows: int) -> None:
        """Record that the values of the attribute `name` were requested for this many rows."""
        if name not in self._lazy:
            self._want(name)
        elif self._demand is not None:
            self._demand.asked(name, rows)

    def _follow_demand(self, in_demand: frozenset[str]) -> None:
        for name in self._lazy:
            self._wanted.pop(name, None)
        self._wanted.update((name, self._types[name]) for name in in_demand)
        self._choose_reader()

    def _want(self, name: str) -> None:
        """Read the values of the attribute `name` together with others from the next batch on."""
        if name not in self._wanted:
            self._wanted[name] = self._types[name]
            self._choose_reader()

    def _choose_reader(self) -> None:
        """Create a reader for few rows if that is faster.

        Arrow exports all columns, including those that are not needed.
        """
        self.coded = frozenset(name for name, type_ in self._wanted.items() if type_ is AttributeType.STRING)
        self._reader = None
        layout = self._layout
        if layout is None or layout.timestamp < 0:
            return
        places = {name: place for name, (_, place, cast) in layout.attributes.items() if not cast}
        wanted = [
            (name, type_, places[name])
            for name, type_ in self._wanted.items()
            if name in places and type_ is not AttributeType.OBJECT
        ]
        if len(layout.schema) <= EXPORTED_COLUMNS_PER_READ_COLUMN * (len(wanted) - 1):
            self._reader = RecordReader(layout.timestamp, wanted, self.pool)

    def _look_into(self, schema: pa.Schema) -> RecordLayout:
        attributes = {name: self._found(schema, name, type_) for name, type_ in self._types.items()}
        casts = tuple(name for name, (_, _, cast) in attributes.items() if cast)
        timestamp = schema.get_field_index(TIMESTAMP)
        if timestamp >= 0 and schema.field(timestamp).type != pa.int64():
            raise SiddhiRuntimeError(self._wrong_type(TIMESTAMP, schema.field(timestamp).type, pa.int64()))
        self._layout = RecordLayout(schema, attributes, casts, timestamp)
        self._choose_reader()
        return self._layout

    def _found(self, schema: pa.Schema, name: str, type_: AttributeType) -> _Place:
        column = column_name(name)
        place = schema.get_field_index(column)
        if place < 0:
            hint = None if column == name else f"its column is called {column}"
            raise SiddhiRuntimeError(
                Problem("missing-attribute", f"a batch for stream '{self.stream}' has no attribute '{name}'", hint)
            )
        actual, target = schema.field(place).type, ARROW_TYPES[type_]
        if actual != target and not _castable(actual, target):
            raise SiddhiRuntimeError(self._wrong_type(name, actual, target, f"'{name}' is defined as {type_.value}"))
        return type_, place, actual != target

    def _wrong_type(self, name: str, actual: pa.DataType, target: pa.DataType, hint: str | None = None) -> Problem:
        where = f"a batch for stream '{self.stream}'"
        return Problem("wrong-type", f"attribute '{name}' of {where} is {actual}, not {target}", hint)


def _stamps(array: pa.Array) -> Int64Array:
    if array.null_count:
        raise null_timestamp()
    stamps: Int64Array = viewed_numbers(array)
    return stamps


def _castable(actual: pa.DataType, target: pa.DataType) -> bool:
    """Return whether `actual` contains the same values as `target` in another form."""
    if pa.types.is_dictionary(actual):
        return bool(actual.value_type == target) or _castable(actual.value_type, target)
    same_text = pa.types.is_large_string(actual) or pa.types.is_string_view(actual)
    return bool(pa.types.is_null(actual) or (same_text and target == pa.utf8()))


def root_batch(
    columns: Mapping[str, Column], timestamps: Int64Array, orders: Int64Array, clocks: Int64Array
) -> EventBatch:
    """Return events from outside as current rows, each a chunk of its own."""
    return EventBatch(timestamps, None, orders, clocks, columns, None, None, None, True)  # noqa: FBT003 - names cost time
