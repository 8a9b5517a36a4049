"""A join of which each side is a sliding window or holds nothing: whole batches of both sides at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.arrays import NO_POSITIONS, Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.column import Column
from siddhi.engine.expressions.evaluation import Evaluation
from siddhi.engine.joins.condition import JoinCondition
from siddhi.engine.joins.queues import (
    BARE,
    CHUNKS,
    CURRENT_ONLY,
    DELIVERIES,
    KEEPS,
    NATURE,
    NEEDS_NULLS,
    NULL,
    OLDEST,
    OUT_CHUNK,
    OUT_CLOCK,
    OUT_DELIVERY,
    OUT_KIND,
    OUT_ORDER,
    OUT_TIMESTAMP,
    PAIR_LINES,
    TRIGGERS,
    WALK_LINES,
    fill_ring,
    meet,
    new_ring,
    roomy_ring,
)
from siddhi.engine.joins.side import Side, with_nulls
from siddhi.engine.kinds import CURRENT, RESET
from siddhi.engine.operator import Stateful, Step
from siddhi.engine.scope import slot_column
from siddhi.engine.windows.emission import CHUNK, CLOCK, KIND, ORDER, SEQUENCE, TIMESTAMP, new_emission
from siddhi.engine.windows.sliding import SlidingWindow

_NOTHING = new_emission(0)


class _Flow:
    """One side of the join while batches flow: its ring, and what its window lets out in the step that runs."""

    def __init__(self, side: Side, condition: JoinCondition) -> None:
        self.side = side
        self.window = side.window if isinstance(side.window, SlidingWindow) else None
        self.timed = self.window is not None and type(self.window).next_deadline_ms is not Stateful.next_deadline_ms
        self.condition = condition
        self.names = tuple((slot_column(side.slot, name), name) for name in side.types)
        self.ring = new_ring(0)
        self.rows: EventBatch | None = None
        self.keys = NO_POSITIONS
        self.emission = _NOTHING
        self.count = 0
        self.start = 0

    def take_in(self, batch: EventBatch, step: Step, walk: Int64Array) -> None:
        """The window has let out what it lets out in this step."""
        rows = self.side.arriving(batch, step) if self.side.chain else batch
        if rows.size:
            self.keys = self.condition.key_numbers(self.side, rows)
        elif not (self.timed and self.side.is_due(step.final_clock)):
            return
        if self.window is None:
            self.rows, self.emission, self.count = rows, _passing(rows), rows.size
            return
        store = self.window.store
        self.start = store.end
        self.emission, self.count = self.window.let_out(rows, step)
        oldest = int(walk[OLDEST + self.side.slot])
        if store.end - oldest > self.ring.shape[1]:
            self.ring = roomy_ring(self.ring, oldest, self.start, store.end)

    def let_go(self) -> None:
        """What came in the step is not held any longer."""
        self.rows, self.keys, self.emission = None, NO_POSITIONS, _NOTHING
        self.count = self.start = 0

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
        self.ring = new_ring(len(sequences))
        fill_ring(self.ring, first, self.condition.key_numbers(self.side, rows))
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
        self._flows = (_Flow(sides[0], condition), _Flow(sides[1], condition))
        self._rest = condition.after_keys
        self._only_current = only_current
        self._behind = True
        self._walk: Int64Array = np.zeros(WALK_LINES, dtype=np.int64)
        self._walk[NULL] = condition.null_number
        for side in sides:
            nature = TRIGGERS * side.triggers + KEEPS * side.keeps_unmatched + BARE * side.bare
            nature += CURRENT_ONLY * only_current + NEEDS_NULLS * (self._rest is not None)
            self._walk[NATURE + side.slot] = nature

    def fall_behind(self) -> None:
        """The windows have moved without this join: it must catch up before it goes on."""
        self._behind = True

    def process(self, batches: Sequence[EventBatch], step: Step, *, left_first: bool) -> EventBatch | None:
        """What the sides' new rows and due timers give, None when that is nothing."""
        left, right = self._flows
        walk = self._walk
        if self._behind:
            walk[OLDEST], walk[OLDEST + 1] = left.catch_up(), right.catch_up()
            self._behind = False
        left.take_in(batches[0], step, walk)
        right.take_in(batches[1], step, walk)
        if not (left.count or right.count):
            return None
        blocks = self._blocks(left_first=left_first)
        joined = None
        if blocks:
            joined = self._joined(blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1), len(blocks))
        for flow in self._flows:
            if flow.count:
                flow.let_go()
        return joined

    def _blocks(self, *, left_first: bool) -> list[Int64Array]:
        """The pairs, (lines, count), block by block, without empty blocks."""
        left, right = self._flows
        blocks: list[Int64Array] = []
        capacity = 2 * (left.count + right.count) + 16
        done = goes_on = False
        while not done:
            out = np.empty((PAIR_LINES, capacity), dtype=np.int64)
            count, done = meet(
                self._walk,
                goes_on,
                left_first,
                left.start,
                left.count,
                left.emission,
                left.keys,
                left.ring,
                right.start,
                right.count,
                right.emission,
                right.keys,
                right.ring,
                out,
            )
            pairs = self._standing(out[:, :count]) if count and self._rest is not None else out[:, :count]
            if pairs.shape[1]:
                blocks.append(pairs)
            capacity = capacity if count else 2 * capacity
            goes_on = True
        return blocks

    def _joined(self, pairs: Int64Array, blocks: int) -> EventBatch:
        """The batch of `pairs`; rows that are chunks or deliveries of their own need no numbers."""
        left, right = self._flows
        columns = self._columns(left, left.side.selected, pairs[0])
        columns |= self._columns(right, right.side.selected, pairs[1])
        known = blocks == 1 and self._rest is None
        alone = known and self._walk[CHUNKS] == pairs.shape[1]
        together = not known or self._walk[DELIVERIES] != self._walk[CHUNKS]
        return EventBatch(
            pairs[OUT_TIMESTAMP],
            None if self._only_current else pairs[OUT_KIND].astype(np.int8),
            pairs[OUT_ORDER],
            pairs[OUT_CLOCK],
            columns,
            None if alone else pairs[OUT_CHUNK],
            None,
            pairs[OUT_DELIVERY] if together else None,
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
        assert self._rest is not None  # noqa: S101 - the caller has looked
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
