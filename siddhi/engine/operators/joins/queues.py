"""Join two sides that are queues, or store nothing, in one loop over the output of their windows.

    order   left emits       right emits        ring of the left, chained by key
    1       +a1                                 a1
    3                        +a7                a1             gives (a1, a7)
    5       +b2                                 a1   b2
    7       -a1 +a3                             b2   a3
    9                        +a8                b2   a3        gives (a3, a8)

A row of a ring is a sequence number of the window's store, so that nothing is copied. Rows leave in order of arrival;
the one that leaves is always the first of its chain.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.jit.kernels import kernel_part, state_kernel
from siddhi.engine.operators.windows.base.emission import CHUNK, CLOCK, KIND, ORDER, SEQUENCE, TIMESTAMP

LEFT, RIGHT, OUT_TIMESTAMP, OUT_KIND, OUT_ORDER, OUT_CLOCK, OUT_CHUNK, OUT_DELIVERY = range(8)
"""The lines of the output pairs: the positions of both rows in their stores (-1: null), then the metadata of
`EventBatch`."""
PAIR_LINES = 8

TRIGGERS, KEEPS, BARE, CURRENT_ONLY, NEEDS_NULLS = 1, 2, 4, 8, 16
"""Properties of a side as bits: it triggers; it keeps unmatched rows; it has no window; only its current rows count; a
row of nulls follows its candidates, as these are still to be tested."""

NATURE, OLDEST, START, OFFSET, COUNT, NEXT_ROW = 0, 2, 4, 6, 8, 10
"""State of a walk, two numbers each, for the left and the right: the properties of the side and the oldest row that it
shows; for the current step, the sequence numbers of its first new row and of position 0 of its store, the number of
rows its window emitted, and the next one."""

NULL, CHUNKS, DELIVERIES, LAST_SIDE, LAST_CHUNK = 12, 13, 14, 15, 16
"""Further state: the key that equals nothing; for the current step, the number of chunks and deliveries emitted, and
the origin of their last row."""
WALK_LINES = 17

KEY, NEXT, FIRST, LAST = range(4)
"""The lines of a ring, (4, capacity): key and next row of the chain of each row, and both ends of each bucket."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@kernel_part
def _bucket(key, ring):  # type: ignore[no-untyped-def]
    mixed = np.uint64(key) * _MIX
    return np.int64((mixed ^ (mixed >> _SHIFT)) & np.uint64(ring.shape[1] - 1))


@kernel_part
def _push(ring, sequence, key):  # type: ignore[no-untyped-def]
    mask = ring.shape[1] - 1
    place = sequence & mask
    ring[KEY, place] = key
    ring[NEXT, place] = -1
    bucket = _bucket(key, ring)
    if ring[FIRST, bucket] < 0:
        ring[FIRST, bucket] = sequence
    else:
        ring[NEXT, ring[LAST, bucket] & mask] = sequence
    ring[LAST, bucket] = sequence


@kernel_part
def _pop(ring, sequence):  # type: ignore[no-untyped-def]
    place = sequence & (ring.shape[1] - 1)
    ring[FIRST, _bucket(ring[KEY, place], ring)] = ring[NEXT, place]


@state_kernel
def fill_ring(ring, first, keys):  # type: ignore[no-untyped-def]
    """Set the ring to the rows from the sequence number `first` on, with these keys."""
    ring[FIRST, :] = -1
    for number in range(len(keys)):
        _push(ring, first + number, keys[number])


@kernel_part
def _write(out, count, side, own, other, lines, row, kind, timestamp, walk):  # type: ignore[no-untyped-def]
    out[side, count] = own - walk[OFFSET + side]
    out[1 - side, count] = other if other < 0 else other - walk[OFFSET + 1 - side]
    out[OUT_TIMESTAMP, count] = timestamp
    out[OUT_KIND, count] = kind
    out[OUT_ORDER, count] = lines[ORDER, row]
    out[OUT_CLOCK, count] = lines[CLOCK, row]
    out[OUT_CHUNK, count] = walk[CHUNKS]
    return count + 1


@kernel_part
def _probe(walk, side, own, key, ring, lines, row, kind, timestamp, out, count):  # type: ignore[no-untyped-def]
    """Write the output for one row; return the next count, -1 when there is no room."""
    nature = walk[NATURE + side]
    if (nature & CURRENT_ONLY) != 0 and kind != CURRENT:
        return count
    first = count
    if kind != RESET and key != walk[NULL]:
        other = ring[FIRST, _bucket(key, ring)]
        while other >= 0:
            place = other & (ring.shape[1] - 1)
            if ring[KEY, place] == key:
                if count == out.shape[1]:
                    return -1
                count = _write(out, count, side, own, other, lines, row, kind, timestamp, walk)
            other = ring[NEXT, place]
    lonely = (nature & KEEPS) != 0 and (count == first or (nature & NEEDS_NULLS) != 0)
    if lonely or kind == RESET:
        if count == out.shape[1]:
            return -1
        count = _write(out, count, side, own, -1, lines, row, kind, timestamp, walk)
    if count > first:
        walk[CHUNKS] += 1
        if walk[LAST_SIDE] != side or walk[LAST_CHUNK] != lines[CHUNK, row]:
            walk[LAST_SIDE], walk[LAST_CHUNK] = side, lines[CHUNK, row]
            walk[DELIVERIES] += 1
        for place in range(first, count):
            out[OUT_DELIVERY, place] = walk[DELIVERIES]
    return count


@kernel_part
def _take_up(walk, side, lines, keys, own_ring, ring, out, count):  # type: ignore[no-untyped-def]
    """Join the next row that `side` emitted with the other side's ring, then update its own ring."""
    row, nature = walk[NEXT_ROW + side], walk[NATURE + side]
    sequence, kind = lines[SEQUENCE, row], lines[KIND, row]
    key = walk[NULL]
    if kind == CURRENT:
        key = keys[sequence - walk[START + side]]
    elif kind == EXPIRED:
        key = own_ring[KEY, sequence & (own_ring.shape[1] - 1)]
    if (nature & TRIGGERS) != 0:
        stamp, clock = lines[TIMESTAMP, row], lines[CLOCK, row]
        count = _probe(walk, side, sequence, key, ring, lines, row, kind, stamp, out, count)
        if (nature & BARE) != 0 and count >= 0:
            count = _probe(walk, side, sequence, key, ring, lines, row, EXPIRED, clock, out, count)
            if count >= 0:
                count = _probe(walk, side, sequence, key, ring, lines, row, RESET, stamp, out, count)
    if count < 0:
        return count
    walk[NEXT_ROW + side] += 1
    if (nature & BARE) == 0 and kind == CURRENT:
        _push(own_ring, sequence, key)
    elif (nature & BARE) == 0 and kind == EXPIRED:
        _pop(own_ring, sequence)
        walk[OLDEST + side] = sequence + 1
    return count


@kernel_part
def _came(lines, row, count):  # type: ignore[no-untyped-def]
    """Return whether `row` arrived on the side's stream, or left because of such an arrival.

    Rows that a timer of its window emits only leave.
    """
    while row + 1 < count and lines[CHUNK, row + 1] == lines[CHUNK, row]:
        row += 1
    return lines[KIND, row] != EXPIRED


@kernel_part
def _left_is_next(walk, lines0, lines1, left_first, timers_left_first):  # type: ignore[no-untyped-def]
    """Return whether the next row of the left precedes that of the right.

    The order is by order and clock. Events of one time follow the rank of their stream. Output of other timers comes
    before that of the windows' own timers, of which the left comes first.
    """
    i, j = walk[NEXT_ROW], walk[NEXT_ROW + 1]
    if i == walk[COUNT] or j == walk[COUNT + 1]:
        return i < walk[COUNT]
    if lines0[ORDER, i] != lines1[ORDER, j]:
        return lines0[ORDER, i] < lines1[ORDER, j]
    if lines0[CLOCK, i] != lines1[CLOCK, j]:
        return lines0[CLOCK, i] < lines1[CLOCK, j]
    if lines0[ORDER, i] % 2 == 1:
        return left_first
    came = _came(lines0, i, walk[COUNT])
    if came != _came(lines1, j, walk[COUNT + 1]):
        return came
    return timers_left_first or not came


@kernel_part
def _begin(walk, start0, offset0, count0, start1, offset1, count1):  # type: ignore[no-untyped-def]
    walk[START], walk[START + 1] = start0, start1
    walk[OFFSET], walk[OFFSET + 1] = offset0, offset1
    walk[COUNT], walk[COUNT + 1] = count0, count1
    walk[NEXT_ROW], walk[NEXT_ROW + 1] = 0, 0
    walk[CHUNKS], walk[DELIVERIES] = 0, 0
    walk[LAST_SIDE], walk[LAST_CHUNK] = -1, -1


@state_kernel
def meet(  # type: ignore[no-untyped-def]
    walk,
    goes_on,
    left_first,
    timers_left_first,
    start0,
    offset0,
    count0,
    lines0,
    keys0,
    ring0,
    start1,
    offset1,
    count1,
    lines1,
    keys1,
    ring1,
    out,
):
    """Walk over the output of both sides until all is done or `out` is full.

    Return the number of pairs written, whether all is done, and the numbers of chunks and deliveries in the whole step
    so far. The sides emitted `count` rows, described by `lines`; `keys` are those of the rows that arrived in this
    step, whose sequence numbers count from `start`; a row's position is its sequence number minus `offset`.
    `left_first` means that the left's stream comes first at one time, `timers_left_first` that it does for output of
    timers. `goes_on` means that the walk of this step has begun before.
    """
    if not goes_on:
        _begin(walk, start0, offset0, count0, start1, offset1, count1)
    count = 0
    while walk[NEXT_ROW] < walk[COUNT] or walk[NEXT_ROW + 1] < walk[COUNT + 1]:
        if _left_is_next(walk, lines0, lines1, left_first, timers_left_first):
            after = _take_up(walk, 0, lines0, keys0, ring0, ring1, out, count)
        else:
            after = _take_up(walk, 1, lines1, keys1, ring1, ring0, out, count)
        if after < 0:
            return count, False, walk[CHUNKS], walk[DELIVERIES]
        count = after
    return count, True, walk[CHUNKS], walk[DELIVERIES]


def new_ring(room: int) -> Int64Array:
    """Return a ring for at least `room` rows; its capacity is a power of two."""
    ring: Int64Array = np.zeros((4, max(16, 1 << (2 * room - 1).bit_length())), dtype=np.int64)
    ring[FIRST] = -1
    return ring


def roomy_ring(ring: Int64Array, first: int, shown: int, end: int) -> Int64Array:
    """Return `ring`, which has the rows from `first` up to `shown`, or a larger one with room for those up to `end`."""
    if end - first <= ring.shape[1]:
        return ring
    larger = new_ring(end - first)
    fill_ring(larger, first, ring[KEY, np.arange(first, shown) & (ring.shape[1] - 1)])
    return larger
