"""Joins: each event of one side is joined with the contents of the other side at that moment.

    a side    is             a batch runs
    quiet     a table, a named window or an aggregation, which the join does not change
    sliding   a window that is a queue, or a stream without a window
    moving    any window that shows the rows in the order of its output, also for all instances of a partition
    other     any other window

One quiet side: all events of the other side are joined with it at once (`siddhi.engine.operators.joins.meeting`). Two
sliding sides: one loop over both (`siddhi.engine.operators.joins.sliding`); two moving ones: another
(`siddhi.engine.operators.joins.moving`). Otherwise chunks are processed one after another, each with the contents of
the other side at that time.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from siddhi.engine.columnar.batch import EventBatch, empty_batch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.state_size import StateSize, total
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.choices import Execution
from siddhi.engine.operators.base.operator import MergedRows, MergingOperator, OperatorContext, Stateful, Step
from siddhi.engine.operators.expressions.aggregation import AggregateNode
from siddhi.engine.operators.joins.condition import JoinCondition
from siddhi.engine.operators.joins.held import NamedWindowHistory
from siddhi.engine.operators.joins.meeting import meet_held
from siddhi.engine.operators.joins.moving import MovingJoin
from siddhi.engine.operators.joins.side import Side
from siddhi.engine.operators.joins.sliding import SlidingJoin
from siddhi.engine.operators.windows.base.sliding import SlidingWindow
from siddhi.language.ast import AttributeType


class JoinOperator(MergingOperator):
    """A join that selects the pairs of one probing event as a chunk.

    The pairs of all events of one chunk leave the query together. With `only_current` the output for expired events
    and resets is not read; with `moving` the rows of both sides are numbered, so that one loop can follow their
    windows.
    """

    def __init__(
        self,
        sides: tuple[Side, Side],
        condition: JoinCondition,
        context: OperatorContext,
        *,
        only_current: bool,
        moving: bool = False,
    ) -> None:
        self.sides = sides
        self.sources = tuple(dict.fromkeys(side.source for side in sides if side.source is not None))
        selected = {column: side.types[name] for side in sides for column, name in side.selected}
        self._places = [None if side.source is None else self.sources.index(side.source) for side in sides]
        self._nothing = empty_batch(tuple(selected.items()), context.pool)
        self._empty = [side.nothing for side in sides]
        self.only_current = only_current
        self._partitioned = context.partitioned
        sliding = all(side.bare or isinstance(side.window, SlidingWindow) for side in sides)
        in_turn = condition.careful and len(self.sources) == 1  # an event that fails on the left skips the right
        sliding = sliding and not (in_turn or condition.keeps_state or moving)
        self.sliding = SlidingJoin(sides, condition, only_current=only_current) if sliding else None
        """The loop over both sides, if each is a queue or stores nothing."""
        self.moving = MovingJoin(sides, condition, context, only_current=only_current) if moving else None
        """The loop over both sides, if rows may leave in any order, or for many instances."""
        self.steady = self._steadily_met()
        """The side whose events meet the other one, if the other side never has events."""
        self.tracked = self._tracked_side(condition)
        """The side that is a named window whose changes the join can follow, if there is one."""
        self._condition = condition
        if self.sliding is not None or self.moving is not None:
            self.execution = Execution.COMPILED
        elif self.steady is None and self.tracked is None:
            self.execution = Execution.CHUNKS
        held = [node for side in sides for node in side.held.aggregates]
        self._aggregates = [_Aggregates(held)] if held else []
        self._left_first: tuple[bool, bool] | None = None

    def process(self, inputs: MergedRows, step: Step) -> EventBatch:
        if self._partitioned and any(batch.chunks is not None for batch in inputs.batches):
            inputs = MergedRows([_of_one_instance(batch) for batch in inputs.batches], inputs.ranks, inputs.timer_ranks)
        if self.steady is not None and (self.steady[0].window is None or inputs.batches[0].chunks is None):
            return self._meet_quiet(*self.steady, inputs.batches[0], step)
        left, right = self.sides
        batches = self._batches(inputs)
        if self.moving is not None and self.moving.goes_at_once(batches):
            joined = self.moving.process(batches, step, self._input_order(inputs))
            return self._nothing if joined is None else joined
        if self.sliding is not None and self._may_slide(*batches):
            joined = self.sliding.process(*batches, step, left_first=self._input_order(inputs))
            return self._nothing if joined is None else joined
        for side, other in ((left, right), (right, left)):
            batch = batches[side.slot]
            if other.is_quiet and not batches[other.slot].size and (side.window is None or batch.chunks is None):
                return self._meet_quiet(side, other, batch, step)
        if self.tracked is not None:
            return self._meet_tracked(self.tracked, batches, inputs, step)
        if self.sliding is not None:
            self.sliding.mark_outdated()
        return self._chunk_by_chunk(inputs, step)

    @property
    def keeps_nothing(self) -> bool:
        """Return whether the join reads a table and keeps no state itself."""
        return self.steady is not None and not self._parts() and not self.timed and not self._condition.careful

    def _input_order(self, inputs: MergedRows) -> tuple[bool, bool]:
        """Return whether the left's stream comes first.

        The first item is for events of one time, the second for rows that timers of one time sent.
        """
        if self._left_first is None:
            left, right = self.sides
            ranks = inputs.ranks, inputs.timer_ranks or inputs.ranks
            first, with_timers = (self._rank(left, of) <= self._rank(right, of) for of in ranks)
            self._left_first = first, with_timers
        return self._left_first

    def _steadily_met(self) -> tuple[Side, Side] | None:
        """Return the side whose events meet the other one, which never has events, and that other side.

        Return None when there is no such side.
        """
        for side, other in (self.sides, self.sides[::-1]):
            if other.source is None:
                return side, other
        return None

    def _tracked_side(self, condition: JoinCondition) -> Side | None:
        """Return the side that is a named window which reports all its changes, None when there is none.

        The other side must be without a window. Then the rows of this window, among which there is no reset, produce
        nothing, and the events of the other side probe the window.
        """
        for side, other in (self.sides, self.sides[::-1]):
            quiet = side.moves is not None and not side.chain and not (side.triggers and side.keeps_unmatched)
            if quiet and other.bare and not condition.careful and side.source != other.source:
                return side
        return None

    def _meet_tracked(
        self, side: Side, batches: tuple[EventBatch, EventBatch], inputs: MergedRows, step: Step
    ) -> EventBatch:
        """Return the output of events of the other side, joined with the named window `side` at their moment."""
        other = self.sides[1 - side.slot]
        if side.moves is None or not batches[other.slot].size or not other.triggers:
            return self._nothing
        ranks = self._rank(side, inputs.ranks), self._rank(other, inputs.ranks)
        held = NamedWindowHistory(side.slot, side.moves, self._condition, ranks, step)
        rows = other.arriving(batches[other.slot], step) if other.chain else batches[other.slot]
        only_current = self.only_current
        met = meet_held(other, replace(side, held=held), rows, step, only_current=only_current) if rows.size else None
        return self._nothing if met is None else met

    def _batches(self, inputs: MergedRows) -> tuple[EventBatch, EventBatch]:
        """Return the rows that arrive at each side."""
        batches, (left, right), empty = inputs.batches, self._places, self._empty
        return empty[0] if left is None else batches[left], empty[1] if right is None else batches[right]

    def _rank(self, side: Side, ranks: Sequence[int]) -> int:
        return -1 if side.source is None else ranks[self.sources.index(side.source)]

    def _may_slide(self, left: EventBatch, right: EventBatch) -> bool:
        """Return whether the join can follow both windows in one loop.

        For this, every event must be its own chunk, an event that arrives at both sides must differ from all others,
        and rows must leave both windows in the order in which they arrived.
        """
        for side, batch in zip(self.sides, (left, right), strict=True):
            if isinstance(side.window, SlidingWindow) and not side.window.keeps_order(batch):
                return False
        if (left.chunks is not None and left.size) or (right.chunks is not None and right.size):
            return False
        if left is not right or left.size < 2:
            return True
        orders = left.orders
        return bool((orders[1:] != orders[:-1]).all())

    def _meet_quiet(self, side: Side, other: Side, batch: EventBatch, step: Step) -> EventBatch:
        rows = side.arriving(batch, step) if side.chain else batch
        if side.window is not None and (rows.size or side.is_due(step.final_clock)):
            rows = side.let_out(rows, step)
        if not side.triggers or not rows.size:
            return self._nothing
        met = meet_held(side, other, rows, step, only_current=self.only_current)
        return self._nothing if met is None else met

    # ---- chunk by chunk

    def _chunk_by_chunk(self, inputs: MergedRows, step: Step) -> EventBatch:
        """Return the output of the join chunk by chunk.

        Timers come first, then the chunk passes its side's window, and the window's output meets the other side.
        """
        out: list[EventBatch] = []
        floor, done = step.floor, -1
        for source, batch, order, clock in _chunks(inputs):
            self._fire_timers(step, order, clock, floor, done, out)
            readers = [side for side in self.sides if side.source == self.sources[source]]
            parts = [batch] if len(readers) == 1 else [batch.slice(row, row + 1) for row in range(batch.size)]
            for part, side in itertools.product(parts, readers):
                if self._feed(side, part, order, Step(np.full(1, clock, dtype=np.int64), floor), step, out):
                    break
            floor, done = clock, order
        self._fire_timers(step, step.final_order, step.final_clock + 1, floor, done, out)
        return EventBatch.concat(out) if out else self._nothing

    def _fire_timers(self, step: Step, order: int, clock: int, floor: int, done: int, out: list[EventBatch]) -> None:
        """Fire the timers of both windows between two rows.

        They come after the row of order `done` and before a row of (`order`, `clock`). Where the clock jumps past
        timers of both windows, the left one emits all that is due before the right one does.
        """
        last: int | None = None
        while (due := self.next_deadline_ms()) is not None and due != last:
            at, shown = step.timer_order(due, done), max(due, floor)
            if at > step.final_order or (at, shown) >= (order, clock):
                return
            last = due
            now = Step(np.full(1, shown, dtype=np.int64), floor)
            if self.moving is not None:
                left, right = (self._empty[side.slot] if side.is_due(shown) else None for side in self.sides)
                if (met := self.moving.let_out((left, right), now, at)) is not None:
                    out.append(met)
                continue
            for side in self.sides:
                if side.window is not None and side.is_due(shown):
                    self._meet(side, side.let_out(self._empty[side.slot], now), at, step, out)

    def _feed(self, side: Side, batch: EventBatch, order: int, now: Step, step: Step, out: list[EventBatch]) -> bool:
        """Process `batch` on `side`; return whether some of it failed."""
        known = step.failure_count
        rows = side.arriving(batch.at_order(1), now)
        for orders, message in zip(now.failures.orders, now.failures.messages, strict=True):
            step.failures.add(np.full(len(orders), order), message)
        if self.moving is not None:
            parts = (rows, None) if side.slot == 0 else (None, rows)
            met = self.moving.let_out(parts, now, order) if rows.size else None
            if met is not None:
                out.append(met.with_chunks(met.chunk_ids(), np.zeros(met.size, dtype=np.int64)))
            return step.failure_count > known
        if rows.size:
            rows = side.let_out(rows, now)
        self._meet(side, rows, order, step, out)
        return step.failure_count > known

    def _meet(self, side: Side, rows: EventBatch, order: int, step: Step, out: list[EventBatch]) -> None:
        """Emit the output of `rows`, which `side` releases, as one delivery.

        A side that does not trigger emits nothing, not even the end of its batches.
        """
        if not side.triggers or not rows.size:
            return
        other = self.sides[1 - side.slot]
        met = meet_held(side, other, rows.at_order(order), step, only_current=self.only_current)
        if met is not None:
            out.append(met.with_chunks(met.chunk_ids(), np.zeros(met.size, dtype=np.int64)))

    # ---- lifecycle

    @property
    def timed(self) -> bool:
        return any(side.window is not None and side.window.timed for side in self.sides)

    def next_deadline_ms(self) -> int | None:
        windows = [side.window for side in self.sides if side.window is not None]
        return min((due for window in windows if (due := window.next_deadline_ms()) is not None), default=None)

    def _parts(self) -> list[Stateful]:
        parts: list[Stateful] = [*self._aggregates]
        for side in self.sides:
            parts += [*side.chain, *([] if side.window is None else [side.window])]
        return parts if self.moving is None else [*parts, self.moving]

    def start(self, clock_ms: int) -> None:
        for part in self._parts():
            part.start(clock_ms)

    def state_size(self) -> StateSize:
        return total(part.state_size() for part in self._parts())

    def snapshot(self) -> State:
        return [part.snapshot() for part in self._parts()]

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        return [part.joined([state[place] for state in states], ids) for place, part in enumerate(self._parts())]

    def close_partitions(self, partitions: Int64Array) -> None:
        for part in self._parts():
            part.close_partitions(partitions)

    def restore(self, state: State) -> None:
        for part, saved in zip(self._parts(), state, strict=True):
            part.restore(saved)
        if self.sliding is not None:
            self.sliding.mark_outdated()


class JoinWithMissingEvents(JoinOperator):
    """A join whose selection also reads events that a side never has, such as the second one of a pair.

    The columns `nowhere` are null.
    """

    def __init__(
        self,
        sides: tuple[Side, Side],
        condition: JoinCondition,
        context: OperatorContext,
        nowhere: Mapping[str, AttributeType],
        *,
        only_current: bool,
        moving: bool = False,
    ) -> None:
        super().__init__(sides, condition, context, only_current=only_current, moving=moving)
        self._pool = context.pool
        self._nowhere = nowhere

    def process(self, inputs: MergedRows, step: Step) -> EventBatch:
        met = super().process(inputs, step)
        nulls = {name: Column.nulls(type_, self._pool, met.size) for name, type_ in self._nowhere.items()}
        return met.with_columns({**met.columns, **nulls})


class _Aggregates(Stateful):
    """The state of aggregates in the condition of a join, for each direction."""

    def __init__(self, nodes: Sequence[AggregateNode]) -> None:
        self._nodes = nodes

    def snapshot(self) -> State:
        return [node.aggregator.snapshot() for node in self._nodes]

    def restore(self, state: State) -> None:
        for node, part in zip(self._nodes, state, strict=True):
            node.aggregator.restore(part)


def _of_one_instance(batch: EventBatch) -> EventBatch:
    """Return `batch` in chunks of rows of one partition instance each."""
    chunks, partitions = batch.chunks, batch.partitions
    if chunks is None or partitions is None or not batch.size:
        return batch
    numbers = np.zeros(batch.size, dtype=np.int64)
    np.cumsum((chunks[1:] != chunks[:-1]) | (partitions[1:] != partitions[:-1]), out=numbers[1:])
    return batch.with_chunks(numbers, batch.deliveries)


def _chunks(inputs: MergedRows) -> list[tuple[int, EventBatch, int, int]]:
    """Return the chunks of `inputs` in order: input, rows, order, clock."""
    chunks: list[tuple[int, EventBatch, int, int]] = []
    ids = [batch.chunk_ids() for batch in inputs.batches]
    place = 0
    while place < inputs.size:
        source = int(inputs.sources[place])
        start = int(inputs.rows[place])
        stop = start + 1
        line = ids[source]
        while stop < len(line) and line[stop] == line[start]:
            stop += 1
        batch = inputs.batches[source].slice(start, stop)
        chunks.append((source, batch, int(inputs.orders[place]), int(inputs.clocks[place])))
        place += stop - start
    return chunks
