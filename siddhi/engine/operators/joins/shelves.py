"""Join two sides whose windows release rows in any order, in one loop over their output.

Each side has a shelf with the rows that it shows: a hash table by key, whose chains are in order of arrival, and a hash
table by number, which finds the row that leaves.

    order   left emits        right emits       shelf of the left
    2       +a1 +b2                             a1   b2
    3                         +a7               a1   b2       gives (a1, a7)
    4       -a1 -b2 +a3                         a3
    5                         +a8               a3            gives (a3, a8)

Keys and numbers count within one instance of a partition. A row lies in a slot of its side's store as long as the shelf
has it.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.jit.kernels import kernel_part, seldom_part, state_kernel
from siddhi.engine.operators.windows.base.emission import CHUNK, CLOCK, KIND, ORDER, SEQUENCE, TIMESTAMP
from siddhi.engine.operators.windows.keyed.layout import SHOWN
from siddhi.engine.operators.windows.keyed.parts import java_bucket

ROW_KEY, NUMBER, INSTANCE, PLACE = 6, 7, 8, 9
"""Four lines after those of an emission (`siddhi.engine.operators.windows.base.emission`), whose `SEQUENCE` is a slot
here: the row's key, its number, its instance, and its slot in a window with an order of its own."""
MOVE_LINES = 10

LEFT, RIGHT, OUT_TIMESTAMP, OUT_KIND, OUT_ORDER, OUT_CLOCK, OUT_CHUNK, OUT_DELIVERY, OUT_INSTANCE = range(9)
"""The lines of the output pairs: the slots of both rows (-1: null), then the metadata of `EventBatch`."""
PAIR_LINES = 9

TRIGGERS, KEEPS, BARE, CURRENT_ONLY, NEEDS_NULLS, HOLDS, BY_TIMER, MARKS, HIDES = 1, 2, 4, 8, 16, 32, 64, 128, 256
SORTED, HASHED, LENDS = 512, 1024, 2048
"""Properties of a side as bits: it triggers; it keeps unmatched rows; it has no window; only its current rows count; a
row of nulls follows its candidates, as these are still to be tested; the other side reads its rows; its timers emit
current rows; rows that were read expire with their own time; the output for expired rows of its window is not read;
rows are shown in the order of the window's numbers once it was full, or in that of a Java hash map; the window shows
rows until it emits them."""

NATURE, COUNT, NEXT_ROW, FREED_COUNT = 0, 2, 4, 6
"""State of a walk, two numbers each, for the left and the right: the properties of the side; for the current step, the
number of rows its window emitted, the next one, and the number of slots it returns."""
NULL, CHUNKS, DELIVERIES, LAST_SIDE, LAST_CHUNK, TICK = range(8, 14)
"""Further state: the key that equals nothing; for the current step, the number of chunks and deliveries emitted, and
the origin of their last row; the number of rows ever added or looked up."""
WALK_LINES = 14

(CELL_KEY, CELL_NUMBER, CELL_INSTANCE, CELL_STAMP, PUT_AT, NEXT, BACK, NEXT_NUMBER, FIRST, LAST, FIRST_NUMBER,
 FREED, CELL_PLACE) = range(13)  # fmt: skip
"""The lines of a shelf, (13, capacity). By slot: key, number, instance, timestamp and tick of the row, its neighbours
in the chain of its key and the next in that of its number. By bucket: both ends of a chain of keys, and the first of
one of numbers. The last but one lists the slots that a step returned, the last has by slot the one in the window."""
CELL_LINES = 13

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@kernel_part
def _bucket(key, instance, cells):  # type: ignore[no-untyped-def]
    mixed = (np.uint64(key) + np.uint64(instance) * _MIX) * _MIX
    return np.int64((mixed ^ (mixed >> _SHIFT)) & np.uint64(cells.shape[1] - 1))


@seldom_part
def _put(cells, slot, key, number, instance, stamp, tick, place):  # type: ignore[no-untyped-def]
    cells[CELL_PLACE, slot] = place
    cells[CELL_KEY, slot], cells[CELL_NUMBER, slot], cells[CELL_INSTANCE, slot] = key, number, instance
    cells[CELL_STAMP, slot], cells[PUT_AT, slot] = stamp, tick
    bucket = _bucket(key, instance, cells)
    last = cells[LAST, bucket]
    cells[NEXT, slot], cells[BACK, slot] = -1, last
    if last < 0:
        cells[FIRST, bucket] = slot
    else:
        cells[NEXT, last] = slot
    cells[LAST, bucket] = slot
    bucket = _bucket(number, instance, cells)
    cells[NEXT_NUMBER, slot] = cells[FIRST_NUMBER, bucket]
    cells[FIRST_NUMBER, bucket] = slot


@seldom_part
def _take(cells, number, instance):  # type: ignore[no-untyped-def]
    """Remove the row with that number from the shelf; return its slot, -1 when there is none."""
    bucket = _bucket(number, instance, cells)
    before, slot = np.int64(-1), cells[FIRST_NUMBER, bucket]
    while slot >= 0 and (cells[CELL_NUMBER, slot] != number or cells[CELL_INSTANCE, slot] != instance):
        before, slot = slot, cells[NEXT_NUMBER, slot]
    if slot < 0:
        return slot
    if before < 0:
        cells[FIRST_NUMBER, bucket] = cells[NEXT_NUMBER, slot]
    else:
        cells[NEXT_NUMBER, before] = cells[NEXT_NUMBER, slot]
    bucket = _bucket(cells[CELL_KEY, slot], instance, cells)
    back, after = cells[BACK, slot], cells[NEXT, slot]
    if back < 0:
        cells[FIRST, bucket] = after
    else:
        cells[NEXT, back] = after
    if after < 0:
        cells[LAST, bucket] = back
    else:
        cells[BACK, after] = back
    return slot


@state_kernel
def fill_shelf(cells, slots, keys, numbers, instances, stamps, ticks, places):  # type: ignore[no-untyped-def]
    """Set the shelf to the rows in `slots`, given in order of arrival."""
    cells[FIRST, :] = -1
    cells[LAST, :] = -1
    cells[FIRST_NUMBER, :] = -1
    for row in range(len(slots)):
        _put(cells, slots[row], keys[row], numbers[row], instances[row], stamps[row], ticks[row], places[row])


@kernel_part
def _write(out, count, side, own, other, lines, row, kind, timestamp, walk):  # type: ignore[no-untyped-def]
    out[side, count] = own
    out[1 - side, count] = other
    out[OUT_TIMESTAMP, count] = timestamp
    out[OUT_KIND, count] = kind
    out[OUT_ORDER, count] = lines[ORDER, row]
    out[OUT_CLOCK, count] = lines[CLOCK, row]
    out[OUT_CHUNK, count] = walk[CHUNKS]
    out[OUT_INSTANCE, count] = lines[INSTANCE, row]
    return count + 1


@seldom_part
def _is_shown_before(nature, keys, among, cells, one, other):  # type: ignore[no-untyped-def]
    """Return whether row `one` of a shelf is shown before `other`.

    `keys` are the window's numbers of its rows, `among` is the number of rows that it shows.
    """
    left, right = cells[CELL_PLACE, one], cells[CELL_PLACE, other]
    if (nature & HASHED) != 0:
        first, second = java_bucket(keys[1, left], among), java_bucket(keys[1, right], among)
        return first < second or (first == second and keys[2, left] < keys[2, right])
    for line in range(len(keys)):
        if keys[line, left] != keys[line, right]:
            return keys[line, left] < keys[line, right]
    return cells[PUT_AT, one] < cells[PUT_AT, other]


@seldom_part
def _arrange(nature, keys, among, cells, slots, first, stop):  # type: ignore[no-untyped-def]
    """Sort the rows in `slots` from `first` to `stop` into the order in which their window shows them."""
    gap = 1
    while gap < (stop - first) // 3:
        gap = 3 * gap + 1
    while gap >= 1:
        for place in range(first + gap, stop):
            slot, at = slots[place], place
            while at >= first + gap and _is_shown_before(nature, keys, among, cells, slot, slots[at - gap]):
                slots[at] = slots[at - gap]
                at -= gap
            slots[at] = slot
        gap //= 3


@seldom_part
def _probe(  # type: ignore[no-untyped-def]
    walk, side, own, cells, keys, marks, lines, row, kind, timestamp, out, count
):
    """Write the output for one row with the other side's `cells`; return the next count, -1 when there is no room."""
    nature, key, instance = walk[NATURE + side], lines[ROW_KEY, row], lines[INSTANCE, row]
    if (nature & CURRENT_ONLY) != 0 and kind != CURRENT:
        return count
    first = count
    if kind != RESET and key != walk[NULL]:
        other = cells[FIRST, _bucket(key, instance, cells)]
        while other >= 0:
            if cells[CELL_KEY, other] == key and cells[CELL_INSTANCE, other] == instance:
                if count == out.shape[1]:
                    return -1
                count = _write(out, count, side, own, other, lines, row, kind, timestamp, walk)
            other = cells[NEXT, other]
    shown = walk[NATURE + 1 - side]
    if count > first + 1 and ((shown & HASHED) != 0 or ((shown & SORTED) != 0 and marks[instance] != 0)):
        _arrange(shown, keys, marks[instance], cells, out[1 - side], first, count)
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
def _has_left(lines, row):  # type: ignore[no-untyped-def]
    """Return whether the arriving row has left already.

    A window emits an event that it does not store as expired before current.
    """
    number, instance, before = lines[NUMBER, row], lines[INSTANCE, row], row - 1
    while before >= 0 and lines[KIND, before] == EXPIRED and lines[CHUNK, before] == lines[CHUNK, row]:
        if lines[NUMBER, before] == number and lines[INSTANCE, before] == instance:
            return True
        before -= 1
    return False


@seldom_part
def _take_up(  # type: ignore[no-untyped-def] # noqa: C901, PLR0912 - one row, step by step
    walk, side, lines, own_cells, own_looks, own_marks, cells, looks, keys, marks, out, count
):
    """Join the next row that `side` emitted with the other side's shelf, then update its own shelf."""
    row, nature = walk[NEXT_ROW + side], walk[NATURE + side]
    slot, kind, instance = lines[SEQUENCE, row], lines[KIND, row], lines[INSTANCE, row]
    stamp = lines[TIMESTAMP, row]
    if kind == EXPIRED and (nature & MARKS) != 0:
        # the row is still on its shelf, and stays there when there is no room for the pairs
        held = own_cells[FIRST_NUMBER, _bucket(lines[NUMBER, row], instance, own_cells)]
        while held >= 0:
            if own_cells[CELL_NUMBER, held] == lines[NUMBER, row] and own_cells[CELL_INSTANCE, held] == instance:
                if own_looks[instance] > own_cells[PUT_AT, held]:
                    stamp = own_cells[CELL_STAMP, held]
                break
            held = own_cells[NEXT_NUMBER, held]
    if kind <= RESET and (nature & TRIGGERS) != 0 and (kind != EXPIRED or (nature & HIDES) == 0):
        count = _probe(walk, side, slot, cells, keys, marks, lines, row, kind, stamp, out, count)
        if (nature & BARE) != 0 and count >= 0:
            clock = lines[CLOCK, row]
            count = _probe(walk, side, slot, cells, keys, marks, lines, row, EXPIRED, clock, out, count)
            if count >= 0:
                count = _probe(walk, side, slot, cells, keys, marks, lines, row, RESET, stamp, out, count)
        if count < 0:
            return count
        walk[TICK] += 1
        looks[instance] = walk[TICK]
    walk[NEXT_ROW + side] += 1
    if (nature & HOLDS) == 0 or kind == RESET:
        return count
    if kind == SHOWN or (kind == CURRENT and (nature & LENDS) == 0):
        number, stamp, place = lines[NUMBER, row], lines[TIMESTAMP, row], lines[PLACE, row]
        if kind == CURRENT and _has_left(lines, row):
            own_cells[FREED, walk[FREED_COUNT + side]] = slot
            walk[FREED_COUNT + side] += 1
            return count
        walk[TICK] += 1
        _put(own_cells, slot, lines[ROW_KEY, row], number, instance, stamp, walk[TICK], place)
        if (nature & HASHED) != 0:
            own_marks[instance] += 1
        return count
    left = _take(own_cells, lines[NUMBER, row], instance)
    if left >= 0:
        own_cells[FREED, walk[FREED_COUNT + side]] = left
        walk[FREED_COUNT + side] += 1
        if (nature & HASHED) != 0:
            own_marks[instance] -= 1
        elif (nature & SORTED) != 0:
            own_marks[instance] = 1
    return count


@kernel_part
def _came(nature, lines, row, count):  # type: ignore[no-untyped-def]
    """Return whether `row` arrived on the side's stream, or left because of such an arrival.

    Rows that a timer of its window emits only leave.
    """
    if (nature & LENDS) != 0:
        return lines[KIND, row] == SHOWN
    if (nature & (SORTED | HASHED)) != 0:
        return True
    if (nature & BY_TIMER) != 0:
        return False
    while row + 1 < count and lines[CHUNK, row + 1] == lines[CHUNK, row]:
        row += 1
    return lines[KIND, row] == CURRENT


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
    came = _came(walk[NATURE], lines0, i, walk[COUNT])
    if came != _came(walk[NATURE + 1], lines1, j, walk[COUNT + 1]):
        return came
    return timers_left_first or not came


@state_kernel
def meet(  # type: ignore[no-untyped-def]
    walk, goes_on, left_first, timers_left_first, count0, lines0, cells0, looks0, keys0, marks0,
    count1, lines1, cells1, looks1, keys1, marks1, out,
):  # fmt: skip
    """Walk over the output of both sides until all is done or `out` is full.

    Return the number of pairs written, and whether all is done. The sides emitted `count` rows, described by `lines`;
    `cells` are their shelves, and `looks` has the time of the last read for each instance. `keys` are the numbers by
    which windows order rows; `marks` has for each instance whether its window was full, or the number of rows it shows.
    `goes_on` means that the walk of this step has begun before.
    """
    if not goes_on:
        walk[COUNT], walk[COUNT + 1] = count0, count1
        walk[NEXT_ROW], walk[NEXT_ROW + 1] = 0, 0
        walk[FREED_COUNT], walk[FREED_COUNT + 1] = 0, 0
        walk[CHUNKS], walk[DELIVERIES] = 0, 0
        walk[LAST_SIDE], walk[LAST_CHUNK] = -1, -1
    count = np.int64(0)
    while walk[NEXT_ROW] < walk[COUNT] or walk[NEXT_ROW + 1] < walk[COUNT + 1]:
        chunks, deliveries = walk[CHUNKS], walk[DELIVERIES]
        last_side, last_chunk = walk[LAST_SIDE], walk[LAST_CHUNK]
        if _left_is_next(walk, lines0, lines1, left_first, timers_left_first):
            after = _take_up(walk, 0, lines0, cells0, looks0, marks0, cells1, looks1, keys1, marks1, out, count)
        else:
            after = _take_up(walk, 1, lines1, cells1, looks1, marks1, cells0, looks0, keys0, marks0, out, count)
        if after < 0:
            walk[CHUNKS], walk[DELIVERIES] = chunks, deliveries
            walk[LAST_SIDE], walk[LAST_CHUNK] = last_side, last_chunk
            return count, False
        count = after
    return count, True


def new_cells(room: int) -> Int64Array:
    """Return a shelf for at least `room` slots; its capacity is a power of two."""
    cells: Int64Array = np.zeros((CELL_LINES, max(16, 1 << max(room - 1, 0).bit_length())), dtype=np.int64)
    cells[FIRST] = cells[LAST] = cells[FIRST_NUMBER] = -1
    return cells
