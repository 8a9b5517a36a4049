"""The operations of the `unique:` windows for rows and timers, for n instances and n keys in each.

`HEAD` of a key is its row, which is in the list of open rows of its instance.
"""

from __future__ import annotations

from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.jit.kernels import seldom_part
from siddhi.engine.operators.base.operator import NEVER
from siddhi.engine.operators.windows.base.cutting import batch_end
from siddhi.engine.operators.windows.keyed.batch_kinds import expire_last
from siddhi.engine.operators.windows.keyed.layout import (
    ALIGNED,
    BOUNDARY,
    CHUNK_NOW,
    CLOCK_NOW,
    COUNT,
    EVER_KIND,
    FIRST_KIND,
    FLAG,
    FORGETS,
    HEAD,
    KIND,
    LAST_COUNT,
    LENGTH,
    NEXT,
    ORIGIN,
    OWNER,
    SPAN,
    STAMP,
    TIMER,
    TOP,
    UNIQUE_LENGTH_BATCH_KIND,
    UNIQUE_LENGTH_KIND,
    UNIQUE_TIME_KIND,
    UNIQUE_TIME_LENGTH_BATCH_KIND,
)
from siddhi.engine.operators.windows.keyed.parts import (
    append,
    emit,
    open_rows_last,
    put_in_place,
    release,
    set_timer,
    take_out,
)
from siddhi.engine.operators.windows.keyed.sliding_kinds import time_in, time_out


@seldom_part
def _replace(param, run, rows, cells, instance, held, slot, out):  # type: ignore[no-untyped-def]
    """Expire the row in `slot`; its key has none then."""
    emit(run, out, slot, EXPIRED, run[CLOCK_NOW])
    take_out(cells, instance, rows, slot)
    if param[KIND] == UNIQUE_TIME_KIND:
        time_out(cells, instance, rows, slot)
    held[rows[OWNER, slot], HEAD] = -1
    release(run, rows, slot)


@seldom_part
def _let_go(param, run, rows, cells, keys, instance, held, out):  # type: ignore[no-untyped-def]
    top = cells[instance, TOP]
    while top >= 0 and keys[0, top] + param[SPAN] <= run[CLOCK_NOW]:
        _replace(param, run, rows, cells, instance, held, top, out)
        top = cells[instance, TOP]


@seldom_part
def _slide(param, run, rows, cells, keys, timers, instance, held, key, slot, out):  # type: ignore[no-untyped-def]
    kind, old = param[KIND], held[key, HEAD]
    if kind == FIRST_KIND:
        if old >= 0:
            release(run, rows, slot)
            return
    elif old >= 0:
        _replace(param, run, rows, cells, instance, held, old, out)
    elif kind == UNIQUE_LENGTH_KIND and 0 < cells[instance, COUNT] >= param[LENGTH]:
        _replace(param, run, rows, cells, instance, held, cells[instance, HEAD], out)
    if kind == UNIQUE_TIME_KIND:
        _let_go(param, run, rows, cells, keys, instance, held, out)
    if kind == UNIQUE_LENGTH_KIND and param[LENGTH] <= 0:
        emit(run, out, slot, EXPIRED, run[CLOCK_NOW])
        release(run, rows, slot)
    else:
        held[key, HEAD] = slot
        append(cells, instance, rows, slot)
    emit(run, out, slot, CURRENT, rows[STAMP, slot])
    if kind == UNIQUE_TIME_KIND:
        time_in(cells, instance, keys, rows, slot)
        set_timer(run, cells, timers, instance, keys[0, cells[instance, TOP]] + param[SPAN])


@seldom_part
def _flush(param, run, rows, cells, instance, held, out):  # type: ignore[no-untyped-def]
    """Make the batch in progress the last one, which has expired."""
    run[CHUNK_NOW] += 1
    expire_last(param, run, rows, cells, instance, run[CLOCK_NOW], out)
    slot = cells[instance, HEAD]
    if slot >= 0:
        emit(run, out, slot, RESET, run[CLOCK_NOW])
    while slot >= 0:
        emit(run, out, slot, CURRENT, run[CLOCK_NOW])
        held[rows[OWNER, slot], HEAD] = -1
        slot = rows[NEXT, slot]
    open_rows_last(cells, instance)


@seldom_part
def _take(param, run, rows, cells, instance, held, key, slot):  # type: ignore[no-untyped-def]
    """Add the row to the batch in progress, unless the first of its key stays."""
    old = held[key, HEAD]
    if old < 0:
        append(cells, instance, rows, slot)
    elif param[FORGETS]:
        release(run, rows, slot)
        return
    else:
        put_in_place(cells, instance, rows, old, slot)
        release(run, rows, old)
    held[key, HEAD] = slot


@seldom_part
def _set_boundary(param, run, cells, timers, instance):  # type: ignore[no-untyped-def]
    """Set the end of the batch in progress to a time after the clock, and its timer."""
    clock, span = run[CLOCK_NOW], param[SPAN]
    boundary = cells[instance, BOUNDARY]
    if boundary == NEVER:
        boundary = batch_end(clock, param[ORIGIN] if param[ALIGNED] else clock, span)
    elif boundary <= clock:
        boundary += ((clock - boundary) // span + 1) * span
    cells[instance, BOUNDARY] = boundary
    set_timer(run, cells, timers, instance, boundary)


@seldom_part
def unique_in(param, run, rows, cells, keys, timers, instance, held, key, slot, out):  # type: ignore[no-untyped-def]
    """Process a row. In a window whose batches end by number and time, `FLAG` means that the batch is full."""
    kind = param[KIND]
    if kind in (EVER_KIND, FIRST_KIND, UNIQUE_LENGTH_KIND, UNIQUE_TIME_KIND):
        _slide(param, run, rows, cells, keys, timers, instance, held, key, slot, out)
        return
    if kind == UNIQUE_TIME_LENGTH_BATCH_KIND and cells[instance, FLAG]:
        release(run, rows, slot)
        return
    if kind != UNIQUE_LENGTH_BATCH_KIND and cells[instance, TIMER] == NEVER:
        _set_boundary(param, run, cells, timers, instance)
    _take(param, run, rows, cells, instance, held, key, slot)
    if kind == UNIQUE_LENGTH_BATCH_KIND and cells[instance, COUNT] == param[LENGTH]:
        _flush(param, run, rows, cells, instance, held, out)
    elif kind == UNIQUE_TIME_LENGTH_BATCH_KIND and cells[instance, COUNT] >= param[LENGTH]:
        _flush(param, run, rows, cells, instance, held, out)
        cells[instance, FLAG] = 1


@seldom_part
def unique_on(param, run, rows, cells, keys, timers, instance, held, due, out):  # type: ignore[no-untyped-def]
    """Process the timer of an instance."""
    if param[KIND] == UNIQUE_TIME_KIND:
        _let_go(param, run, rows, cells, keys, instance, held, out)
        if cells[instance, TOP] >= 0:
            set_timer(run, cells, timers, instance, keys[0, cells[instance, TOP]] + param[SPAN])
        return
    full = param[KIND] == UNIQUE_TIME_LENGTH_BATCH_KIND and cells[instance, FLAG] == 1
    if not full:
        _flush(param, run, rows, cells, instance, held, out)
    cells[instance, FLAG] = 0
    cells[instance, BOUNDARY] = due + param[SPAN]
    if full or cells[instance, LAST_COUNT] > 0:
        set_timer(run, cells, timers, instance, cells[instance, BOUNDARY])
