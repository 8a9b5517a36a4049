"""A join of windows that rows leave in any order, for all instances of a partition at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.column_names import internal_name
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.batch_state import restore_batch, snapshot_batch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.kinds import CURRENT, RESET
from siddhi.engine.columnar.slot_store import SlotStore
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import INT64, NO_POSITIONS, Int64Array
from siddhi.engine.jit.kernels import grown, kernel_array
from siddhi.engine.operators.base.operator import Operator, OperatorContext, Stateful, Step
from siddhi.engine.operators.base.per_instance import PerInstance, came_together
from siddhi.engine.operators.base.scope import slot_column
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode
from siddhi.engine.operators.joins.condition import JoinCondition
from siddhi.engine.operators.joins.shelves import (
    BARE,
    BY_TIMER,
    CELL_INSTANCE,
    CELL_KEY,
    CELL_NUMBER,
    CELL_PLACE,
    CELL_STAMP,
    CURRENT_ONLY,
    FREED,
    FREED_COUNT,
    HASHED,
    HIDES,
    HOLDS,
    INSTANCE,
    KEEPS,
    LEFT,
    LENDS,
    MARKS,
    MOVE_LINES,
    NATURE,
    NEEDS_NULLS,
    NULL,
    NUMBER,
    OUT_CHUNK,
    OUT_CLOCK,
    OUT_DELIVERY,
    OUT_INSTANCE,
    OUT_KIND,
    OUT_ORDER,
    OUT_TIMESTAMP,
    PAIR_LINES,
    PLACE,
    PUT_AT,
    RIGHT,
    ROW_KEY,
    SORTED,
    TICK,
    TRIGGERS,
    WALK_LINES,
    fill_shelf,
    meet,
    new_cells,
)
from siddhi.engine.operators.joins.side import Side, with_nulls
from siddhi.engine.operators.windows.base.cutting import CuttingWindow
from siddhi.engine.operators.windows.base.emission import CHUNK, CLOCK, KIND, ORDER, SEQUENCE, TIMESTAMP
from siddhi.engine.operators.windows.keyed.layout import (
    CRON_KIND,
    DELAY_KIND,
    EXPRESSION_BATCH_KIND,
    FREQUENT_KIND,
    LOSSY_KIND,
    SHOWN,
    SORT_KIND,
    TIME_BATCH_KIND,
    UNIQUE_TIME_BATCH_KIND,
    UNIQUE_TIME_LENGTH_BATCH_KIND,
)
from siddhi.engine.operators.windows.keyed.layout import INSTANCE as WINDOW_INSTANCE
from siddhi.engine.operators.windows.keyed.window import WINDOW_SLOT, KeyedWindow
from siddhi.engine.operators.windows.time_batch import StreamingTimeBatchWindow
from siddhi.language.ast import AttributeType

ROW_NUMBER = internal_name("number")
"""The attribute with the number of a side's row; its window stores it like any other."""
_NO_PAIRS: Int64Array = np.zeros((PAIR_LINES, 0), INT64)
_NO_MOVES: Int64Array = np.zeros((MOVE_LINES, 0), INT64)
_NO_KEYS: Int64Array = np.zeros((1, 0), INT64)
_KEPT_LINES = (CELL_KEY, CELL_NUMBER, CELL_INSTANCE, CELL_STAMP, PUT_AT, CELL_PLACE)
_TELLING = {SORT_KIND: SORTED, FREQUENT_KIND: HASHED, LOSSY_KIND: HASHED, DELAY_KIND: LENDS}
"""Windows whose contents are not shown in the order in which they release rows."""
_ENDED_BY_TIMERS = frozenset(
    {TIME_BATCH_KIND, CRON_KIND, UNIQUE_TIME_BATCH_KIND, UNIQUE_TIME_LENGTH_BATCH_KIND}
)  # fmt: skip


class RowNumbers(Operator):
    """Numbers the rows of a side before they enter its window."""

    def __init__(self, context: OperatorContext) -> None:
        self._pool = context.pool
        self._next = 0

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        numbers = np.arange(self._next, self._next + batch.size)
        self._next += batch.size
        return batch.with_columns({**batch.columns, ROW_NUMBER: Column(AttributeType.LONG, self._pool, values=numbers)})

    def snapshot(self) -> State:
        return self._next

    def restore(self, state: State) -> None:
        self._next = state

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        return max(states, default=0)


def other_order(side: Side) -> str | None:
    """Return why the output of `side`'s window is not enough to follow its rows, None when it is."""
    if any(isinstance(operator, PerInstance) for operator in side.chain):
        return "a window or a filter runs key by key"
    if isinstance(side.window, KeyedWindow) and side.window.plan.kind == EXPRESSION_BATCH_KIND:
        return "the other side sees the rows of expressionBatch before it lets them out"
    return None


def _nature_of_window(side: Side) -> int:
    """Return the flags that describe a side's window."""
    window = side.window
    if window is None:
        return BARE
    marks = MARKS * window.notes_looks + HIDES * side.hides_expired
    if isinstance(window, KeyedWindow):
        marks |= _TELLING.get(window.plan.kind, 0)
        return HOLDS * window.shows_rows | BY_TIMER * (window.plan.kind in _ENDED_BY_TIMERS) | marks
    by_timer = isinstance(window, CuttingWindow) and window.timed and not isinstance(window, StreamingTimeBatchWindow)
    return HOLDS | BY_TIMER * by_timer | marks


class _Shelf:
    """One side of the join: its rows, and the output of its window in the current step."""

    def __init__(self, side: Side, condition: JoinCondition, *, partitioned: bool) -> None:
        self.side = side
        self.condition = condition
        self.partitioned = partitioned
        self.store = SlotStore(side.types, side.pool)
        self.cells = new_cells(0)
        self.looks: Int64Array = np.zeros(1, INT64)
        self.marks: Int64Array = np.zeros(1, INT64)
        window = side.window
        self._telling = window if isinstance(window, KeyedWindow) and window.plan.kind in _TELLING else None
        self._lends = self._telling is not None and self._telling.plan.kind == DELAY_KIND
        if self._telling is not None:
            self._telling.report_moves()
        self.lines = _NO_MOVES
        self.passing = NO_POSITIONS
        """The slots of rows that are removed at the end of the step."""

    def take_in(self, rows: EventBatch, step: Step, *, only_current: bool, holds: bool) -> None:
        """Process `rows` in the window and keep its output."""
        if self.side.window is not None:
            rows = self.side.window.process(rows, step)
            if only_current and not rows.only_current:
                kept = rows.kinds == CURRENT
                rows = rows.take(np.flatnonzero((rows.kinds != RESET) if holds else kept))
        if rows.size:
            self._note(rows, only_current=only_current, holds=holds)

    def _note(self, rows: EventBatch, *, only_current: bool, holds: bool) -> None:
        """Record `rows` as the output of the window in this step."""
        size = rows.size
        lines = self.lines = np.empty((MOVE_LINES, size), INT64)
        lines[KIND], lines[TIMESTAMP] = (0 if rows.only_current else rows.kinds), rows.timestamps
        lines[ORDER], lines[CLOCK], lines[CHUNK] = rows.orders, rows.clocks, rows.chunk_ids()
        lines[ROW_KEY] = self.condition.key_numbers(self.side, rows)
        lines[NUMBER] = rows.columns[ROW_NUMBER].values if holds else 0
        lines[INSTANCE] = 0 if rows.partitions is None else rows.partitions
        lines[PLACE] = 0 if self._telling is None else rows.columns[WINDOW_SLOT].values
        current, shown = lines[KIND] == CURRENT, lines[KIND] == SHOWN
        if only_current and not current.all():
            places = np.flatnonzero(current | shown)
            lines[SEQUENCE] = -1
            lines[SEQUENCE, places] = self.store.add(rows.take(places, self.side.types))
        else:
            lines[SEQUENCE] = self.store.add(rows)
        passing = lines[SEQUENCE] >= 0
        stays = shown if self._lends else current | shown
        self.passing = lines[SEQUENCE, passing & ~stays] if holds else lines[SEQUENCE, passing]
        if self.store.used > self.cells.shape[1]:
            self._widen()
        if self.partitioned:
            self.make_room(int(lines[INSTANCE].max()) + 1)

    def make_room(self, instances: int) -> None:
        """Provide room for `instances` instances."""
        self.looks, self.marks = grown(self.looks, instances), grown(self.marks, instances)

    @property
    def keys(self) -> Int64Array:
        """Return the numbers by which the window orders its rows."""
        return _NO_KEYS if self._telling is None else self._telling.keys

    def shown(self) -> Int64Array:
        """Return the slots of the rows on the shelf, in order of arrival."""
        gone = np.zeros(self.store.used, dtype=np.bool_)
        gone[self.passing] = True
        (slots,) = (self.store.live() & ~gone).nonzero()
        slots = slots[self._is_put[slots]] if len(self.lines[0]) else slots
        order: Int64Array = slots[np.argsort(self.cells[PUT_AT, slots], kind="stable")]
        return order

    @property
    def _is_put(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return which slots have rows from earlier steps."""
        put = np.ones(self.store.used, dtype=np.bool_)
        put[self.lines[SEQUENCE, self.lines[SEQUENCE] >= 0]] = False
        return put

    def _widen(self) -> None:
        slots, old = self.shown(), self.cells
        self.cells = new_cells(2 * self.store.used)
        lines = [kernel_array(old[line, slots]) for line in _KEPT_LINES]
        fill_shelf(self.cells, slots, *lines)

    def keep(self, slots: Int64Array) -> None:
        """Keep only the rows in `slots` on the shelf."""
        gone = np.setdiff1d(self.shown(), slots)
        lines = [kernel_array(self.cells[line, slots]) for line in _KEPT_LINES]
        fill_shelf(self.cells, slots, *lines)
        self.store.free(gone)

    def let_go(self, freed: int) -> None:
        """End the step, in which this many rows have left the shelf."""
        if freed:
            self.store.free(self.cells[FREED, :freed])
        if len(self.passing):
            self.store.free(self.passing)
        self.lines, self.passing = _NO_MOVES, NO_POSITIONS

    # ---- state

    def snapshot(self) -> State:
        slots = self.shown()
        cells = self.cells[:, slots]
        lines = (cells[CELL_STAMP], None, np.zeros(len(slots), INT64), cells[PUT_AT])
        batch = EventBatch(*lines, self.store.take(slots), only_current=True)
        seen = self.looks[np.minimum(cells[CELL_INSTANCE], len(self.looks) - 1)] > cells[PUT_AT]
        return [snapshot_batch(batch), cells[CELL_NUMBER].copy(), cells[CELL_INSTANCE].copy(), seen]

    def restore(self, state: State, first_tick: int) -> None:
        """Restore the shelf from `snapshot`, with ticks from `first_tick` on.

        Rows that were read come first.
        """
        saved, numbers, instances, seen = state
        batch = restore_batch(saved, self.side.pool)
        assert batch is not None  # noqa: S101 - a shelf writes one, if only of no rows
        self.store = SlotStore(self.side.types, self.side.pool)
        slots = self.store.add(batch)
        size = len(slots)
        self.cells = new_cells(2 * size)
        self.looks = np.full(int(instances.max(initial=0)) + 1, first_tick + size, INT64)
        ticks = first_tick + np.arange(size) + np.where(seen, 0, size + 1)
        keys = kernel_array(self.condition.key_numbers(self.side, batch))
        stamps = kernel_array(batch.timestamps)
        numbers, instances = kernel_array(numbers), kernel_array(instances)
        places = self._places_in_window(numbers, instances)
        fill_shelf(self.cells, slots, keys, numbers, instances, stamps, ticks, places)
        self.marks = np.zeros(len(self.looks), INT64)
        if self._telling is not None and self._telling.plan.kind == SORT_KIND:
            full = np.flatnonzero(self._telling.sorted_instances())
            self.make_room(int(full.max(initial=0)) + 1)
            self.marks[full] = 1
        elif self._telling is not None:
            self.marks[:] = np.bincount(instances, minlength=len(self.marks))
        self.lines, self.passing = _NO_MOVES, NO_POSITIONS

    def _places_in_window(self, numbers: Int64Array, instances: Int64Array) -> Int64Array:
        """Return the slots of rows in the window, whose state has been restored already."""
        places: Int64Array = np.zeros(len(numbers), INT64)
        if self._telling is not None:
            slots = np.flatnonzero(self._telling.slots.live())
            known = zip(
                self._telling.rows[WINDOW_INSTANCE, slots].tolist(),
                self._telling.slots.take(slots)[ROW_NUMBER].values.tolist(),
                strict=True,
            )
            slot_of = dict(zip(known, slots.tolist(), strict=True))
            places[:] = [slot_of[row] for row in zip(instances.tolist(), numbers.tolist(), strict=True)]
        return places


class MovingJoin(Stateful):
    """A join that follows both windows; with `only_current` the output for expired rows and resets is not read."""

    def __init__(
        self, sides: tuple[Side, Side], condition: JoinCondition, context: OperatorContext, *, only_current: bool
    ) -> None:
        self._ranks = context.instance_ranks if context.partitioned else None
        self._partitioned = context.partitioned
        self.shelves = tuple(_Shelf(side, condition, partitioned=context.partitioned) for side in sides)
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
            self._walk[NATURE + side.slot] = nature | _nature_of_window(side)

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

    def _take_in(self, shelf: _Shelf, rows: EventBatch, step: Step) -> None:
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
        self, columns: dict[str, Column], shelf: _Shelf, names: Sequence[tuple[str, str]], slots: Int64Array
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
        return [_joined([state[slot] for state in states], ids, shelf.side) for slot, shelf in enumerate(self.shelves)]

    def close_partitions(self, partitions: Int64Array) -> None:
        for shelf in self.shelves:
            slots = shelf.shown()
            shelf.keep(slots[~np.isin(shelf.cells[CELL_INSTANCE, slots], partitions)])
            shelf.marks[partitions[partitions < len(shelf.marks)]] = 0


def _joined(states: Sequence[State], ids: Sequence[Int64Array], side: Side) -> State:
    """Return one state of the shelves of all `states`."""
    batches = [restore_batch(saved, side.pool) for saved, _, _, _ in states]
    numbers = [own for _, own, _, _ in states]
    instances = [known[own] for (_, _, own, _), known in zip(states, ids, strict=True)]
    whole = EventBatch.concat([batch for batch in batches if batch is not None])
    seen = np.concatenate([own for _, _, _, own in states])
    return [snapshot_batch(whole), np.concatenate(numbers), np.concatenate(instances), seen]
