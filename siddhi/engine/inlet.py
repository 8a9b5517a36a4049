"""Record batches from outside as batches of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from siddhi.engine.arrays import Int64Array, filled
from siddhi.engine.batch import TIMESTAMP, EventBatch
from siddhi.engine.column import ARROW_TYPES, Column
from siddhi.engine.strings import StringPool
from siddhi.errors import Problem, SiddhiRuntimeError
from siddhi.language.ast import AttributeType

_Place = tuple[AttributeType, int, bool]
"""An attribute's type, its place in the batch, and whether its column must be cast."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where a schema has what a stream needs: its attributes, which of them must be cast, and the timestamps' place, -1
    when there are none."""

    schema: pa.Schema
    attributes: Mapping[str, _Place]
    casts: tuple[str, ...]
    timestamp: int


class _RecordColumns(Mapping[str, Column]):
    """The columns of a batch from outside, each made when it is first asked for."""

    __slots__ = ("_made", "_places", "_pool", "_whole")

    def __init__(self, whole: pa.StructArray, places: Mapping[str, _Place], pool: StringPool) -> None:
        self._whole = whole
        self._places = places
        self._pool = pool
        self._made: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        column = self._made.get(name)
        return self.make(name) if column is None else column

    def make(self, name: str) -> Column:
        """The column `name`, made now."""
        type_, place, cast = self._places[name]
        array = self._whole.field(place)
        column = self._made[name] = Column(type_, self._pool, arrow=array.cast(ARROW_TYPES[type_]) if cast else array)
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Inlet:
    """Reads the batches that come from outside for `stream`, whose events enter the app at the junction `key`.

    A schema is looked into once: batch after batch has the same.
    """

    def __init__(self, stream: str, key: str, types: Mapping[str, AttributeType], pool: StringPool) -> None:
        self.stream = stream
        self.key = key
        self._types = types
        self._pool = pool
        self._layout: _Layout | None = None

    def read(self, records: pa.RecordBatch, now_ms: int) -> tuple[Mapping[str, Column], Int64Array]:
        """The columns of `records` for the attributes of the stream, found by name, and the rows' `_timestamp`, or
        `now_ms` for all when there is none.

        `SiddhiRuntimeError` with code `missing-attribute` or `wrong-type` when one is not there or of another Arrow
        type.
        """
        layout = self._layout_of(records.schema)
        whole = records.to_struct_array()  # it makes a column at half the cost
        columns = _RecordColumns(whole, layout.attributes, self._pool)
        for name in layout.casts:  # at once: what cannot be cast is refused before anything has run
            columns.make(name)
        if layout.timestamp < 0:
            return columns, filled(records.num_rows, now_ms)
        return columns, whole.field(layout.timestamp).to_numpy()

    def _layout_of(self, schema: pa.Schema) -> _Layout:
        layout = self._layout
        if layout is None or not schema.equals(layout.schema):
            attributes = {name: self._found(schema, name, type_) for name, type_ in self._types.items()}
            casts = tuple(name for name, (_, _, cast) in attributes.items() if cast)
            layout = self._layout = _Layout(schema, attributes, casts, schema.get_field_index(TIMESTAMP))
        return layout

    def _found(self, schema: pa.Schema, name: str, type_: AttributeType) -> _Place:
        place = schema.get_field_index(name)
        if place < 0:
            raise SiddhiRuntimeError(
                Problem("missing-attribute", f"a batch for stream '{self.stream}' has no attribute '{name}'")
            )
        actual, target = schema.field(place).type, ARROW_TYPES[type_]
        if actual != target and not _castable(actual, target):
            raise SiddhiRuntimeError(
                Problem(
                    "wrong-type",
                    f"attribute '{name}' of a batch for stream '{self.stream}' is {actual}, not {target}",
                    f"'{name}' is defined as {type_.value}",
                )
            )
        return type_, place, actual != target


def _castable(actual: pa.DataType, target: pa.DataType) -> bool:
    """True for types that hold the same values as `target` in another form."""
    same_text = pa.types.is_large_string(actual) or pa.types.is_string_view(actual)
    return bool(pa.types.is_null(actual) or pa.types.is_dictionary(actual) or (same_text and target == pa.utf8()))


def root_batch(
    columns: Mapping[str, Column], timestamps: Int64Array, orders: Int64Array, clocks: Int64Array
) -> EventBatch:
    """Events from outside: current rows, each a chunk of its own."""
    return EventBatch(timestamps, None, orders, clocks, columns, only_current=True)
