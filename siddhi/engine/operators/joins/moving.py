"""A join of windows that rows leave in any order, for all instances of a partition at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.kinds import RESET
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import INT64, Int64Array
from siddhi.engine.operators.base.operator import OperatorContext, Stateful, Step
from siddhi.engine.operators.base.per_instance import came_together
from siddhi.engine.operators.base.scope import slot_column
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode
from siddhi.engine.operators.joins.condition import JoinCondition
from siddhi.engine.operators.joins.shelf import ROW_NUMBER, Shelf, joined_shelves, nature_of_window
from siddhi.engine.operators.joins.shelves import (
    CELL_INSTANCE,
    CURRENT_ONLY,
    FREED_COUNT,
    HOLDS,
    KEEPS,
    LEFT,
    NATURE,
    NEEDS_NULLS,
    NULL,
    OUT_CHUNK,
    OUT_CLOCK,
    OUT_DELIVERY,
    OUT_INSTANCE,
    OUT_KIND,
    OUT_ORDER,
    OUT_TIMESTAMP,
    PAIR_LINES,
    RIGHT,
    TICK,
    TRIGGERS,
    WALK_LINES,
    meet,
)
from siddhi.engine.operators.joins.side import Side, with_nulls
from siddhi.engine.operators.windows.base.emission import ORDER

_NO_PAIRS: Int64Array = np.zeros((PAIR_LINES, 0), INT64)


class MovingJoin(Stateful):
    """A join that follows both windows; with `only_current` the output for expired rows and resets is not read."""

    def __init__(
        self, sides: tuple[Side, Side], condition: JoinCondition, context: OperatorContext, *, only_current: bool
    ) -> None:
        self._ranks = context.instance_ranks if context.partitioned else None
        self._partitioned = context.partitioned
        self.shelves = tuple(Shelf(side, condition, partitioned=context.partitioned) for side in sides)
        self._same_source = sides[0].source == sides[1].source
        self._rest = condition.after_keys
        self._only_current = only_current
        self._lonely = [other.keeps_unmatched or not only_current for other in (sides[1], sides[0])]
        """Whether rows of the left and of the right side may be output with nulls."""
        self._walk: Int64Array = np.zeros(WALK_LINES, dtype=np.int64)
        self._walk[NULL] = condition.null_number
        for side in sides:
            nature = TRIGGERS * side.triggers + KEEPS * side.keeps_unmatched + CURRENT_ONLY * only_current
            nature += NEEDS_NULLS * (self._rest is not None)
            self._walk[NATURE + side.slot] = nature | nature_of_window(side)

    def goes_at_once(self, batches: tuple[EventBatch, EventBatch]) -> bool:
        """Return whether the batches can be joined in one loop.

        For this, every event must be its own chunk, and an event that arrives at both sides, or in several instances,
        must differ from all others.
        """
        if any(batch.chunks is not None and batch.size for batch in batches):
            return False
        if self._partitioned and any(came_together(batch) for batch in batches):
            return False
        left = batches[0]
        return not self._same_source or left.size < 2 or bool((left.orders[1:] != left.orders[:-1]).all())

    def process(
        self, batches: tuple[EventBatch, EventBatch], step: Step, left_first: tuple[bool, bool]
    ) -> EventBatch | None:
        """Return the output of the sides' new rows and due timers, None when there is none.

        `left_first` contains whether the left's stream comes first among events of one time, and among rows that timers
        of one time sent.
        """
        for shelf, batch in zip(self.shelves, batches, strict=True):
            side = shelf.side
            rows = side.arriving(batch, step) if side.chain else batch
            if rows.size or side.is_due(step.final_clock):
                self._take_in(shelf, rows, step)
        return self._met(left_first)

    def let_out(self, parts: tuple[EventBatch | None, EventBatch | None], now: Step, order: int) -> EventBatch | None:
        """Return the output, in `order`, of `parts`, which arrive at the windows of both sides at `now`.

        Return None if there is none.
        """
        for shelf, rows in zip(self.shelves, parts, strict=True):
            if rows is not None:
                self._take_in(shelf, rows, now)
            shelf.lines[ORDER] = order
        return self._met((True, True))

    def _take_in(self, shelf: Shelf, rows: EventBatch, step: Step) -> None:
        holds = bool(self._walk[NATURE + shelf.side.slot] & HOLDS)
        shelf.take_in(rows, step, only_current=self._only_current, holds=holds)

    def _met(self, left_first: tuple[bool, bool]) -> EventBatch | None:
        """Return the output of the rows that both windows have released."""
        left, right = self.shelves
        if not (left.lines.shape[1] or right.lines.shape[1]):
            return None
        if self._partitioned:
            instances = max(len(left.looks), len(right.looks))
            left.make_room(instances)
            right.make_room(instances)
        joined = self._joined(left_first)
        left.let_go(int(self._walk[FREED_COUNT]))
        right.let_go(int(self._walk[FREED_COUNT + 1]))
        return joined

    def _joined(self, left_first: tuple[bool, bool]) -> EventBatch | None:
        """Return the pairs of this step, None when there are none."""
        left, right = self.shelves
        blocks: list[Int64Array] = []
        capacity = 2 * (left.lines.shape[1] + right.lines.shape[1]) + 16
        done = goes_on = False
        while not done:
            out: Int64Array = np.empty((PAIR_LINES, capacity), INT64)
            count, done = meet(
                self._walk, goes_on, *left_first,
                left.lines.shape[1], left.lines, left.cells, left.looks, left.keys, left.marks,
                right.lines.shape[1], right.lines, right.cells, right.looks, right.keys, right.marks, out,
            )  # fmt: skip
            if count:
                pairs = out[:, :count]
                blocks.append(pairs if self._rest is None else self._standing(self._rest, pairs))
            capacity = capacity if count else 2 * capacity
            goes_on = True
        pairs = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1) if blocks else _NO_PAIRS
        if not pairs.shape[1]:
            return None
        return self._batch(self._in_turn(pairs) if self._ranks is not None else pairs)

    def _in_turn(self, pairs: Int64Array) -> Int64Array:
        """Return the order of pairs from timers of one time, instance by instance."""
        orders, clocks, instances = pairs[OUT_ORDER], pairs[OUT_CLOCK], pairs[OUT_INSTANCE]
        tied = (orders[1:] == orders[:-1]) & (clocks[1:] == clocks[:-1]) & (instances[1:] != instances[:-1])
        if self._ranks is None or not tied.any():
            return pairs
        pairs = pairs[:, np.lexsort((self._ranks()[instances], clocks, orders))]
        changed = pairs[OUT_INSTANCE, 1:] != pairs[OUT_INSTANCE, :-1]
        for line in (OUT_CHUNK, OUT_DELIVERY):
            numbers = np.zeros(pairs.shape[1], INT64)
            np.cumsum((pairs[line, 1:] != pairs[line, :-1]) | changed, out=numbers[1:])
            pairs[line] = numbers
        return pairs

    def _batch(self, pairs: Int64Array) -> EventBatch:
        columns: dict[str, Column] = {}
        for shelf, line in zip(self.shelves, (LEFT, RIGHT), strict=True):
            self._add_columns(columns, shelf, shelf.side.selected, pairs[line])
        return EventBatch(
            pairs[OUT_TIMESTAMP],
            None if self._only_current else pairs[OUT_KIND].astype(np.int8),
            pairs[OUT_ORDER],
            pairs[OUT_CLOCK],
            columns,
            pairs[OUT_CHUNK],
            pairs[OUT_INSTANCE] if self._partitioned else None,
            pairs[OUT_DELIVERY],
            only_current=self._only_current,
        )

    def _add_columns(
        self, columns: dict[str, Column], shelf: Shelf, names: Sequence[tuple[str, str]], slots: Int64Array
    ) -> None:
        """Add the attributes `names` (column, attribute) of the rows in these slots to `columns`, null for -1."""
        missing = slots < 0
        if not missing.any():
            columns.update((column, shelf.store.taken(name, slots)) for column, name in names)
            return
        if missing.all():
            types, pool = shelf.side.types, shelf.side.pool
            columns.update((column, Column.nulls(types[name], pool, len(slots))) for column, name in names)
            return
        some = np.where(missing, slots.max(), slots)
        columns.update((column, with_nulls(shelf.store.taken(name, some), missing)) for column, name in names)

    def _standing(self, rest: ExpressionNode, pairs: Int64Array) -> Int64Array:
        """Return the pairs for which `rest`, the remaining condition, is true.

        A row of nulls remains when no pair of its chunk does, a reset always.
        """
        columns: dict[str, Column] = {}
        for place, shelf in enumerate(self.shelves):
            names = [(slot_column(place, name), name) for name in shelf.side.types if name != ROW_NUMBER]
            self._add_columns(columns, shelf, names, pairs[place])
        lines = (pairs[OUT_TIMESTAMP], None, pairs[OUT_ORDER], pairs[OUT_CLOCK])
        alone = (pairs[0] < 0) | (pairs[1] < 0)
        standing = rest.truth(Evaluation(EventBatch(*lines, columns, only_current=True))) & ~alone
        if alone.any():
            chunks = pairs[OUT_CHUNK] - pairs[OUT_CHUNK, 0]
            met = np.zeros(int(chunks[-1]) + 1, dtype=np.bool_)
            met[chunks[standing]] = True
            standing = standing | (alone & (~met[chunks] | (pairs[OUT_KIND] == RESET)))
        return pairs[:, standing.nonzero()[0]]

    # ---- state

    def state_size(self) -> StateSize:
        return StateSize(rows=0, bytes=held_bytes(self))

    def snapshot(self) -> State:
        return [shelf.snapshot() for shelf in self.shelves]

    def restore(self, state: State) -> None:
        tick = 0
        for shelf, saved in zip(self.shelves, state, strict=True):
            shelf.restore(saved, tick)
            tick += 2 * len(shelf.store) + 2
        self._walk[TICK] = tick

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        if not self._partitioned:
            return super().joined(states, ids)
        return [
            joined_shelves([state[slot] for state in states], ids, shelf.side)
            for slot, shelf in enumerate(self.shelves)
        ]

    def close_partitions(self, partitions: Int64Array) -> None:
        for shelf in self.shelves:
            slots = shelf.shown()
            shelf.keep(slots[~np.isin(shelf.cells[CELL_INSTANCE, slots], partitions)])
            shelf.marks[partitions[partitions < len(shelf.marks)]] = 0
