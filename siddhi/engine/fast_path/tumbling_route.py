"""The fast path of events that end no batch.

It runs `siddhi.engine.operators.fused_windows.tumbling` between buffers at fixed addresses.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from siddhi.engine.arrow_c.copy_kernel import REFUSED
from siddhi.engine.fast_path.small_batch import SmallBatch
from siddhi.engine.fast_path.small_batch_route import SmallBatchRoute
from siddhi.engine.operators.fused_windows.fused import NO_NUMBERS
from siddhi.engine.operators.fused_windows.group_table import BY_HASH, HOW
from siddhi.engine.operators.fused_windows.row_rings import Line
from siddhi.engine.operators.fused_windows.tumbling import TumblingSelection
from siddhi.engine.operators.selection.plain_query import PlainTest
from siddhi.engine.streams.clock import AppClock
from siddhi.language.ast import AttributeType


class TumblingRoute(SmallBatchRoute):
    """A route for rows that pass `tests` into the batch in progress in `selection`.

    `lines` gives the attribute of each line (None: the timestamp). Rows that end a batch take the general path.
    """

    def __init__(
        self, selection: TumblingSelection, lines: Sequence[tuple[int, str | None]], tests: Sequence[PlainTest]
    ) -> None:
        super().__init__(SmallBatch(selection.columns, selection.pool, tests))
        self._selection = selection
        few, key = self.few, selection.code_attribute
        self._read = [(line, few.stamps if name is None else few.values[name]) for line, name in lines]
        self._lines: list[Line] = []
        self._keys = few.values[key] if key else NO_NUMBERS

    def cut(self, rows: int) -> None:
        self._lines = [(line, values[:rows], None) for line, values in self._read]

    def take_in(self, rows: int, clock: AppClock) -> int:
        return 0 if self._selection.take_in(self._lines, self._keys, self.few.values, rows) else REFUSED

    def write(self, count: int) -> pa.RecordBatch:
        raise AssertionError(f"{count} results of rows that end no batch")


def tumbling_route(selection: TumblingSelection, tests: Sequence[PlainTest]) -> TumblingRoute | None:
    """Return the fast route of events that pass `tests` into `selection`, None if there is none.

    There is none if a value is computed before it is read, if groups are found by more than the code of a string, or if
    objects are read.
    """
    lines = selection.nodes.attributes()
    if lines is None or selection.groups.state[HOW] == BY_HASH or AttributeType.OBJECT in selection.columns.values():
        return None
    return TumblingRoute(selection, lines, tests)
