"""The short cut through an app: where nothing but plain queries follow from a batch, each is one loop over it.

    on the long way    records ─▶ columns ─▶ filter ─▶ columns ─▶ selection ─▶ columns ─▶ records
    by the short cut   records ─────────────────────── one loop ───────────────────────▶ records

Where rows are few, what stands around the loops on the long way takes most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from siddhi.engine.arrays import INT64, Int64Array
from siddhi.engine.bits import address_of
from siddhi.engine.column import DTYPES
from siddhi.engine.inlet import Layout
from siddhi.engine.outlet import record_schema
from siddhi.engine.record_kernels import (
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
from siddhi.engine.shortcuts.kernel import COLUMN, REFUSED, pass_records
from siddhi.engine.shortcuts.plain_query import PlainQuery, lines_of
from siddhi.language.ast import AttributeType

if TYPE_CHECKING:
    from siddhi.engine.junction import Junction
    from siddhi.engine.stage import Stage
    from siddhi.engine.steps import QueryWatch

FEW = 8_192
"""Up to so many rows the short cut is shorter."""
_FEW_UNTESTED = 2_048
"""As `FEW` where all rows pass: a copy of more than these costs more than a look at where they are."""
_MOST_VALUES = 32_768
"""Nor are more values than these copied for a query."""
_MOST_EXPORTS = 256
"""Every query has all columns of a batch exported; with more than so many in all, the long way is shorter."""
_FORMS = {AttributeType.STRING: STRINGS, AttributeType.BOOL: BITS}


class PlainLoop:
    """The loop of one plain query, which feeds a stream with the attributes `types`."""

    def __init__(self, query: PlainQuery, types: dict[str, AttributeType]) -> None:
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
        self.most_rows = min(FEW if query.tests else _FEW_UNTESTED, _MOST_VALUES // len(self._plan))

    def lay_out(self, layout: Layout) -> None:
        """Batches have their columns as `layout` says."""
        places = layout.attributes
        self._tests[:, COLUMN] = [places[name][1] for name in self._tested]
        self._columns[0] = layout.timestamp
        self._columns[2:] = [places[name][1] for name in self._selected]

    def run(
        self, records: pa.RecordBatch, rows: int, positions: Int64Array, *, written: bool
    ) -> tuple[int, int, pa.RecordBatch | None]:
        """(rows that pass, the latest timestamp of all, the rows that pass if there are any and they are to be
        `written`); `REFUSED` in place of their number when `records` has to go the long way. `positions` is scratch
        for `rows` numbers."""
        records._export_to_c(self._read_at)
        count, latest = pass_records(
            self._read_at, rows, self._tests, self._texts_at, self._plan, self._columns, positions,
            RELEASE_AT if written else 0, self._written,
        )  # fmt: skip
        passed = written and count > 0
        return count, latest, pa.RecordBatch._import_from_c(self._written_at, self._schema) if passed else None


@dataclass(frozen=True, slots=True)
class Passed:
    """What came of a batch of so many rows: the latest of their timestamps; for each target how many passed, and these
    if anybody listens."""

    rows: int
    latest: int
    results: list[tuple[Junction, int, pa.RecordBatch | None]]


class ShortCut:
    """Takes batches of the stream at `source` through `stages`, plain queries that each feed another stream of which
    nobody but listeners takes events: `targets`."""

    def __init__(self, source: Junction, stages: Sequence[Stage], targets: Sequence[Junction]) -> None:
        self._source = source
        self._ways = [
            (stage, target, PlainLoop(query, target.types))
            for stage, target in zip(stages, targets, strict=True)
            if (query := stage.node.plain) is not None
        ]
        self._most_rows = min(loop.most_rows for _, _, loop in self._ways)
        self._positions: Int64Array = np.empty(self._most_rows, INT64)
        self._layout: Layout | None = None

    def is_open(self, rows: int) -> bool:
        """Batches of so many rows may go: they are few, and nobody has to be told what is on the way."""
        unheard = not self._source.listeners and not any(stage.is_heard for stage, _, _ in self._ways)
        return unheard and rows <= self._most_rows

    def run(self, records: pa.RecordBatch, rows: int, layout: Layout, watch: QueryWatch | None) -> Passed | None:
        """What comes of `records`, which has `rows` rows, at least one; nobody has been told yet. None when it has to
        go the long way."""
        if layout is not self._layout:
            exported = len(layout.schema) * len(self._ways)
            if layout.casts or layout.timestamp < 0 or exported > _MOST_EXPORTS:
                return None
            for _, _, loop in self._ways:
                loop.lay_out(layout)
            self._layout = layout
        latest, worked_ns = 0, []
        results: list[tuple[Junction, int, pa.RecordBatch | None]] = []
        for _, target, loop in self._ways:
            began_ns = 0 if watch is None else watch.now_ns()
            count, latest, written = loop.run(records, rows, self._positions, written=bool(target.listeners))
            if count == REFUSED:
                return None
            if watch is not None:
                worked_ns.append(watch.now_ns() - began_ns)
            results.append((target, count, written))
        if watch is not None:
            for (stage, _, _), length_ns in zip(self._ways, worked_ns, strict=True):
                watch.worked(stage.node.name, rows, length_ns)
        return Passed(rows, latest, results)

    def tell(self, passed: Passed) -> None:
        """Whoever listens has the results, and all is counted."""
        self._source.events += passed.rows
        for target, count, written in passed.results:
            target.events += count
            if written is not None:
                target.tell_written(written)
