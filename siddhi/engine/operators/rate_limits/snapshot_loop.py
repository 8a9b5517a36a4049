"""The loop of `output snapshot`, for n partition instances."""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.jit.kernels import seldom_part, state_kernel
from siddhi.engine.operators.rate_limits.limiter import CHUNK, CLOCK, DUE, ORDER, SLOT, TURN, WHOSE
from siddhi.engine.operators.rate_limits.limiter import OUT_LINES as BASE_LINES
from siddhi.engine.operators.windows.base.emission import timer_clock, timer_order

NEXT, BACK, CHAINED, HASH, KIND, GROUP, INSTANCE, HELD, NEWEST_OF, FREED = range(10)
"""The lines of rows by position: the neighbours in the list of their instance; the next in their chain, and the hash
code of the values by which an expired row finds them; kind, group and instance; whether a list contains the row; the
number of groups whose newest row it is. The last line is a stack of positions that a step returned."""
ROW_LINES = 10
TICK, HEAD, TAIL, FIRST_GROUP, LAST_GROUP, COUNT, GROUPS, ASLEEP, PLACE = range(9)
"""The columns of instances: the time of the next tick, both ends of the lists of stored rows and of groups, the numbers
of rows and groups, and the position in the heap, or a mark that the instance has nothing to show and waits for no
tick."""
WIDTH = 9
NEWEST, ROWS, NEXT_GROUP, BACK_GROUP, LISTED, SHOWN = range(6)
"""The columns of groups: the newest row; how many rows arrived and did not leave, or are stored; the neighbours among
the groups of the instance; whether it is among these; the number of the snapshot that showed it last."""
GROUP_WIDTH = 6
WINDOWED, GROUPED, ALL_AGGREGATED, SOME_AGGREGATED, PERIOD = range(5)
HEAPED, WRITTEN, FREED_COUNT, ROW, SHOWS, IN_RUNS, TURN_NOW = range(7)
"""The state of the loop: how many instances wait for a tick; rows written and positions returned; the next row; the
number of snapshots; whether rows of several instances came in one chunk; the current turn."""
RUN_LINES = 7
NEW = BASE_LINES
"""One more line of the output: the row with the newest aggregates."""
OUT_LINES = BASE_LINES + 1
_FIRST, _LAST = range(2)
"""The lines of the hash table: both ends of the chain in each bucket."""


@seldom_part
def _goes_first(cells, one, other):  # type: ignore[no-untyped-def]
    return cells[one, TICK] < cells[other, TICK] or (cells[one, TICK] == cells[other, TICK] and one < other)


@seldom_part
def _sink(run, cells, heap, place):  # type: ignore[no-untyped-def]
    """Sift the instance at `place` of the heap down, as its tick is later than before."""
    count, instance = run[HEAPED], heap[place]
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and _goes_first(cells, heap[child + 1], heap[child]):
            child += 1
        if not _goes_first(cells, heap[child], instance):
            break
        heap[place] = heap[child]
        cells[heap[place], PLACE] = place
        place = child
    heap[place] = instance
    cells[instance, PLACE] = place


@seldom_part
def _wake(run, cells, heap, instance):  # type: ignore[no-untyped-def]
    """Add the instance to the heap, where it waits for its tick."""
    cells[instance, ASLEEP] = 0
    place = run[HEAPED]
    run[HEAPED] += 1
    while place > 0 and _goes_first(cells, instance, heap[(place - 1) // 2]):
        heap[place] = heap[(place - 1) // 2]
        cells[heap[place], PLACE] = place
        place = (place - 1) // 2
    heap[place] = instance
    cells[instance, PLACE] = place


@seldom_part
def _give_back(run, rows, place):  # type: ignore[no-untyped-def]
    """Return the position of a row, unless it is still referenced."""
    if rows[HELD, place] == 0 and rows[NEWEST_OF, place] == 0:
        rows[FREED, run[FREED_COUNT]] = place
        run[FREED_COUNT] += 1


@seldom_part
def _set_newest(run, rows, groups, group, place):  # type: ignore[no-untyped-def]
    """Make the row at `place` the newest of `group`; -1: the group has none."""
    old = groups[group, NEWEST]
    groups[group, NEWEST] = place
    if place >= 0:
        rows[NEWEST_OF, place] += 1
    if old >= 0:
        rows[NEWEST_OF, old] -= 1
        _give_back(run, rows, old)


@seldom_part
def _list_group(cells, groups, instance, group):  # type: ignore[no-untyped-def]
    tail = cells[instance, LAST_GROUP]
    groups[group, LISTED], groups[group, BACK_GROUP], groups[group, NEXT_GROUP] = 1, tail, -1
    if tail < 0:
        cells[instance, FIRST_GROUP] = group
    else:
        groups[tail, NEXT_GROUP] = group
    cells[instance, LAST_GROUP] = group
    cells[instance, GROUPS] += 1


@seldom_part
def _drop_group(run, rows, cells, groups, instance, group):  # type: ignore[no-untyped-def]
    before, behind = groups[group, BACK_GROUP], groups[group, NEXT_GROUP]
    if before < 0:
        cells[instance, FIRST_GROUP] = behind
    else:
        groups[before, NEXT_GROUP] = behind
    if behind < 0:
        cells[instance, LAST_GROUP] = before
    else:
        groups[behind, BACK_GROUP] = before
    groups[group, LISTED] = groups[group, ROWS] = 0
    cells[instance, GROUPS] -= 1
    _set_newest(run, rows, groups, group, -1)


@seldom_part
def _chain(rows, buckets, place):  # type: ignore[no-untyped-def]
    """Append a row to the chain of its values."""
    bucket = (rows[HASH, place] ^ (rows[HASH, place] >> 32)) & (buckets.shape[1] - 1)
    tail = buckets[_LAST, bucket]
    rows[CHAINED, place] = -1
    if tail < 0:
        buckets[_FIRST, bucket] = place
    else:
        rows[CHAINED, tail] = place
    buckets[_LAST, bucket] = place


@seldom_part
def _hold(rows, cells, buckets, instance, place):  # type: ignore[no-untyped-def]
    """Append a row to the stored ones."""
    tail = cells[instance, TAIL]
    rows[BACK, place], rows[NEXT, place], rows[HELD, place] = tail, -1, 1
    if tail < 0:
        cells[instance, HEAD] = place
    else:
        rows[NEXT, tail] = place
    cells[instance, TAIL] = place
    cells[instance, COUNT] += 1
    _chain(rows, buckets, place)


@seldom_part
def _same_values(rows, keys, one, other):  # type: ignore[no-untyped-def]
    if rows[HASH, one] != rows[HASH, other] or rows[INSTANCE, one] != rows[INSTANCE, other]:
        return False
    for line in range(len(keys)):  # noqa: SIM110 - a generator cannot be compiled
        if keys[line, one] != keys[line, other]:
            return False
    return True


@seldom_part
def _unchain(rows, keys, buckets, like):  # type: ignore[no-untyped-def]
    """Remove the first stored row with the values of the row `like` from its chain.

    Return its position, -1 for none.
    """
    bucket = (rows[HASH, like] ^ (rows[HASH, like] >> 32)) & (buckets.shape[1] - 1)
    before, place = np.int64(-1), buckets[_FIRST, bucket]
    while place >= 0 and not _same_values(rows, keys, place, like):
        before, place = place, rows[CHAINED, place]
    if place < 0:
        return place
    if before < 0:
        buckets[_FIRST, bucket] = rows[CHAINED, place]
    else:
        rows[CHAINED, before] = rows[CHAINED, place]
    if buckets[_LAST, bucket] == place:
        buckets[_LAST, bucket] = before
    return place


@seldom_part
def _let_go(run, rows, cells, groups, instance, place):  # type: ignore[no-untyped-def]
    """Remove a stored row, and its group if that has no more rows."""
    before, behind = rows[BACK, place], rows[NEXT, place]
    if before < 0:
        cells[instance, HEAD] = behind
    else:
        rows[NEXT, before] = behind
    if behind < 0:
        cells[instance, TAIL] = before
    else:
        rows[BACK, behind] = before
    cells[instance, COUNT] -= 1
    group = rows[GROUP, place]
    groups[group, ROWS] -= 1
    if groups[group, ROWS] == 0:
        _set_newest(run, rows, groups, group, -1)
    rows[HELD, place] = 0
    _give_back(run, rows, place)


@seldom_part
def _apply(param, run, rows, keys, buckets, cells, groups, instance, place):  # type: ignore[no-untyped-def]
    """Update the stored rows of an instance by the row at `place`."""
    kind, holds = rows[KIND, place], param[WINDOWED] and not param[ALL_AGGREGATED]
    rows[HELD, place] = rows[NEWEST_OF, place] = 0
    if kind == RESET:
        if param[WINDOWED]:
            while cells[instance, HEAD] >= 0:
                gone = cells[instance, HEAD]
                _unchain(rows, keys, buckets, gone)
                _let_go(run, rows, cells, groups, instance, gone)
            while cells[instance, FIRST_GROUP] >= 0:
                _drop_group(run, rows, cells, groups, instance, cells[instance, FIRST_GROUP])
    elif kind == CURRENT or param[WINDOWED]:
        group = rows[GROUP, place]
        if not holds:
            if groups[group, LISTED] == 0:
                _list_group(cells, groups, instance, group)
            groups[group, ROWS] += 1 if kind == CURRENT else -1
            _set_newest(run, rows, groups, group, place)
        elif kind == CURRENT:
            _hold(rows, cells, buckets, instance, place)
            groups[group, ROWS] += 1
            _set_newest(run, rows, groups, group, place)
        else:
            gone = _unchain(rows, keys, buckets, place)
            if gone >= 0:
                _let_go(run, rows, cells, groups, instance, gone)
                if groups[group, ROWS] > 0:
                    _set_newest(run, rows, groups, group, place)
                    return
    _give_back(run, rows, place)


@seldom_part
def _write(run, cells, out, old, new, order, clock, instance):  # type: ignore[no-untyped-def]
    count = run[WRITTEN]
    out[SLOT, count], out[NEW, count], out[ORDER, count], out[CLOCK, count] = old, new, order, clock
    out[CHUNK, count], out[WHOSE, count] = run[SHOWS], instance
    out[DUE, count], out[TURN, count] = cells[instance, TICK], run[TURN_NOW]
    run[WRITTEN] = count + 1


@seldom_part
def _show(param, run, rows, cells, groups, instance, order, clock, out):  # type: ignore[no-untyped-def]
    """Write the current rows of the instance, and set its next tick."""
    run[SHOWS] += 1
    if param[WINDOWED] and not param[ALL_AGGREGATED]:
        place = cells[instance, HEAD]
        while place >= 0:
            group = rows[GROUP, place]
            if not param[SOME_AGGREGATED]:
                _write(run, cells, out, place, place, order, clock, instance)
            elif not param[GROUPED] or groups[group, SHOWN] != run[SHOWS]:
                groups[group, SHOWN] = run[SHOWS]
                _write(run, cells, out, place, groups[group, NEWEST], order, clock, instance)
            place = rows[NEXT, place]
    else:
        group = cells[instance, FIRST_GROUP]
        while group >= 0:
            behind, place = groups[group, NEXT_GROUP], groups[group, NEWEST]
            if not param[WINDOWED]:
                _write(run, cells, out, place, place, order, clock, instance)
            elif not param[GROUPED]:
                if rows[KIND, place] == CURRENT:
                    _write(run, cells, out, place, place, order, clock, instance)
            elif groups[group, ROWS] > 0:
                _write(run, cells, out, place, place, order, clock, instance)
            else:
                _drop_group(run, rows, cells, groups, instance, group)
            group = behind
    cells[instance, TICK] += param[PERIOD]


@seldom_part
def _run_ticks(param, run, rows, cells, groups, heap, order, clock, step_clocks, floor, out):  # type: ignore[no-untyped-def]
    """Run the ticks that precede a row of (`order`, `clock`); return whether there was room for all."""
    while run[HEAPED] > 0:
        instance = heap[0]
        tick = cells[instance, TICK]
        at = timer_order(step_clocks, tick, np.int64(-1))
        if at > order:
            return True
        now = timer_clock(step_clocks, tick, at, floor)
        if at == order and now >= clock:
            return True
        if run[WRITTEN] + cells[instance, COUNT] + cells[instance, GROUPS] > out.shape[1]:
            return False
        _show(param, run, rows, cells, groups, instance, at, now, out)
        if cells[instance, COUNT] + cells[instance, GROUPS] > 0:
            _sink(run, cells, heap, np.int64(0))
        else:
            cells[instance, ASLEEP] = 1
            run[HEAPED] -= 1
            heap[0] = heap[run[HEAPED]]
            if run[HEAPED] > 0:
                _sink(run, cells, heap, np.int64(0))
    return True


@seldom_part
def _catch_up(param, run, cells, heap, instance, order, clock, step_clocks, floor, shown):  # type: ignore[no-untyped-def]
    """Skip the ticks of an instance without rows that precede a row of (`order`, `clock`)."""
    root = order // 2
    if order & 1:
        passed = step_clocks[root]
    else:
        before = step_clocks[root - 1] if root > 0 else floor
        passed = clock - 1 if before < clock else before if root > 0 else shown
    passed = max(passed, shown)  # the clock before the step
    if passed >= cells[instance, TICK]:
        cells[instance, TICK] += ((passed - cells[instance, TICK]) // param[PERIOD] + 1) * param[PERIOD]
    _wake(run, cells, heap, instance)


@state_kernel
def take_snapshots(  # type: ignore[no-untyped-def]
    param, run, rows, keys, buckets, cells, groups, heap, places, orders, clocks, chunks, times, step_clocks, floor,
    shown, out,
):  # fmt: skip
    """Process the rows at `places` from number `run[ROW]` on, and the ticks between them.

    Return whether `out` had room for all; otherwise the caller enlarges it and calls again.
    """
    plain_groups = param[GROUPED] and not param[WINDOWED]
    count = len(places)
    while run[ROW] < count:
        row = run[ROW]
        place = places[row]
        instance, order, clock = rows[INSTANCE, place], orders[row], clocks[row]
        if cells[instance, ASLEEP] != 0:
            _catch_up(param, run, cells, heap, instance, order, clock, step_clocks, floor, shown)
        begins = row == 0 or chunks[row] != chunks[row - 1]
        if begins or not run[IN_RUNS]:
            run[TURN_NOW] = 2 * row
            if not _run_ticks(param, run, rows, cells, groups, heap, order, clock, step_clocks, floor, out):
                return False
        run[TURN_NOW] = 2 * row + 1
        if cells[instance, ASLEEP] != 0:
            _catch_up(param, run, cells, heap, instance, order, clock, step_clocks, floor, shown)
        kind = rows[KIND, place]
        triggers = times[row] >= cells[instance, TICK] and (kind == CURRENT or (kind == EXPIRED and not plain_groups))
        ends = run[IN_RUNS] and (row + 1 == count or chunks[row] != chunks[row + 1])
        shows = 1 if triggers else 0
        if ends:
            shows += max((clock - cells[instance, TICK]) // param[PERIOD] + 1, 0)
        if run[WRITTEN] + shows * (cells[instance, COUNT] + cells[instance, GROUPS] + 1) > out.shape[1]:
            return False
        if triggers:
            _show(param, run, rows, cells, groups, instance, order, clock, out)
            _sink(run, cells, heap, cells[instance, PLACE])
        _apply(param, run, rows, keys, buckets, cells, groups, instance, place)
        while ends and cells[instance, TICK] <= clock:
            now = max(cells[instance, TICK], clocks[row - 1] if row > 0 else floor)
            _show(param, run, rows, cells, groups, instance, order, now, out)
            _sink(run, cells, heap, cells[instance, PLACE])
        run[ROW] += 1
    run[TURN_NOW] = 2 * count
    final, end = np.int64(2 * len(step_clocks) - 1), step_clocks[-1] + 1
    return _run_ticks(param, run, rows, cells, groups, heap, final, end, step_clocks, floor, out)


@state_kernel
def chain_again(rows, buckets, cells):  # type: ignore[no-untyped-def]
    """Rebuild the chains of the stored rows for new `buckets`."""
    for instance in range(len(cells)):
        place = cells[instance, HEAD]
        while place >= 0:
            _chain(rows, buckets, place)
            place = rows[NEXT, place]


@state_kernel
def hold_all(rows, buckets, cells, places):  # type: ignore[no-untyped-def]
    """Store the rows at `places`, in this order."""
    for place in places:
        _hold(rows, cells, buckets, rows[INSTANCE, place], place)
