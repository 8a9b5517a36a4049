"""Record batches from outside as batches of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from siddhi.engine.arrays import Int64Array, filled
from siddhi.engine.batch import ARROW_TYPES, TIMESTAMP, Column, EventBatch
from siddhi.engine.strings import StringPool
from siddhi.errors import Problem, SiddhiRuntimeError
from siddhi.language.ast import AttributeType


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where a schema has what a stream needs: its attributes as (name, type, place, whether a cast is needed), and
    the timestamps' place, -1 when there are none."""

    schema: pa.Schema
    attributes: tuple[tuple[str, AttributeType, int, bool], ...]
    timestamp: int


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

    def read(self, records: pa.RecordBatch, now_ms: int) -> tuple[dict[str, Column], Int64Array]:
        """The columns of `records` for the attributes of the stream, found by name, and the rows' `_timestamp`, or
        `now_ms` for all when there is none.

        `SiddhiRuntimeError` with code `missing-attribute` or `wrong-type` when one is not there or of another Arrow
        type.
        """
        layout = self._layout_of(records.schema)
        columns = {}
        pool = self._pool
        for name, type_, place, cast in layout.attributes:
            if cast:
                columns[name] = Column(type_, pool, arrow=records.column(place).cast(ARROW_TYPES[type_]))
            else:
                columns[name] = Column(type_, pool, origin=(records, place))
        if layout.timestamp < 0:
            return columns, filled(records.num_rows, now_ms)
        return columns, records.column(layout.timestamp).to_numpy(zero_copy_only=False)

    def _layout_of(self, schema: pa.Schema) -> _Layout:
        layout = self._layout
        if layout is None or not schema.equals(layout.schema):
            attributes = [self._found(schema, name, type_) for name, type_ in self._types.items()]
            layout = self._layout = _Layout(schema, tuple(attributes), schema.get_field_index(TIMESTAMP))
        return layout

    def _found(self, schema: pa.Schema, name: str, type_: AttributeType) -> tuple[str, AttributeType, int, bool]:
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
        return name, type_, place, actual != target


def _castable(actual: pa.DataType, target: pa.DataType) -> bool:
    """True for types that hold the same values as `target` in another form."""
    same_text = pa.types.is_large_string(actual) or pa.types.is_string_view(actual)
    return bool(pa.types.is_null(actual) or pa.types.is_dictionary(actual) or (same_text and target == pa.utf8()))


def root_batch(
    columns: Mapping[str, Column], timestamps: Int64Array, orders: Int64Array, clocks: Int64Array
) -> EventBatch:
    """Events from outside: current rows, each a chunk of its own."""
    return EventBatch(timestamps, None, orders, clocks, columns, only_current=True)
