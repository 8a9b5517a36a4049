"""The loops of the aggregates that add and remove: sum, avg, count, stdDev, min, max, their forever forms, distinctCount.

    moves   ──►  add row 7 to group 2 · remove row 1 from group 0 · write group 2 · …        what happens, in order
    plan         one line an aggregate: its kind, its argument's line, where its cells begin
    cells        one line a group: the accumulators of every aggregate, side by side
    nodes        lists of candidates for min and max, which the cells point into
    table        how often each group holds each value, for distinctCount
    out          line a, column k: aggregate a as it stands at the k-th write

Each aggregate walks over all moves by itself. The arguments are lines of three dtypes: `narrow` int32 (string codes,
int, bool), `wide` int64 (long), and `wide` seen as float64 (float and double).
"""

from __future__ import annotations

import numba
import numpy as np

from siddhi.engine.hashing import mix

kernel = numba.njit(cache=True, _nrt=False, error_model="numpy")  # type: ignore[call-overload]
"""Loops over state arrays that allocate nothing: without reference counts they run several times as fast."""
called = numba.njit(_nrt=False, error_model="numpy")  # type: ignore[call-overload]
inlined = numba.njit(_nrt=False, error_model="numpy", inline="always")  # type: ignore[call-overload]

ADD, REMOVE, CLEAR, WRITE = 1, 2, 4, 8
"""What a move does, one or several: the group starts anew (always first), the row is added or removed, the group's
aggregates are written."""
ROW_SHIFT, GROUP_SHIFT = 4, 34
"""A move is `group << GROUP_SHIFT | row << ROW_SHIFT | what it does`."""
_DOING = 15
_ROWS = (1 << (GROUP_SHIFT - ROW_SHIFT)) - 1

SUM, AVERAGE, COUNT, DEVIATION, EXTREME, RECORD, DISTINCT = range(7)
KIND, CELL, SOURCE, LINE, MASK, LARGEST, NULLS = range(7)
"""Columns of the plan: the aggregate's kind, its first cell, the dtype and line of its argument, the line that tells
nulls (-1: there are none), whether the largest or the least counts, whether a null was written."""
PLAN_WIDTH = 7
NO_ARGUMENT, NARROW, WIDE, REAL = range(4)
CELLS = {SUM: 2, AVERAGE: 2, COUNT: 1, DEVIATION: 4, EXTREME: 2, RECORD: 2, DISTINCT: 2}
"""How many cells each kind has; cells of a group that never held anything are 0."""

FREE_NODE, NODES_LEFT, ENTRIES, POOL_SIZE = 0, 1, 2, 3
"""Lines of the pool's state: the first unused node, how many there are, entries of the table in use."""
ITEM, NEXT, BEFORE, TIMES = 0, 1, 2, 3
"""Columns of a node: a value, its neighbours (0: none), how many of it follow each other."""
OWNER, EPOCH, VALUE, HOLDS = 0, 1, 2, 3
"""Columns of an entry: group and aggregate, the group's epoch, the value, how many are held."""
NO_OWNER = -1
NULL_VALUE = np.iinfo(np.int64).min
"""What stands for null among counted values, which are numbers; a null string is its code."""


@inlined
def _is_null(valid, mask, row):  # type: ignore[no-untyped-def]
    return mask >= 0 and not valid[mask, row]


@inlined
def _whole(source, line, row, wide, narrow):  # type: ignore[no-untyped-def]
    return wide[line, row] if source == WIDE else np.int64(narrow[line, row])


@inlined
def _real(source, line, row, wide, reals, narrow):  # type: ignore[no-untyped-def]
    if source == REAL:
        return reals[line, row]
    return np.float64(wide[line, row]) if source == WIDE else np.float64(narrow[line, row])


@called
def _whole_sums(moves, count, aim, wide, narrow, valid, cells, out, out_valid, written):  # type: ignore[no-untyped-def]
    """Sums of int and long, which wrap as Java's."""
    total, source, line, mask = aim[CELL], aim[SOURCE], aim[LINE], aim[MASK]
    for number in range(count):
        move = moves[number]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & _ROWS
        if move & CLEAR:
            cells[group, total] = 0
            cells[group, total + 1] = 0
        counts = not _is_null(valid, mask, row)
        if counts and move & ADD:
            cells[group, total] += _whole(source, line, row, wide, narrow)
            cells[group, total + 1] += 1
        elif counts and move & REMOVE:
            cells[group, total] -= _whole(source, line, row, wide, narrow)
            cells[group, total + 1] -= 1
        if move & WRITE:
            held = cells[group, total + 1] != 0 or (counts and move & ADD)
            out[written] = cells[group, total]
            out_valid[written] = held
            if not held:
                aim[NULLS] = 1
            written += 1


@called
def _real_sums(moves, count, aim, wide, reals, narrow, valid, cells, totals, out, out_valid, written):  # type: ignore[no-untyped-def]
    """Sums as double and averages: totals go up and down by each value, nothing is summed anew."""
    total, source, line, mask = aim[CELL], aim[SOURCE], aim[LINE], aim[MASK]
    mean = aim[KIND] == AVERAGE
    for number in range(count):
        move = moves[number]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & _ROWS
        if move & CLEAR:
            totals[group, total] = 0.0
            cells[group, total + 1] = 0
        counts = not _is_null(valid, mask, row)
        if counts and move & ADD:
            totals[group, total] += _real(source, line, row, wide, reals, narrow)
            cells[group, total + 1] += 1
        elif counts and move & REMOVE:
            totals[group, total] -= _real(source, line, row, wide, reals, narrow)
            cells[group, total + 1] -= 1
        if move & WRITE:
            size = cells[group, total + 1]
            if mean:
                held = size != 0
                out[written] = totals[group, total] / size if held else 0.0
            else:
                held = size != 0 or (counts and move & ADD)
                out[written] = totals[group, total]
            out_valid[written] = held
            if not held:
                aim[NULLS] = 1
            written += 1


@called
def _counts(moves, count, aim, cells, out, out_valid, written):  # type: ignore[no-untyped-def]
    """How many rows are held, nulls too."""
    cell = aim[CELL]
    for number in range(count):
        move = moves[number]
        group = move >> GROUP_SHIFT
        if move & CLEAR:
            cells[group, cell] = 0
        if move & ADD:
            cells[group, cell] += 1
        elif move & REMOVE:
            cells[group, cell] -= 1
        if move & WRITE:
            out[written] = cells[group, cell]
            out_valid[written] = True
            written += 1


@called
def _deviations(moves, count, aim, wide, reals, narrow, valid, cells, moments, out, out_valid, written):  # type: ignore[no-untyped-def]
    """Welford's running update of (sum, mean, squared distances) with its inverse for leaving values; the fourth cell
    counts."""
    cell, source, line, mask = aim[CELL], aim[SOURCE], aim[LINE], aim[MASK]
    for number in range(count):
        move = moves[number]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & _ROWS
        if move & CLEAR:
            for part in range(3):
                moments[group, cell + part] = 0.0
            cells[group, cell + 3] = 0
        if move & (ADD | REMOVE) and not _is_null(valid, mask, row):
            value = _real(source, line, row, wide, reals, narrow)
            old = moments[group, cell + 1]
            if move & ADD:
                cells[group, cell + 3] += 1
                size = cells[group, cell + 3]
                if size == 1:
                    moments[group, cell] = value
                    moments[group, cell + 1] = value
                    moments[group, cell + 2] = 0.0
                else:
                    moments[group, cell] += value
                    moments[group, cell + 1] = moments[group, cell] / size
                    moments[group, cell + 2] += (value - old) * (value - moments[group, cell + 1])
            else:
                cells[group, cell + 3] -= 1
                size = cells[group, cell + 3]
                if size == 0:
                    for part in range(3):
                        moments[group, cell + part] = 0.0
                else:
                    moments[group, cell] -= value
                    moments[group, cell + 1] = moments[group, cell] / size
                    moments[group, cell + 2] -= (value - old) * (value - moments[group, cell + 1])
        if move & WRITE:
            size = cells[group, cell + 3]
            out[written] = 0.0 if size <= 1 else np.sqrt(moments[group, cell + 2] / size)
            out_valid[written] = size != 0
            if size == 0:
                aim[NULLS] = 1
            written += 1


@inlined
def _unlink(nodes, cells, group, head, node, pool):  # type: ignore[no-untyped-def]
    """Takes `node` out of the list of its group."""
    before, after = nodes[node, BEFORE], nodes[node, NEXT]
    if before > 0:
        nodes[before, NEXT] = after
    else:
        cells[group, head] = after
    if after > 0:
        nodes[after, BEFORE] = before
    else:
        cells[group, head + 1] = before
    nodes[node, NEXT] = pool[FREE_NODE]
    pool[FREE_NODE] = node
    pool[NODES_LEFT] += 1


@called
def _extremes(moves, count, aim, values, valid, cells, nodes, items, pool, out, out_valid, written):  # type: ignore[no-untyped-def]
    """Keeps for each group the values that may still become its extreme, best first, as a list of nodes.

    A newcomer drops the worse values behind the best; a leaving value takes its first equal with it. Equal neighbours
    share a node.
    """
    head, line, mask, largest = aim[CELL], aim[LINE], aim[MASK], aim[LARGEST]
    tail = head + 1
    for number in range(count):
        move = moves[number]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & _ROWS
        if move & CLEAR:
            while cells[group, head] > 0:
                _unlink(nodes, cells, group, head, cells[group, head], pool)
        if move & ADD and not _is_null(valid, mask, row):
            value = items.dtype.type(values[line, row])
            last = cells[group, tail]
            while last > 0 and (items[last, ITEM] < value if largest else items[last, ITEM] > value):
                _unlink(nodes, cells, group, head, last, pool)
                last = cells[group, tail]
            node = pool[FREE_NODE]
            pool[FREE_NODE] = nodes[node, NEXT]
            items[node, ITEM] = value
            if last > 0 and nodes[last, ITEM] == nodes[node, ITEM]:
                nodes[last, TIMES] += 1
                pool[FREE_NODE] = node
            else:
                pool[NODES_LEFT] -= 1
                nodes[node, NEXT] = 0
                nodes[node, BEFORE] = last
                nodes[node, TIMES] = 1
                if last > 0:
                    nodes[last, NEXT] = node
                else:
                    cells[group, head] = node
                cells[group, tail] = node
        elif move & REMOVE and not _is_null(valid, mask, row):
            value = items.dtype.type(values[line, row])
            node = cells[group, head]
            while (
                node > 0
                and items[node, ITEM] != value
                and not (value != value and items[node, ITEM] != items[node, ITEM])
            ):  # noqa: PLR0124 - true of NaN alone
                node = nodes[node, NEXT]
            if node > 0:
                nodes[node, TIMES] -= 1
                if nodes[node, TIMES] == 0:
                    _unlink(nodes, cells, group, head, node, pool)
        if move & WRITE:
            node = cells[group, head]
            out_valid[written] = node > 0
            if node > 0:
                out[written] = items[node, ITEM]
            else:
                aim[NULLS] = 1
            written += 1


@called
def _records(moves, count, aim, values, valid, cells, records, out, out_valid, written):  # type: ignore[no-untyped-def]
    """The largest or least of all that ever came, whether it came or went."""
    cell, line, mask, largest = aim[CELL], aim[LINE], aim[MASK], aim[LARGEST]
    for number in range(count):
        move = moves[number]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & _ROWS
        if move & CLEAR:
            cells[group, cell + 1] = 0
        if move & (ADD | REMOVE) and not _is_null(valid, mask, row):
            value = records.dtype.type(values[line, row])
            best = records[group, cell]
            if cells[group, cell + 1] == 0 or (value > best if largest else value < best):
                records[group, cell] = value
                cells[group, cell + 1] = 1
        if move & WRITE:
            out[written] = records[group, cell]
            out_valid[written] = cells[group, cell + 1] != 0
            if cells[group, cell + 1] == 0:
                aim[NULLS] = 1
            written += 1


@inlined
def _counted(aim, row, wide, narrow, valid):  # type: ignore[no-untyped-def]
    """The value of a row as a number that equal values, and only these, share."""
    if aim[SOURCE] == NARROW:
        value = np.int64(narrow[aim[LINE], row])
    else:
        value = wide[aim[LINE], row]
        if aim[SOURCE] == REAL and value == NULL_VALUE:
            value = 0  # the bits of -0.0
    return NULL_VALUE if _is_null(valid, aim[MASK], row) else value


@called
def _entry_of(table, owner, epoch, value):  # type: ignore[no-untyped-def]
    """Where the entry is or would be."""
    mask = len(table) - 1
    place = mix(mix(owner, epoch), value) & mask
    while table[place, OWNER] != NO_OWNER and (
        table[place, OWNER] != owner or table[place, VALUE] != value or table[place, EPOCH] != epoch
    ):
        place = (place + 1) & mask
    return place


@called
def _distincts(moves, count, aim, number_of, several, wide, narrow, valid, cells, table, pool, out, out_valid, written):  # type: ignore[no-untyped-def]
    """Counts values in the table. A group that starts anew has another epoch, so that its old entries match no more."""
    cell = aim[CELL]
    for number in range(count):
        move = moves[number]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & _ROWS
        if move & CLEAR:
            cells[group, cell] = 0
            cells[group, cell + 1] += 1
        if move & (ADD | REMOVE):
            owner, epoch, value = (
                group * several + number_of,
                cells[group, cell + 1],
                _counted(aim, row, wide, narrow, valid),
            )
            place = _entry_of(table, owner, epoch, value)
            if table[place, OWNER] == NO_OWNER:
                table[place, OWNER] = owner
                table[place, EPOCH] = epoch
                table[place, VALUE] = value
                table[place, HOLDS] = 0
                pool[ENTRIES] += 1
            if move & ADD:
                table[place, HOLDS] += 1
                cells[group, cell] += table[place, HOLDS] == 1
            elif table[place, HOLDS] > 0:
                table[place, HOLDS] -= 1
                cells[group, cell] -= table[place, HOLDS] == 0
        if move & WRITE:
            out[written] = cells[group, cell]
            out_valid[written] = True
            written += 1


@called
def accumulate(moves, count, plan, wide, narrow, valid, cells, nodes, table, pool, out, out_valid, written):  # type: ignore[no-untyped-def]
    """The first `count` moves have gone through every aggregate; `written` writes had been made before them.

    `pool` must have a node and an entry left for every added row and aggregate that needs one.
    """
    reals, totals, items, real_out = (
        wide.view(np.float64),
        cells.view(np.float64),
        nodes.view(np.float64),
        out.view(np.float64),
    )
    for number in range(len(plan)):
        aim, line, valid_line = plan[number], out[number], out_valid[number]
        real_line = real_out[number]
        kind, source = aim[KIND], aim[SOURCE]
        if kind == SUM and source != REAL:
            _whole_sums(moves, count, aim, wide, narrow, valid, cells, line, valid_line, written)
        elif kind in (SUM, AVERAGE):
            _real_sums(moves, count, aim, wide, reals, narrow, valid, cells, totals, real_line, valid_line, written)
        elif kind == COUNT:
            _counts(moves, count, aim, cells, line, valid_line, written)
        elif kind == DEVIATION:
            _deviations(moves, count, aim, wide, reals, narrow, valid, cells, totals, real_line, valid_line, written)
        elif kind == EXTREME and source == REAL:
            _extremes(moves, count, aim, reals, valid, cells, nodes, items, pool, real_line, valid_line, written)
        elif kind == EXTREME and source == WIDE:
            _extremes(moves, count, aim, wide, valid, cells, nodes, nodes, pool, line, valid_line, written)
        elif kind == EXTREME:
            _extremes(moves, count, aim, narrow, valid, cells, nodes, nodes, pool, line, valid_line, written)
        elif kind == RECORD and source == REAL:
            _records(moves, count, aim, reals, valid, cells, totals, real_line, valid_line, written)
        elif kind == RECORD and source == WIDE:
            _records(moves, count, aim, wide, valid, cells, cells, line, valid_line, written)
        elif kind == RECORD:
            _records(moves, count, aim, narrow, valid, cells, cells, line, valid_line, written)
        elif kind == DISTINCT:
            _distincts(
                moves, count, aim, number, len(plan), wide, narrow, valid, cells, table, pool, line, valid_line, written
            )


@kernel
def follow(moves, plan, wide, narrow, valid, cells, nodes, table, pool, out, out_valid):  # type: ignore[no-untyped-def]
    """`accumulate` for moves that are known beforehand."""
    accumulate(moves, len(moves), plan, wide, narrow, valid, cells, nodes, table, pool, out, out_valid, 0)


@kernel
def place_entries(entries, table):  # type: ignore[no-untyped-def]
    """Puts `entries` into the empty `table`."""
    for number in range(len(entries)):
        place = _entry_of(table, entries[number, OWNER], entries[number, EPOCH], entries[number, VALUE])
        for part in range(4):
            table[place, part] = entries[number, part]
