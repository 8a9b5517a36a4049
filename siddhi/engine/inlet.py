"""Record batches from outside as batches of the engine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import ARROW_TYPES, TIMESTAMP, Column, EventBatch
from siddhi.engine.strings import StringPool
from siddhi.errors import Problem, SiddhiRuntimeError
from siddhi.language.ast import AttributeType


def read_columns(
    stream: str, records: pa.RecordBatch, types: Mapping[str, AttributeType], pool: StringPool
) -> dict[str, Column]:
    """The columns of `records` for the attributes `types` of `stream`, found by name.

    `SiddhiRuntimeError` with code `missing-attribute` or `wrong-type` when one is not there or of another Arrow type.
    """
    columns = {}
    schema = records.schema
    for name, type_ in types.items():
        place = schema.get_field_index(name)
        if place < 0:
            raise SiddhiRuntimeError(
                Problem("missing-attribute", f"a batch for stream '{stream}' has no attribute '{name}'")
            )
        array = records.column(place)
        if array.type != ARROW_TYPES[type_]:
            array = _fitting(stream, name, array, type_)
        columns[name] = Column(type_, pool, arrow=array)
    return columns


def _fitting(stream: str, name: str, array: pa.Array, type_: AttributeType) -> pa.Array:
    target = ARROW_TYPES[type_]
    same_text = pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type)
    if pa.types.is_null(array.type) or pa.types.is_dictionary(array.type) or (same_text and target == pa.utf8()):
        return array.cast(target)
    raise SiddhiRuntimeError(
        Problem(
            "wrong-type",
            f"attribute '{name}' of a batch for stream '{stream}' is {array.type}, not {target}",
            f"'{name}' is defined as {type_.value}",
        )
    )


def read_timestamps(records: pa.RecordBatch, now_ms: int) -> Int64Array:
    """The rows' `_timestamp`, or `now_ms` for all when there is none."""
    place = records.schema.get_field_index(TIMESTAMP)
    if place < 0:
        return np.full(records.num_rows, now_ms, dtype=np.int64)
    timestamps: Int64Array = records.column(place).to_numpy(zero_copy_only=False)
    return timestamps


def root_batch(
    columns: Mapping[str, Column], timestamps: Int64Array, orders: Int64Array, clocks: Int64Array
) -> EventBatch:
    """Events from outside: current rows, each a chunk of its own."""
    kinds = np.zeros(len(timestamps), dtype=np.int8)
    return EventBatch(timestamps, kinds, orders, clocks, columns, only_current=True)
