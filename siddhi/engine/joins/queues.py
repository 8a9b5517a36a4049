"""Two sides that are queues, or hold nothing, meet in one loop over what their windows let out.

    order   left lets out    right lets out     ring of the left, chained by key
    1       +a1                                 a1
    3                        +a7                a1             gives (a1, a7)
    5       +b2                                 a1   b2
    7       -a1 +a3                             b2   a3
    9                        +a8                b2   a3        gives (a3, a8)

A row of a ring is a sequence number of the window's store, so that nothing is copied. Rows leave in the order in which
they came; the one that leaves is always the first of its chain.
"""

from __future__ import annotations

import numba
import numpy as np

from siddhi.engine.arrays import Int64Array
from siddhi.engine.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.windows.emission import CHUNK, CLOCK, KIND, ORDER, SEQUENCE, TIMESTAMP

kernel = numba.njit(cache=True, _nrt=False)  # type: ignore[call-overload]
called = numba.njit(_nrt=False)  # type: ignore[call-overload]

LEFT, RIGHT, OUT_TIMESTAMP, OUT_KIND, OUT_ORDER, OUT_CLOCK, OUT_CHUNK, OUT_DELIVERY = range(8)
"""The lines of the pairs that come out: the sequence numbers of both rows (-1: null), then what `EventBatch` holds."""
PAIR_LINES = 8

TRIGGERS, KEEPS, BARE, GOES_FIRST, CURRENT_ONLY, NEEDS_NULLS = 1, 2, 4, 8, 16, 32
"""What a side is like, as bits: it triggers, keeps unmatched rows, is bare, goes first at one time; only its current
rows count; a row of nulls is wanted behind its candidates, as these are still to be looked at."""

NATURE, NULL, START, COUNT = range(4)
"""The plan of a step, (2, 4): for each side what it is like, the key that equals nothing, the sequence number of its
first new row, and how many rows it lets out."""

NEXT_ROW, OLDEST, CHUNKS, DELIVERIES, LAST_SIDE, LAST_CHUNK = 0, 2, 4, 5, 6, 7
"""The lines of a walk: the next row of what each side let out and the oldest row that it shows (two numbers each), the
chunks and deliveries so far, and where the last row came from."""

_FIRST, _LAST = 0, 1
_KEY, _NEXT = 0, 1
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@called
def _bucket(key, ends):  # type: ignore[no-untyped-def]
    mixed = np.uint64(key) * _MIX
    return np.int64((mixed ^ (mixed >> _SHIFT)) & np.uint64(len(ends) - 1))


@called
def _push(ring, ends, sequence, key):  # type: ignore[no-untyped-def]
    mask = ring.shape[1] - 1
    place = sequence & mask
    ring[_KEY, place] = key
    ring[_NEXT, place] = -1
    bucket = _bucket(key, ends)
    last = ends[bucket, _LAST]
    if ends[bucket, _FIRST] < 0:
        ends[bucket, _FIRST] = sequence
    else:
        ring[_NEXT, last & mask] = sequence
    ends[bucket, _LAST] = sequence


@called
def _pop(ring, ends, sequence):  # type: ignore[no-untyped-def]
    place = sequence & (ring.shape[1] - 1)
    ends[_bucket(ring[_KEY, place], ends), _FIRST] = ring[_NEXT, place]


@kernel
def fill_ring(ring, ends, first, keys):  # type: ignore[no-untyped-def]
    """The ring holds the rows from the sequence number `first` on, with these keys, and nothing else."""
    ends[:, :] = -1
    for number in range(len(keys)):
        _push(ring, ends, first + number, keys[number])


@called
def _write(out, count, side, own, other, lines, row, kind, timestamp, walk):  # type: ignore[no-untyped-def]
    out[side, count] = own
    out[1 - side, count] = other
    out[OUT_TIMESTAMP, count] = timestamp
    out[OUT_KIND, count] = kind
    out[OUT_ORDER, count] = lines[ORDER, row]
    out[OUT_CLOCK, count] = lines[CLOCK, row]
    out[OUT_CHUNK, count] = walk[CHUNKS]
    out[OUT_DELIVERY, count] = walk[DELIVERIES]
    return count + 1


@called
def _probe(plan, side, own, key, ring, ends, lines, row, kind, timestamp, walk, out, count):  # type: ignore[no-untyped-def]
    """Writes what one row gives; returns the next count, -1 when there is no room."""
    nature = plan[side, NATURE]
    if (nature & CURRENT_ONLY) != 0 and kind != CURRENT:
        return count
    first = count
    if kind != RESET and key != plan[side, NULL]:
        other = ends[_bucket(key, ends), _FIRST]
        while other >= 0:
            place = other & (ring.shape[1] - 1)
            if ring[_KEY, place] == key:
                if count == out.shape[1]:
                    return -1
                count = _write(out, count, side, own, other, lines, row, kind, timestamp, walk)
            other = ring[_NEXT, place]
    lonely = (nature & KEEPS) != 0 and (count == first or (nature & NEEDS_NULLS) != 0)
    if lonely or kind == RESET:
        if count == out.shape[1]:
            return -1
        count = _write(out, count, side, own, -1, lines, row, kind, timestamp, walk)
    if count > first:
        walk[CHUNKS] += 1
    return count


@called
def _take_up(plan, side, lines, keys, own_ring, own_ends, ring, ends, walk, out, count):  # type: ignore[no-untyped-def]
    """The next row of what `side` let out meets the other side's ring; then its own ring follows it."""
    row, nature = walk[NEXT_ROW + side], plan[side, NATURE]
    sequence, kind = lines[SEQUENCE, row], lines[KIND, row]
    if walk[LAST_SIDE] != side or walk[LAST_CHUNK] != lines[CHUNK, row]:
        walk[LAST_SIDE], walk[LAST_CHUNK] = side, lines[CHUNK, row]
        walk[DELIVERIES] += 1
    key = plan[side, NULL]
    if kind == CURRENT:
        key = keys[sequence - plan[side, START]]
    elif kind == EXPIRED:
        key = own_ring[_KEY, sequence & (own_ring.shape[1] - 1)]
    if (nature & TRIGGERS) != 0:
        stamp, clock = lines[TIMESTAMP, row], lines[CLOCK, row]
        count = _probe(plan, side, sequence, key, ring, ends, lines, row, kind, stamp, walk, out, count)
        if (nature & BARE) != 0 and count >= 0:
            count = _probe(plan, side, sequence, key, ring, ends, lines, row, EXPIRED, clock, walk, out, count)
            if count >= 0:
                count = _probe(plan, side, sequence, key, ring, ends, lines, row, RESET, stamp, walk, out, count)
    if count < 0:
        return count
    walk[NEXT_ROW + side] += 1
    if (nature & BARE) == 0 and kind == CURRENT:
        _push(own_ring, own_ends, sequence, key)
    elif (nature & BARE) == 0 and kind == EXPIRED:
        _pop(own_ring, own_ends, sequence)
        walk[OLDEST + side] = sequence + 1
    return count


@called
def _left_is_next(plan, lines0, lines1, walk):  # type: ignore[no-untyped-def]
    """True when the next row of the left goes before that of the right: by order and clock, at one time timers of the
    left first and events by the rank of their stream."""
    i, j = walk[NEXT_ROW], walk[NEXT_ROW + 1]
    if i == plan[0, COUNT] or j == plan[1, COUNT]:
        return i < plan[0, COUNT]
    if lines0[ORDER, i] != lines1[ORDER, j]:
        return lines0[ORDER, i] < lines1[ORDER, j]
    if lines0[CLOCK, i] != lines1[CLOCK, j]:
        return lines0[CLOCK, i] < lines1[CLOCK, j]
    return lines0[ORDER, i] % 2 == 0 or (plan[0, NATURE] & GOES_FIRST) != 0


@kernel
def meet(plan, lines0, keys0, ring0, ends0, lines1, keys1, ring1, ends1, walk, out):  # type: ignore[no-untyped-def]
    """Walks on over what both sides let out until all is done or `out` is full; returns how many pairs it wrote.

    `keys` are those of the rows that came in this step.
    """
    count = 0
    while walk[NEXT_ROW] < plan[0, COUNT] or walk[NEXT_ROW + 1] < plan[1, COUNT]:
        if _left_is_next(plan, lines0, lines1, walk):
            after = _take_up(plan, 0, lines0, keys0, ring0, ends0, ring1, ends1, walk, out, count)
        else:
            after = _take_up(plan, 1, lines1, keys1, ring1, ends1, ring0, ends0, walk, out, count)
        if after < 0:
            return count
        count = after
    return count


class Ring:
    """The rows that a window shows, by key; `capacity` and the number of buckets are powers of two."""

    def __init__(self) -> None:
        self.rows: Int64Array = np.zeros((2, 16), dtype=np.int64)
        self.ends: Int64Array = np.full((16, 2), -1, dtype=np.int64)

    def make_room(self, first: int, shown: int, end: int) -> None:
        """There is room for the rows from `first` on, of which those below `shown` are in the ring, up to `end`."""
        if end - first <= self.rows.shape[1]:
            return
        keys = self.rows[0, np.arange(first, shown) & (self.rows.shape[1] - 1)]
        self.fill(first, keys, end - first)

    def fill(self, first: int, keys: Int64Array, room: int) -> None:
        """The ring holds the rows from `first` on with these keys and has room for `room` rows."""
        capacity = max(16, 1 << (2 * room - 1).bit_length())
        self.rows = np.zeros((2, capacity), dtype=np.int64)
        self.ends = np.empty((capacity, 2), dtype=np.int64)
        fill_ring(self.rows, self.ends, first, keys)
