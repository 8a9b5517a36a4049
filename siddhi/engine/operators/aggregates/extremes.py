"""min and max of what is held where rows leave in the order in which they came, and of all that ever came.

Values are compared by keys: whole numbers in an order in which the better value has the lesser key. `NaN` has the
greatest, so that it counts only where nothing else does.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.bits import as_real
from siddhi.engine.jit.kernels import kernel_part, seldom_part, state_kernel
from siddhi.engine.operators.aggregates.moves import (
    ADD,
    BEFORE,
    CELL,
    CLEAR,
    FORM,
    FREE_NODE,
    GROUP_SHIFT,
    ITEM,
    LARGEST,
    LINE,
    MASK,
    NEXT,
    NODES_LEFT,
    REAL,
    REMOVE,
    ROW_MASK,
    ROW_SHIFT,
    TIMES,
    VALUES,
    WRITE,
    is_null,
    value_at,
)

_ALL_BUT_SIGN = np.iinfo(np.int64).max
_NAN_KEY = 0x7FF8 << 48
"""The bits of NaN, which no other real number has as its key: infinity's is less in either order."""


@kernel_part
def key_of(value, real, largest):  # type: ignore[no-untyped-def]
    """Return the key of a whole number, or of the bits of a real one."""
    if real:
        number = as_real(value)
        if number != number:  # noqa: PLR0124 - NaN alone differs from itself
            return np.int64(_NAN_KEY)
        if value < 0:
            value = value ^ _ALL_BUT_SIGN
    return ~value if largest else value


@kernel_part
def value_of(key, real, largest):  # type: ignore[no-untyped-def]
    """Return the value whose key this is, as `key_of` takes it."""
    if real and key == _NAN_KEY:
        return key
    value = ~key if largest else key
    return value ^ _ALL_BUT_SIGN if real and value < 0 else value


@kernel_part
def _beats(value, other, real, largest):  # type: ignore[no-untyped-def]
    return key_of(value, real, largest) < key_of(other, real, largest)


@seldom_part
def _unlink(nodes, cells, group, head, node, pool):  # type: ignore[no-untyped-def]
    """Take `node`, which stands at an end, out of the list of its group."""
    before, after = nodes[node, BEFORE], nodes[node, NEXT]
    if before > 0:
        nodes[before, NEXT] = after
    else:
        cells[group, head] = after
    if after > 0:
        nodes[after, BEFORE] = before
    else:
        cells[group, head + 1] = before
    nodes[node, TIMES] = 0
    nodes[node, NEXT] = pool[FREE_NODE]
    pool[FREE_NODE] = node
    pool[NODES_LEFT] += 1


@seldom_part
def _append(nodes, cells, group, head, key, times, pool):  # type: ignore[no-untyped-def]
    """Put a new node behind the list of its group."""
    last, node = cells[group, head + 1], pool[FREE_NODE]
    pool[FREE_NODE] = nodes[node, NEXT]
    pool[NODES_LEFT] -= 1
    nodes[node, ITEM] = key
    nodes[node, NEXT] = 0
    nodes[node, BEFORE] = last
    nodes[node, TIMES] = times
    if last > 0:
        nodes[last, NEXT] = node
    else:
        cells[group, head] = node
    cells[group, head + 1] = node


@state_kernel
def follow_extremes(  # type: ignore[no-untyped-def]
    moves, count, plan, number, lines, cells, nodes, pool, out, out_valid, written
):
    """Keep for each group the values that may still become its extreme, best first, as a list of nodes.

    Return whether a null was written.

    A newcomer takes the place of those at the end that are no better, which leave before it: its node counts their rows
    and its own. As the oldest row leaves first, a leaving row is one of those that the first node counts. `pool` must
    have a node left for every added row.
    """
    head, largest, line = plan[number, CELL], plan[number, LARGEST] != 0, plan[number, LINE]
    form, values, mask = lines[line, FORM], lines[line, VALUES], lines[line, MASK]
    tail, real = head + 1, form == REAL
    nulls = False
    for place in range(count):
        move = moves[place]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & ROW_MASK
        if move & CLEAR:
            while cells[group, head] > 0:
                _unlink(nodes, cells, group, head, cells[group, head], pool)
        if move & (ADD | REMOVE) and not is_null(mask, row):
            if move & ADD:
                key = key_of(value_at(form, values, row), real, largest)
                node, times = cells[group, tail], np.int64(1)
                while node > 0 and key <= nodes[node, ITEM]:
                    times += nodes[node, TIMES]
                    _unlink(nodes, cells, group, head, node, pool)
                    node = cells[group, tail]
                _append(nodes, cells, group, head, key, times, pool)
            else:
                node = cells[group, head]
                if node > 0:
                    nodes[node, TIMES] -= 1
                    if nodes[node, TIMES] == 0:
                        _unlink(nodes, cells, group, head, node, pool)
        if move & WRITE:
            node = cells[group, head]
            out[number, written] = value_of(nodes[node, ITEM], real, largest)
            out_valid[number, written] = node > 0
            nulls |= node <= 0
            written += 1
    return nulls


@state_kernel
def follow_records(moves, count, plan, number, lines, cells, out, out_valid, written):  # type: ignore[no-untyped-def]
    """Compute the largest or least of all that ever came, come or gone; return whether a null was written."""
    cell, largest, line = plan[number, CELL], plan[number, LARGEST] != 0, plan[number, LINE]
    form, values, mask = lines[line, FORM], lines[line, VALUES], lines[line, MASK]
    nulls = False
    for place in range(count):
        move = moves[place]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & ROW_MASK
        if move & CLEAR:
            cells[group, cell + 1] = 0
        if move & (ADD | REMOVE) and not is_null(mask, row):
            value = value_at(form, values, row)
            if cells[group, cell + 1] == 0 or _beats(value, cells[group, cell], form == REAL, largest):
                cells[group, cell] = value
                cells[group, cell + 1] = 1
        if move & WRITE:
            out[number, written] = cells[group, cell]
            out_valid[number, written] = cells[group, cell + 1] != 0
            nulls |= cells[group, cell + 1] == 0
            written += 1
    return nulls
