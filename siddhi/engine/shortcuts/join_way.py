"""The short way of events that come to one side of a join of two queues: `siddhi.engine.joins.sliding` between lines
that always lie in the same places. What leaves is written from where the windows hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from siddhi.engine.arrays import INT64, AnyArray, Int64Array
from siddhi.engine.bits import address_of
from siddhi.engine.clocks import root_orders
from siddhi.engine.inlet import Layout
from siddhi.engine.joins.join import JoinOperator
from siddhi.engine.joins.queues import OUT_TIMESTAMP, PAIR_LINES
from siddhi.engine.joins.side import Side
from siddhi.engine.joins.sliding import SlidingJoin
from siddhi.engine.shortcuts.few_rows import MOST, FewResults, FewRows
from siddhi.engine.shortcuts.kernel import REFUSED
from siddhi.engine.shortcuts.plain_query import PlainTest
from siddhi.engine.shortcuts.way import Outcome
from siddhi.engine.windows.emission import new_emission
from siddhi.engine.windows.length import LengthWindow
from siddhi.language.ast import AttributeType

_BOTH_FIRST = True, True
"""Nothing comes to the other side, so that it does not matter which goes first."""


class JoinWay:
    """Takes rows to the side `slot` of `join`, whose pairs leave as they are for a stream with the attributes `types`;
    the codes of the attribute `key` are the keys of the rows, and only those that pass `tests` come to it."""

    most_rows = MOST

    def __init__(
        self,
        join: SlidingJoin,
        slot: int,
        key: str,
        types: Mapping[str, AttributeType],
        tests: Sequence[PlainTest],
    ) -> None:
        side = join.flows[slot].side
        self._join = join
        self._slot = slot
        few = self._few = FewRows(side.types, side.pool, tests)
        self._keys: Int64Array = few.values[key]
        self._stamps = few.stamps
        self._values: list[tuple[str, AnyArray]] = []
        self._cut_at = 0
        self._emission = new_emission(3 * MOST)
        self._results = FewResults(types, side.pool)
        self._known: tuple[int, ...] | None = None
        self._make_room(4 * MOST)

    def _make_room(self, pairs: int) -> None:
        """There is room for so many pairs at a time."""
        self._out: Int64Array = np.zeros((PAIR_LINES, pairs), INT64)
        self._results.stamps_lie(address_of(self._out[OUT_TIMESTAMP]))
        self._known = None

    def lay_out(self, layout: Layout) -> None:
        """As `Way.lay_out`."""
        self._few.lay_out(layout)

    def run(self, records: pa.RecordBatch, rows: int, clock: int, *, written: bool) -> Outcome | None:
        """As `Way.run`: a batch with nulls that are no strings goes the long way, and so does one that comes when the
        join has to catch up with its windows."""
        join, few = self._join, self._few
        if join.behind:
            return None
        passed = few.read(records, rows)
        if passed != rows:
            return None if passed == REFUSED else (0, few.latest(rows), ())
        if rows != self._cut_at:
            self._stamps = few.stamps[:rows]
            self._values = [(name, values[:rows]) for name, values in few.values.items()]
            self._cut_at = rows
        join.take_in_few(self._slot, self._stamps, self._values, self._keys, root_orders(rows), self._emission)
        count, done, _, _ = join.meet(self._out, goes_on=False, left_first=_BOTH_FIRST)
        results = [self._written(count)] if written and count else []
        pairs = count
        while not done:
            if not count:
                self._make_room(2 * self._out.shape[1])
            count, done, _, _ = join.meet(self._out, goes_on=True, left_first=_BOTH_FIRST)
            pairs += count
            if written and count:
                results.append(self._written(count))
        join.flows[self._slot].let_go()
        return pairs, few.latest(rows), results

    def _written(self, count: int) -> pa.RecordBatch:
        """The first `count` pairs."""
        windows = [flow.window for flow in self._join.flows]
        known = tuple(0 if window is None else window.store.moves for window in windows)
        if known != self._known:
            self._find_values()
            self._known = known
        return self._results.write(count)

    def _find_values(self) -> None:
        """The results are written from where the values lie now."""
        for flow in self._join.flows:
            positions_at = address_of(self._out[flow.side.slot])
            for column, name in flow.side.selected:
                if flow.window is not None:
                    store = flow.window.store
                    mask = store.mask(name)
                    valid_at = 0 if mask is None else address_of(mask)
                    self._results.values_lie(column, address_of(store.values(name)), valid_at, positions_at)
                elif flow.side.slot == self._slot:
                    self._results.values_lie(column, self._few.addresses[name], 0, positions_at)


def join_way(
    operator: JoinOperator, slot: int, types: Mapping[str, AttributeType], tests: Sequence[PlainTest]
) -> JoinWay | None:
    """The short way of events that come to the side `slot` of the join `operator` when they pass `tests`; its pairs are
    all that leaves. None when sides
    are no windows of `length` or streams that nothing holds, when equal codes of strings do not make a pair, when one
    event comes to both sides, or when objects are read."""
    join, sides = operator.sliding, operator.sides
    if join is None or not join.gives_all or sides[0].source == sides[1].source or not all(map(_is_queue, sides)):
        return None
    keys = [flow.key for flow in join.flows]
    key = keys[slot]
    if key is None or None in keys or AttributeType.OBJECT in sides[slot].types.values():
        return None
    given = {column for side in sides for column, _ in side.selected}
    if AttributeType.OBJECT in types.values() or given != types.keys():
        return None
    return JoinWay(join, slot, key, types, tests)


def _is_queue(side: Side) -> bool:
    window = side.window
    holds = isinstance(window, LengthWindow) and window.length > 0
    return holds or (window is None and side.bare)
