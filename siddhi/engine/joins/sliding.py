"""A join of which each side is a sliding window or holds nothing: whole batches of both sides at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from siddhi.engine.arrays import NO_POSITIONS, Int64Array
from siddhi.engine.batch import Column, EventBatch
from siddhi.engine.expressions.evaluation import Evaluation
from siddhi.engine.joins.condition import JoinCondition
from siddhi.engine.joins.queues import (
    BARE,
    CHUNKS,
    COUNT,
    CURRENT_ONLY,
    DELIVERIES,
    GOES_FIRST,
    KEEPS,
    LAST_CHUNK,
    LAST_SIDE,
    NATURE,
    NEEDS_NULLS,
    NEXT_ROW,
    NULL,
    OLDEST,
    OUT_CHUNK,
    OUT_CLOCK,
    OUT_DELIVERY,
    OUT_KIND,
    OUT_ORDER,
    OUT_TIMESTAMP,
    PAIR_LINES,
    START,
    TRIGGERS,
    Ring,
    meet,
)
from siddhi.engine.joins.side import Side, with_nulls
from siddhi.engine.kinds import CURRENT, RESET
from siddhi.engine.operator import Step
from siddhi.engine.scope import slot_column
from siddhi.engine.windows.emission import CHUNK, CLOCK, KIND, ORDER, SEQUENCE, TIMESTAMP, new_emission
from siddhi.engine.windows.sliding import SlidingWindow

_NOTHING = new_emission(0)


class _Flow:
    """One side of the join while batches flow: its ring, and what its window lets out in the step that runs."""

    def __init__(self, side: Side, condition: JoinCondition) -> None:
        self.side = side
        self.window = side.window if isinstance(side.window, SlidingWindow) else None
        self.condition = condition
        self.names = tuple((slot_column(side.slot, name), name) for name in side.types)
        self.ring = Ring()
        self.rows: EventBatch | None = None
        self.keys = NO_POSITIONS
        self.emission = _NOTHING
        self.count = 0
        self.start = 0

    def take_in(self, batch: EventBatch, step: Step, oldest: int) -> bool:
        """The window has let out what it lets out in this step; False when that is nothing."""
        rows = self.side.arriving(batch, step)
        self.rows, self.count, self.keys, self.start = rows, 0, NO_POSITIONS, 0
        if rows.size:
            self.keys = self.condition.key_numbers(self.side.slot, self.side.named(rows))
        elif not self.side.is_due(step.final_clock):
            return False
        if self.window is None:
            self.emission, self.count = _passing(rows), rows.size
            return True
        self.start = self.window.store.end
        self.emission, self.count = self.window.let_out(rows, step)
        self.ring.make_room(oldest, self.start, self.window.store.end)
        return self.count > 0

    def let_go(self) -> None:
        """What came in the step is not held any longer."""
        self.rows, self.keys, self.emission = None, NO_POSITIONS, _NOTHING

    def column(self, name: str, sequences: Int64Array) -> Column:
        """An attribute of the rows with these sequence numbers."""
        if self.window is not None:
            return self.window.store.column(name, sequences)
        assert self.rows is not None  # noqa: S101 - sequence numbers are those of rows that have come
        return self.rows.columns[name].take(sequences)

    def catch_up(self) -> int:
        """The ring holds what the window shows; returns the sequence number of the first row of it."""
        if self.window is None:
            return 0
        sequences = self.window.visible()
        stamps, offset = self.window.store.timestamps()
        columns = self.window.store.take(sequences)
        rows = EventBatch(stamps[sequences - offset], None, None, None, columns, only_current=True)
        first = int(sequences[0]) if len(sequences) else self.window.store.end
        keys = self.condition.key_numbers(self.side.slot, self.side.named(rows))
        self.ring.fill(first, keys, len(sequences))
        return first


def _passing(rows: EventBatch) -> Int64Array:
    """The emission of events that no window holds."""
    emission = new_emission(rows.size)
    emission[SEQUENCE] = emission[CHUNK] = np.arange(rows.size)
    emission[KIND] = CURRENT
    emission[TIMESTAMP], emission[ORDER], emission[CLOCK] = rows.timestamps, rows.orders, rows.clocks
    return emission


class SlidingJoin:
    """`only_current` says that nobody looks at what expired rows and resets give."""

    def __init__(self, sides: tuple[Side, Side], condition: JoinCondition, *, only_current: bool) -> None:
        self._flows = tuple(_Flow(side, condition) for side in sides)
        self._rest = condition.after_keys
        self._only_current = only_current
        self._behind = True
        self._walk: Int64Array = np.zeros(8, dtype=np.int64)
        self._plan: Int64Array = np.zeros((2, 4), dtype=np.int64)
        self._plan[:, NULL] = condition.null_number
        for line, side in zip(self._plan, sides, strict=True):
            line[NATURE] = TRIGGERS * side.triggers + KEEPS * side.keeps_unmatched + BARE * side.bare
            line[NATURE] += CURRENT_ONLY * only_current + NEEDS_NULLS * (self._rest is not None)

    def fall_behind(self) -> None:
        """The windows have moved without this join: it must catch up before it goes on."""
        self._behind = True

    def process(self, batches: Sequence[EventBatch], step: Step, *, left_first: bool) -> EventBatch | None:
        """What the sides' new rows and due timers give, None when that is nothing."""
        walk, plan = self._walk, self._plan
        if self._behind:
            for place, flow in enumerate(self._flows):
                walk[OLDEST + place] = flow.catch_up()
            self._behind = False
        moved = False
        for place, (flow, batch) in enumerate(zip(self._flows, batches, strict=True)):
            moved |= flow.take_in(batch, step, int(walk[OLDEST + place]))
            plan[place, START], plan[place, COUNT] = flow.start, flow.count
        if not moved:
            return None
        plan[0, NATURE] = int(plan[0, NATURE]) & ~GOES_FIRST | GOES_FIRST * left_first
        walk[NEXT_ROW] = walk[NEXT_ROW + 1] = walk[CHUNKS] = walk[DELIVERIES] = 0
        walk[LAST_SIDE] = walk[LAST_CHUNK] = -1
        blocks = [pairs for block in self._blocks() if (pairs := self._standing(block)).shape[1]]
        joined = None
        if blocks:
            joined = self._joined(blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1))
        for flow in self._flows:
            flow.let_go()
        return joined

    def _blocks(self) -> Iterator[Int64Array]:
        """The pairs, (lines, count), block by block."""
        left, right = self._flows
        capacity = 2 * (left.count + right.count) + 16
        while True:
            out = np.empty((PAIR_LINES, capacity), dtype=np.int64)
            count = meet(
                self._plan,
                left.emission,
                left.keys,
                left.ring.rows,
                left.ring.ends,
                right.emission,
                right.keys,
                right.ring.rows,
                right.ring.ends,
                self._walk,
                out,
            )
            if count:
                yield out[:, :count]
            if self._walk[NEXT_ROW] == left.count and self._walk[NEXT_ROW + 1] == right.count:
                return
            capacity = capacity if count else 2 * capacity

    def _joined(self, pairs: Int64Array) -> EventBatch:
        columns: dict[str, Column] = {}
        for place, flow in enumerate(self._flows):
            columns |= self._columns(flow, flow.side.selected, pairs[place])
        kinds = None if self._only_current else pairs[OUT_KIND].astype(np.int8)
        return EventBatch(
            pairs[OUT_TIMESTAMP],
            kinds,
            pairs[OUT_ORDER],
            pairs[OUT_CLOCK],
            columns,
            pairs[OUT_CHUNK],
            None,
            pairs[OUT_DELIVERY],
            only_current=self._only_current,
        )

    def _columns(self, flow: _Flow, names: Sequence[tuple[str, str]], sequences: Int64Array) -> dict[str, Column]:
        """The attributes `names` (column, attribute) of the rows with these sequence numbers, null for -1."""
        other = self._flows[1 - flow.side.slot].side
        if not other.keeps_unmatched and self._only_current:
            return {column: flow.column(name, sequences) for column, name in names}
        missing = sequences < 0
        newest = int(sequences.max())
        if newest < 0:
            types, pool, size = flow.side.types, flow.side.pool, len(sequences)
            return {column: Column.nulls(types[name], pool, size) for column, name in names}
        some = np.where(missing, newest, sequences)
        return {column: with_nulls(flow.column(name, some), missing) for column, name in names}

    def _standing(self, pairs: Int64Array) -> Int64Array:
        """The pairs that make the rest of the condition true; a row of nulls stands when none of its chunk does, a
        reset always."""
        if self._rest is None:
            return pairs
        columns: dict[str, Column] = {}
        for place, flow in enumerate(self._flows):
            columns |= self._columns(flow, flow.names, pairs[place])
        lines = (pairs[OUT_TIMESTAMP], None, pairs[OUT_ORDER], pairs[OUT_CLOCK])
        alone = (pairs[0] < 0) | (pairs[1] < 0)
        standing = self._rest.truth(Evaluation(EventBatch(*lines, columns, only_current=True))) & ~alone
        if alone.any():
            chunks = pairs[OUT_CHUNK] - pairs[OUT_CHUNK, 0]
            met = np.zeros(int(chunks[-1]) + 1, dtype=np.bool_)
            met[chunks[standing]] = True
            standing = standing | (alone & (~met[chunks] | (pairs[OUT_KIND] == RESET)))
        return pairs[:, standing.nonzero()[0]]
