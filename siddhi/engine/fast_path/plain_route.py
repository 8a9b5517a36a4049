"""The fast path of a plain query: one loop over the rows of a batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from siddhi.engine.arrow_c.copy_kernel import COLUMN, REFUSED, pass_records
from siddhi.engine.arrow_c.write_kernels import (
    ARROW_ARRAY_FIELDS,
    BITS,
    FORM,
    NUMBERS,
    PLAN_FIELDS,
    RELEASE_AT,
    STRINGS,
    WIDTH,
    ZEROS,
)
from siddhi.engine.columnar.column import DTYPES
from siddhi.engine.emit.batch_writer import record_schema
from siddhi.engine.fast_path.route import Outcome
from siddhi.engine.ingest.batch_reader import RecordLayout
from siddhi.engine.jit.arrays import INT64, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.operators.selection.plain_query import PlainQuery, lines_of
from siddhi.engine.streams.clock import AppClock
from siddhi.engine.tuning import MAX_PLAIN_ROUTE_ROWS, MAX_PLAIN_ROUTE_VALUES, MAX_UNFILTERED_PLAIN_ROUTE_ROWS
from siddhi.language.ast import AttributeType

_FORMS = {AttributeType.STRING: STRINGS, AttributeType.BOOL: BITS}


class PlainRoute:
    """The loop of one plain query, which feeds a stream with the attributes `types`.

    `positions` is scratch space for `MAX_PLAIN_ROUTE_ROWS` numbers.
    """

    strings: frozenset[str] = frozenset()  # copied without a change

    def __init__(self, query: PlainQuery, types: dict[str, AttributeType], positions: Int64Array) -> None:
        self._positions = positions
        self._tested = [test.attribute for test in query.tests]
        self._selected = [query.attributes[name] for name in types]
        self._tests, texts = lines_of(query.tests)
        self._texts: Int64Array = np.frombuffer(texts + b"\0", dtype=np.uint8)
        self._texts_at = address_of(self._texts)
        self._plan: Int64Array = np.zeros((2 + len(types), PLAN_FIELDS), INT64)
        self._plan[0, [FORM, WIDTH]] = NUMBERS, INT64.itemsize
        self._plan[1, [FORM, WIDTH]] = ZEROS, 1
        for line, type_ in zip(self._plan[2:], types.values(), strict=True):
            line[[FORM, WIDTH]] = _FORMS.get(type_, NUMBERS), DTYPES[type_].itemsize
        self._columns: Int64Array = np.full(len(self._plan), -1, INT64)
        self._read: Int64Array = np.zeros(ARROW_ARRAY_FIELDS, INT64)
        self._read_at = address_of(self._read)
        self._written: Int64Array = np.zeros(ARROW_ARRAY_FIELDS, INT64)
        self._written_at = address_of(self._written)
        self._schema = record_schema(types)
        self.most_rows = min(
            MAX_PLAIN_ROUTE_ROWS if query.tests else MAX_UNFILTERED_PLAIN_ROUTE_ROWS,
            MAX_PLAIN_ROUTE_VALUES // len(self._plan),
        )

    def lay_out(self, layout: RecordLayout) -> None:
        """Prepare for batches with the columns of `layout`."""
        places = layout.attributes
        self._tests[:, COLUMN] = [places[name][1] for name in self._tested]
        self._columns[0] = layout.timestamp
        self._columns[2:] = [places[name][1] for name in self._selected]

    def run(self, records: pa.RecordBatch, rows: int, clock: AppClock, *, written: bool) -> Outcome | None:
        """Run the rows as `FastRoute.run` does."""
        records._export_to_c(self._read_at)
        count, latest = pass_records(
            self._read_at, rows, self._tests, self._texts_at, self._plan, self._columns, self._positions,
            RELEASE_AT if written else 0, self._written,
        )  # fmt: skip
        return None if count == REFUSED else (count, latest)

    def give(self) -> pa.RecordBatch:
        """Return the results as `FastRoute.give` does."""
        return pa.RecordBatch._import_from_c(self._written_at, self._schema)
