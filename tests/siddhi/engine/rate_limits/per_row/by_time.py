"""`output all|first|last every T`.

`all` and `last` tick at start + T, start + 2T, …:

    T = 10    clock   0     3    7    10       20    24   30
              in            a    b                   c
              all                     a b                 c
              last                    b                   c
"""

from __future__ import annotations

import numpy as np

from per_row.limiter import RateLimiter, groups_of, last_of_groups, released, without_groups
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import RESET
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import Step


class AllByTime(RateLimiter):
    """Buffers events and emits all of them, as one chunk, at the next tick."""

    def __init__(self, period: int, pool: StringPool) -> None:
        super().__init__(pool)
        self.period = period
        self.origin = 0

    def start(self, clock_ms: int) -> None:
        self.origin = clock_ms

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        waiting = self.with_held(self._counted(batch, step))
        ticks = self._next_ticks(waiting)
        due = ticks <= step.final_clock
        self.held = waiting.take(np.flatnonzero(~due))
        return self._release(waiting.take(np.flatnonzero(due)), ticks[due], step)

    def _counted(self, batch: EventBatch, step: Step) -> EventBatch:
        """Return `batch` with the clocks at which rows count: output of timers misses past ticks."""
        clocks = batch.clocks.copy()
        for row, (order, clock) in enumerate(zip(batch.orders.tolist(), batch.clocks.tolist(), strict=True)):
            if order & 1:
                continue
            if order > 0:
                clocks[row] = max(clock, int(step.clocks[order // 2 - 1]) + 1)
            elif clock <= step.floor:  # the clock jumped there, or the timer was set for the past
                clocks[row] = min(step.floor, step.shown) + 1
        return EventBatch(
            batch.timestamps, batch.kinds, batch.orders, clocks, batch.columns, batch.chunks, batch.partitions
        )

    def _next_ticks(self, batch: EventBatch) -> Int64Array:
        """Return the tick that follows each row.

        An event at a tick comes after it, output of other timers comes before it. The first tick is a whole period
        after the start, even for a row that came at the start.
        """
        passed = np.maximum(batch.clocks - self.origin - (1 - (batch.orders & 1)), 0)
        ticks: Int64Array = (passed // self.period + 1) * self.period + self.origin
        return ticks

    def _release(self, batch: EventBatch, ticks: Int64Array, step: Step) -> EventBatch:
        return _at_ticks(batch, ticks, step)

    def next_deadline_ms(self) -> int | None:
        return int(self._next_ticks(self.held)[0]) if self.held is not None and self.held.size else None

    def own_state(self) -> State:
        return self.origin

    def restore_own(self, state: State) -> None:
        self.origin = state


def _at_ticks(batch: EventBatch, ticks: Int64Array, step: Step) -> EventBatch:
    orders = 2 * np.searchsorted(step.clocks, ticks)
    return released(batch, orders, np.maximum(ticks, step.floor), ticks)


class LastByTime(AllByTime):
    """Emits at each tick the last event since the previous tick, or the last of each group."""

    def _release(self, batch: EventBatch, ticks: Int64Array, step: Step) -> EventBatch:
        places = last_of_groups(ticks, groups_of(batch))
        return _at_ticks(batch.take(places), ticks[places], step)


class FirstByTime(RateLimiter):
    """A limiter that emits an event when the last one was emitted at least T ago.

    It ignores the other events of its chunk; grouped, it checks each group and every event.

    There are no ticks: the time runs from the clock at the last event let out.
    """

    def __init__(self, period: int, pool: StringPool, *, grouped: bool) -> None:
        super().__init__(pool)
        self.period = period
        self.grouped = grouped
        self.emitted: dict[int, int] = {}

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        chunks, clocks = batch.chunk_ids().tolist(), batch.clocks.tolist()
        kept: list[int] = []
        chunk = None
        for row, group in enumerate(groups_of(batch).tolist()):
            if not self.grouped and chunks[row] == chunk:
                continue
            chunk = chunks[row]
            last = self.emitted.get(group)
            if last is None or last + self.period <= clocks[row]:
                self.emitted[group] = clocks[row]
                if batch.kinds[row] != RESET:
                    kept.append(row)
        return without_groups(batch).take(np.array(kept, dtype=np.int64))

    def own_groups(self) -> Int64Array:
        return np.fromiter(self.emitted, dtype=np.int64, count=len(self.emitted))

    def renumber_own(self, numbers: Int64Array) -> None:
        renumbered = {int(numbers[group]): clock for group, clock in self.emitted.items()}
        self.emitted = {group: clock for group, clock in renumbered.items() if group >= 0}

    def own_state(self) -> State:
        return [list(self.emitted), list(self.emitted.values())]

    def restore_own(self, state: State) -> None:
        groups, clocks = state
        self.emitted = dict(zip(groups, clocks, strict=True))
