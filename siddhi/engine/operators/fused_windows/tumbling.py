"""A batch window and the following selection, in one loop.

    S ─►─ filters ─►─┬─ cuts: where batches end ──────────────────────────────┐
                     └─ groups: +a +b +c … ─►─ aggregates, newest row of each ─┴─►─ Out, one row a group and batch

    lengthBatch 3    in        a   b   a   │  c   c   b   │
                     moves     +a  +b  +a  │ write a, b   │ again: +c   +c  again: +b   │ write c, b
                     out                     a, b                                     c, b

Such a query emits only current events: the last of each group in a batch. So no event is stored: it is added to the
accumulators of its group on arrival, and only the selected attributes of the group's newest event are kept. At the end
of a batch the groups are written in order of first appearance, and restart with their next event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import DTYPES, Column
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.jit.kernels import grown, kernel_part, state_kernel
from siddhi.engine.jit.memory import fetch, set_word, word_at
from siddhi.engine.operators.aggregates.accumulators import SOURCES, AnyValues, in_form
from siddhi.engine.operators.aggregates.moves import (
    ADD,
    CLEAR,
    FORM,
    GROUP_SHIFT,
    LINE_WIDTH,
    MASK,
    REAL,
    ROW_SHIFT,
    VALUES,
    WRITE,
    is_null,
    value_at,
)
from siddhi.engine.operators.base.operator import OperatorContext, Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.leaves import ColumnNode, TimestampNode
from siddhi.engine.operators.fused_windows.fused import FusedSelection, NodeLines, room_for_moves
from siddhi.engine.operators.fused_windows.group_table import BY_CODE, HOW, give_back, group_of
from siddhi.engine.operators.fused_windows.row_rings import Line
from siddhi.engine.operators.fused_windows.shape import Shape
from siddhi.engine.operators.windows.base.cutting import CLOCK, NO_CUTS, ORDER, ROWS, Cutter
from siddhi.engine.operators.windows.base.window import WindowContext
from siddhi.engine.operators.windows.external_time_batch import ExternalTimeCutter
from siddhi.engine.operators.windows.length_batch import LengthCutter, length_and_streaming
from siddhi.engine.operators.windows.time_batch import TimeCutter
from siddhi.engine.tuning import INITIAL_MOVES, TUMBLING_PREFETCH_ROWS
from siddhi.language.ast import AttributeType

NEWEST, SLOT, FIRST_CELLS = 0, 1, 2
"""The cells of a group with its newest row in the batch in progress and its position among the batch's groups."""
NOT_OPEN, KEPT, FIRST_ROW = 0, 1, 2
"""Codes for a newest row: none, one of an earlier call, or row r of this call as `FIRST_ROW` + r."""
OPEN, ROW, CUT, FLUSHED, WRITTEN, PLANNED, STATE_SIZE = range(7)
"""The state: groups in the batch in progress; and for the current call, rows done, cuts done, groups of a cut written,
rows written in all, and moves planned."""
NO_MOVE_LEFT, NO_OPEN_ROOM = -3, -4


@kernel_part
def _keep(lines, kept_lines, row, values, valid, place):  # type: ignore[no-untyped-def]
    """Write the kept attributes of `row` into column `place` of `values` and `valid`."""
    for number in range(len(kept_lines)):
        line = kept_lines[number]
        values[number, place] = value_at(lines[line, FORM], lines[line, VALUES], row)
        valid[number, place] = not is_null(lines[line, MASK], row)


@kernel_part
def _fetch(lines, row, stop):  # type: ignore[no-untyped-def]
    """Prefetch the values of the rows from `row` up to `stop`."""
    for line in range(len(lines)):
        values_at = np.int64(lines[line, VALUES])
        for other in range(row, stop, 8):
            fetch(values_at + 8 * other)


@kernel_part
def _add_known(keys, row, stop, index, cells_at, width, moves_at, planned):  # type: ignore[no-untyped-def]
    """Plan the moves of the rows from `row` on, whose keys are codes, as long as their groups are known.

    Stop at the first row whose group is not yet in the batch in progress; return its position, or `stop`. This is a
    loop of its own because nearly all rows take it: code for rare cases would occupy registers.
    """
    while row < stop:
        code = keys[row]
        if code < 0 or code >= len(index):
            break
        group = np.int64(index[code])
        newest_at = cells_at + width * group + 8 * NEWEST
        if group < 0 or np.int64(word_at(newest_at)) == NOT_OPEN:
            break
        set_word(newest_at, FIRST_ROW + row)
        set_word(moves_at + 8 * planned, group << GROUP_SHIFT | row << ROW_SHIFT | ADD)
        planned += 1
        row += 1
    return row


@state_kernel
def tumble(  # type: ignore[no-untyped-def] # noqa: C901, PLR0912, PLR0915 - one loop, compiled as a whole
    count, cuts, state, keys, lines, cells, group_state, index, group_keys, unused, moves, opened, kept_lines, kept,
    kept_valid, out, out_valid, out_cuts,
):  # fmt: skip
    """Plan the moves that add `count` rows to their groups.

    At each of `cuts` they write the groups of the batch in progress. `opened` holds the group of each position in the
    batch in progress, `kept` the attributes of newest rows of earlier calls by position. `out` gets the attributes of
    the newest rows, `out_cuts` the cut of each row written. Returns the number of moves when all is done. Otherwise
    returns what there was no room for, with the number of moves in the state: then the caller applies these moves,
    makes room and calls again.
    """
    planned = 0
    row, written = state[ROW], state[WRITTEN]
    lack = np.int64(0)
    moves_at, cells_at = np.int64(moves.ctypes.data), np.int64(cells.ctypes.data)  # faster than indexing
    room, width = len(moves), 8 * cells.shape[1]
    by_code = group_state[HOW] == BY_CODE
    while lack == 0:
        if state[CUT] < cuts.shape[1] and cuts[ROWS, state[CUT]] == row:
            place = state[FLUSHED]
            while place < state[OPEN] and planned < len(moves):
                group = np.int64(opened[place])
                moves[planned] = group << GROUP_SHIFT | WRITE
                planned += 1
                if cells[group, NEWEST] >= FIRST_ROW:
                    _keep(lines, kept_lines, cells[group, NEWEST] - FIRST_ROW, out, out_valid, written)
                else:
                    for number in range(len(kept_lines)):
                        out[number, written] = kept[number, place]
                        out_valid[number, written] = kept_valid[number, place]
                out_cuts[written] = state[CUT]
                cells[group, NEWEST] = NOT_OPEN
                give_back(group, group_state, index, group_keys, unused)
                written += 1
                place += 1
            if place < state[OPEN]:
                state[FLUSHED] = place
                lack = np.int64(NO_MOVE_LEFT)
            else:
                state[FLUSHED] = state[OPEN] = 0
                state[CUT] += 1
            continue
        if row == count:
            break
        stop = cuts[ROWS, state[CUT]] if state[CUT] < cuts.shape[1] else count
        fetched = row
        while row < stop:
            if planned == room:
                lack = np.int64(NO_MOVE_LEFT)
                break
            if by_code:
                enough = min(stop, row + room - planned, row + TUMBLING_PREFETCH_ROWS)
                _fetch(lines, max(row, fetched), enough)
                fetched = max(fetched, enough)
                known = _add_known(keys, row, enough, index, cells_at, width, moves_at, planned)
                planned, row = planned + known - row, known
                if row == enough:
                    continue
            group = group_of(keys, row, count, group_state, index, group_keys, unused)
            if group < 0:
                lack = group
                break
            doing = ADD
            newest_at = cells_at + width * group + 8 * NEWEST
            if np.int64(word_at(newest_at)) == NOT_OPEN:
                if state[OPEN] == len(opened):
                    lack = np.int64(NO_OPEN_ROOM)
                    break
                doing |= CLEAR
                cells[group, SLOT] = state[OPEN]
                opened[state[OPEN]] = group
                state[OPEN] += 1
            set_word(newest_at, FIRST_ROW + row)
            set_word(moves_at + 8 * planned, group << GROUP_SHIFT | row << ROW_SHIFT | doing)
            planned += 1
            row += 1
    state[ROW], state[WRITTEN] = row, written
    if lack < 0:
        state[PLANNED] = planned
        return lack
    for place in range(state[OPEN]):
        group = np.int64(opened[place])
        if cells[group, NEWEST] >= FIRST_ROW:
            _keep(lines, kept_lines, cells[group, NEWEST] - FIRST_ROW, kept, kept_valid, place)
            cells[group, NEWEST] = KEPT
    state[ROW] = state[CUT] = 0
    return np.int64(planned)


def cutter_of(
    window: model.HandlerCall | None, shape: Shape, context: OperatorContext
) -> tuple[Cutter, dict[str, AttributeType]] | None:
    """Return the cutter that divides the events of `window` into batches, and the attributes that it reads.

    Return None when the window has no batches, or emits events before a batch is complete.
    """
    if window is None or window.namespace or shape.outputs.having is not None:
        return None
    compiler = ExpressionCompiler(context)
    given = WindowContext(window, context, {}, expired=False, compiler=compiler, selected=())
    if window.name == "externalTimeBatch" and len(window.arguments) <= 3:
        return ExternalTimeCutter(given), compiler.columns
    if window.name == "timeBatch":
        cutter = TimeCutter(given.constants(), expired=False)
        return None if cutter.streaming else (cutter, {})
    if window.name == "lengthBatch":
        length, streaming = length_and_streaming(given.constants())
        return None if streaming or length <= 0 else (LengthCutter(length, expired=False), {})
    return None


class TumblingSelection(FusedSelection):
    """Emits the newest event of each group of a batch, with the aggregates of the group."""

    def __init__(
        self, shape: Shape, cutter: Cutter, columns: dict[str, AttributeType], context: OperatorContext
    ) -> None:
        nodes = NodeLines()
        super().__init__(shape, context, nodes, FIRST_CELLS)
        self._selected = [ColumnNode(name, type_) for name, type_ in shape.outputs.columns.items()]
        self._kept_lines: Int64Array = np.array(
            [nodes.line(node) for node in (TimestampNode(), *self._selected)], dtype=np.int64
        )
        self.columns |= columns
        self.cutter = cutter
        self.opened_rows = 0
        self.state = np.zeros(STATE_SIZE, dtype=np.int64)
        self._lines: Int64Array = np.zeros((len(nodes.nodes), LINE_WIDTH), dtype=np.int64)
        self._told_nulls = False
        self._moves: Int64Array = np.empty(INITIAL_MOVES, dtype=np.int64)
        self._opened: AnyArray = np.zeros(8, dtype=np.int32)
        self._kept: Int64Array = np.zeros((len(self._kept_lines), 8), dtype=np.int64)
        self._kept_valid: BoolArray = np.ones((len(self._kept_lines), 8), dtype=np.bool_)
        self._no_out, self._no_aggregates = self._room_for(0), self.accumulators.room_for(0)

    def _room_for(self, writes: int) -> tuple[Int64Array, BoolArray, Int64Array]:
        """Return arrays for the attributes of so many newest rows, for their validity, and for their cuts."""
        shape = (len(self._kept_lines), writes)
        return np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.bool_), np.empty(writes, dtype=np.int64)

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        batch = self.cutter.accepted(batch, step)
        size = batch.size
        cuts = self.cutter.cut(batch, step, 0, self.opened_rows)
        cut = cuts.shape[1]
        newest, newest_valid, out_cuts = self._room_for(int(self.state[OPEN]) + size) if cut else self._no_out
        read = self.nodes.of(batch) if size else []
        aggregates = self._tumble(read, self.keys(batch), size, cuts, newest, newest_valid, out_cuts)
        self.opened_rows = size - int(cuts[ROWS, -1]) if cut else self.opened_rows + size
        if not cut or not (written := int(self.state[WRITTEN])):
            return self.nothing
        self.state[WRITTEN] = 0
        rows = self._newest_rows(newest[:, :written], newest_valid[:, :written], cuts, out_cuts[:written])
        return self.shape.outputs.of(rows, aggregates, self.pool)[0]

    def take_in(self, read: Sequence[Line], keys: Int64Array, values: Mapping[str, AnyArray], size: int) -> bool:
        """Add `size` rows, unless one of them ends a batch; return whether they were added.

        `read` are their values, `keys` those of their groups, and `values` the attributes that decide when a batch
        ends. Nothing changes when they are not added.
        """
        if not self.cutter.ends_none(values, size, self.opened_rows):
            return False
        self._tumble(read, keys, size, NO_CUTS, *self._no_out)
        self.opened_rows += size
        return True

    def _tumble(
        self,
        read: Sequence[Line],
        keys: Int64Array,
        size: int,
        cuts: Int64Array,
        newest: Int64Array,
        newest_valid: BoolArray,
        out_cuts: Int64Array,
    ) -> list[AnyValues]:
        """Return the aggregates of the rows written; their attributes and cuts are written into the given arrays."""
        accumulators, groups, lines = self.accumulators, self.groups, self._lines
        arrays = self._found(read)
        out, out_valid = accumulators.room_for(len(out_cuts)) if len(out_cuts) else self._no_aggregates
        row = written = 0
        self._moves = room_for_moves(self._moves, size)
        while True:
            told = tumble(
                size, cuts, self.state, keys, lines,
                accumulators.cells, groups.state, groups.index, groups.keys, groups.unused,
                self._moves, self._opened, self._kept_lines, self._kept, self._kept_valid,
                newest, newest_valid, out_cuts,
            )  # fmt: skip
            planned = told if told >= 0 else int(self.state[PLANNED])
            done = size if told >= 0 else int(self.state[ROW])
            accumulators.follow(self._moves, planned, done - row, lines, out, out_valid, written)
            if told >= 0:
                break
            row, written = done, int(self.state[WRITTEN])
            if told == NO_OPEN_ROOM:
                self._grow_places()
            elif told != NO_MOVE_LEFT:
                self.make_room(told, forget=True)
        del arrays  # kernels use these arrays by address, so keep them alive until here
        return accumulators.values(out, out_valid, int(self.state[WRITTEN])) if len(out_cuts) else []

    def _found(self, read: Sequence[Line]) -> list[AnyArray]:
        """Return the arrays of all values that `lines` refers to, which must stay alive."""
        arrays: list[AnyArray] = []
        lines = self._lines
        for line, values, valid in read:
            found, lines[line, FORM] = in_form(values)
            lines[line, VALUES] = address_of(found)
            arrays.append(found)
            if valid is not None:
                mask = np.ascontiguousarray(valid)
                lines[line, MASK] = address_of(mask)
                arrays.append(mask)
            elif self._told_nulls:
                lines[line, MASK] = 0
            self._told_nulls = self._told_nulls or valid is not None
        return arrays

    def _grow_places(self) -> None:
        self._opened = grown(self._opened, 2 * len(self._opened))
        self._kept, self._kept_valid = (
            np.concatenate([lines, lines], axis=1) for lines in (self._kept, self._kept_valid)
        )

    def _newest_rows(self, newest: Int64Array, valid: BoolArray, cuts: Int64Array, out_cuts: Int64Array) -> EventBatch:
        """Return the newest rows in the form in which they are emitted.

        Current events with the order and clock of their cuts.
        """
        columns = {
            node.column: self._column(newest[number], valid[number], node.type)
            for number, node in enumerate(self._selected, start=1)
        }
        chunks = None if (out_cuts[1:] != out_cuts[:-1]).all() else out_cuts
        orders, clocks = cuts[ORDER][out_cuts], cuts[CLOCK][out_cuts]
        return EventBatch(newest[0], None, orders, clocks, columns, chunks, only_current=True)

    def _column(self, line: Int64Array, valid: BoolArray, type_: AttributeType) -> Column:
        if type_ is AttributeType.STRING:
            return Column(type_, self.pool, values=line)
        values: AnyArray = line.view(np.float64) if SOURCES[type_] == REAL else line
        if values.dtype != DTYPES[type_]:
            values = values.astype(DTYPES[type_])
        return Column(type_, self.pool, values=values, valid=None if valid.all() else valid)

    def _coded(self) -> list[bool]:
        """Return which kept lines contain string codes."""
        return [False, *(node.type is AttributeType.STRING for node in self._selected)]

    def snapshot(self) -> State:
        places = int(self.state[OPEN])
        kept = [
            Codes(line[:places].copy()) if coded else line[:places].copy()
            for line, coded in zip(self._kept, self._coded(), strict=True)
        ]
        return {
            "cutter": self.cutter.snapshot(),
            "opened_rows": self.opened_rows,
            "opened": self._opened[:places].copy(),
            "kept": kept,
            "kept_valid": self._kept_valid[:, :places].copy(),
            "groups": self.groups.snapshot(),
            "aggregates": self.accumulators.snapshot(),
        }

    def restore(self, state: State) -> None:
        self.cutter.restore(state["cutter"])
        self.opened_rows, opened = state["opened_rows"], state["opened"]
        self.groups.restore(state["groups"])
        self.accumulators.restore(state["aggregates"])
        self.accumulators.grow_groups(self.groups.capacity)
        self.state[OPEN] = len(opened)
        while len(self._opened) < len(opened):
            self._grow_places()
        self._opened[: len(opened)] = opened
        for line, kept in zip(self._kept, state["kept"], strict=True):
            line[: len(opened)] = kept.array if isinstance(kept, Codes) else kept
        self._kept_valid[:, : len(opened)] = state["kept_valid"]

    def state_size(self) -> StateSize:
        return StateSize(
            rows=int(self.state[OPEN]),
            groups=self.groups.count if self.shape.keys else 0,
            distinct_values=self.accumulators.distinct_values(),
            bytes=held_bytes(self),
        )


class TimedTumblingSelection(TumblingSelection):
    """A tumbling selection whose batches end by timers."""

    def next_deadline_ms(self) -> int | None:
        return self.cutter.next_deadline_ms() if self.opened_rows else None
