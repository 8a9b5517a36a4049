"""The loop of all keyed windows over the rows and timers of a step."""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import seldom_part, state_kernel
from siddhi.engine.operators.windows.base.emission import timer_clock, timer_order
from siddhi.engine.operators.windows.keyed.batch_kinds import batch_in, cron_on, end_by_time, end_chunk
from siddhi.engine.operators.windows.keyed.frequent_kinds import frequent_in
from siddhi.engine.operators.windows.keyed.layout import (
    BATCH_KIND,
    BEGUN,
    CHUNK_NOW,
    CLOCK_NOW,
    CRON_KIND,
    DELAY_KIND,
    DUE,
    EVER_KIND,
    EXTERNAL_TIME_KIND,
    FIRST_KIND,
    FREQUENT_KIND,
    IN_RUNS,
    INSTANCE,
    INSTANCE_NOW,
    INSTANCE_OF,
    KIND,
    LENGTH_KIND,
    LENGTH_STREAM_KIND,
    LOSSY_KIND,
    ORDER_NOW,
    OWNER,
    RANK_NOW,
    ROW_CLOCK,
    ROW_INSTANCE,
    ROW_ORDER,
    SESSION_KIND,
    SET_CLOCK,
    SET_ORDER,
    SORT_KIND,
    STEP_TURN,
    TIED,
    TIME_BATCH_KIND,
    TIME_KIND,
    TIME_LENGTH_KIND,
    TIME_STREAM_KIND,
    TIMERS,
    TURN,
    UNIQUE_LENGTH_BATCH_KIND,
    UNIQUE_LENGTH_KIND,
    UNIQUE_TIME_BATCH_KIND,
    UNIQUE_TIME_KIND,
    UNIQUE_TIME_LENGTH_BATCH_KIND,
    VALID,
    WHO,
)
from siddhi.engine.operators.windows.keyed.parts import clear_timer, drop_timer
from siddhi.engine.operators.windows.keyed.session_kind import end_session_chunk, session_in, session_on
from siddhi.engine.operators.windows.keyed.sliding_kinds import slide, slide_on
from siddhi.engine.operators.windows.keyed.unique_kinds import unique_in, unique_on

_SLIDING = (LENGTH_KIND, TIME_KIND, EXTERNAL_TIME_KIND, TIME_LENGTH_KIND, DELAY_KIND, SORT_KIND)
_UNIQUE = (
    EVER_KIND, FIRST_KIND, UNIQUE_LENGTH_KIND, UNIQUE_TIME_KIND, UNIQUE_LENGTH_BATCH_KIND, UNIQUE_TIME_BATCH_KIND,
    UNIQUE_TIME_LENGTH_BATCH_KIND,
)  # fmt: skip
_COUNTING = (FREQUENT_KIND, LOSSY_KIND)
_LONG_AGO = np.iinfo(np.int64).min


@seldom_part
def _fire_one(param, run, rows, cells, held, keys, timers, who, due, out):  # type: ignore[no-untyped-def]
    """Process the timer of `who`."""
    kind = param[KIND]
    if kind == SESSION_KIND:
        instance = held[who, INSTANCE_OF]
        run[INSTANCE_NOW] = instance
        session_on(param, run, rows, cells, instance, held, timers, who, due, out)
        return
    run[INSTANCE_NOW] = who
    if kind in _SLIDING:
        slide_on(param, run, rows, cells, keys, timers, who, out)
    elif kind in _UNIQUE:
        unique_on(param, run, rows, cells, keys, timers, who, held, due, out)
    elif kind == CRON_KIND:
        cron_on(run, rows, cells, who, out)
    elif kind in (TIME_BATCH_KIND, TIME_STREAM_KIND):
        end_by_time(param, run, rows, cells, timers, who, out)


@seldom_part
def _fire_own(param, run, rows, cells, held, keys, timers, instance, out):  # type: ignore[no-untyped-def]
    """Process all timers of one instance that are due by now."""
    owners = held if param[KIND] == SESSION_KIND else cells
    while True:
        first = -1
        for place in range(run[TIMERS]):
            who = timers[WHO, place]
            own = held[who, INSTANCE_OF] if param[KIND] == SESSION_KIND else who
            valid = own == instance and owners[who, VALID] == timers[TURN, place]
            is_due = valid and timers[DUE, place] <= run[CLOCK_NOW]
            if is_due and (first < 0 or timers[DUE, place] < timers[DUE, first]):
                first = place
        if first < 0:
            return
        who, due = timers[WHO, first], timers[DUE, first]
        clear_timer(owners, who)
        run[CHUNK_NOW] += 1
        _fire_one(param, run, rows, cells, held, keys, timers, who, due, out)


@seldom_part
def _first_of_due(param, run, cells, held, timers, ranks, due):  # type: ignore[no-untyped-def]
    """Return the first instance by rank of those whose timers are due at `due`."""
    owners = held if param[KIND] == SESSION_KIND else cells
    first = np.int64(-1)
    for place in range(run[TIMERS]):
        who = timers[WHO, place]
        if timers[DUE, place] == due and owners[who, VALID] == timers[TURN, place]:
            instance = held[who, INSTANCE_OF] if param[KIND] == SESSION_KIND else who
            if first < 0 or ranks[instance] < ranks[first]:
                first = instance
    return first


@seldom_part
def _fire(  # type: ignore[no-untyped-def]
    param, run, rows, cells, held, keys, timers, order, clock, step_clocks, floor, ranks, out
):
    """Process the timers that precede a row of (`order`, `clock`)."""
    kind = param[KIND]
    last_order = 2 * len(step_clocks) - 1
    last_at, last_now, last_due = np.int64(0), np.int64(0), np.int64(_LONG_AGO)
    while run[TIMERS] > 0:
        due, who, turn = timers[DUE, 0], timers[WHO, 0], timers[TURN, 0]
        owners = held if kind == SESSION_KIND else cells
        if owners[who, VALID] != turn:
            drop_timer(run, timers)
            continue
        set_order, set_clock = np.int64(-1), np.int64(_LONG_AGO)
        if turn >= run[STEP_TURN]:
            set_order, set_clock = timers[SET_ORDER, 0], timers[SET_CLOCK, 0]
        at = max(timer_order(step_clocks, due, set_order), last_at)
        now = max(timer_clock(step_clocks, due, at, floor), set_clock, last_now)
        if at > last_order or at > order or (at == order and now >= clock):
            return
        if run[IN_RUNS]:
            run[ORDER_NOW], run[CLOCK_NOW], run[RANK_NOW] = at, now, 0
            last_at, last_now = at, now
            instance = _first_of_due(param, run, cells, held, timers, ranks, due)
            _fire_own(param, run, rows, cells, held, keys, timers, instance, out)
            continue
        drop_timer(run, timers)
        clear_timer(owners, who)
        if due == last_due and at == last_at and now == last_now:
            run[TIED] = 1
        else:
            run[CHUNK_NOW] += 1
        last_at, last_now, last_due = at, now, due
        run[ORDER_NOW], run[CLOCK_NOW] = at, now
        run[RANK_NOW] = 0
        _fire_one(param, run, rows, cells, held, keys, timers, who, due, out)


@state_kernel
def walk(  # type: ignore[no-untyped-def] # noqa: C901, PLR0912
    param,
    share,
    run,
    rows,
    cells,
    held,
    keys,
    timers,
    slots,
    orders,
    clocks,
    chunks,
    step_clocks,
    floor,
    ticks,
    ranks,
    out,
):
    """Process the rows in `slots` and the timers of a step in order.

    Without `chunks` every row is a chunk. `ticks` are the times of a cron expression from the first clock on, `share`
    is that of `lossyFrequent`. If chunks have rows of several instances, these are processed one after the other, each
    with all its timers, by `ranks`.
    """
    kind, count = param[KIND], len(slots)
    alone = len(chunks) == 0
    for row in range(count):
        order, clock, slot = orders[row], clocks[row], slots[row]
        if run[TIMERS] > 0:
            _fire(param, run, rows, cells, held, keys, timers, order, clock, step_clocks, floor, ranks, out)
        instance, key = rows[INSTANCE, slot], rows[OWNER, slot]
        run[ORDER_NOW], run[CLOCK_NOW], run[INSTANCE_NOW], run[RANK_NOW] = order, clock, instance, -1
        run[ROW_ORDER], run[ROW_CLOCK], run[ROW_INSTANCE] = order, clock, instance
        if alone or row == 0 or chunks[row] != chunks[row - 1]:
            if run[IN_RUNS] and run[TIMERS] > 0 and timers[DUE, 0] <= clock:
                _fire_own(param, run, rows, cells, held, keys, timers, instance, out)
                run[RANK_NOW] = -1
            run[CHUNK_NOW] += 1
            run[BEGUN] = 0
        elif kind == LENGTH_STREAM_KIND:
            run[CHUNK_NOW] += 1
        goes_on = not alone and row + 1 < count and chunks[row + 1] == chunks[row]
        if kind in _SLIDING:
            slide(param, run, rows, cells, keys, timers, instance, slot, out)
        elif kind == SESSION_KIND:
            session_in(param, run, rows, cells, instance, held, timers, key, slot, out)
        elif kind in _UNIQUE:
            unique_in(param, run, rows, cells, keys, timers, instance, held, key, slot, out)
        elif kind in _COUNTING:
            frequent_in(param, share, run, rows, cells, keys, instance, held, key, slot, out)
        else:
            batch_in(param, run, rows, cells, keys, timers, instance, slot, goes_on, step_clocks, floor, ticks, out)
        if not goes_on:
            if kind == BATCH_KIND:
                end_chunk(param, run, rows, cells, instance, out)
            elif kind == SESSION_KIND:
                end_session_chunk(run, rows, out)
    if run[TIMERS] > 0:
        last = 2 * len(step_clocks) - 1
        _fire(param, run, rows, cells, held, keys, timers, last, step_clocks[-1] + 1, step_clocks, floor, ranks, out)
