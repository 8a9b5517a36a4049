"""`output all|first|last every N events`."""

from __future__ import annotations

import numpy as np

from per_row.limiter import RateLimiter, groups_of, last_of_groups, released, without_groups
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import RESET
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.jit.kernels import grown
from siddhi.engine.operators.base.operator import Step


class AllByEvents(RateLimiter):
    """Buffers events and emits each block of N of them with the event that fills it."""

    def __init__(self, events: int, pool: StringPool) -> None:
        super().__init__(pool)
        self.events = events

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        waiting = self.with_held(batch)
        full = waiting.size // self.events * self.events if self.events > 0 else 0
        self.held = waiting.slice(full, waiting.size)
        return _release(waiting.slice(0, full), self.events)


def _release(batch: EventBatch, events: int) -> EventBatch:
    """Return the rows of `batch`, full blocks of `events` each, released with the last row of their block."""
    places = np.arange(batch.size)
    fillers = places // max(events, 1) * events + events - 1 if batch.size else places
    return released(batch, batch.orders[fillers], batch.clocks[fillers], batch.chunk_ids()[fillers])


class LastByEvents(RateLimiter):
    """Emits every N-th event, or (grouped) at every N-th event the last of each group since the last time."""

    def __init__(self, events: int, pool: StringPool) -> None:
        super().__init__(pool)
        self.events = events

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        waiting = self.with_held(batch)
        full = waiting.size // self.events * self.events if self.events > 0 else 0
        self.held = waiting.slice(full, waiting.size)
        blocks = waiting.slice(0, full)
        places = last_of_groups(np.arange(full) // max(self.events, 1), groups_of(blocks))
        fillers = places // max(self.events, 1) * self.events + self.events - 1
        picked = blocks.take(places)
        return released(picked, blocks.orders[fillers], blocks.clocks[fillers], blocks.chunk_ids()[fillers])


class FirstByEvents(RateLimiter):
    """Emits the first of every N events, of each group when grouped; N below 2 emits only the very first.

    Resets from a batch window count as events, as in Siddhi.
    """

    def __init__(self, events: int, pool: StringPool) -> None:
        super().__init__(pool)
        self.events = events
        self.counts: Int64Array = np.zeros(8, dtype=np.int64)

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        groups = groups_of(batch)
        self.counts = grown(self.counts, int(groups.max()) + 1 if batch.size else 1)
        kept = np.zeros(batch.size, dtype=np.bool_)
        for row, group in enumerate(groups.tolist()):
            self.counts[group] += 1
            if self.counts[group] == 1:
                kept[row] = batch.kinds[row] != RESET
            elif self.counts[group] == self.events:
                self.counts[group] = 0
        return without_groups(batch).take(np.flatnonzero(kept))

    def own_groups(self) -> Int64Array:
        return np.flatnonzero(self.counts)

    def renumber_own(self, numbers: Int64Array) -> None:
        kept = np.flatnonzero(numbers >= 0)
        old = grown(self.counts, len(numbers))
        self.counts = np.zeros(max(int(numbers.max(initial=-1)) + 1, 8), dtype=np.int64)
        self.counts[numbers[kept]] = old[kept]

    def own_state(self) -> State:
        return self.counts.copy()

    def restore_own(self, state: State) -> None:
        self.counts = state
