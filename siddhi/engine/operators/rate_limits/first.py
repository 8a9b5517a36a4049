"""`output first every N events` and `output first every T`: rows pass or are dropped immediately."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import RESET
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import BOOL, INT64, BoolArray, Int64Array
from siddhi.engine.jit.kernels import grown, kernel_array, state_kernel
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.rate_limits.limiter import UNSET, LimitedRows, Limiter, without_groups

_UNSET = np.int64(UNSET)


@state_kernel
def _pass_first(by_time, span, cells, groups, kinds, clocks, kept):  # type: ignore[no-untyped-def]
    """Mark the rows that pass.

    The cell of a group is the time of its last output, or the number of events among the current `span`.
    """
    for row in range(len(groups)):
        group = groups[row]
        if by_time:
            kept[row] = cells[group] == _UNSET or cells[group] + span <= clocks[row]
            if kept[row]:
                cells[group] = clocks[row]
        else:
            cells[group] += 1
            kept[row] = cells[group] == 1
            if cells[group] == span and not kept[row]:
                cells[group] = 0
        if kinds[row] == RESET:
            kept[row] = False


class FirstLimiter(Limiter):
    """Emits the first of every `span` events, or an event if the last output was at least `span` ago.

    Groups are separate. Resets from a batch window count as events, as in Siddhi. With a span below two events only the
    very first passes. Time counts from the clock at the last output: there are no ticks.
    """

    def __init__(self, span: int, rows: LimitedRows, *, by_time: bool) -> None:
        super().__init__(rows)
        self.span = span
        self.by_time = by_time
        self._nothing = UNSET if by_time else 0
        self.cells: Int64Array = np.full(8, self._nothing, INT64)
        self._clock_ms: int | None = None
        """The clock of the newest row; None: unknown."""

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        size = batch.size
        if not size:
            return without_groups(batch)
        groups = self.groups_of(batch, self.instances_of(batch))
        self.cells = grown(self.cells, int(groups.max()) + 1, self._nothing)
        kept: BoolArray = np.empty(size, BOOL)
        kinds, clocks = kernel_array(batch.kinds), kernel_array(batch.clocks)
        _pass_first(self.by_time, self.span, self.cells, groups, kinds, clocks, kept)
        self._clock_ms = int(clocks[-1])
        rows = without_groups(batch)
        return rows if kept.all() else rows.take(kept.nonzero()[0])

    def groups_in_use(self) -> Int64Array:
        used = self.cells != self._nothing
        if self.by_time and self._clock_ms is not None:
            used &= self.cells > self._clock_ms - self.span  # the next row of other groups passes like a first one
        return np.flatnonzero(used)

    def renumber_groups(self, numbers: Int64Array) -> None:
        if self.limited.grouped:
            self.cells = self._renumbered(self.cells, numbers)

    def _renumbered(self, cells: Int64Array, numbers: Int64Array) -> Int64Array:
        """Return `cells` with those of group g at position `numbers[g]`."""
        count = min(len(cells), len(numbers))
        there = np.flatnonzero(numbers[:count] >= 0)
        moved: Int64Array = np.full(max(int(numbers.max(initial=-1)) + 1, 8), self._nothing, INT64)
        moved[numbers[there]] = cells[there]
        return moved

    def close_partitions(self, partitions: Int64Array) -> None:
        if not self.limited.grouped:
            self.cells[partitions[partitions < len(self.cells)]] = self._nothing

    def state_size(self) -> StateSize:
        return StateSize(bytes=held_bytes(self))

    def snapshot(self) -> State:
        used = self.groups_in_use()
        return self.cells[: int(used[-1]) + 1 if len(used) else 0].copy()

    def restore(self, state: State) -> None:
        self.cells = grown(state, 8, self._nothing)

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        if not self.limited.partitioned:
            return super().joined(states, ids)
        whole: Int64Array = np.full(0, self._nothing, INT64)
        for state, numbers in zip(states, ids, strict=True):
            cells = state if self.limited.grouped else self._renumbered(state, numbers)
            whole = grown(whole, len(cells), self._nothing)
            used = np.flatnonzero(cells != self._nothing)
            whole[used] = cells[used]
        return whole
