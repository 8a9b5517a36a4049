"""The operations of `frequent` and `lossyFrequent`, for n instances and n keys in each.

`HEAD` of a key is its newest row, which is in the list of open rows of its instance in the order of the keys' arrival;
`TOTAL` is the key's count. The second number of a row is the hash code of its key, the third the position of the key
among the arrivals.
"""

from __future__ import annotations

from siddhi.engine.columnar.kinds import CURRENT, EXPIRED
from siddhi.engine.jit.kernels import seldom_part
from siddhi.engine.operators.windows.keyed.layout import (
    CLOCK_NOW,
    COUNT,
    FREQUENT_KIND,
    HASH,
    HEAD,
    HIDDEN,
    KIND,
    LENGTH,
    NEXT,
    NUMBER,
    OWNER,
    SHOWN,
    STAMP,
    TELLS,
    TOP,
    TOTAL,
)
from siddhi.engine.operators.windows.keyed.parts import (
    append,
    emit,
    heap_in,
    heap_out,
    java_bucket,
    put_in_place,
    release,
    take_out,
)


@seldom_part
def _let_go(run, rows, cells, keys, instance, held, among, bucket, out):  # type: ignore[no-untyped-def]
    """Expire keys whose count is at most `bucket` together, in the order of a Java hash map."""
    slot, place = cells[instance, HEAD], 0
    while slot >= 0:
        behind, key = rows[NEXT, slot], rows[OWNER, slot]
        if held[key, TOTAL] + held[key, NUMBER] <= bucket:
            take_out(cells, instance, rows, slot)
            keys[0, slot] = java_bucket(held[key, HASH], among) << 32 | place
            heap_in(cells, instance, keys, rows, slot, 1)
            held[key, HEAD] = -1
        slot = behind
        place += 1
    while cells[instance, TOP] >= 0:
        slot = heap_out(cells, instance, keys, rows, 1)
        emit(run, out, slot, EXPIRED, run[CLOCK_NOW])
        release(run, rows, slot)


@seldom_part
def frequent_in(param, share, run, rows, cells, keys, instance, held, key, slot, out):  # type: ignore[no-untyped-def]
    """Process a row.

    Misra and Gries keep n counters: a new key that finds none free decrements all, and takes the place of one that
    reached zero. Lossy counting checks all keys at the end of a bucket; `TOTAL` of the instance counts the events.
    """
    frequent, old = param[KIND] == FREQUENT_KIND, held[key, HEAD]
    cells[instance, TOTAL] += 1
    total = cells[instance, TOTAL]
    bucket = 0 if frequent else (total + param[LENGTH] - 1) // param[LENGTH]
    keys[1, slot], keys[2, slot] = held[key, HASH], total
    if old >= 0:
        keys[2, slot] = keys[2, old]
        if param[TELLS] != 0:
            emit(run, out, old, HIDDEN, run[CLOCK_NOW])
        put_in_place(cells, instance, rows, old, slot)
        release(run, rows, old)
        held[key, TOTAL] += 1
    else:
        if frequent and cells[instance, COUNT] >= param[LENGTH]:
            lowered = cells[instance, HEAD]
            while lowered >= 0:
                held[rows[OWNER, lowered], TOTAL] -= 1
                lowered = rows[NEXT, lowered]
            _let_go(run, rows, cells, keys, instance, held, cells[instance, COUNT], 0, out)
            if cells[instance, COUNT] >= param[LENGTH]:
                release(run, rows, slot)
                return
        append(cells, instance, rows, slot)
        held[key, TOTAL] = 1
        held[key, NUMBER] = 0 if frequent else bucket - 1
    held[key, HEAD] = slot
    if frequent or held[key, TOTAL] >= share * total:
        emit(run, out, slot, CURRENT, rows[STAMP, slot])
    elif param[TELLS] != 0:
        emit(run, out, slot, SHOWN, rows[STAMP, slot])
    if not frequent and total % param[LENGTH] == 0:
        _let_go(run, rows, cells, keys, instance, held, cells[instance, COUNT], bucket, out)
