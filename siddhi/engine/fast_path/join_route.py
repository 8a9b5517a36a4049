"""The fast path of events that arrive at one side of a join of two queues.

It runs `siddhi.engine.operators.joins.sliding` between buffers at fixed addresses. Results are written from the
stores of the windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from siddhi.engine.arrow_c.copy_kernel import REFUSED
from siddhi.engine.fast_path.small_batch import SmallBatch, SmallBatchResults
from siddhi.engine.fast_path.small_batch_route import SmallBatchRoute
from siddhi.engine.jit.arrays import INT64, AnyArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.operators.joins.join import JoinOperator
from siddhi.engine.operators.joins.queues import OUT_TIMESTAMP, PAIR_LINES
from siddhi.engine.operators.joins.side import Side
from siddhi.engine.operators.joins.sliding import SlidingJoin
from siddhi.engine.operators.selection.plain_query import PlainTest
from siddhi.engine.operators.windows.base.emission import new_emission
from siddhi.engine.operators.windows.length import LengthWindow
from siddhi.engine.streams.clock import AppClock, root_orders
from siddhi.engine.tuning import MAX_SMALL_BATCH_ROWS
from siddhi.language.ast import AttributeType

_BOTH_FIRST = True, True
"""Nothing arrives at the other side, so the order does not matter."""


class JoinRoute(SmallBatchRoute):
    """A route for rows to the side `slot` of `join`, to a stream with the attributes `types`.

    Its pairs leave unchanged. The codes of the attribute `key` are the keys of the rows, and only rows that pass
    `tests` enter.
    """

    def __init__(
        self,
        join: SlidingJoin,
        slot: int,
        key: str,
        types: Mapping[str, AttributeType],
        tests: Sequence[PlainTest],
    ) -> None:
        side = join.flows[slot].side
        super().__init__(SmallBatch(side.types, side.pool, tests))
        self._join = join
        self._slot = slot
        self._keys: Int64Array = self.few.values[key]
        self._stamps = self.few.stamps
        self._values: list[tuple[str, AnyArray]] = []
        self._emission = new_emission(3 * MAX_SMALL_BATCH_ROWS)
        self._results = SmallBatchResults(types, side.pool)
        self._room: Int64Array = np.zeros((PAIR_LINES, 4 * MAX_SMALL_BATCH_ROWS), INT64)
        self._pairs = self._room
        self._found: tuple[object, ...] | None = None
        """The source of the results: the pairs, and the versions of the windows' memory."""

    def cut(self, rows: int) -> None:
        self._stamps = self.few.stamps[:rows]
        self._values = [(name, values[:rows]) for name, values in self.few.values.items()]

    def take_in(self, rows: int, clock: AppClock) -> int:
        join = self._join
        if join.behind:  # the route must first process what its windows have received
            return REFUSED
        join.add_few(self._slot, self._stamps, self._values, self._keys, root_orders(rows), self._emission)
        count, done, _, _ = join.meet(self._room, goes_on=False, left_first=_BOTH_FIRST)
        self._pairs = self._room if done else self._others(count)
        join.flows[self._slot].let_go()
        return count if done else self._pairs.shape[1]

    def _others(self, count: int) -> Int64Array:
        """Return all pairs if there were more than `count`, the capacity of the buffer."""
        blocks, done, capacity = [self._room[:, :count].copy()], False, 2 * self._room.shape[1]
        while not done:
            room: Int64Array = np.empty((PAIR_LINES, capacity), INT64)
            count, done, _, _ = self._join.meet(room, goes_on=True, left_first=_BOTH_FIRST)
            blocks.append(room[:, :count])
            capacity = capacity if count else 2 * capacity
        return np.concatenate(blocks, axis=1)

    def write(self, count: int) -> pa.RecordBatch:
        windows = [flow.window for flow in self._join.flows]
        found = (id(self._pairs), *(0 if window is None else window.store.moves for window in windows))
        if found != self._found:
            self._find_values()
            self._found = found if self._pairs is self._room else None
        return self._results.write(count)

    def _find_values(self) -> None:
        """Set the addresses of the results to the current places of the values."""
        self._results.set_timestamps(address_of(self._pairs[OUT_TIMESTAMP]))
        for flow in self._join.flows:
            positions_at = address_of(self._pairs[flow.side.slot])
            for column, name in flow.side.selected:
                if flow.window is not None:
                    store = flow.window.store
                    mask = store.mask(name)
                    valid_at = 0 if mask is None else address_of(mask)
                    self._results.set_values(column, address_of(store.values(name)), valid_at, positions_at)
                elif flow.side.slot == self._slot:
                    self._results.set_values(column, self.few.addresses[name], 0, positions_at)

    def end(self) -> None:
        self._pairs = self._room


def join_route(
    operator: JoinOperator, slot: int, types: Mapping[str, AttributeType], tests: Sequence[PlainTest]
) -> JoinRoute | None:
    """Return the fast route of events that pass `tests` to the side `slot` of the join `operator`, None without one.

    The pairs are the only output. There is no route in these cases: a side is anything but a window of `length` or a
    stream without a window; pairs are not found by equal codes of strings; an event arrives at both sides; objects are
    read.
    """
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
    return JoinRoute(join, slot, key, types, tests)


def _is_queue(side: Side) -> bool:
    window = side.window
    holds = isinstance(window, LengthWindow) and window.length > 0
    return holds or (window is None and side.bare)
