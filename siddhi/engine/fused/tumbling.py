"""A window of batches and the selection behind it, in one loop.

    S ─►─ filters ─►─┬─ cuts: where batches end ──────────────────────────────┐
                     └─ groups: +a +b +c … ─►─ aggregates, newest row of each ─┴─►─ Out, one row a group and batch

    lengthBatch 3    in        a   b   a   │  c   c   b   │
                     moves     +a  +b  +a  │ write a, b   │ anew: +c  +c  anew: +b  │ write c, b
                     out                     a, b                                     c, b

Only current events leave such a query, of each batch the last of each group. So no event is held: it is added to the
accumulators of its group as it comes, and of the group's newest event only those attributes are kept that are selected.
At the end of a batch the groups are written in the order in which they came, and start anew with their next event.
"""

from __future__ import annotations

import numpy as np

from siddhi.analysis import model
from siddhi.engine.aggregators.accumulate import accumulate
from siddhi.engine.aggregators.accumulators import SOURCES
from siddhi.engine.aggregators.moves import (
    ADD,
    CLEAR,
    ENTRIES,
    GROUP_SHIFT,
    NARROW,
    NODES_LEFT,
    NULLS,
    REAL,
    ROW_SHIFT,
    WRITE,
    kernel,
)
from siddhi.engine.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.batch import EventBatch
from siddhi.engine.column import DTYPES, Column
from siddhi.engine.expressions.compiler import ExpressionCompiler
from siddhi.engine.expressions.leaves import ColumnNode, TimestampNode
from siddhi.engine.fused.fused import FusedSelection
from siddhi.engine.fused.group_table import give_back, group_of
from siddhi.engine.fused.shape import Shape
from siddhi.engine.kernels import grown
from siddhi.engine.operator import OperatorContext, Step
from siddhi.engine.state import Codes, State
from siddhi.engine.state_size import StateSize, held_bytes
from siddhi.engine.windows.cutting import CLOCK, ORDER, ROWS, Cutter
from siddhi.engine.windows.external_time_batch import ExternalTimeCutter
from siddhi.engine.windows.length_batch import LengthCutter, length_and_streaming
from siddhi.engine.windows.time_batch import TimeCutter
from siddhi.engine.windows.window import WindowContext
from siddhi.language.ast import AttributeType

HELD, SLOT, FIRST_CELLS = 0, 1, 2
"""The cells of a group that count its rows in the batch in progress and tell its place among the batch's groups."""
OPEN, ROW, CUT, FLUSHED, WRITTEN, LISTS, COUNTERS, STATE_SIZE = range(8)
"""Lines of the state: groups in the batch in progress; of the call that runs, rows and cuts that are done, groups of a
cut that are written, rows written in all; how many lists and tables the aggregates fill."""
NO_STATE_ROOM, NO_OPEN_ROOM = -3, -4
BLOCK = 2_048
"""So many moves are planned before the aggregates follow them: few enough to stay in the fastest cache."""
KEPT_SOURCE, KEPT_LINE, KEPT_MASK = 0, 1, 2
"""Columns of the plan for attributes of newest rows: dtype and line, the line that tells nulls (-1: there are none)."""


@kernel
def tumble(  # type: ignore[no-untyped-def] # noqa: C901, PLR0912, PLR0915 - one loop, compiled as a whole
    count, cuts, state, keys, wide, narrow, valid, cells, group_state, index, group_keys, unused, moves, plan,
    nodes, table, pool, opened, newest, kept_plan, kept, kept_valid, out, out_valid, out_cuts,
):  # fmt: skip
    """Adds `count` rows to their groups and writes the groups of the batch in progress at each of `cuts`.

    `opened` and `newest` hold group and newest row (-1: of an earlier call) of each place in the batch in progress,
    `kept` the attributes of newest rows by place. Behind the aggregates `out` gets the attributes of the newest rows,
    `out_cuts` the cut of each row written. Returns twice the number of rows written, one more when an aggregate was
    null, or what there was no room for: then the caller makes room and calls again.
    """
    several = len(plan)
    while state[ROW] < count or state[CUT] < cuts.shape[1]:
        written = state[WRITTEN]
        row = state[ROW]
        adds = min(count - row, len(moves))
        if pool[NODES_LEFT] < adds * state[LISTS] or 2 * (pool[ENTRIES] + adds * state[COUNTERS]) > len(table):
            return NO_STATE_ROOM
        if row == 0 and state[CUT] == 0 and state[FLUSHED] == 0:
            plan[:, NULLS] = 0
        planned = 0
        lack = np.int64(0)
        while planned < len(moves):
            if state[CUT] < cuts.shape[1] and cuts[ROWS, state[CUT]] == row:
                place = state[FLUSHED]
                while place < state[OPEN] and planned < len(moves):
                    group = np.int64(opened[place])
                    moves[planned] = group << GROUP_SHIFT | WRITE
                    planned += 1
                    for number in range(len(kept_plan)):
                        line, mask = kept_plan[number, KEPT_LINE], kept_plan[number, KEPT_MASK]
                        if newest[place] < 0:
                            out[several + number, state[WRITTEN]] = kept[number, place]
                            out_valid[several + number, state[WRITTEN]] = kept_valid[number, place]
                        else:
                            narrowed = kept_plan[number, KEPT_SOURCE] == NARROW
                            value = np.int64(narrow[line, newest[place]]) if narrowed else wide[line, newest[place]]
                            out[several + number, state[WRITTEN]] = value
                            out_valid[several + number, state[WRITTEN]] = mask < 0 or valid[mask, newest[place]]
                    out_cuts[state[WRITTEN]] = state[CUT]
                    cells[group, HELD] = 0
                    give_back(group, group_state, index, group_keys, unused)
                    state[WRITTEN] += 1
                    place += 1
                state[FLUSHED] = place
                if place < state[OPEN]:
                    break
                state[FLUSHED] = state[OPEN] = 0
                state[CUT] += 1
                continue
            if row == count:
                break
            group = group_of(keys, row, count, group_state, index, group_keys, unused)
            if group < 0:
                lack = group
                break
            doing = ADD
            if cells[group, HELD] == 0:
                if state[OPEN] == len(opened):
                    lack = np.int64(NO_OPEN_ROOM)
                    break
                doing |= CLEAR
                cells[group, SLOT] = state[OPEN]
                opened[state[OPEN]] = group
                state[OPEN] += 1
            newest[cells[group, SLOT]] = row
            cells[group, HELD] += 1
            moves[planned] = group << GROUP_SHIFT | row << ROW_SHIFT | doing
            planned += 1
            row += 1
        accumulate(
            moves, planned, plan, wide, narrow, valid, cells, nodes, table, pool, out, out_valid, written
        )  # fmt: skip
        state[ROW] = row
        if lack < 0:
            return lack
    for place in range(state[OPEN]):
        if newest[place] >= 0:
            for number in range(len(kept_plan)):
                line, mask = kept_plan[number, KEPT_LINE], kept_plan[number, KEPT_MASK]
                narrowed = kept_plan[number, KEPT_SOURCE] == NARROW
                kept[number, place] = np.int64(narrow[line, newest[place]]) if narrowed else wide[line, newest[place]]
                kept_valid[number, place] = mask < 0 or valid[mask, newest[place]]
            newest[place] = -1
    nulls = np.int64(0)
    for number in range(len(plan)):
        if plan[number, NULLS]:
            nulls = np.int64(1)
    written = state[WRITTEN]
    for number in range(ROW, WRITTEN + 1):
        state[number] = 0
    return written << 1 | nulls


def cutter_of(
    window: model.HandlerCall | None, shape: Shape, context: OperatorContext
) -> tuple[Cutter, dict[str, AttributeType]] | None:
    """What cuts the events of `window` into batches and which attributes it reads, None when it cuts none or lets
    events out before a batch is complete."""
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
    """Of each batch the newest event of each group leaves, with the aggregates of the group."""

    def __init__(
        self, shape: Shape, cutter: Cutter, columns: dict[str, AttributeType], context: OperatorContext
    ) -> None:
        selected = [ColumnNode(name, type_) for name, type_ in shape.outputs.columns.items()]
        super().__init__(shape, context, None, FIRST_CELLS, [TimestampNode(), *selected])
        self.columns |= columns
        self.cutter = cutter
        self.opened_rows = 0
        state = self.state = np.zeros(STATE_SIZE, dtype=np.int64)
        state[LISTS], state[COUNTERS] = self.accumulators.lists, self.accumulators.counters
        self._moves: Int64Array = np.empty(BLOCK, dtype=np.int64)
        self._opened: AnyArray = np.zeros(8, dtype=np.int32)
        self._newest: Int64Array = np.full(8, -1, dtype=np.int64)
        sources = [self.rows.sources[line] for line in self.kept_lines]
        places = [self.rows.places[line] for line in self.kept_lines]
        self._kept_plan: Int64Array = np.array([sources, places, [-1] * len(sources)], dtype=np.int64).T.copy()
        self._kept: Int64Array = np.zeros((len(sources), 8), dtype=np.int64)
        self._kept_valid: BoolArray = np.ones((len(sources), 8), dtype=np.bool_)
        self._no_out = self._room_for(0)

    def _room_for(self, writes: int) -> tuple[Int64Array, BoolArray, Int64Array]:
        """The arrays for so many written rows: aggregates and attributes, where these are not null, and cuts."""
        shape = (len(self.shape.accumulations) + len(self.kept_lines), writes)
        return np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.bool_), np.empty(writes, dtype=np.int64)

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        size = batch.size
        cuts = self.cutter.cut(batch, step, 0, self.opened_rows)
        if size:
            self.rows.make_room(0, 0, size)
            self.put_rows(batch, 0)
        cut = cuts.shape[1]
        out, out_valid, out_cuts = self._room_for(int(self.state[OPEN]) + size) if cut else self._no_out
        told = self._tumble(batch, cuts, out, out_valid, out_cuts)
        self.opened_rows = size - int(cuts[ROWS, -1]) if cut else self.opened_rows + size
        written = told >> 1
        if not written:
            return self.nothing
        aggregates = self.accumulators.values(out, out_valid, written, nulls=bool(told & 1))
        rows = self._newest_rows(out[:, :written], out_valid[:, :written], cuts, out_cuts[:written])
        return self.shape.outputs.of(rows, aggregates, self.pool)[0]

    def _tumble(
        self, batch: EventBatch, cuts: Int64Array, out: Int64Array, out_valid: BoolArray, out_cuts: Int64Array
    ) -> int:
        accumulators, rows, groups = self.accumulators, self.rows, self.groups
        keys = self.keys(batch)
        while True:
            told = int(tumble(
                batch.size, cuts, self.state, keys,
                rows.wide, rows.narrow, rows.valid,
                accumulators.cells, groups.state, groups.index, groups.keys, groups.unused,
                self._moves, accumulators.plan, accumulators.nodes, accumulators.table, accumulators.pool,
                self._opened, self._newest, self._kept_plan, self._kept, self._kept_valid,
                out, out_valid, out_cuts,
            ))  # fmt: skip
            if told >= 0:
                return told
            if told == NO_OPEN_ROOM:
                self._grow_places()
            else:
                self.make_room(told, min(batch.size, BLOCK), forget=True)

    def _grow_places(self) -> None:
        count = 2 * len(self._opened)
        self._opened, self._newest = grown(self._opened, count), grown(self._newest, count, -1)
        self._kept, self._kept_valid = (
            np.concatenate([lines, lines], axis=1) for lines in (self._kept, self._kept_valid)
        )

    def _newest_rows(self, out: Int64Array, out_valid: BoolArray, cuts: Int64Array, out_cuts: Int64Array) -> EventBatch:
        """The newest rows as they leave: current events of the order and clock of their cuts, which are chunks."""
        first = len(self.shape.accumulations)
        columns = {
            name: self._column(out[number], out_valid[number], type_)
            for number, (name, type_) in enumerate(self.shape.outputs.columns.items(), start=first + 1)
        }
        chunks = None if (out_cuts[1:] != out_cuts[:-1]).all() else out_cuts
        orders, clocks = cuts[ORDER][out_cuts], cuts[CLOCK][out_cuts]
        return EventBatch(out[first], None, orders, clocks, columns, chunks, only_current=True)

    def _column(self, line: Int64Array, valid: BoolArray, type_: AttributeType) -> Column:
        if type_ is AttributeType.STRING:
            return Column(type_, self.pool, values=line)
        values: AnyArray = line.view(np.float64) if SOURCES[type_] == REAL else line
        if values.dtype != DTYPES[type_]:
            values = values.astype(DTYPES[type_])
        return Column(type_, self.pool, values=values, valid=None if valid.all() else valid)

    def tell_nulls(self) -> None:
        super().tell_nulls()
        coded = [self.coded[line] for line in self.kept_lines]
        self._kept_plan[:, KEPT_MASK] = np.where(coded, -1, self.kept_lines)

    def snapshot(self) -> State:
        places = int(self.state[OPEN])
        kept = [
            Codes(line[:places].copy()) if self.coded[number] else line[:places].copy()
            for line, number in zip(self._kept, self.kept_lines, strict=True)
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
        self.restore_nulls()
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
    """One whose batches end by timers."""

    def next_deadline_ms(self) -> int | None:
        return self.cutter.next_deadline_ms() if self.opened_rows else None
