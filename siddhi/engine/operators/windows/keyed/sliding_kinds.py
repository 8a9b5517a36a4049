"""The operations of sliding windows for rows and timers, for n keys."""

from __future__ import annotations

from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.jit.kernels import seldom_part
from siddhi.engine.operators.windows.keyed.layout import (
    CLOCK_NOW,
    COUNT,
    DELAY_KIND,
    EXTERNAL_TIME_KIND,
    HEAD,
    KIND,
    LEFT,
    LENGTH,
    LENGTH_KIND,
    NEWEST,
    PLACE,
    RIGHT,
    SHOWN,
    SORT_KIND,
    SPAN,
    STAMP,
    TELLS,
    TIME_KIND,
    TIME_LENGTH_KIND,
    TOP,
)
from siddhi.engine.operators.windows.keyed.parts import append, emit, heap_in, heap_out, release, set_timer, take_out

_EARLIER, _LATER = LEFT, RIGHT
"""For rows that leave by time, but not in that order alone: their neighbours by time. `TOP` of the owner is the
earliest, `PLACE` the latest."""


@seldom_part
def time_in(cells, owner, keys, rows, slot):  # type: ignore[no-untyped-def]
    """Insert a row by time into the list of `owner`."""
    before = cells[owner, PLACE]
    while before >= 0 and keys[0, before] > keys[0, slot]:
        before = rows[_EARLIER, before]
    behind = cells[owner, TOP] if before < 0 else rows[_LATER, before]
    rows[_EARLIER, slot], rows[_LATER, slot] = before, behind
    if before < 0:
        cells[owner, TOP] = slot
    else:
        rows[_LATER, before] = slot
    if behind < 0:
        cells[owner, PLACE] = slot
    else:
        rows[_EARLIER, behind] = slot


@seldom_part
def time_out(cells, owner, rows, slot):  # type: ignore[no-untyped-def]
    """Remove a row from that list."""
    before, behind = rows[_EARLIER, slot], rows[_LATER, slot]
    if before < 0:
        cells[owner, TOP] = behind
    else:
        rows[_LATER, before] = behind
    if behind < 0:
        cells[owner, PLACE] = before
    else:
        rows[_EARLIER, behind] = before


@seldom_part
def let_go(param, run, rows, cells, keys, owner, now, out):  # type: ignore[no-untyped-def]
    """Emit the rows that have expired at `now`."""
    kind, span = param[KIND], param[SPAN]
    top = cells[owner, TOP]
    while top >= 0 and keys[0, top] + span <= now:
        if kind == TIME_LENGTH_KIND:
            time_out(cells, owner, rows, top)
            take_out(cells, owner, rows, top)
        else:
            heap_out(cells, owner, keys, rows, 1)
        if kind == DELAY_KIND:
            emit(run, out, top, CURRENT, now)
        else:
            emit(run, out, top, EXPIRED, now)
        release(run, rows, top)
        top = cells[owner, TOP]


@seldom_part
def _by_length(param, run, rows, cells, owner, slot, out):  # type: ignore[no-untyped-def]
    if param[LENGTH] <= 0:
        emit(run, out, slot, CURRENT, rows[STAMP, slot])
        emit(run, out, slot, EXPIRED, rows[STAMP, slot])
        emit(run, out, slot, RESET, run[CLOCK_NOW])
        release(run, rows, slot)
        return
    if cells[owner, COUNT] >= param[LENGTH]:
        oldest = cells[owner, HEAD]
        take_out(cells, owner, rows, oldest)
        emit(run, out, oldest, EXPIRED, run[CLOCK_NOW])
        release(run, rows, oldest)
    emit(run, out, slot, CURRENT, rows[STAMP, slot])
    append(cells, owner, rows, slot)


@seldom_part
def _by_time_and_length(param, run, rows, cells, keys, timers, owner, slot, out):  # type: ignore[no-untyped-def]
    let_go(param, run, rows, cells, keys, owner, run[CLOCK_NOW], out)
    if param[LENGTH] <= 0:
        emit(run, out, slot, CURRENT, rows[STAMP, slot])
        release(run, rows, slot)
        return
    if cells[owner, COUNT] >= param[LENGTH]:
        oldest = cells[owner, HEAD]
        take_out(cells, owner, rows, oldest)
        time_out(cells, owner, rows, oldest)
        emit(run, out, oldest, EXPIRED, run[CLOCK_NOW])
        release(run, rows, oldest)
    emit(run, out, slot, CURRENT, rows[STAMP, slot])
    append(cells, owner, rows, slot)
    time_in(cells, owner, keys, rows, slot)
    set_timer(run, cells, timers, owner, keys[0, cells[owner, TOP]] + param[SPAN])


@seldom_part
def slide(param, run, rows, cells, keys, timers, owner, slot, out):  # type: ignore[no-untyped-def]
    """Process a row in a sliding window."""
    kind = param[KIND]
    if kind == LENGTH_KIND:
        _by_length(param, run, rows, cells, owner, slot, out)
    elif kind == TIME_LENGTH_KIND:
        _by_time_and_length(param, run, rows, cells, keys, timers, owner, slot, out)
    elif kind == SORT_KIND:
        emit(run, out, slot, CURRENT, rows[STAMP, slot])
        heap_in(cells, owner, keys, rows, slot, -1)
        if cells[owner, COUNT] > param[LENGTH]:
            cells[owner, NEWEST] = 1
            last = heap_out(cells, owner, keys, rows, -1)
            emit(run, out, last, EXPIRED, run[CLOCK_NOW])
            release(run, rows, last)
    elif kind == EXTERNAL_TIME_KIND:
        now = cells[owner, NEWEST] = max(cells[owner, NEWEST], keys[0, slot])
        let_go(param, run, rows, cells, keys, owner, now, out)
        emit(run, out, slot, CURRENT, rows[STAMP, slot])
        heap_in(cells, owner, keys, rows, slot, 1)
    else:
        let_go(param, run, rows, cells, keys, owner, run[CLOCK_NOW], out)
        if kind == TIME_KIND:
            emit(run, out, slot, CURRENT, rows[STAMP, slot])
        elif param[TELLS] != 0:
            emit(run, out, slot, SHOWN, rows[STAMP, slot])
        heap_in(cells, owner, keys, rows, slot, 1)
        set_timer(run, cells, timers, owner, keys[0, cells[owner, TOP]] + param[SPAN])


@seldom_part
def slide_on(param, run, rows, cells, keys, timers, owner, out):  # type: ignore[no-untyped-def]
    """Process the timer of a sliding window."""
    let_go(param, run, rows, cells, keys, owner, run[CLOCK_NOW], out)
    if cells[owner, TOP] >= 0:
        set_timer(run, cells, timers, owner, keys[0, cells[owner, TOP]] + param[SPAN])
