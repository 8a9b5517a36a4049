"""The rows of a small batch in reusable memory, and results written from fixed addresses.

    records ──exported──▶ ArrowArray ──read_records──▶ lines: times │ codes │ prices │ …   always in the same places
                                                         ╎
                                                       the loops of a query
                                                         ╎
    records ◀─imported─── ArrowArray ◀──write_records── plan: where the columns of the results lie

Only the output batch is allocated: with a single event, each allocation of a numpy array takes longer than the work on
its value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from siddhi.engine.arrow_c.copy_kernel import COLUMN, REFUSED, passing_records
from siddhi.engine.arrow_c.read_kernels import FORM as READ_FORM
from siddhi.engine.arrow_c.read_kernels import PLACE, PLAN_WIDTH, keep_rows
from siddhi.engine.arrow_c.read_kernels import WIDTH as READ_WIDTH
from siddhi.engine.arrow_c.write_kernels import (
    ARROW_ARRAY_FIELDS,
    BITS,
    CODES,
    FLAGS,
    FORM,
    NUMBERS,
    PLAN_FIELDS,
    POSITIONS,
    RELEASE_AT,
    VALID,
    VALID_BIT,
    VALUES,
    WIDTH,
    ZEROS,
    write_records,
)
from siddhi.engine.columnar.column import DTYPES
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.emit.batch_writer import record_schema
from siddhi.engine.ingest.batch_reader import RecordLayout
from siddhi.engine.jit.arrays import INT64, AnyArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.operators.selection.plain_query import PlainTest, lines_of
from siddhi.engine.tuning import MAX_SMALL_BATCH_ROWS
from siddhi.language.ast import AttributeType

_READ_FORMS = {AttributeType.STRING: CODES, AttributeType.BOOL: BITS}
_WRITTEN_FORMS = {AttributeType.STRING: CODES, AttributeType.BOOL: FLAGS}


class SmallBatch:
    """Timestamps and `attributes` of a few rows that pass `tests`; no attribute is an object.

    `values` has each of them as `Column` does, and `addresses` their addresses; only the first rows belong to the
    batch that was read.
    """

    def __init__(
        self,
        attributes: Mapping[str, AttributeType],
        pool: StringPool,
        tests: Sequence[PlainTest] = (),
        *,
        room: int = MAX_SMALL_BATCH_ROWS,
        more_lines: int = 0,
    ) -> None:
        """Make `room` for rows, and for `more_lines` behind their own in `memory`, which the caller uses."""
        self._pool = pool
        self._room = room
        self._filter = _RowFilter(tests) if tests else None
        self._latest: int | None = None
        self._names = tuple(attributes)
        self.strings = frozenset(name for name, type_ in attributes.items() if type_ is AttributeType.STRING)
        lines = 1 + len(attributes)
        memory: Int64Array = np.zeros((2 * lines + more_lines, room), INT64)
        self.memory = memory
        self._memory: Int64Array = memory.reshape(-1)
        self._plan: Int64Array = np.zeros((lines, PLAN_WIDTH), INT64)
        self._plan[0, [READ_FORM, READ_WIDTH]] = NUMBERS, INT64.itemsize
        self.stamps: Int64Array = memory[0]
        self.stamps_at = address_of(self._memory)
        self.values: dict[str, AnyArray] = {}
        self.addresses: dict[str, int] = {}
        for line, (name, type_) in enumerate(attributes.items(), start=1):
            self._plan[line, [READ_FORM, READ_WIDTH]] = _READ_FORMS.get(type_, NUMBERS), DTYPES[type_].itemsize
            self.values[name] = memory[line].view(DTYPES[type_])
            self.addresses[name] = address_of(memory[line])
        self._array: Int64Array = np.zeros(ARROW_ARRAY_FIELDS, INT64)
        self._array_at = address_of(self._array)

    def lay_out(self, layout: RecordLayout) -> None:
        """Prepare for batches with the columns of `layout`, which has timestamps and needs no casts."""
        self._plan[0, PLACE] = layout.timestamp
        self._plan[1:, PLACE] = [layout.attributes[name][1] for name in self._names]
        if self._filter is not None:
            self._filter.lay_out(layout)

    def read(self, records: pa.RecordBatch, rows: int) -> int:
        """Read the `rows` rows of `records`, keep those that pass, and return their number.

        Return `REFUSED` when a value other than a string is null, or when some rows pass and timestamps do not ascend.
        """
        records._export_to_c(self._array_at)
        count = rows
        if self._filter is not None:
            count, self._latest = self._filter.passing(self._array_at, rows)
            if count <= 0:
                return count
        nulls = self._pool.read_records(self._array_at, self._plan, rows, self._memory, 0, self._room)
        if nulls:
            return REFUSED
        if self._filter is not None and count < rows and not self.keep(self._filter.positions, count, rows):
            return REFUSED
        return count

    def code(self, text: str) -> int:
        """Return the code of `text` in the pool of the app."""
        return self._pool.code(text)

    def keep(self, positions: Int64Array, count: int, rows: int) -> bool:
        """Keep the first `count` of `positions`, which ascend, of `rows` rows.

        Return False without a change when timestamps do not ascend.
        """
        kept: bool = keep_rows(self._memory, self._room, self._plan, rows, positions, count)
        return kept

    def latest(self, rows: int) -> int:
        """Return the greatest timestamp of the `rows` input rows, whether they pass or not."""
        if self._latest is not None:
            return self._latest
        return self.stamps.item(0) if rows == 1 else int(self.stamps[:rows].max())


class _RowFilter:
    """Finds the rows that pass `tests` before they are read, and stores their `positions`."""

    def __init__(self, tests: Sequence[PlainTest]) -> None:
        self._attributes = [test.attribute for test in tests]
        self._tests, texts = lines_of(tests)
        self._texts: AnyArray = np.frombuffer(texts + b"\0", dtype=np.uint8)
        self._texts_at = address_of(self._texts)
        self._stamps = 0
        self.positions: Int64Array = np.empty(MAX_SMALL_BATCH_ROWS, INT64)

    def lay_out(self, layout: RecordLayout) -> None:
        self._tests[:, COLUMN] = [layout.attributes[name][1] for name in self._attributes]
        self._stamps = layout.timestamp

    def passing(self, array_at: int, rows: int) -> tuple[int, int]:
        """Return the result of `passing_records` for these rows."""
        told: tuple[int, int] = passing_records(
            array_at, rows, self._tests, self._texts_at, self._stamps, self.positions
        )
        return told


class SmallBatchResults:
    """A writer of rows with the attributes `types`, none of which is an object.

    The addresses of the columns are set once for all batches: the address of the values and, if only some of them are
    output, that of their positions. All rows are current.
    """

    def __init__(self, types: Mapping[str, AttributeType], pool: StringPool) -> None:
        self._pool = pool
        self._schema = record_schema(types)
        self._plan: Int64Array = np.zeros((2 + len(types), PLAN_FIELDS), INT64)
        self._lines: dict[str, Int64Array] = dict(zip(types, self._plan[2:], strict=True))
        self._plan[0, [FORM, WIDTH]] = NUMBERS, INT64.itemsize
        self._plan[1, [FORM, WIDTH]] = ZEROS, 1
        self._plan[:, VALID_BIT] = -1
        for line, type_ in zip(self._plan[2:], types.values(), strict=True):
            line[[FORM, WIDTH]] = _WRITTEN_FORMS.get(type_, NUMBERS), DTYPES[type_].itemsize
        self._array: Int64Array = np.zeros(ARROW_ARRAY_FIELDS, INT64)
        self._array_at = address_of(self._array)

    def set_timestamps(self, address: int, positions_at: int = 0) -> None:
        """Set the address of the timestamps and, as for other values, that of the positions of the emitted rows."""
        self._plan[0, VALUES], self._plan[0, POSITIONS] = address, positions_at

    def set_values(self, name: str, address: int, valid_at: int = 0, positions_at: int = 0) -> None:
        """Set the addresses of the values of `name`.

        `valid_at` is the address of the validity bytes (0: no nulls), `positions_at` that of the positions of the
        emitted rows (0: the first rows).
        """
        line = self._lines[name]
        line[VALUES], line[VALID], line[POSITIONS] = address, valid_at, positions_at  # one by one: four times as fast

    def write(self, count: int) -> pa.RecordBatch:
        """Return the first `count` rows. Raise OverflowError when a column would have 2 GiB of text or more."""
        starts, heap = self._pool.memory
        if not write_records(self._plan, count, starts, heap, RELEASE_AT, self._array):
            raise OverflowError(f"{count} results have too much text for one column, or there is no memory for them")
        return pa.RecordBatch._import_from_c(self._array_at, self._schema)
