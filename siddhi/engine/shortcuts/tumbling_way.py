"""The short way of events that end no batch: `siddhi.engine.fused.tumbling` between lines that always lie in the same
places."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from siddhi.engine.fused.fused import NO_NUMBERS
from siddhi.engine.fused.group_table import BY_HASH, HOW
from siddhi.engine.fused.held_rows import Line
from siddhi.engine.fused.tumbling import TumblingSelection
from siddhi.engine.inlet import Layout
from siddhi.engine.shortcuts.few_rows import MOST, FewRows
from siddhi.engine.shortcuts.kernel import REFUSED
from siddhi.engine.shortcuts.plain_query import PlainTest
from siddhi.engine.shortcuts.way import Outcome
from siddhi.language.ast import AttributeType


class TumblingWay:
    """Takes rows that pass `tests` into the batch that is in progress in `selection`; `lines` tells from which
    attribute each line that is read comes (None: from the timestamp)."""

    most_rows = MOST

    def __init__(
        self, selection: TumblingSelection, lines: Sequence[tuple[int, str | None]], tests: Sequence[PlainTest]
    ) -> None:
        self._selection = selection
        few = self._few = FewRows(selection.columns, selection.pool, tests)
        self._read = [(line, few.stamps if name is None else few.values[name]) for line, name in lines]
        key = selection.code_attribute
        self._keys = few.values[key] if key else NO_NUMBERS
        self._cut: list[Line] = []
        self._cut_at = 0

    def lay_out(self, layout: Layout) -> None:
        """As `Way.lay_out`."""
        self._few.lay_out(layout)

    def run(self, records: pa.RecordBatch, rows: int, clock: int, *, written: bool) -> Outcome | None:
        """As `Way.run`: a batch that ends one of the window's goes the long way, as does one with nulls that are no
        strings."""
        few = self._few
        passed = few.read(records, rows)
        if passed != rows:
            return None if passed == REFUSED else (0, few.latest(rows), ())
        if rows != self._cut_at:
            self._cut = [(line, values[:rows], None) for line, values in self._read]
            self._cut_at = rows
        if not self._selection.take_in(self._cut, self._keys, few.values, rows):
            return None
        return 0, few.latest(rows), ()


def tumbling_way(selection: TumblingSelection, tests: Sequence[PlainTest]) -> TumblingWay | None:
    """The short way of events that pass `tests` into `selection`; None when what is read is computed, when groups are
    found by more than the code of a string, or when objects are read."""
    lines = selection.nodes.attributes()
    if lines is None or selection.groups.state[HOW] == BY_HASH or AttributeType.OBJECT in selection.columns.values():
        return None
    return TumblingWay(selection, lines, tests)
