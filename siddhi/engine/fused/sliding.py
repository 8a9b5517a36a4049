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
from siddhi.engine.aggregators.accumulators import SOURCES, AnyValues
from siddhi.engine.aggregators.moves import ADD, CLEAR, GROUP_SHIFT, NARROW, REMOVE, ROW_SHIFT, WRITE
from siddhi.engine.arrays import Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.expressions.compiler import ExpressionCompiler
from siddhi.engine.expressions.evaluation import Node
from siddhi.engine.expressions.leaves import ColumnNode, TimestampNode, scalar_or_none
from siddhi.engine.filters import with_value
from siddhi.engine.fused.fused import LEAST_MOVES, NO_NUMBERS, FusedSelection, NodeLines, room_for_moves
from siddhi.engine.fused.group_table import BY_CODE, BY_HASH, HOW, NO_ROOM, ONE_GROUP, UNUSED, give_back, group_of
from siddhi.engine.fused.held_rows import HeldRows
from siddhi.engine.fused.shape import Shape
from siddhi.engine.groups import key_values
from siddhi.engine.kernels import kernel_array, kernel_part, state_kernel
from siddhi.engine.memory import fetch, offset_at, set_offset, set_word, word_at
from siddhi.engine.operator import OperatorContext, Step
from siddhi.engine.selector import last_of_each_group
from siddhi.engine.state import State
from siddhi.engine.state_size import StateSize, held_bytes
from siddhi.language.ast import AttributeType

HELD = 0
"""The cell of a group that counts its rows."""
GROUP_LINE = 0
"""The narrow line of held rows with their groups, unless there is only one."""
TIME_LINE = 0
"""The wide line of held rows with their times, if these tell when they leave."""

FIRST, ROW, PLANNED, LENGTH, DURATION, TIMING, KEEPS_GROUPS, GIVES_BACK, MADE_ROOM, WINDOW_STATE_SIZE = range(10)
"""Lines of the window's state: sequence number of the oldest row held, how many rows of the batch are done, how many
moves were planned, after how many newer rows and how much time a row leaves, what tells the time, whether groups
outlive their rows, whether ids of groups may be given out again at once, whether a row has left because the window was
full when the row in turn came: then no other leaves for that one."""
UNTIMED, BY_ATTRIBUTE, BY_CLOCK = 0, 1, 2

NO_MOVE_LEFT = -3
_NEVER = np.iinfo(np.int64).max
_AHEAD = 16
"""So many rows ahead it is asked for where a key is found: of very many it is not near."""
_WORTHWHILE, _PAUSE = 8, 64
"""Where fewer rows than that pass at once, as each has a group of its own, so many take the general path before the
loop for known groups is tried again."""


@kernel_part
def _known_group(row, coded, keys, index):  # type: ignore[no-untyped-def]
    """The group of `row`, whose key is a code unless there is one group only; -1 when nobody has had the key."""
    if not coded:
        return np.int64(0)
    code = keys[row]
    return np.int64(index[code]) if 0 <= code < len(index) else np.int64(-1)


@kernel_part
def _slide_known(  # type: ignore[no-untyped-def]
    start, row, count, first, state, clocks, keys, coded, times_at, groups_at, mask, index, cells_at, width, moves_at,
    planned, room,
):  # fmt: skip
    """Plans the moves of the rows from `row` on, whose keys are codes (`coded`) or which are one group, up to the first
    that comes to a group without rows or at which the last row of one leaves, or for which no move is left; returns its
    row, or `count`, the oldest row held and the number of moves. Rows leave either because the window is full, one for
    each that comes, or because of the time.

    A loop of its own, because it is where nearly all rows pass: what is seldom would take its registers.
    """
    timing, length, duration = state[TIMING], state[LENGTH], state[DURATION]
    while row < count:
        group, new = _known_group(row, coded, keys, index), start + row
        if group < 0:
            break
        now = np.int64(0)
        if timing == BY_ATTRIBUTE:
            now = np.int64(word_at(times_at + 8 * (new & mask)))
        elif timing == BY_CLOCK:
            now = clocks[row]
        stuck = False
        while first < new:
            old = first & mask
            if timing == UNTIMED:
                if new - first < length:
                    break
            elif np.int64(word_at(times_at + 8 * old)) + duration > now:
                break
            leaving = np.int64(offset_at(groups_at + 4 * old)) if coded else group
            held = np.int64(word_at(cells_at + width * leaving))
            if held == 1 or planned + 1 >= room:
                stuck = True
                break
            set_word(cells_at + width * leaving, held - 1)
            set_word(moves_at + 8 * planned, leaving << GROUP_SHIFT | old << ROW_SHIFT | REMOVE)
            planned += 1
            first += 1
        held = np.int64(word_at(cells_at + width * group))
        if stuck or held == 0 or planned >= room:
            break
        set_word(cells_at + width * group, held + 1)
        if coded:
            set_offset(groups_at + 4 * (new & mask), np.int32(group))
        set_word(moves_at + 8 * planned, group << GROUP_SHIFT | (new & mask) << ROW_SHIFT | (ADD | WRITE))
        planned += 1
        row += 1
    return row, first, planned


@kernel_part
def _let_go(  # type: ignore[no-untyped-def]
    new, now, first, made_room, planned, state, wide, narrow, cells, group_state, index, group_keys, unused, moves
):
    """Plans the moves of the rows that leave before row `new` comes, as far as moves are left; returns the oldest row
    held, the number of moves, and whether one left because the window was full."""
    mask = wide.shape[1] - 1
    while first < new and planned < len(moves) and not made_room:
        old = first & mask
        if not (state[TIMING] != UNTIMED and wide[TIME_LINE, old] + state[DURATION] <= now):
            if new - first < state[LENGTH]:
                break
            made_room = np.int64(1)
        group = np.int64(narrow[GROUP_LINE, old]) if group_state[HOW] != ONE_GROUP else np.int64(0)
        cells[group, HELD] -= 1
        if cells[group, HELD] == 0 and state[GIVES_BACK]:
            give_back(group, group_state, index, group_keys, unused)
        moves[planned] = group << GROUP_SHIFT | old << ROW_SHIFT | REMOVE
        planned += 1
        first += 1
    return first, planned, made_room


@state_kernel
def slide(  # type: ignore[no-untyped-def]
    start, count, state, clocks, keys, wide, narrow, cells, group_state, index, group_keys, unused, moves
):
    """Adds rows [start, start + count) to the window and lets older ones go: plans the moves for that, and a write
    after each row.

    `wide` and `narrow` hold the rows as `HeldRows` says, `keys` their keys as `group_of` wants them. Returns the number
    of moves when all rows are done, else what there was no room for, with the number of moves in the state: then the
    caller follows these moves, makes room and calls again.
    """
    mask = wide.shape[1] - 1
    grouped = group_state[HOW] != ONE_GROUP
    timing = state[TIMING]
    row, first, made_room = state[ROW], state[FIRST], state[MADE_ROOM]
    planned, room, tried_from = np.int64(0), len(moves), row
    lack = np.int64(0)
    cells_at, width = np.int64(cells.ctypes.data), 8 * cells.shape[1]  # an index costs more each time
    coded = group_state[HOW] == BY_CODE
    plain = group_state[HOW] != BY_HASH and (timing == UNTIMED or state[LENGTH] == _NEVER)
    while row < count:
        if plain and row >= tried_from and not made_room:
            begun = row
            row, first, planned = _slide_known(
                start, row, count, first, state, clocks, keys, coded, np.int64(wide.ctypes.data),
                np.int64(narrow.ctypes.data), mask, index, cells_at, width, np.int64(moves.ctypes.data), planned, room,
            )  # fmt: skip
            if row == count:
                break
            if row - begun < _WORTHWHILE:
                tried_from = row + _PAUSE
        if coded and row + _AHEAD < count:
            fetch(np.int64(index.ctypes.data) + 4 * keys[row + _AHEAD])
        new = start + row
        column = new & mask
        now = wide[TIME_LINE, column] if timing == BY_ATTRIBUTE else clocks[row] if timing == BY_CLOCK else np.int64(0)
        first, planned, made_room = _let_go(
            new, now, first, made_room, planned, state, wide, narrow, cells, group_state, index, group_keys, unused,
            moves,
        )  # fmt: skip
        if planned == room:
            lack = np.int64(NO_MOVE_LEFT)
            break
        group = group_of(keys, row, count, group_state, index, group_keys, unused)
        if group < 0:
            lack = group
            break
        if grouped:
            narrow[GROUP_LINE, column] = group
        doing = ADD | WRITE
        if cells[group, HELD] == 0 and not state[KEEPS_GROUPS]:
            doing |= CLEAR
        cells[group, HELD] += 1
        moves[planned] = group << GROUP_SHIFT | column << ROW_SHIFT | doing
        planned += 1
        row += 1
        made_room = 0
    state[FIRST], state[MADE_ROOM] = first, made_room
    if lack < 0:
        state[ROW], state[PLANNED] = row, planned
        return lack
    state[ROW] = 0
    return np.int64(planned)


@dataclass(frozen=True, slots=True)
class Leaving:
    """When a row leaves: behind `length` newer ones, or `duration` after its own time, by the attribute `time` or, if
    that is None and `timing` is `BY_CLOCK`, by its timestamp and the clock."""

    length: int = _NEVER
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
        self.holds = leaving.length < _NEVER or leaving.timing != UNTIMED
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
        size, start, rows = batch.size, self.end, self.rows
        if start + size - self._first > rows.capacity:
            self._first = int(self.state[FIRST])
            rows.make_room(self._first, start, size)
        self.state[GIVES_BACK] = batch.chunks is None and not self.kept
        if batch.chunks is not None and self.shape.keys and self.groups.state[UNUSED] < size:
            self.make_room(NO_ROOM, forget=not self.kept)
        rows.put(self.nodes.of(batch), start, size)
        self.end = start + size
        aggregates = self._slide(batch, start)
        if not self.holds:
            self.state[FIRST] = self._first = self.end
        result, passed = self.shape.outputs.of(batch, aggregates, self.pool)
        if batch.chunks is None:
            return result if passed is None else result.take(passed)
        return self._of_chunks(result, passed, np.arange(start, start + size) & (rows.capacity - 1))

    def _slide(self, batch: EventBatch, start: int) -> list[AnyValues]:
        accumulators, rows, groups = self.accumulators, self.rows, self.groups
        size = batch.size
        clocks = kernel_array(batch.clocks) if self.clocked else NO_NUMBERS
        keys = self.keys(batch)
        out, out_valid = accumulators.room_for(size)
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
                return accumulators.values(out, out_valid, size)
            row, planned = int(self.state[ROW]), int(self.state[PLANNED])
            accumulators.follow(moves, planned, row - done, rows.lines, out, out_valid, done)
            done = row
            if told != NO_MOVE_LEFT:
                self.make_room(told, forget=batch.chunks is None and not self.kept)

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
