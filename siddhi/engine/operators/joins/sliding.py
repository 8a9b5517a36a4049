"""A join in which each side is a sliding window or a stream without a window: whole batches of both sides at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.kinds import CURRENT, RESET
from siddhi.engine.columnar.row_store import RowStore
from siddhi.engine.jit.arrays import INT64, NO_POSITIONS, AnyArray, Int64Array
from siddhi.engine.jit.kernels import kernel_array
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.base.scope import slot_column
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode
from siddhi.engine.operators.joins.condition import JoinCondition
from siddhi.engine.operators.joins.queues import (
    BARE,
    CURRENT_ONLY,
    KEEPS,
    LEFT,
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
    RIGHT,
    TRIGGERS,
    WALK_LINES,
    fill_ring,
    meet,
    new_ring,
    roomy_ring,
)
from siddhi.engine.operators.joins.side import Fetch, Side, with_nulls
from siddhi.engine.operators.windows.base.emission import CHUNK, CLOCK, KIND, ORDER, SEQUENCE, TIMESTAMP, new_emission
from siddhi.engine.operators.windows.base.sliding import SlidingWindow
from siddhi.engine.operators.windows.length import LengthWindow

_NOTHING = new_emission(0)
_NO_PAIRS: Int64Array = np.zeros((PAIR_LINES, 0), INT64)


class _FlowingSide:
    """One side of the join during a batch: its ring, and the output of its window in the current step."""

    def __init__(self, side: Side, condition: JoinCondition) -> None:
        self.side = side
        self.window = side.window if isinstance(side.window, SlidingWindow) else None
        self.timed = self.window is not None and self.window.timed
        self.condition = condition
        self.key = condition.key_attribute(side)
        self.names = tuple((slot_column(side.slot, name), name) for name in side.types)
        self.ring = new_ring(0)
        self.fetch: Fetch = _nothing_came if self.window is None else self.window.store.column_at
        """Returns an attribute of the rows at some positions."""
        self.keys = NO_POSITIONS
        self.emission = _NOTHING
        self.count = 0
        self.start = 0
        self.offset = 0

    def take_in(self, batch: EventBatch, step: Step, walk: Int64Array) -> None:
        """Process this step in the window and keep its output."""
        rows = self.side.arriving(batch, step) if self.side.chain else batch
        if rows.size:
            self.keys = self._keys_of(rows)
        elif not (self.timed and self.side.is_due(step.final_clock)):
            return
        window = self.window
        if window is None:
            self.emission, self.count = new_emission(rows.size), rows.size
            _let_pass(self.emission, rows.timestamps, rows.orders, rows.clocks)
            self.fetch = lambda name, positions: rows.columns[name].take(positions)
            return
        self.start = window.store.end
        self.emission, self.count = window.let_out(rows, step)
        self._follow_store(window.store, walk)

    def _follow_store(self, store: RowStore, walk: Int64Array) -> None:
        """Make room in the ring for the rows that were added to the window's store."""
        self.offset = store.offset
        if store.end - self.shown_from(walk) > self.ring.shape[1]:
            self.ring = roomy_ring(self.ring, self.shown_from(walk), self.start, store.end)

    def add_few(
        self,
        timestamps: Int64Array,
        values: Sequence[tuple[str, AnyArray]],
        keys: Int64Array,
        orders: Int64Array,
        emission: Int64Array,
        walk: Int64Array,
    ) -> None:
        """Add a few rows with these `values` of the attributes that the window stores, as `take_in` does.

        Only codes may be null; the window must be one of `length`. The output is written into `emission`, which has
        room for three rows for each. The clock is taken to be the rows' timestamps, as it only determines when rows
        expire.
        """
        self.keys, self.emission, window = keys, emission, self.window
        if window is None:
            _let_pass(emission, timestamps, orders, timestamps)
            self.count = len(timestamps)
            return
        assert isinstance(window, LengthWindow)  # noqa: S101 - of no other there are such rows
        start = self.start = window.store.append_values(len(timestamps), timestamps, values)
        self.count = window.let_out_rows(start, timestamps, orders, timestamps, NO_POSITIONS, emission)
        self._follow_store(window.store, walk)

    def _keys_of(self, rows: EventBatch) -> Int64Array:
        if self.key is None:
            return self.condition.key_numbers(self.side, rows)
        return kernel_array(rows.columns[self.key].values)

    def shown_from(self, walk: Int64Array) -> int:
        """Return the sequence number of the oldest row in the ring."""
        return int(walk[OLDEST + self.side.slot])

    def let_go(self) -> None:
        """Release the rows that arrived in the step."""
        self.keys, self.emission = NO_POSITIONS, _NOTHING
        self.count = self.start = 0
        if self.window is None:
            self.fetch = _nothing_came

    def catch_up(self) -> int:
        """Fill the ring with the window's contents; return the sequence number of its first row."""
        if self.window is None:
            return 0
        sequences = self.window.visible()
        stamps, self.offset = self.window.store.timestamps()
        columns = self.window.store.take(sequences)
        rows = EventBatch(stamps[sequences - self.offset], None, None, None, columns, only_current=True)
        first = int(sequences[0]) if len(sequences) else self.window.store.end
        self.ring = new_ring(len(sequences))
        fill_ring(self.ring, first, self.condition.key_numbers(self.side, rows))
        return first


def _nothing_came(name: str, positions: Int64Array) -> Column:
    """Raise an error for rows of a side that stores nothing.

    Such a side has rows only in the step in which they arrive.
    """
    raise AssertionError(f"'{name}' is asked for of {len(positions)} rows that have not come")


def _let_pass(emission: Int64Array, timestamps: Int64Array, orders: Int64Array, clocks: Int64Array) -> None:
    """Fill the first rows of `emission` with events that no window stores."""
    count = len(timestamps)
    emission[SEQUENCE, :count] = emission[CHUNK, :count] = np.arange(count)
    emission[KIND, :count] = CURRENT
    emission[TIMESTAMP, :count], emission[ORDER, :count], emission[CLOCK, :count] = timestamps, orders, clocks


class SlidingJoin:
    """A join that follows both windows; with `only_current` the output for expired rows and resets is not read."""

    def __init__(self, sides: tuple[Side, Side], condition: JoinCondition, *, only_current: bool) -> None:
        self.flows = (_FlowingSide(sides[0], condition), _FlowingSide(sides[1], condition))
        self._rest = condition.after_keys
        self._careful = condition.careful
        self._only_current = only_current
        self._lonely = [other.keeps_unmatched or not only_current for other in (sides[1], sides[0])]
        """Whether rows of the left and of the right side may be output with nulls."""
        self.behind = True
        """Whether the windows have changed without this join, which must then catch up before it continues."""
        self._walk: Int64Array = np.zeros(WALK_LINES, dtype=np.int64)
        self._walk[NULL] = condition.null_number
        for side in sides:
            nature = TRIGGERS * side.triggers + KEEPS * side.keeps_unmatched + BARE * side.bare
            nature += CURRENT_ONLY * only_current + NEEDS_NULLS * (self._rest is not None)
            self._walk[NATURE + side.slot] = nature

    @property
    def gives_all(self) -> bool:
        """True when the output is every pair of current rows with equal keys, and nothing else."""
        return self._only_current and self._rest is None and not any(self._lonely)

    def mark_outdated(self) -> None:
        """Record that the windows have changed without this join."""
        self.behind = True

    def process(
        self, left_batch: EventBatch, right_batch: EventBatch, step: Step, *, left_first: tuple[bool, bool]
    ) -> EventBatch | None:
        """Return the output of the sides' new rows and due timers, None when there is none.

        `left_first` contains whether the left's stream comes first among events of one time, and among rows that timers
        of one time sent.
        """
        left, right = self.flows
        walk = self._walk
        if self.behind:
            walk[OLDEST], walk[OLDEST + 1] = left.catch_up(), right.catch_up()
            self.behind = False
        if left_batch.size or left.timed:
            left.take_in(left_batch, step, walk)
        if right_batch.size or right.timed:
            right.take_in(right_batch, step, walk)
        if not (left.count or right.count):
            return None
        joined = self._joined(step, left_first=left_first)
        if left.count:
            left.let_go()
        if right.count:
            right.let_go()
        return joined

    def add_few(
        self,
        slot: int,
        timestamps: Int64Array,
        values: Sequence[tuple[str, AnyArray]],
        keys: Int64Array,
        orders: Int64Array,
        emission: Int64Array,
    ) -> None:
        """Add rows of one side, as `_FlowingSide.add_few` does; `meet` returns their output."""
        self.flows[slot].add_few(timestamps, values, keys, orders, emission, self._walk)

    def meet(self, out: Int64Array, *, goes_on: bool, left_first: tuple[bool, bool]) -> tuple[int, bool, int, int]:
        """Return the result of `queues.meet` for the output of both sides in this step.

        See `siddhi.engine.operators.joins.queues`.
        """
        left, right = self.flows
        told: tuple[int, bool, int, int] = meet(
            self._walk,
            goes_on,
            *left_first,
            left.start,
            left.offset,
            left.count,
            left.emission,
            left.keys,
            left.ring,
            right.start,
            right.offset,
            right.count,
            right.emission,
            right.keys,
            right.ring,
            out,
        )
        return told

    def _joined(self, step: Step, *, left_first: tuple[bool, bool]) -> EventBatch | None:
        """Return the pairs of this step, None when there are none."""
        left, right = self.flows
        failed: list[Int64Array] = []
        blocks: list[Int64Array] = []
        capacity = 2 * (left.count + right.count) + 16
        done = goes_on = False
        while not done:
            out: Int64Array = np.empty((PAIR_LINES, capacity), INT64)
            count, done, chunks, deliveries = self.meet(out, goes_on=goes_on, left_first=left_first)
            if done and not goes_on and self._rest is None:
                if not count:
                    return None
                return self._batch(out[:, :count], alone=chunks == count, together=deliveries != chunks)
            if count:
                pairs = out[:, :count]
                blocks.append(pairs if self._rest is None else self._standing(self._rest, pairs, failed, step))
            capacity = capacity if count else 2 * capacity
            goes_on = True
        pairs = np.concatenate(blocks, axis=1) if blocks else _NO_PAIRS
        if failed:
            pairs = pairs[:, ~np.isin(pairs[OUT_DELIVERY], np.concatenate(failed))]
        return self._batch(pairs, alone=False, together=True) if pairs.shape[1] else None

    def _batch(self, pairs: Int64Array, *, alone: bool, together: bool) -> EventBatch:
        """Return the batch of `pairs`.

        Pairs that are chunks of their own (`alone`) or leave chunk by chunk (not `together`) need no numbers.
        """
        left, right = self.flows
        columns: dict[str, Column] = {}
        self._add_columns(columns, left, left.side.selected, pairs[LEFT])
        self._add_columns(columns, right, right.side.selected, pairs[RIGHT])
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

    def _add_columns(
        self, columns: dict[str, Column], flow: _FlowingSide, names: Sequence[tuple[str, str]], positions: Int64Array
    ) -> None:
        """Add the attributes `names` (column, attribute) of the rows at these positions to `columns`, null for -1."""
        if not self._lonely[flow.side.slot]:
            fetch = flow.fetch
            for column, name in names:
                columns[column] = fetch(name, positions)
            return
        missing = positions < 0
        some_row = int(positions.max())
        if some_row < 0:
            types, pool, size = flow.side.types, flow.side.pool, len(positions)
            columns.update((column, Column.nulls(types[name], pool, size)) for column, name in names)
            return
        some, fetch = np.where(missing, some_row, positions), flow.fetch
        columns.update((column, with_nulls(fetch(name, some), missing)) for column, name in names)

    def _standing(self, rest: ExpressionNode, pairs: Int64Array, failed: list[Int64Array], step: Step) -> Int64Array:
        """Return the pairs for which `rest`, the remaining condition, is true.

        A row of nulls remains when no pair of its chunk does, a reset always. `failed` gets the deliveries for which
        `rest` failed; they are recorded.
        """
        columns: dict[str, Column] = {}
        for place, flow in enumerate(self.flows):
            self._add_columns(columns, flow, flow.names, pairs[place])
        lines = (pairs[OUT_TIMESTAMP], None, pairs[OUT_ORDER], pairs[OUT_CLOCK])
        alone = (pairs[0] < 0) | (pairs[1] < 0)
        evaluation = Evaluation(EventBatch(*lines, columns, only_current=True), ~alone if self._careful else None)
        standing = rest.truth(evaluation) & ~alone
        if evaluation.failed is not None:
            (rows,) = evaluation.failed.nonzero()
            for places, text in evaluation.reasons.of(rows):
                step.failures.add(pairs[OUT_ORDER][rows[places]], text)
            failed.append(pairs[OUT_DELIVERY][evaluation.failed])
        if alone.any():
            chunks = pairs[OUT_CHUNK] - pairs[OUT_CHUNK, 0]
            met = np.zeros(int(chunks[-1]) + 1, dtype=np.bool_)
            met[chunks[standing]] = True
            standing = standing | (alone & (~met[chunks] | (pairs[OUT_KIND] == RESET)))
        return pairs[:, standing.nonzero()[0]]
