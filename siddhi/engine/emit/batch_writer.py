"""Convert the engine's batches to record batches for consumers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from siddhi.arrow_types import ARROW_TYPES
from siddhi.column_names import KIND, TIMESTAMP, column_name
from siddhi.engine.arrow_c.write_kernels import (
    ARROW_ARRAY_FIELDS,
    NUMBERS,
    PLAN_BYTES,
    PLAN_FIELDS,
    RELEASE_AT,
    ZEROS,
    write_line,
    write_records,
)
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import numpy_buffer, viewed
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.tuning import MAX_REWRITTEN_BATCH_ROWS
from siddhi.language.ast import AttributeType

_INT8 = pa.int8()
_INT64 = pa.int64()
_import_from_c = pa.RecordBatch._import_from_c


def record_schema(attributes: Mapping[str, AttributeType]) -> pa.Schema:
    """Return the schema of output record batches.

    It has `_timestamp`, `_kind`, then `attributes` in this order, named by `column_name`.
    """
    fields = [pa.field(TIMESTAMP, _INT64, nullable=False), pa.field(KIND, _INT8, nullable=False)]
    return pa.schema(fields + [pa.field(column_name(name), ARROW_TYPES[type_]) for name, type_ in attributes.items()])


class BatchWriter:
    """Creates record batches of one schema, that of `record_schema`."""

    def __init__(self, attributes: Mapping[str, AttributeType], pool: StringPool) -> None:
        """Create the writer of one stream's record batches.

        Args:
            attributes: The names and types of the columns.
            pool: Holds the texts of the app.
        """
        self._pool = pool
        self.schema = record_schema(attributes)
        self._written = AttributeType.OBJECT not in attributes.values()
        self._columns = [
            (name, type_, line * PLAN_BYTES) for line, (name, type_) in enumerate(attributes.items(), start=2)
        ]
        size = len(self.schema)
        self._plan = bytearray(size * PLAN_BYTES)
        self._plan_array: Int64Array = np.frombuffer(self._plan, dtype=np.int64).reshape(size, PLAN_FIELDS)
        self._kinds_vary = True
        """Whether the output may contain other kinds than current, or this is unknown."""
        self._array: Int64Array = np.zeros(ARROW_ARRAY_FIELDS, dtype=np.int64)
        self._array_at = int(self._array.ctypes.data)

    def records(self, batch: EventBatch) -> pa.RecordBatch:
        """Return the rows of `batch`. Raise OverflowError when a column would have 2 GiB of text or more."""
        if not self._written or batch.size > MAX_REWRITTEN_BATCH_ROWS:
            return self._wrapped(batch)
        plan, columns = self._plan, batch.columns
        stamps = numpy_buffer(batch.timestamps)
        write_line(plan, 0, NUMBERS, 8, stamps.address, 0, 0, 0, 0, 0, 0)
        kept = [stamps]
        if not batch.only_current:
            kinds = numpy_buffer(batch.kinds)
            write_line(plan, PLAN_BYTES, NUMBERS, 1, kinds.address, 0, 0, 0, 0, 0, 0)
            kept.append(kinds)
            self._kinds_vary = True
        elif self._kinds_vary:
            write_line(plan, PLAN_BYTES, ZEROS, 1, 0, 0, 0, 0, 0, 0, 0)
            self._kinds_vary = False
        for name, type_, at in self._columns:
            column = columns[name]
            if column.type is not type_:
                raise AssertionError(f"column '{name}' is {column.type.value}, not {type_.value}")
            kept.append(column.describe(plan, at))
        starts, heap = self._pool.memory
        if not write_records(self._plan_array, batch.size, starts, heap, RELEASE_AT, self._array):
            return self._wrapped(batch)
        return _import_from_c(self._array_at, self.schema)

    def _wrapped(self, batch: EventBatch) -> pa.RecordBatch:
        """Return the rows of `batch` in a record batch that shares its memory."""
        columns = [batch.columns[name].to_arrow() for name, _, _ in self._columns]
        lines = [viewed(_INT64, batch.timestamps), viewed(_INT8, batch.kinds)]
        return pa.RecordBatch.from_arrays([*lines, *columns], schema=self.schema)
