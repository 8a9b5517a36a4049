"""A window that events leave one by one and the following selection, in one loop.

    S ─►─ filters ─►─┬─ symbol, price, … of the events that came ──────────────────────────────┬─►─ Out
                     │                                                                         │
                     └─►─ held rows: price, time, group ─►─ moves: +d −a +e … ─►─ aggregates ──┘

    length 2    in        a          b          c               d
                moves     +a write   +b write   −a +c write     −b +d write
                out       a, avg     b, avg     c, avg          d, avg

Only current events leave such a query, so an event that leaves the window does not become a row: its arguments are
subtracted from the accumulators of its group before the next event is added. Nothing has to happen at the time at which
it leaves, and no timer is set. For each event the window stores the arguments of aggregates, the id of its group, and
its time if that determines when it leaves.

Events nearly always arrive in the order of their times, so that the oldest stored row is the next to leave. If one does
not, rows are moved: a time window is always sorted by time, and a window of length and time stays in order of arrival,
except that rows that are due come first.

A group without events is reset: the rounding errors of its sums disappear with its last event, and its id may be
reused. This does not apply to the forever aggregates, which outlive their events.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import BoolArray, Int64Array
from siddhi.engine.jit.kernels import kernel_array
from siddhi.engine.operators.aggregates.accumulators import SOURCES
from siddhi.engine.operators.aggregates.moves import ADD, GROUP_SHIFT, NARROW, ROW_SHIFT
from siddhi.engine.operators.base.operator import NEVER, OperatorContext, RemovalOrder, Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import ExpressionNode
from siddhi.engine.operators.expressions.leaves import ColumnNode, TimestampNode, scalar_or_none
from siddhi.engine.operators.filters import with_value
from siddhi.engine.operators.fused_windows.fused import (
    NO_NUMBERS,
    FusedSelection,
    NodeLines,
    room_for_moves,
)
from siddhi.engine.operators.fused_windows.group_table import BY_HASH, HOW, NO_ROOM, UNUSED
from siddhi.engine.operators.fused_windows.row_rings import Line, RowRings
from siddhi.engine.operators.fused_windows.shape import Shape
from siddhi.engine.operators.fused_windows.sliding_kernel import (
    BY_ATTRIBUTE,
    BY_CLOCK,
    DURATION,
    FIRST,
    GIVES_BACK,
    GROUP_LINE,
    KEEPS_GROUPS,
    LENGTH,
    NO_MOVE_LEFT,
    PLANNED,
    ROW,
    TIME_LINE,
    TIMING,
    UNTIMED,
    WINDOW_STATE_SIZE,
    let_go,
    slide,
)
from siddhi.engine.operators.selection.groups import key_values
from siddhi.engine.operators.selection.selector import last_of_each_group
from siddhi.engine.operators.windows.base.by_time import LONG_AGO, ascends
from siddhi.engine.operators.windows.base.window import BEYOND_REACH
from siddhi.engine.tuning import INITIAL_MOVES
from siddhi.language.ast import AttributeType


@dataclass(frozen=True, slots=True)
class ExpiryRule:
    """When a row leaves: after `length` newer ones, or `duration` after its own time.

    That time is the attribute `time` or, if that is None and `timing` is `BY_CLOCK`, the timestamp and the clock.
    """

    length: int = NEVER
    duration: int = 0
    timing: int = UNTIMED
    time: ExpressionNode | None = None


def leaving_of(window: model.HandlerCall | None, context: OperatorContext) -> ExpiryRule | None:
    """Return when rows leave `window`, None when they do not leave it one by one."""
    if window is None:
        return ExpiryRule()
    if window.namespace:
        return None
    compiler = ExpressionCompiler(context)
    nodes = [compiler.compile(argument) for argument in window.arguments]
    numbers = [min(value, BEYOND_REACH) if isinstance(value, int) else 0 for value in map(scalar_or_none, nodes)]
    if window.name == "length" and numbers[0] > 0:
        return ExpiryRule(length=numbers[0])
    if window.name == "time":
        return ExpiryRule(duration=numbers[0], timing=BY_CLOCK, time=TimestampNode())
    if window.name == "externalTime" and isinstance(nodes[0], ColumnNode):
        return ExpiryRule(duration=numbers[1], timing=BY_ATTRIBUTE, time=nodes[0])
    if window.name == "timeLength" and numbers[1] > 0:
        return ExpiryRule(numbers[1], numbers[0], BY_CLOCK, TimestampNode())
    return None


def _stays_long(times: Int64Array, clocks: Int64Array, duration: int) -> int:
    """Return how many of the rows with these times arrive before they expire."""
    over = np.minimum.accumulate(times + duration)[:-1] <= clocks[1:]
    return int(over.argmax()) + 1 if over.any() else len(times)


class SlidingSelection(FusedSelection):
    """Every current event is emitted with the aggregates after its arrival; of a chunk, only the last of each group.

    Without a window events never leave, and none is stored.
    """

    def __init__(self, shape: Shape, leaving: ExpiryRule, context: OperatorContext) -> None:
        nodes = NodeLines(reserved=int(bool(shape.keys)))
        self._time_line = None if leaving.time is None else nodes.line(leaving.time)
        super().__init__(shape, context, nodes, first_cells=1)
        if isinstance(leaving.time, ColumnNode):
            self.columns[leaving.time.column] = leaving.time.type
        groups = [NARROW] if shape.keys else []
        self.rows = RowRings([*groups, *(SOURCES[node.type] for node in nodes.nodes)])
        self.coded = [*(False for _ in groups), *(node.type is AttributeType.STRING for node in nodes.nodes)]
        self.holds = leaving.length < NEVER or leaving.timing != UNTIMED
        self.end = 0
        state = self.state = np.zeros(WINDOW_STATE_SIZE, dtype=np.int64)
        state[LENGTH], state[DURATION], state[TIMING] = leaving.length, leaving.duration, leaving.timing
        state[KEEPS_GROUPS] = shape.lasting or not self.holds
        self.clocked = leaving.timing == BY_CLOCK
        self.attribute = leaving.time if leaving.timing == BY_ATTRIBUTE else None
        self._unordered = 0
        """Rows may leave in any order until this many rows have arrived in order since the last one out of order."""
        self._newest = LONG_AGO
        """The time of the newest stored row; a row that is not earlier is in order. Without order, `NEVER`."""
        self.kept = bool(state[KEEPS_GROUPS])
        self._duration = leaving.duration
        self._limited = leaving.length < NEVER
        self._first = 0
        self._moves: Int64Array = np.empty(INITIAL_MOVES, dtype=np.int64)

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        if self.attribute is not None:
            batch = with_value(batch, self.attribute, step, "the time of 'externalTime'")
        size, accumulators = batch.size, self.accumulators
        clocks = kernel_array(batch.clocks) if self.clocked else NO_NUMBERS
        out, out_valid = accumulators.room_for(size)
        chunked = batch.chunks is not None
        places = self.take_in(self.nodes.of(batch), self.keys(batch), clocks, size, out, out_valid, chunked=chunked)
        aggregates = accumulators.values(out, out_valid, size)
        result, passed = self.shape.outputs.of(batch, aggregates, self.pool)
        if not chunked:
            return result if passed is None else result.take(passed)
        return self._of_chunks(result, passed, places & (self.rows.capacity - 1))

    def take_in(
        self,
        lines: Sequence[Line],
        keys: Int64Array,
        clocks: Int64Array,
        size: int,
        out: Int64Array,
        out_valid: BoolArray,
        *,
        chunked: bool,
    ) -> Int64Array:
        """Add `size` rows with the values `lines`, and return their sequence numbers.

        `keys` are the keys of their groups; `clocks` are the clocks of their arrival if the window is `clocked`. The
        aggregates with which each row leaves are written into `out` and `out_valid`. With `chunked` several rows may be
        one chunk.
        """
        start, rows = self.end, self.rows
        if start + size - self._first > rows.capacity:
            self._first = int(self.state[FIRST])
            rows.make_room(self._first, start, size)
        forget = not self.kept
        self.state[GIVES_BACK] = forget and not chunked
        if chunked and self.shape.keys and self.groups.state[UNUSED] < size:
            self.make_room(NO_ROOM, forget=forget)
        rows.put(lines, start, size)
        self.end = start + size
        if self._time_line is not None:
            times = next(values for line, values, _ in lines if line == self._time_line)
            if not self._comes_in_order(times):
                return self._take_in_late(times, keys, clocks[:size], start, out, out_valid)
            self._newest = times.item(-1) if size else self._newest
            if self._unordered:
                self._unordered -= size
                if self._unordered <= 0:
                    self._leave_in_order(start, RemovalOrder.IN_ORDER)
        self._slide(keys, clocks, start, size, out, out_valid)
        if not self.holds:
            self.state[FIRST] = self._first = self.end
        return np.arange(start, start + size)

    def _comes_in_order(self, times: Int64Array) -> bool:
        """Return whether rows with these times are in order, after the stored rows."""
        if len(times) == 1:
            return bool(times.item() >= self._newest)
        return bool(ascends(kernel_array(times), self._newest))

    def _take_in_late(
        self, times: Int64Array, keys: Int64Array, clocks: Int64Array, start: int, out: Int64Array, out_valid: BoolArray
    ) -> Int64Array:
        """Add rows from `start` on that arrive out of order, as `take_in` does."""
        size, state = len(times), self.state
        self._leave_in_order(start, RemovalOrder.IN_ANY_ORDER)
        if self.attribute is not None:
            newest = self._newest if start > state[FIRST] else LONG_AGO
            clocks = np.maximum(np.maximum.accumulate(times), newest)
            state[TIMING] = BY_CLOCK
        places = np.arange(start, start + size)
        parts = keys.reshape(-1, size) if self.groups.state[HOW] == BY_HASH else keys[np.newaxis, :size]
        begin = 0
        while begin < size:
            stop = begin + 1 if self._limited else _stays_long(times[begin:], clocks[begin:], self._duration) + begin
            if self._limited:
                self._bring_to_front(clocks.item(begin), start + begin)
            piece = slice(begin, stop)
            piece_keys = kernel_array(parts[:, piece].reshape(-1))
            self._slide(piece_keys, clocks[piece], start + begin, stop - begin, out, out_valid, begin)
            if not self._limited:
                self._sort(places, start + begin, start + stop)
            begin = stop
        if self.attribute is not None:
            state[TIMING] = BY_ATTRIBUTE
        self._look_at_times()
        self._unordered = self.end - int(state[FIRST]) + 1
        return places

    def _leave_in_order(self, end: int, removal_order: RemovalOrder) -> None:
        """Let `min` and `max` expect the rows stored before `end`, and new ones, to leave in this order."""
        in_order = removal_order is RemovalOrder.IN_ORDER
        if in_order or not self._unordered:
            columns = np.arange(int(self.state[FIRST]), end) & (self.rows.capacity - 1)
            self._replay(columns, removal_order)
        self._unordered = 0 if in_order else max(self._unordered, 1)

    def _replay(self, columns: Int64Array, removal_order: RemovalOrder) -> None:
        """Compute `min` and `max` from the rows in `columns`, which are in the order in which they leave."""
        if self.accumulators.lists:
            self.accumulators.replay(self._groups(columns) | columns << ROW_SHIFT | ADD, self.rows.lines, removal_order)

    def _groups(self, columns: Int64Array) -> Int64Array:
        """Return the groups of the rows in `columns`, if there are groups."""
        if not self.shape.keys:
            return np.zeros(len(columns), dtype=np.int64)
        groups: Int64Array = self.rows.narrow[GROUP_LINE, columns].astype(np.int64) << GROUP_SHIFT
        return groups

    def _sort(self, places: Int64Array, old_end: int, end: int) -> None:
        """Sort the rows stored up to `end` by time; those up to `old_end` are sorted already.

        `places` are reordered with them.
        """
        first, mask, times = int(self.state[FIRST]), self.rows.capacity - 1, self.rows.wide[TIME_LINE]
        least = int(times[np.arange(max(old_end, first), end) & mask].min(initial=NEVER))
        begin = bisect_right(range(first, max(old_end, first)), least, key=lambda row: times[row & mask]) + first
        place = np.argsort(times[np.arange(begin, end) & mask], kind="stable")
        self._move(place, begin)
        moved = (places >= begin) & (places < end)
        places[moved] = begin + np.argsort(place)[places[moved] - begin]

    def _bring_to_front(self, clock: int, end: int) -> None:
        """Move the rows stored before `end` that have expired at `clock` to the front, the oldest time first."""
        first, mask = int(self.state[FIRST]), self.rows.capacity - 1
        times = self.rows.wide[TIME_LINE, np.arange(first, end) & mask]
        self._move(np.argsort(np.where(times + self._duration <= clock, times, NEVER), kind="stable"), first)

    def _move(self, place: Int64Array, begin: int) -> None:
        """Replace row i, from `begin` on, by the former row `place[i]`."""
        mask = self.rows.capacity - 1
        to = np.arange(begin, begin + len(place))
        self.rows.move((begin + place) & mask, to & mask)

    def _look_at_times(self) -> None:
        """Set `_newest` from the times of the stored rows."""
        if self._time_line is None:
            return
        times = self.rows.wide[TIME_LINE, np.arange(int(self.state[FIRST]), self.end) & (self.rows.capacity - 1)]
        self._newest = LONG_AGO
        if len(times):
            self._newest = times.item(-1) if ascends(times, LONG_AGO) else NEVER

    def _slide(
        self,
        keys: Int64Array,
        clocks: Int64Array,
        start: int,
        size: int,
        out: Int64Array,
        out_valid: BoolArray,
        at: int = 0,
    ) -> None:
        """Add `size` rows from `start` on.

        The aggregates with which they are emitted are written into `out` and `out_valid` from position `at` on.
        """
        accumulators, rows, groups = self.accumulators, self.rows, self.groups
        moves = self._moves
        if len(moves) < 2 * size:
            moves = self._moves = room_for_moves(moves, 2 * size)
        done = 0
        while True:
            told = slide(
                start, size, self.state, clocks, keys, rows.wide, rows.narrow,
                accumulators.cells, groups.state, groups.index, groups.keys, groups.unused, moves,
            )  # fmt: skip
            if told >= 0:
                accumulators.follow(moves, told, size - done, rows.lines, out, out_valid, at + done)
                return
            row, planned = int(self.state[ROW]), int(self.state[PLANNED])
            accumulators.follow(moves, planned, row - done, rows.lines, out, out_valid, at + done)
            done = row
            if told != NO_MOVE_LEFT:
                self.make_room(told, forget=bool(self.state[GIVES_BACK]))

    def let_time_pass(self, clock: int) -> None:
        """Expire the rows whose time was over at `clock`, which the clock has shown before the events of a backlog."""
        if not self.clocked:
            return
        if self._limited:
            self._bring_to_front(clock, self.end)
        rows, groups, accumulators = self.rows, self.groups, self.accumulators
        self.state[GIVES_BACK] = not self.kept
        self.state[LENGTH], length = NEVER, int(self.state[LENGTH])
        moves, out, out_valid = self._moves, *accumulators.room_for(0)
        while True:
            planned = let_go(
                self.end, clock, self.state, rows.wide, rows.narrow,
                accumulators.cells, groups.state, groups.index, groups.keys, groups.unused, moves,
            )  # fmt: skip
            accumulators.follow(moves, planned, 0, rows.lines, out, out_valid, 0)
            if planned < len(moves):
                break
        self.state[LENGTH] = length
        self._look_at_times()

    def _of_chunks(self, result: EventBatch, passed: Int64Array | None, columns: Int64Array) -> EventBatch:
        """Return the output of `result` by its chunks, for the rows that pass.

        `passed` are the positions of these (None: all); `columns` are the columns of its rows in the store.
        """
        chunks = result.chunks
        assert chunks is not None  # noqa: S101 - only batches with chunks come here
        positions = self._last_ones(np.arange(result.size) if passed is None else passed, chunks, columns)
        result = result.take(positions)
        chunks = chunks[positions]
        return result.with_chunks(None) if (chunks[1:] != chunks[:-1]).all() else result

    def _last_ones(self, positions: Int64Array, chunks: Int64Array, columns: Int64Array) -> Int64Array:
        """Return the last row of each group in each chunk of `positions`, in order of the groups' first rows."""
        if not self.shape.keys:
            of_chunks = chunks[positions]
            last: Int64Array = positions[np.append(of_chunks[1:] != of_chunks[:-1], np.True_)[: len(positions)]]
            return last
        groups = self.rows.narrow[GROUP_LINE, columns].astype(np.int64)
        count = self.groups.capacity
        out: Int64Array = np.empty(len(positions), dtype=np.int64)
        seen, slots = np.zeros(count + 1, dtype=np.int64), np.zeros(count, dtype=np.int64)
        used = last_of_each_group(positions, kernel_array(chunks), groups, seen, slots, out)
        return out[:used]

    def keys_of_groups(self, attribute: str) -> tuple[Int64Array, pa.Array]:
        """Return the number of every group (ascending), and the value of its key `attribute` (`key_values`)."""
        place = [name for name, _ in self.shape.keys].index(attribute)
        used = self.groups.used()
        return used, key_values(self.groups.keys[used, place], self.shape.keys[place][1], self.pool)

    def keep_groups(self, kept: Int64Array) -> None:
        """Drop all groups but `kept` (ascending), and number these from 0; no row is stored."""
        self.accumulators.grow_groups(self.groups.capacity)
        self.accumulators.keep_groups(kept)
        self.groups.keep(kept)
        self.accumulators.grow_groups(self.groups.capacity)

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        """Return one state of states whose groups are numbered without gaps, as all operators do."""
        if self.holds or not self.shape.keys:
            return super().joined(states, ids)
        aggregates = [state["aggregates"] for state in states]
        counts = [len(state["groups"][0]) for state in states]
        return {
            **states[0],
            "groups": self.groups.joined([state["groups"] for state in states]),
            "aggregates": self.accumulators.joined(aggregates, counts),
        }

    def snapshot(self) -> State:
        first = int(self.state[FIRST])
        return {
            "first": first,
            "end": self.end,
            "rows": self.rows.snapshot(first, self.end, self.coded),
            "groups": self.groups.snapshot(),
            "aggregates": self.accumulators.snapshot(),
        }

    def restore(self, state: State) -> None:
        self._first, self.end = state["first"], state["end"]
        self.state[FIRST], self.state[ROW] = self._first, 0
        self.groups.restore(state["groups"])
        self.accumulators.restore(state["aggregates"])
        self.accumulators.grow_groups(self.groups.capacity)
        self.rows.restore(self._first, self.end, state["rows"])
        self._look_at_times()
        in_order = self._newest < NEVER
        self._unordered = 0 if in_order else self.end - self._first + 1
        columns = np.arange(self._first, self.end) & (self.rows.capacity - 1)
        self._replay(columns, RemovalOrder.IN_ORDER if in_order else RemovalOrder.IN_ANY_ORDER)

    def state_size(self) -> StateSize:
        return StateSize(
            rows=self.end - int(self.state[FIRST]),
            groups=self.groups.count if self.shape.keys else 0,
            distinct_values=self.accumulators.distinct_values(),
            bytes=held_bytes(self.rows) + held_bytes(self.groups) + held_bytes(self.accumulators),
        )
