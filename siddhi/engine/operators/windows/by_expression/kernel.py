"""The loop of expression windows, for n instances with common aggregates.

The open rows of an instance are those that its expression covers; its last batch are those that a batch window emitted
and that have not expired. `TOTAL` is the number of open rows that were read.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.kinds import CURRENT, EXPIRED
from siddhi.engine.jit.kernels import kernel_part, seldom_part, state_kernel
from siddhi.engine.operators.aggregates.distinct import follow_distincts
from siddhi.engine.operators.aggregates.extremes import follow_records
from siddhi.engine.operators.aggregates.moves import (
    ADD,
    AVERAGE,
    CLEAR,
    COUNT,
    DEVIATION,
    DISTINCT,
    KIND,
    RECORD,
    REMOVE,
    ROW_SHIFT,
    SUM,
    WRITE,
)
from siddhi.engine.operators.aggregates.sorted_extremes import follow_sorted_extremes
from siddhi.engine.operators.aggregates.totals import follow_counts, follow_deviations, follow_totals
from siddhi.engine.operators.expressions.register_kernel import run_program
from siddhi.engine.operators.windows.by_expression.layout import (
    AGGREGATE,
    BATCHES,
    CONSTANT,
    END_AGGREGATE,
    END_LINE,
    END_LOAD,
    FIRST,
    FIRST_AGGREGATE,
    FIRST_LINE,
    FIRST_LOAD,
    NUMBER,
    OWN,
    SOURCE,
    STREAMS,
    TRUE,
    WHEN_FALSE,
    WHEN_TRUE,
)
from siddhi.engine.operators.windows.keyed.layout import (
    CHUNK_NOW,
    CLOCK_NOW,
    HEAD,
    INSTANCE,
    INSTANCE_NOW,
    LAST_COUNT,
    LAST_HEAD,
    LAST_TAIL,
    NEXT,
    ORDER_NOW,
    RANK_NOW,
    STAMP,
    TOTAL,
)
from siddhi.engine.operators.windows.keyed.parts import append, emit, open_rows_last, release, take_out

_CAME, _GONE, _RESET, _AGAIN = range(4)
"""The reason for evaluating the expression: an event that arrives; the oldest that leaves; the event that ends a batch,
which resets the aggregates, and then the same event again."""


@seldom_part
def _accumulate(move, moves, number, plan, arguments, sums, nodes, table, pool, results, known):  # type: ignore[no-untyped-def]
    """Update an aggregate by a move and write its value."""
    moves[0] = move
    kind = plan[number, KIND]
    if kind == COUNT:
        follow_counts(moves, 1, plan, number, arguments, sums, results, known, 0)
    elif kind in (SUM, AVERAGE):
        follow_totals(moves, 1, plan, number, arguments, sums, results, known, 0)
    elif kind == DEVIATION:
        follow_deviations(moves, 1, plan, number, arguments, sums, results, known, 0)
    elif kind == RECORD:
        follow_records(moves, 1, plan, number, arguments, sums, results, known, 0)
    elif kind == DISTINCT:
        follow_distincts(moves, 1, plan, number, arguments, sums, table, pool, results, known, 0)
    else:
        follow_sorted_extremes(moves, 1, plan, number, arguments, sums, nodes, pool, results, known, 0)


@seldom_part
def _expire_last(run, rows, cells, owner, out):  # type: ignore[no-untyped-def]
    slot = cells[owner, LAST_HEAD]
    while slot >= 0:
        emit(run, out, slot, EXPIRED, run[CLOCK_NOW])
        release(run, rows, slot)
        slot = rows[NEXT, slot]
    cells[owner, LAST_HEAD] = cells[owner, LAST_TAIL] = -1
    cells[owner, LAST_COUNT] = 0


@seldom_part
def _expire_open(run, rows, cells, owner, out):  # type: ignore[no-untyped-def]
    while cells[owner, HEAD] >= 0:
        slot = cells[owner, HEAD]
        take_out(cells, owner, rows, slot)
        emit(run, out, slot, EXPIRED, run[CLOCK_NOW])
        release(run, rows, slot)


@seldom_part
def _let_out(run, rows, cells, owner, trigger, out):  # type: ignore[no-untyped-def]
    """Expire the last batch and replace it by the open rows; those that were read are emitted and never expire."""
    _expire_last(run, rows, cells, owner, out)
    while cells[owner, TOTAL] > 0 and cells[owner, HEAD] >= 0:
        slot = cells[owner, HEAD]
        take_out(cells, owner, rows, slot)
        emit(run, out, slot, CURRENT, rows[STAMP, slot])
        release(run, rows, slot)
        cells[owner, TOTAL] -= 1
    cells[owner, TOTAL] = 0
    slot = cells[owner, HEAD]
    while slot >= 0:
        emit(run, out, slot, CURRENT, rows[STAMP, slot] if slot == trigger else run[CLOCK_NOW])
        slot = rows[NEXT, slot]
    open_rows_last(cells, owner)


@seldom_part
def _end_batch(streams, run, rows, cells, owner, slot, included, out):  # type: ignore[no-untyped-def]
    """End the batch of the rows before `slot`, which is the last of it if `included`, else opens the next."""
    take_out(cells, owner, rows, slot)
    clock = run[CLOCK_NOW]
    if cells[owner, HEAD] < 0:  # nothing precedes it: it expires before it is emitted, and is not stored
        _expire_last(run, rows, cells, owner, out)
        emit(run, out, slot, EXPIRED, clock)
        release(run, rows, slot)
        emit(run, out, slot, CURRENT, clock)
    elif not included:
        if streams:
            _expire_open(run, rows, cells, owner, out)
            emit(run, out, slot, CURRENT, rows[STAMP, slot])
        else:
            _let_out(run, rows, cells, owner, slot, out)
        append(cells, owner, rows, slot)
    else:
        append(cells, owner, rows, slot)
        if streams:
            emit(run, out, slot, CURRENT, rows[STAMP, slot])
            _expire_open(run, rows, cells, owner, out)
        else:
            _let_out(run, rows, cells, owner, slot, out)


@kernel_part
def _begin_row(batches, run, rows, slots, orders, clocks, chunks, row):  # type: ignore[no-untyped-def]
    instance = rows[INSTANCE, slots[row]]
    apart = batches or row == 0 or len(chunks) == 0 or chunks[row] != chunks[row - 1] or instance != run[INSTANCE_NOW]
    run[ORDER_NOW], run[CLOCK_NOW], run[INSTANCE_NOW], run[RANK_NOW] = orders[row], clocks[row], instance, -1
    if apart:
        run[CHUNK_NOW] += 1
    return instance


@state_kernel
def walk_by_expression(  # type: ignore[no-untyped-def] # noqa: C901, PLR0912, PLR0915
    settings, run, rows, cells, slots, orders, clocks, chunks, included,
    values, valid, constants, constants_valid, sides, loads, lines,
    plan, arguments, sums, nodes, table, pool, moves, results, known,
    inputs, inputs_f, inputs_valid, whole, fractions, null_marks, row_cells, row_cells_f, row_cells_f4, row_valid, out,
):  # fmt: skip
    """Process the rows in `slots` in turn.

    `included` marks rows that belong to the batch that they end. `values` and `valid` have the values of rows by slot.
    The arguments from `plan` to `known` are those of the aggregates (`siddhi.engine.operators.aggregates`), with room
    for one move and its results; the following ones are scratch memory of the program.
    """
    batches, streams = settings[BATCHES] != 0, settings[STREAMS] != 0
    row, state = np.int64(-1), np.int64(_CAME)
    slot = instance = own = first = np.int64(-1)
    while True:
        doing = ADD | WRITE
        if state == _CAME:
            row += 1
            if row == len(slots):
                return
            slot = slots[row]
            instance = _begin_row(batches, run, rows, slots, orders, clocks, chunks, row)
            append(cells, instance, rows, slot)
            own, first = slot, cells[instance, HEAD]
        elif state == _GONE:
            doing = REMOVE | WRITE
            own = cells[instance, HEAD]
            take_out(cells, instance, rows, own)
            first = cells[instance, HEAD] if cells[instance, HEAD] >= 0 else own
        elif state == _RESET:
            doing = CLEAR | WRITE
        side = np.int64(0)
        while side >= 0:
            for number in range(sides[side, FIRST_AGGREGATE], sides[side, END_AGGREGATE]):
                move = own << ROW_SHIFT | doing
                _accumulate(move, moves, number, plan, arguments, sums, nodes, table, pool, results, known)
            for load in range(sides[side, FIRST_LOAD], sides[side, END_LOAD]):
                source, number = loads[load, SOURCE], loads[load, NUMBER]
                if source == AGGREGATE:
                    inputs[load, 0], inputs_valid[load, 0] = results[number, 0], known[number, 0]
                elif source == CONSTANT:
                    inputs[load, 0], inputs_valid[load, 0] = constants[number], constants_valid[number]
                else:
                    at = own if source == OWN else first if source == FIRST else slot
                    inputs[load, 0], inputs_valid[load, 0] = values[number, at], valid[number, at]
            begin, end = sides[side, FIRST_LINE], sides[side, END_LINE]
            truth = run_program(
                0, begin, end, lines, 0, inputs, inputs_f, inputs_valid, 0, row_cells, row_cells_f, row_cells_f4,
                row_valid, whole, fractions, null_marks,
            )  # fmt: skip
            side = sides[side, WHEN_TRUE] if truth else sides[side, WHEN_FALSE]
        holds = side == TRUE
        if state == _CAME:
            if holds:
                if not batches or streams:
                    emit(run, out, slot, CURRENT, rows[STAMP, slot])
            else:
                state = np.int64(_RESET if batches else _GONE)
        elif state == _GONE:
            emit(run, out, own, EXPIRED, run[CLOCK_NOW])
            release(run, rows, own)
            if holds or cells[instance, HEAD] < 0:
                emit(run, out, slot, CURRENT, rows[STAMP, slot])
                state = np.int64(_CAME)
        elif state == _RESET:
            state = np.int64(_AGAIN)
        else:
            _end_batch(streams, run, rows, cells, instance, slot, included[row] != 0, out)
            state = np.int64(_CAME)
