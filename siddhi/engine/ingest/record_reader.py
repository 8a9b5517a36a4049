"""Read the rows of a small record batch in one call, through Arrow's C data interface.

    records ──exported──▶ ArrowArray ──read_records──▶ memory   … │ times │ codes │ prices │ nulls of each │ (unused) …

Wrapping a column for Arrow and viewing it in numpy costs one or two microseconds, independent of its size, which for a
single event is most of the time. Here, all columns whose values are known to be needed are copied one after another
into memory that is allocated for some hundred events at once, strings as their codes. For many rows, a view is cheaper
than a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from siddhi.engine.arrow_c.read_kernels import FORM, NULLS, PLACE, PLAN_WIDTH, WIDTH
from siddhi.engine.arrow_c.write_kernels import ARROW_ARRAY_FIELDS, BITS, CODES, NUMBERS
from siddhi.engine.columnar.column import DTYPES, Column
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import BOOL, FLOAT64, INT64, AnyArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.tuning import READ_BUFFER_NUMBERS
from siddhi.errors import Problem, SiddhiRuntimeError
from siddhi.language.ast import AttributeType

_FORMS = {AttributeType.STRING: CODES, AttributeType.BOOL: BITS}


class RecordReader:
    """A reader of batches of one schema.

    It reads the timestamps in column `timestamp` and the attributes `wanted`, each (name, type, place of its column),
    which have the Arrow type of their attribute type; objects are excluded.
    """

    def __init__(self, timestamp: int, wanted: Sequence[tuple[str, AttributeType, int]], pool: StringPool) -> None:
        """Create a reader of record batches of one schema.

        Args:
            timestamp: The position of the timestamp column.
            wanted: The name, type and position of each column to read.
            pool: Gets the texts of the events.
        """
        self._pool = pool
        self._wanted = [(name, type_, DTYPES[type_]) for name, type_, _ in wanted]
        self._plan: Int64Array = np.zeros((1 + len(wanted), PLAN_WIDTH), dtype=np.int64)
        self._plan[0, [PLACE, FORM, WIDTH]] = timestamp, NUMBERS, INT64.itemsize
        for line, (_, type_, place) in enumerate(wanted, start=1):
            self._plan[line, [PLACE, FORM, WIDTH]] = place, _FORMS.get(type_, NUMBERS), DTYPES[type_].itemsize
        self._array: Int64Array = np.zeros(ARROW_ARRAY_FIELDS, dtype=np.int64)
        self._array_at = int(self._array.ctypes.data)
        self._new_memory(0)

    def _new_memory(self, least: int) -> None:
        """Allocate memory for at least `least` more numbers.

        Values that were read stay in the previous memory.
        """
        self._memory: Int64Array = np.empty(max(least, READ_BUFFER_NUMBERS), INT64)
        self._reals = self._memory.view(FLOAT64)
        self._memory_at = address_of(self._memory)
        self._used = 0

    def read(self, records: pa.RecordBatch, rows: int, columns: dict[str, Column]) -> Int64Array:
        """Read the `wanted` attributes into `columns`; return the timestamps of `records`."""
        plan, pool = self._plan, self._pool
        masks = len(plan) * rows
        if self._used + 2 * masks > len(self._memory):
            self._new_memory(2 * masks)
        begin, memory, reals, memory_at = self._used, self._memory, self._reals, self._memory_at
        self._used = begin + 2 * masks
        records._export_to_c(self._array_at)
        nulls = pool.read_records(self._array_at, plan, rows, memory, begin, rows)
        place = begin
        for line, (name, type_, dtype) in enumerate(self._wanted, start=1):
            place += rows
            if dtype is FLOAT64:
                values: AnyArray = reals[place : place + rows]
            else:
                values = memory[place : place + rows]
                if dtype is not INT64:
                    values = values.view(dtype)[:rows]
            valid = None
            if nulls and plan[line, NULLS]:
                valid = memory[place + masks : place + masks + rows].view(BOOL)[:rows]
            columns[name] = Column(type_, pool, values, valid, None, None, memory_at + 8 * place)
        if nulls and plan[0, NULLS]:
            raise null_timestamp()
        return memory[begin : begin + rows]


def null_timestamp() -> SiddhiRuntimeError:
    """Return an event without a time came."""
    hint = "leave '_timestamp' out for events that happen as they come"
    return SiddhiRuntimeError(Problem("null-timestamp", "'_timestamp' of an event is null", hint))
