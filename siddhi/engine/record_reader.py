"""Reads the few rows of a record batch in one call, by way of Arrow's C data interface.

    records ──exported──▶ ArrowArray ──read_records──▶ block    line 0    line 1    line 2    …   nulls of line 0   …
                                                               times     codes     prices

A column that Arrow wraps and numpy views costs a microsecond or two, whatever it holds: most of the time of an event
that comes alone. Here all columns of which values are known to be wanted are copied into one block of memory, strings
as their codes. Where rows are many, a view is cheaper than a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from siddhi.engine.arrays import BOOL, FLOAT64, INT64, AnyArray, Int64Array
from siddhi.engine.column import DTYPES, Column
from siddhi.engine.read_kernels import FORM, NULLS, PLACE, PLAN_WIDTH, WIDTH
from siddhi.engine.record_kernels import ARROW_ARRAY_FIELDS, BITS, CODES, NUMBERS
from siddhi.engine.strings import StringPool
from siddhi.errors import Problem, SiddhiRuntimeError
from siddhi.language.ast import AttributeType

FEW = 512
"""Up to so many rows are copied."""
_FORMS = {AttributeType.STRING: CODES, AttributeType.BOOL: BITS}


class RecordReader:
    """Reads batches of one schema: the timestamps in column `timestamp` and the attributes `wanted`, each (name, type,
    place of its column), which are of the Arrow type that their type has outside; not objects."""

    def __init__(self, timestamp: int, wanted: Sequence[tuple[str, AttributeType, int]], pool: StringPool) -> None:
        self._pool = pool
        self._wanted = [(name, type_, DTYPES[type_]) for name, type_, _ in wanted]
        self._plan: Int64Array = np.zeros((1 + len(wanted), PLAN_WIDTH), dtype=np.int64)
        self._plan[0, [PLACE, FORM, WIDTH]] = timestamp, NUMBERS, INT64.itemsize
        for line, (_, type_, place) in enumerate(wanted, start=1):
            self._plan[line, [PLACE, FORM, WIDTH]] = place, _FORMS.get(type_, NUMBERS), DTYPES[type_].itemsize
        self._array: Int64Array = np.zeros(ARROW_ARRAY_FIELDS, dtype=np.int64)
        self._array_at = int(self._array.ctypes.data)

    def read(self, records: pa.RecordBatch, rows: int, columns: dict[str, Column]) -> Int64Array:
        """`columns` has the attributes that are wanted; returns the timestamps of `records`."""
        plan, pool = self._plan, self._pool
        lines = len(plan)
        block: Int64Array = np.empty((2 * lines, rows), INT64)
        records._export_to_c(self._array_at)
        nulls = pool.read_records(self._array_at, plan, rows, block)
        reals = block.view(FLOAT64)
        line = 1
        for name, type_, dtype in self._wanted:
            if dtype is FLOAT64:
                values: AnyArray = reals[line]
            else:
                values = block[line] if dtype is INT64 else block[line].view(dtype)[:rows]
            valid = block[lines + line].view(BOOL)[:rows] if nulls and plan[line, NULLS] else None
            columns[name] = Column(type_, pool, values, valid)
            line += 1
        stamps: Int64Array = block[0]
        if nulls and plan[0, NULLS]:
            raise null_timestamp()
        return stamps


def null_timestamp() -> SiddhiRuntimeError:
    """An event without a time came."""
    hint = "leave '_timestamp' out for events that happen as they come"
    return SiddhiRuntimeError(Problem("null-timestamp", "'_timestamp' of an event is null", hint))
