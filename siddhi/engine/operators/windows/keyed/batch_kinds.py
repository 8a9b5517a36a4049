"""The operations of batch windows, for n keys."""

from __future__ import annotations

from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.jit.kernels import seldom_part
from siddhi.engine.operators.base.operator import NEVER
from siddhi.engine.operators.windows.base.cutting import batch_end
from siddhi.engine.operators.windows.base.emission import timer_clock, timer_order
from siddhi.engine.operators.windows.keyed.layout import (
    ALIGNED,
    BATCH_KIND,
    BEGUN,
    BOUNDARY,
    CHUNK_NOW,
    CLOCK_NOW,
    COUNT,
    CRON_KIND,
    EXPIRES,
    EXTERNAL_BATCH_KIND,
    FLAG,
    FORGETS,
    HEAD,
    INSTANCE_NOW,
    KIND,
    LAST_COUNT,
    LAST_HEAD,
    LENGTH,
    LENGTH_BATCH_KIND,
    LENGTH_STREAM_KIND,
    NEXT,
    ORDER_NOW,
    ORIGIN,
    PLACE,
    ROW_CLOCK,
    ROW_INSTANCE,
    ROW_ORDER,
    SPAN,
    STAMP,
    START,
    TIME_STREAM_KIND,
    TOP,
    TOTAL,
)
from siddhi.engine.operators.windows.keyed.parts import (
    append,
    clear_timer,
    emit,
    open_rows_last,
    release,
    release_last,
    set_timer,
)


@seldom_part
def expire_last(param, run, rows, cells, owner, stamp, out):  # type: ignore[no-untyped-def]
    """Drop the last batch; emit it as expired if requested."""
    if param[EXPIRES]:
        slot = cells[owner, LAST_HEAD]
        while slot >= 0:
            emit(run, out, slot, EXPIRED, stamp)
            slot = rows[NEXT, slot]
    release_last(run, cells, owner, rows)


@seldom_part
def flush(param, run, rows, cells, owner, stamp, out):  # type: ignore[no-untyped-def]
    """Expire the last batch, and emit the one in progress, which becomes the last."""
    run[CHUNK_NOW] += 1
    expire_last(param, run, rows, cells, owner, stamp, out)
    slot = cells[owner, HEAD]
    if slot >= 0:
        emit(run, out, slot, RESET, stamp)
    while slot >= 0:
        emit(run, out, slot, CURRENT, rows[STAMP, slot])
        slot = rows[NEXT, slot]
    open_rows_last(cells, owner)
    if not param[EXPIRES]:
        release_last(run, cells, owner, rows)


@seldom_part
def _stream_by_length(param, run, rows, cells, owner, slot, out):  # type: ignore[no-untyped-def]
    """Emit every row at once.

    The reset that ends a batch has the values of its second row, in the very first batch of its first.
    """
    clock = run[CLOCK_NOW]
    if param[LENGTH] <= 0:
        if param[LENGTH] == 0:
            emit(run, out, slot, CURRENT, rows[STAMP, slot])
            if param[EXPIRES]:
                emit(run, out, slot, EXPIRED, clock)
            emit(run, out, slot, RESET, clock)
        release(run, rows, slot)
        return
    if cells[owner, COUNT] >= param[LENGTH]:
        first = cells[owner, HEAD]
        standing = first
        if cells[owner, FLAG]:
            standing = rows[NEXT, first] if rows[NEXT, first] >= 0 else slot
        cells[owner, FLAG] = 1
        open_rows_last(cells, owner)
        expire_last(param, run, rows, cells, owner, clock, out)
        emit(run, out, standing, RESET, clock)
    append(cells, owner, rows, slot)
    emit(run, out, slot, CURRENT, rows[STAMP, slot])


@seldom_part
def end_streamed(param, run, rows, cells, owner, stamp, out):  # type: ignore[no-untyped-def]
    """End a batch whose rows have been emitted."""
    first = cells[owner, HEAD]
    apart = run[ROW_ORDER] != run[ORDER_NOW] or run[ROW_CLOCK] != run[CLOCK_NOW]
    if apart or run[ROW_INSTANCE] != run[INSTANCE_NOW] or not run[BEGUN]:
        run[CHUNK_NOW] += 1
    run[BEGUN] = 0
    open_rows_last(cells, owner)
    expire_last(param, run, rows, cells, owner, stamp, out)
    if first >= 0:
        emit(run, out, first, RESET, stamp)


@seldom_part
def end_by_time(param, run, rows, cells, timers, owner, out):  # type: ignore[no-untyped-def]
    """End a batch whose time is over."""
    if param[KIND] == TIME_STREAM_KIND:
        end_streamed(param, run, rows, cells, owner, run[CLOCK_NOW], out)
    else:
        flush(param, run, rows, cells, owner, run[CLOCK_NOW], out)
    cells[owner, BOUNDARY] += param[SPAN]
    if cells[owner, LAST_COUNT] > 0:
        set_timer(run, cells, timers, owner, cells[owner, BOUNDARY])


@seldom_part
def _in_by_time(param, run, rows, cells, timers, owner, slot, goes_on, step_clocks, floor, out):  # type: ignore[no-untyped-def]
    order, clock, span = run[ORDER_NOW], run[CLOCK_NOW], param[SPAN]
    boundary = cells[owner, BOUNDARY]
    ends_now = False
    if boundary != NEVER and cells[owner, COUNT] + cells[owner, LAST_COUNT] > 0:
        due = timer_order(step_clocks, boundary, -1)
        ends_now = due == order and timer_clock(step_clocks, boundary, due, floor) == clock
    if not ends_now:  # otherwise its timer is about to fire
        if boundary == NEVER:
            boundary = batch_end(clock, param[ORIGIN], span) if param[ALIGNED] else clock + span
        elif boundary <= clock:
            boundary += (clock - boundary + span - 1) // span * span
            if boundary == clock and order % 2 == 1:
                boundary += span
        cells[owner, BOUNDARY] = boundary
    append(cells, owner, rows, slot)
    if param[KIND] == TIME_STREAM_KIND:
        if not run[BEGUN]:
            run[CHUNK_NOW] += 1
            run[BEGUN] = 1
        emit(run, out, slot, CURRENT, rows[STAMP, slot])
    if clock >= boundary and not goes_on:
        clear_timer(cells, owner)  # the end of the batch that this row ends
        end_by_time(param, run, rows, cells, timers, owner, out)
    else:
        set_timer(run, cells, timers, owner, boundary)


@seldom_part
def _in_by_attribute(param, run, rows, cells, keys, owner, slot, out):  # type: ignore[no-untyped-def]
    time, span = keys[0, slot], param[SPAN]
    if not cells[owner, FLAG]:
        start = keys[1, slot]
        cells[owner, FLAG], cells[owner, START], cells[owner, BOUNDARY] = 1, start, start + span
        if param[ALIGNED] or time >= start:
            cells[owner, BOUNDARY] = batch_end(time, start, span)
    if time >= cells[owner, BOUNDARY]:
        flush(param, run, rows, cells, owner, time, out)
        cells[owner, BOUNDARY] = batch_end(time, cells[owner, START], span)
    append(cells, owner, rows, slot)


@seldom_part
def let_piece_out(param, run, rows, cells, owner, out):  # type: ignore[no-untyped-def]
    """Emit the rows of a chunk since the last piece.

    `TOP` is its first row, `PLACE` that of the previous piece, whose values the reset has, `TOTAL` its number of rows;
    `FLAG` means that the last batch was read.
    """
    gone = cells[owner, LAST_HEAD]
    while gone >= 0:
        if param[EXPIRES]:
            emit(run, out, gone, EXPIRED, rows[STAMP, gone] if cells[owner, FLAG] else run[CLOCK_NOW])
        gone = rows[NEXT, gone]
    release_last(run, cells, owner, rows)
    if cells[owner, PLACE] >= 0:
        emit(run, out, cells[owner, PLACE], RESET, run[CLOCK_NOW])
    slot = cells[owner, PLACE] = cells[owner, TOP]
    while slot >= 0:
        emit(run, out, slot, CURRENT, rows[STAMP, slot])
        slot = rows[NEXT, slot]
    cells[owner, TOP] = -1
    cells[owner, TOTAL] = cells[owner, FLAG] = 0


@seldom_part
def end_chunk(param, run, rows, cells, owner, out):  # type: ignore[no-untyped-def]
    """End a chunk, which becomes the last batch."""
    if cells[owner, TOTAL] > 0:
        let_piece_out(param, run, rows, cells, owner, out)
    open_rows_last(cells, owner)
    if param[FORGETS]:
        release_last(run, cells, owner, rows)
        cells[owner, PLACE] = -1


@seldom_part
def batch_in(  # type: ignore[no-untyped-def] # noqa: C901, PLR0912
    param, run, rows, cells, keys, timers, owner, slot, goes_on, step_clocks, floor, ticks, out
):
    """Process a row in a batch window; `goes_on` means that more of its chunk follow."""
    kind = param[KIND]
    if kind == LENGTH_BATCH_KIND:
        append(cells, owner, rows, slot)
        if cells[owner, COUNT] == param[LENGTH]:
            flush(param, run, rows, cells, owner, run[CLOCK_NOW], out)
    elif kind == LENGTH_STREAM_KIND:
        _stream_by_length(param, run, rows, cells, owner, slot, out)
    elif kind == BATCH_KIND:
        append(cells, owner, rows, slot)
        if cells[owner, TOP] < 0:
            cells[owner, TOP] = slot
        cells[owner, TOTAL] += 1
        if cells[owner, TOTAL] == param[LENGTH]:
            let_piece_out(param, run, rows, cells, owner, out)
            run[CHUNK_NOW] += 1
    elif kind == EXTERNAL_BATCH_KIND:
        _in_by_attribute(param, run, rows, cells, keys, owner, slot, out)
    elif kind == CRON_KIND:
        if cells[owner, COUNT] == 0:
            before, behind = 0, len(ticks)
            while before < behind:
                middle = (before + behind) // 2
                if ticks[middle] <= run[CLOCK_NOW]:
                    before = middle + 1
                else:
                    behind = middle
            if before == len(ticks):  # the last time of the cron expression is over: nothing is emitted any more
                release(run, rows, slot)
                return
            set_timer(run, cells, timers, owner, ticks[before])
        append(cells, owner, rows, slot)
    else:
        _in_by_time(param, run, rows, cells, timers, owner, slot, goes_on, step_clocks, floor, out)


@seldom_part
def cron_on(run, rows, cells, owner, out):  # type: ignore[no-untyped-def]
    """Process a time of the cron expression. There is no reset between two periods: expired rows are always emitted."""
    slot = cells[owner, LAST_HEAD]
    while slot >= 0:
        emit(run, out, slot, EXPIRED, run[CLOCK_NOW])
        slot = rows[NEXT, slot]
    release_last(run, cells, owner, rows)
    slot = cells[owner, HEAD]
    while slot >= 0:
        emit(run, out, slot, CURRENT, rows[STAMP, slot])
        slot = rows[NEXT, slot]
    open_rows_last(cells, owner)
