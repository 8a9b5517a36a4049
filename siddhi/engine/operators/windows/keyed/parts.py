"""Common parts of the loops of keyed windows: lists of rows, heaps of rows, timers, and output."""

from __future__ import annotations

from siddhi.engine.jit.kernels import seldom_part
from siddhi.engine.operators.base.operator import NEVER
from siddhi.engine.operators.windows.base.emission import CHUNK, CLOCK, KIND, ORDER, SEQUENCE, TIMESTAMP
from siddhi.engine.operators.windows.keyed.layout import (
    BACK,
    CHUNK_NOW,
    CLOCK_NOW,
    COUNT,
    DUE,
    FREED,
    FREED_COUNT,
    HEAD,
    INSTANCE_NOW,
    LAST_COUNT,
    LAST_HEAD,
    LAST_TAIL,
    LEFT,
    NEXT,
    ORDER_NOW,
    RANK,
    RANK_NOW,
    RIGHT,
    SET_CLOCK,
    SET_ORDER,
    TAIL,
    TIMER,
    TIMERS,
    TOP,
    TURN,
    TURNS,
    VALID,
    WHO,
    WHOSE,
    WRITTEN,
)
from siddhi.engine.operators.windows.keyed.layout import SEQUENCE as ARRIVAL


@seldom_part
def emit(run, out, slot, kind, timestamp):  # type: ignore[no-untyped-def]
    """Emit the row in `slot`."""
    count = run[WRITTEN]
    out[SEQUENCE, count] = slot
    out[KIND, count] = kind
    out[TIMESTAMP, count] = timestamp
    out[ORDER, count] = run[ORDER_NOW]
    out[CLOCK, count] = run[CLOCK_NOW]
    out[CHUNK, count] = run[CHUNK_NOW]
    out[RANK, count] = run[RANK_NOW]
    out[WHOSE, count] = run[INSTANCE_NOW]
    run[WRITTEN] = count + 1


@seldom_part
def release(run, rows, slot):  # type: ignore[no-untyped-def]
    """Free the row after the output of the step has been taken."""
    rows[FREED, run[FREED_COUNT]] = slot
    run[FREED_COUNT] += 1


# ---- lists


@seldom_part
def append(cells, owner, rows, slot):  # type: ignore[no-untyped-def]
    """Append a row to the open rows of `owner`."""
    tail = cells[owner, TAIL]
    rows[BACK, slot], rows[NEXT, slot] = tail, -1
    if tail < 0:
        cells[owner, HEAD] = slot
    else:
        rows[NEXT, tail] = slot
    cells[owner, TAIL] = slot
    cells[owner, COUNT] += 1


@seldom_part
def take_out(cells, owner, rows, slot):  # type: ignore[no-untyped-def]
    """Remove a row from the open rows of `owner`."""
    before, behind = rows[BACK, slot], rows[NEXT, slot]
    if before < 0:
        cells[owner, HEAD] = behind
    else:
        rows[NEXT, before] = behind
    if behind < 0:
        cells[owner, TAIL] = before
    else:
        rows[BACK, behind] = before
    cells[owner, COUNT] -= 1


@seldom_part
def put_in_place(cells, owner, rows, old, slot):  # type: ignore[no-untyped-def]
    """Replace the row `old` among the open rows of `owner`."""
    before, behind = rows[BACK, old], rows[NEXT, old]
    rows[BACK, slot], rows[NEXT, slot] = before, behind
    if before < 0:
        cells[owner, HEAD] = slot
    else:
        rows[NEXT, before] = slot
    if behind < 0:
        cells[owner, TAIL] = slot
    else:
        rows[BACK, behind] = slot


@seldom_part
def open_rows_last(cells, owner):  # type: ignore[no-untyped-def]
    """Make the open rows of `owner` its last batch."""
    cells[owner, LAST_HEAD], cells[owner, LAST_TAIL] = cells[owner, HEAD], cells[owner, TAIL]
    cells[owner, LAST_COUNT] = cells[owner, COUNT]
    cells[owner, HEAD] = cells[owner, TAIL] = -1
    cells[owner, COUNT] = 0


@seldom_part
def release_last(run, cells, owner, rows):  # type: ignore[no-untyped-def]
    """Free the last batch of `owner`."""
    slot = cells[owner, LAST_HEAD]
    while slot >= 0:
        release(run, rows, slot)
        slot = rows[NEXT, slot]
    cells[owner, LAST_HEAD] = cells[owner, LAST_TAIL] = -1
    cells[owner, LAST_COUNT] = 0


# ---- heaps of rows, by their keys and then by arrival: skew heaps, which need no arrays of their own


@seldom_part
def goes_first(keys, rows, one, other, sign):  # type: ignore[no-untyped-def]
    """Return whether row `one` belongs above row `other`: the least first, or the greatest with a `sign` of -1."""
    for line in range(len(keys)):
        if keys[line, one] != keys[line, other]:
            return (keys[line, one] < keys[line, other]) == (sign > 0)
    return (rows[ARRIVAL, one] < rows[ARRIVAL, other]) == (sign > 0)


@seldom_part
def _merged(keys, rows, one, other, sign):  # type: ignore[no-untyped-def]
    top, parent = -1, -1
    while one >= 0 and other >= 0:
        if goes_first(keys, rows, other, one, sign):
            one, other = other, one
        if parent < 0:
            top = one
        else:
            rows[LEFT, parent] = one
        behind = rows[RIGHT, one]
        rows[RIGHT, one] = rows[LEFT, one]
        rows[LEFT, one] = -1
        parent, one = one, behind
    rest = one if one >= 0 else other
    if parent < 0:
        return rest
    rows[LEFT, parent] = rest
    return top


@seldom_part
def heap_in(cells, owner, keys, rows, slot, sign):  # type: ignore[no-untyped-def]
    """Insert a row into the heap of `owner`."""
    rows[LEFT, slot] = rows[RIGHT, slot] = -1
    cells[owner, TOP] = _merged(keys, rows, cells[owner, TOP], slot, sign)
    cells[owner, COUNT] += 1


@seldom_part
def heap_out(cells, owner, keys, rows, sign):  # type: ignore[no-untyped-def]
    """Remove the first row from the heap of `owner`."""
    top = cells[owner, TOP]
    cells[owner, TOP] = _merged(keys, rows, rows[LEFT, top], rows[RIGHT, top], sign)
    cells[owner, COUNT] -= 1
    return top


# ---- timers


@seldom_part
def _earlier(timers, one, other):  # type: ignore[no-untyped-def]
    if timers[DUE, one] != timers[DUE, other]:
        return timers[DUE, one] < timers[DUE, other]
    return timers[TURN, one] < timers[TURN, other]


@seldom_part
def _swap(timers, one, other):  # type: ignore[no-untyped-def]
    for line in range(len(timers)):
        timers[line, one], timers[line, other] = timers[line, other], timers[line, one]


@seldom_part
def set_timer(run, cells, timers, owner, due):  # type: ignore[no-untyped-def]
    """Set the timer of `owner`, unless it has an earlier one; a later one becomes invalid."""
    if due >= cells[owner, TIMER]:
        return
    cells[owner, TIMER], cells[owner, VALID] = due, run[TURNS]
    place = run[TIMERS]
    timers[DUE, place], timers[TURN, place], timers[WHO, place] = due, run[TURNS], owner
    timers[SET_ORDER, place], timers[SET_CLOCK, place] = run[ORDER_NOW], run[CLOCK_NOW]
    run[TIMERS] += 1
    run[TURNS] += 1
    while place > 0 and _earlier(timers, place, (place - 1) // 2):
        _swap(timers, place, (place - 1) // 2)
        place = (place - 1) // 2


@seldom_part
def drop_timer(run, timers):  # type: ignore[no-untyped-def]
    """Remove the earliest timer."""
    run[TIMERS] -= 1
    last, place = run[TIMERS], 0
    _swap(timers, 0, last)
    while True:
        first = place
        for child in range(2 * place + 1, min(2 * place + 3, last)):
            if _earlier(timers, child, first):
                first = child
        if first == place:
            return
        _swap(timers, place, first)
        place = first


@seldom_part
def clear_timer(cells, owner):  # type: ignore[no-untyped-def]
    """Invalidate the timer of `owner`."""
    cells[owner, TIMER], cells[owner, VALID] = NEVER, -1


@seldom_part
def java_bucket(hashed, among):  # type: ignore[no-untyped-def]
    """Return the bucket of a key with this hash code in a Java hash map of `among` keys."""
    size = 16
    while among > size * 3 // 4:
        size *= 2
    return (hashed ^ (hashed >> 16)) & (size - 1)
