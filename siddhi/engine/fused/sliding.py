"""A window whose events leave one by one and the selection behind it, in one loop.

    S ─►─ filters ─►─┬─ symbol, price, … of the events that came ──────────────────────────────┬─►─ Out
                     │                                                                         │
                     └─►─ held rows: price, time, group ─►─ moves: +d −a +e … ─►─ aggregates ──┘

    length 2    in        a          b          c               d
                moves     +a write   +b write   −a +c write     −b +d write
                out       a, avg     b, avg     c, avg          d, avg

Only current events leave such a query, so that an event which leaves the window need not become a row: it is enough
that its group and its arguments are taken off the accumulators, before the next event is added. Nothing has to happen
at the time at which it leaves, and no timer is set. Of each event the window holds the arguments of aggregates, the id
of its group, and its time if that tells when it leaves.

A group of which no event is left starts anew: rounding that sums gathered goes with the last of it, and its id may be
given out again. This does not hold for the forever aggregates, which outlive their events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from siddhi.analysis import model
from siddhi.engine.aggregators.accumulators import SOURCES
from siddhi.engine.aggregators.moves import NARROW
from siddhi.engine.arrays import BoolArray, Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.expressions.compiler import ExpressionCompiler
from siddhi.engine.expressions.evaluation import Node
from siddhi.engine.expressions.leaves import ColumnNode, TimestampNode, scalar_or_none
from siddhi.engine.filters import with_value
from siddhi.engine.fused.fused import LEAST_MOVES, NO_NUMBERS, FusedSelection, NodeLines, room_for_moves
from siddhi.engine.fused.group_table import NO_ROOM, UNUSED
from siddhi.engine.fused.held_rows import HeldRows, Line
from siddhi.engine.fused.shape import Shape
from siddhi.engine.fused.sliding_kernel import (
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
    TIMING,
    UNTIMED,
    WINDOW_STATE_SIZE,
    slide,
)
from siddhi.engine.groups import key_values
from siddhi.engine.kernels import kernel_array
from siddhi.engine.operator import NEVER, OperatorContext, Step
from siddhi.engine.selector import last_of_each_group
from siddhi.engine.state import State
from siddhi.engine.state_size import StateSize, held_bytes
from siddhi.language.ast import AttributeType


@dataclass(frozen=True, slots=True)
class Leaving:
    """When a row leaves: behind `length` newer ones, or `duration` after its own time, by the attribute `time` or, if
    that is None and `timing` is `BY_CLOCK`, by its timestamp and the clock."""

    length: int = NEVER
    duration: int = 0
    timing: int = UNTIMED
    time: Node | None = None


def leaving_of(window: model.HandlerCall | None, context: OperatorContext) -> Leaving | None:
    """When rows leave `window`, None when they do not leave it one by one."""
    if window is None:
        return Leaving()
    if window.namespace:
        return None
    compiler = ExpressionCompiler(context)
    nodes = [compiler.compile(argument) for argument in window.arguments]
    numbers = [value if isinstance(value, int) else 0 for value in map(scalar_or_none, nodes)]
    if window.name == "length" and numbers[0] > 0:
        return Leaving(length=numbers[0])
    if window.name == "time":
        return Leaving(duration=numbers[0], timing=BY_CLOCK, time=TimestampNode())
    if window.name == "externalTime" and isinstance(nodes[0], ColumnNode):
        return Leaving(duration=numbers[1], timing=BY_ATTRIBUTE, time=nodes[0])
    if window.name == "timeLength" and numbers[1] > 0:
        return Leaving(numbers[1], numbers[0], BY_CLOCK, TimestampNode())
    return None


class SlidingSelection(FusedSelection):
    """Every current event leaves with the aggregates as they are once it has come; of a chunk, the last of each group.

    Without a window events never leave, and none is held.
    """

    def __init__(self, shape: Shape, leaving: Leaving, context: OperatorContext) -> None:
        nodes = NodeLines(reserved=int(bool(shape.keys)))
        if leaving.time is not None:
            nodes.line(leaving.time)
        super().__init__(shape, context, nodes, first_cells=1)
        if isinstance(leaving.time, ColumnNode):
            self.columns[leaving.time.column] = leaving.time.type
        groups = [NARROW] if shape.keys else []
        self.rows = HeldRows([*groups, *(SOURCES[node.type] for node in nodes.nodes)])
        self.coded = [*(False for _ in groups), *(node.type is AttributeType.STRING for node in nodes.nodes)]
        self.holds = leaving.length < NEVER or leaving.timing != UNTIMED
        self.end = 0
        state = self.state = np.zeros(WINDOW_STATE_SIZE, dtype=np.int64)
        state[LENGTH], state[DURATION], state[TIMING] = leaving.length, leaving.duration, leaving.timing
        state[KEEPS_GROUPS] = shape.lasting or not self.holds
        self.clocked = leaving.timing == BY_CLOCK
        self.attribute = leaving.time if leaving.timing == BY_ATTRIBUTE else None
        self.kept = bool(state[KEEPS_GROUPS])
        self._first = 0
        self._moves: Int64Array = np.empty(LEAST_MOVES, dtype=np.int64)

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        if self.attribute is not None:
            batch = with_value(batch, self.attribute, step, "the time of 'externalTime'")
        size, accumulators = batch.size, self.accumulators
        clocks = kernel_array(batch.clocks) if self.clocked else NO_NUMBERS
        out, out_valid = accumulators.room_for(size)
        chunked = batch.chunks is not None
        start = self.take_in(self.nodes.of(batch), self.keys(batch), clocks, size, out, out_valid, chunked=chunked)
        aggregates = accumulators.values(out, out_valid, size)
        result, passed = self.shape.outputs.of(batch, aggregates, self.pool)
        if not chunked:
            return result if passed is None else result.take(passed)
        return self._of_chunks(result, passed, np.arange(start, start + size) & (self.rows.capacity - 1))

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
    ) -> int:
        """`size` rows have come, with the values `lines`, the `keys` of their groups and, if the window is `clocked`,
        the `clocks` at which they did; `out` and `out_valid` have the aggregates with which each leaves. Returns the
        sequence number of the first. `chunked` says that several may be one chunk."""
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
        self._slide(keys, clocks, start, size, out, out_valid)
        if not self.holds:
            self.state[FIRST] = self._first = self.end
        return start

    def _slide(
        self, keys: Int64Array, clocks: Int64Array, start: int, size: int, out: Int64Array, out_valid: BoolArray
    ) -> None:
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
                accumulators.follow(moves, told, size - done, rows.lines, out, out_valid, done)
                return
            row, planned = int(self.state[ROW]), int(self.state[PLANNED])
            accumulators.follow(moves, planned, row - done, rows.lines, out, out_valid, done)
            done = row
            if told != NO_MOVE_LEFT:
                self.make_room(told, forget=bool(self.state[GIVES_BACK]))

    def _of_chunks(self, result: EventBatch, passed: Int64Array | None, columns: Int64Array) -> EventBatch:
        """What leaves of `result`, of which the rows at the positions `passed` (None: all) pass, by its chunks;
        `columns` are those of its rows among the rows held."""
        chunks = result.chunks
        assert chunks is not None  # noqa: S101 - only batches with chunks come here
        positions = self._last_ones(np.arange(result.size) if passed is None else passed, chunks, columns)
        result = result.take(positions)
        chunks = chunks[positions]
        return result.with_chunks(None) if (chunks[1:] != chunks[:-1]).all() else result

    def _last_ones(self, positions: Int64Array, chunks: Int64Array, columns: Int64Array) -> Int64Array:
        """Of `positions` the last of each group in each chunk, in order of their first."""
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
        """The number of every group (ascending), and the value of its key `attribute` (`key_values`)."""
        place = [name for name, _ in self.shape.keys].index(attribute)
        used = self.groups.used()
        return used, key_values(self.groups.keys[used, place], self.shape.keys[place][1], self.pool)

    def keep_groups(self, kept: Int64Array) -> None:
        """All groups but `kept` (ascending), which are numbered from 0 from now on, are forgotten; no row is held."""
        self.accumulators.grow_groups(self.groups.capacity)
        self.accumulators.keep_groups(kept)
        self.groups.keep(kept)
        self.accumulators.grow_groups(self.groups.capacity)

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        """As for all operators, of states whose groups are numbered without a gap."""
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

    def state_size(self) -> StateSize:
        return StateSize(
            rows=self.end - int(self.state[FIRST]),
            groups=self.groups.count if self.shape.keys else 0,
            distinct_values=self.accumulators.distinct_values(),
            bytes=held_bytes(self.rows) + held_bytes(self.groups) + held_bytes(self.accumulators),
        )
