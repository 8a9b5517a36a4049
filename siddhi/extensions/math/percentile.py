"""`math:percentile`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import BOOL, FLOAT64, INT64, BoolArray, FloatArray, Int64Array
from siddhi.engine.jit.kernels import NO_MASK, grown, kernel_array, kernel_mask, regrouped, state_kernel
from siddhi.engine.jit.memory import move_bytes
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.aggregation import AGGREGATORS, AggregateInput, Aggregator, numbered_on
from siddhi.engine.operators.expressions.evaluation import Value
from siddhi.engine.tuning import FREE_SORTED_ROOM, INITIAL_SORTED_ROOM

_START, _ROOM, _COUNT = range(3)
"""The columns of groups: the begin, capacity and number of a group's values."""
_WIDTH = 3


@state_kernel
def _follow(  # type: ignore[no-untyped-def] # noqa: C901, PLR0912 - one loop, compiled as a whole
    first, kinds, groups, fresh, values, valid, percent, cells, held, used, out, known
):
    """Keep the values of each group sorted, and write the percentile of the group after each row from `first` on.

    Return the row for which there is no room, or the number of rows. `used[0]` is the used part of `held`.
    """
    held_at = np.int64(held.ctypes.data)
    for row in range(first, len(kinds)):
        group = groups[row]
        if len(fresh) and fresh[row]:
            cells[group, _COUNT] = 0
        start, count = cells[group, _START], cells[group, _COUNT]
        if (len(valid) == 0 or valid[row]) and (kinds[row] == CURRENT or kinds[row] == EXPIRED):
            value, comes = values[row], kinds[row] == CURRENT
            if comes and count == cells[group, _ROOM]:
                room = max(2 * count, INITIAL_SORTED_ROOM)
                if used[0] + room > len(held):
                    return row
                for place in range(count):
                    held[used[0] + place] = held[start + place]
                start = cells[group, _START] = used[0]
                cells[group, _ROOM] = room
                used[0] += room
            low, high = np.int64(0), count
            while low < high:  # a value is inserted after equal ones, and the first of equal ones is removed
                middle = (low + high) // 2
                if value < held[start + middle] or (not comes and not held[start + middle] < value):
                    high = middle
                else:
                    low = middle + 1
            if comes:
                at = held_at + 8 * (start + low)
                move_bytes(at + 8, at, 8 * (count - low))
                held[start + low] = value
                count += 1
            elif low < count and held[start + low] == value:
                count -= 1
                at = held_at + 8 * (start + low)
                move_bytes(at, at + 8, 8 * (count - low))
            cells[group, _COUNT] = count
        known[row] = count > 0
        if count > 0:
            exact = percent * count / 100
            whole = np.int64(exact)
            if exact != whole:
                out[row] = held[start + max(np.int64(np.floor(exact + 0.5)) - 1, 0)]
            elif whole == count:
                out[row] = held[start + whole - 1]
            else:
                out[row] = (held[start + whole - 1] + held[start + whole]) / 2
    return len(kinds)


@AGGREGATORS.register("percentile", "math")
class Percentile(Aggregator):
    """The value below which p percent of the values lie.

    It is the mean of two values if p falls between them. Nulls are ignored; without values the result is null. The
    values of a group are stored sorted and contiguously. An index that is not an integer is rounded half up.
    """

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        percent = call.arguments[1]
        self._percent = float(str(percent.value if isinstance(percent, model.ConstantValue) else None))
        self._cells: Int64Array = np.zeros((1, _WIDTH), INT64)
        self._held: FloatArray = np.zeros(FREE_SORTED_ROOM, FLOAT64)
        self._used: Int64Array = np.zeros(1, INT64)

    def update(self, rows: AggregateInput) -> Value:
        size = len(rows.kinds)
        self._cells = grown(self._cells, rows.group_count)
        out: FloatArray = np.zeros(size, FLOAT64)
        known: BoolArray = np.empty(size, BOOL)
        fresh = NO_MASK if rows.fresh is None else kernel_mask(rows.fresh)
        kinds, groups, values = kernel_array(rows.kinds), kernel_array(rows.groups), kernel_array(rows.values, FLOAT64)
        done = 0
        while True:
            done = _follow(
                done, kinds, groups, fresh, values, kernel_mask(rows.valid), self._percent, self._cells, self._held,
                self._used, out, known,
            )  # fmt: skip
            if done == size:
                return Value(out, None if known.all() else known)
            self._make_room()

    def _make_room(self) -> None:
        """Move the groups together, followed by room for at least as much again."""
        cells, old = self._cells, self._held
        counts, rooms = cells[:, _COUNT], cells[:, _ROOM]
        starts = np.cumsum(rooms) - rooms
        taken = int(rooms.sum())
        held: FloatArray = np.zeros(2 * taken + 2 * int(counts.max()) + FREE_SORTED_ROOM, FLOAT64)
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        held[np.repeat(starts, counts) + within] = old[np.repeat(cells[:, _START], counts) + within]
        cells[:, _START] = starts
        self._held = held
        self._used[0] = taken

    def _of(self, group: int) -> FloatArray:
        start, _, count = self._cells[group].tolist()
        return self._held[start : start + count]

    def keep_groups(self, kept: Int64Array) -> None:
        self._cells = regrouped(self._cells, kept)

    def joined(self, states: Sequence[State], counts: Sequence[int]) -> State:
        return numbered_on(states, counts)

    def snapshot(self) -> State:
        return [[group, self._of(group).tolist()] for group in np.flatnonzero(self._cells[:, _COUNT]).tolist()]

    def restore(self, state: State) -> None:
        counts = [len(values) for _, values in state]
        self._cells = np.zeros((max((group for group, _ in state), default=0) + 1, _WIDTH), INT64)
        self._held = np.zeros(sum(counts) + FREE_SORTED_ROOM, FLOAT64)
        self._used = np.array([sum(counts)], INT64)
        start = 0
        for (group, values), count in zip(state, counts, strict=True):
            self._cells[group] = start, count, count
            self._held[start : start + count] = values
            start += count
