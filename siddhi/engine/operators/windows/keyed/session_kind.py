"""The operations of `session` for rows and timers, for n instances and n keys in each.

The open rows of a key are those of the current session, its last batch those of the previous one. Late rows were last
inserted before the row in `PLACE`, or before the first.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.kinds import CURRENT, EXPIRED
from siddhi.engine.jit.kernels import seldom_part
from siddhi.engine.operators.base.operator import NEVER
from siddhi.engine.operators.windows.keyed.layout import (
    ALIVE,
    BACK,
    BOUNDARY,
    CHUNK_NOW,
    COUNT,
    END,
    FLAG,
    HASH,
    HEAD,
    LAST_COUNT,
    LAST_HEAD,
    LAST_TAIL,
    LATENCY,
    LEAVING,
    LEAVING_TAIL,
    NEWEST,
    NEXT,
    NUMBER,
    PLACE,
    RANK_NOW,
    SPAN,
    STAMP,
    START,
    TAIL,
    TOTAL,
)
from siddhi.engine.operators.windows.keyed.parts import append, emit, java_bucket, open_rows_last, release, set_timer

_LAST_START, _LAST_END = NEWEST, BOUNDARY
"""Additional columns: the begin of the previous session, and its end."""


@seldom_part
def _leave(run, rows, slot, out):  # type: ignore[no-untyped-def]
    """Expire the rows from `slot` on, with their own times."""
    while slot >= 0:
        emit(run, out, slot, EXPIRED, rows[STAMP, slot])
        release(run, rows, slot)
        slot = rows[NEXT, slot]


@seldom_part
def _extend(param, run, rows, cells, timers, owner, slot):  # type: ignore[no-untyped-def]
    append(cells, owner, rows, slot)
    cells[owner, END] = max(cells[owner, END], rows[STAMP, slot] + param[SPAN])
    set_timer(run, cells, timers, owner, cells[owner, END])


@seldom_part
def _open(param, run, rows, cells, timers, owner, slot):  # type: ignore[no-untyped-def]
    cells[owner, START] = cells[owner, END] = rows[STAMP, slot]
    cells[owner, PLACE] = -1
    _extend(param, run, rows, cells, timers, owner, slot)


@seldom_part
def _let_in(rows, cells, owner, first, last, count):  # type: ignore[no-untyped-def]
    """Insert the late rows from `first` to `last` before the first row.

    Later ones are inserted one row further back each time, as in Siddhi.
    """
    place = cells[owner, PLACE]
    if place < 0:
        place = cells[owner, HEAD]
    elif rows[NEXT, place] >= 0:
        place = rows[NEXT, place]
    before = rows[BACK, place]
    rows[BACK, first], rows[NEXT, last] = before, place
    rows[BACK, place] = last
    if before < 0:
        cells[owner, HEAD] = first
    else:
        rows[NEXT, before] = first
    cells[owner, PLACE] = place
    cells[owner, COUNT] += count


@seldom_part
def _last_is_current(param, cells, owner):  # type: ignore[no-untyped-def]
    """Make the previous session the current one."""
    cells[owner, _LAST_START], cells[owner, _LAST_END] = cells[owner, START], cells[owner, END]
    cells[owner, ALIVE] = cells[owner, END] + param[LATENCY]
    open_rows_last(cells, owner)
    cells[owner, PLACE] = -1


@seldom_part
def _no_last(cells, owner):  # type: ignore[no-untyped-def]
    cells[owner, LAST_HEAD] = cells[owner, LAST_TAIL] = -1
    cells[owner, LAST_COUNT] = 0


@seldom_part
def _take_late(param, run, rows, cells, timers, owner, slot):  # type: ignore[no-untyped-def]
    """Insert a row from before the current session at its position.

    Return False when it is too late for any session.
    """
    time, gap = rows[STAMP, slot], param[SPAN]
    if time >= cells[owner, START] - gap:
        _let_in(rows, cells, owner, slot, slot, 1)
        cells[owner, START] = time
    elif cells[owner, LAST_COUNT] > 0 and time >= cells[owner, _LAST_START] - gap:
        tail = cells[owner, LAST_TAIL]
        rows[NEXT, tail], rows[BACK, slot], rows[NEXT, slot] = slot, tail, -1
        cells[owner, LAST_TAIL] = slot
        cells[owner, LAST_COUNT] += 1
        if time < cells[owner, _LAST_START] and time <= cells[owner, _LAST_END] - gap:
            cells[owner, _LAST_START] = time
            return True
        cells[owner, _LAST_END] = max(cells[owner, _LAST_END], time + gap)
        cells[owner, ALIVE] = cells[owner, _LAST_END] + param[LATENCY]
        set_timer(run, cells, timers, owner, cells[owner, ALIVE])
    else:
        return False
    if cells[owner, LAST_COUNT] > 0 and cells[owner, _LAST_END] >= cells[owner, START] - gap:
        _let_in(rows, cells, owner, cells[owner, LAST_HEAD], cells[owner, LAST_TAIL], cells[owner, LAST_COUNT])
        cells[owner, START] = cells[owner, _LAST_START]
        _no_last(cells, owner)
    return True


@seldom_part
def session_in(param, run, rows, instances, instance, cells, timers, owner, slot, out):  # type: ignore[no-untyped-def]
    """Process a row. Rows that leave on its arrival follow its chunk."""
    if not cells[owner, FLAG]:
        cells[owner, FLAG], cells[owner, NUMBER] = 1, instances[instance, NUMBER]
        instances[instance, TOTAL] += 1
        instances[instance, NUMBER] += 1
    time = rows[STAMP, slot]
    if cells[owner, COUNT] == 0:
        _open(param, run, rows, cells, timers, owner, slot)
    elif time >= cells[owner, START]:
        if time <= cells[owner, END]:
            _extend(param, run, rows, cells, timers, owner, slot)
        elif param[LATENCY]:
            if cells[owner, LAST_COUNT] > 0:
                if run[LEAVING] < 0:
                    run[LEAVING] = cells[owner, LAST_HEAD]
                else:
                    rows[NEXT, run[LEAVING_TAIL]] = cells[owner, LAST_HEAD]
                run[LEAVING_TAIL] = cells[owner, LAST_TAIL]
            _last_is_current(param, cells, owner)
            set_timer(run, cells, timers, owner, cells[owner, ALIVE])
            _open(param, run, rows, cells, timers, owner, slot)
        else:
            release(run, rows, slot)
    elif not _take_late(param, run, rows, cells, timers, owner, slot):
        release(run, rows, slot)
        return
    emit(run, out, slot, CURRENT, time)


@seldom_part
def end_session_chunk(run, rows, out):  # type: ignore[no-untyped-def]
    """End the chunk."""
    _leave(run, rows, run[LEAVING], out)
    run[LEAVING] = -1


@seldom_part
def session_on(param, run, rows, instances, instance, cells, timers, owner, due, out):  # type: ignore[no-untyped-def]
    """Process the timer of a key.

    Sessions that end at one time leave in the order of Siddhi's map of keys, whose size is `TOTAL` of the instance;
    keys without a session are removed after all timers of the time have fired.
    """
    if instances[instance, ALIVE] != run[CHUNK_NOW]:
        instances[instance, ALIVE], instances[instance, END] = run[CHUNK_NOW], instances[instance, TOTAL]
    run[RANK_NOW] = java_bucket(cells[owner, HASH], instances[instance, END]) << 32 | cells[owner, NUMBER]
    if cells[owner, COUNT] > 0 and due >= cells[owner, END]:
        if param[LATENCY]:
            if cells[owner, LAST_COUNT] > 0:
                first, last = cells[owner, LAST_HEAD], cells[owner, LAST_TAIL]
                rows[NEXT, last] = cells[owner, HEAD]
                rows[BACK, cells[owner, HEAD]] = last
                cells[owner, HEAD] = first
                cells[owner, COUNT] += cells[owner, LAST_COUNT]
            _last_is_current(param, cells, owner)
        else:
            _leave(run, rows, cells[owner, HEAD], out)
            cells[owner, HEAD] = cells[owner, TAIL] = -1
            cells[owner, COUNT] = 0
    if cells[owner, LAST_COUNT] > 0 and due >= cells[owner, ALIVE]:
        _leave(run, rows, cells[owner, LAST_HEAD], out)
        _no_last(cells, owner)
    next_due = np.int64(NEVER)
    if cells[owner, LAST_COUNT] > 0:
        next_due = cells[owner, ALIVE]
    if cells[owner, COUNT] > 0:
        next_due = min(next_due, cells[owner, END])
    if next_due == NEVER:
        cells[owner, FLAG] = 0
        instances[instance, TOTAL] -= 1
    set_timer(run, cells, timers, owner, next_due)
