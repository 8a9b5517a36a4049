"""One side of a join of moving windows: its rows, and the output of its window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.column_names import internal_name
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.batch_state import restore_batch, snapshot_batch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.kinds import CURRENT, RESET
from siddhi.engine.columnar.slot_store import SlotStore
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import INT64, NO_POSITIONS, Int64Array
from siddhi.engine.jit.kernels import grown, kernel_array
from siddhi.engine.operators.base.operator import Operator, OperatorContext, Step
from siddhi.engine.operators.base.per_instance import PerInstance
from siddhi.engine.operators.joins.condition import JoinCondition
from siddhi.engine.operators.joins.shelves import (
    BARE,
    BY_TIMER,
    CELL_INSTANCE,
    CELL_KEY,
    CELL_NUMBER,
    CELL_PLACE,
    CELL_STAMP,
    FREED,
    HASHED,
    HIDES,
    HOLDS,
    INSTANCE,
    LENDS,
    MARKS,
    MOVE_LINES,
    NUMBER,
    PLACE,
    PUT_AT,
    ROW_KEY,
    SORTED,
    fill_shelf,
    new_cells,
)
from siddhi.engine.operators.joins.side import Side
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


def nature_of_window(side: Side) -> int:
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


class Shelf:
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


def joined_shelves(states: Sequence[State], ids: Sequence[Int64Array], side: Side) -> State:
    """Return one state of the shelves of all `states`."""
    batches = [restore_batch(saved, side.pool) for saved, _, _, _ in states]
    numbers = [own for _, own, _, _ in states]
    instances = [known[own] for (_, _, own, _), known in zip(states, ids, strict=True)]
    whole = EventBatch.concat([batch for batch in batches if batch is not None])
    seen = np.concatenate([own for _, _, _, own in states])
    return [snapshot_batch(whole), np.concatenate(numbers), np.concatenate(instances), seen]
