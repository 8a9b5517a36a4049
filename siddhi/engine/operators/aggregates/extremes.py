"""min and max over stored rows that leave in order of arrival, and over all rows ever.

Values are compared by keys: integers in an order in which the better value has the lesser key. `NaN` has the greatest
key, so that it counts only if there is no other value.
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
"""The bits of NaN, which is the key of no other number: infinity is less in either order."""


@kernel_part
def key_of(value, real, largest):  # type: ignore[no-untyped-def]
    """Return the key of an integer, or of the bits of a floating-point number."""
    if real:
        number = as_real(value)
        if number != number:  # noqa: PLR0124 - NaN alone differs from itself
            return np.int64(_NAN_KEY)
        if value < 0:
            value = value ^ _ALL_BUT_SIGN
    return ~value if largest else value


@kernel_part
def value_of(key, real, largest):  # type: ignore[no-untyped-def]
    """Return the value of a key, the inverse of `key_of`."""
    if real and key == _NAN_KEY:
        return key
    value = ~key if largest else key
    return value ^ _ALL_BUT_SIGN if real and value < 0 else value


@kernel_part
def _beats(value, other, real, largest):  # type: ignore[no-untyped-def]
    return key_of(value, real, largest) < key_of(other, real, largest)


@seldom_part
def _unlink(nodes, cells, group, head, node, pool):  # type: ignore[no-untyped-def]
    """Remove `node`, which is first or last, from the list of its group."""
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
    """Append a new node to the list of its group."""
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
    """Store for each group the values that may still become its extreme, best first, as a list of nodes.

    Return whether a null was written. A new value replaces the values at the end that are no better, since these leave
    before it: its node counts their rows and its own. As the oldest row leaves first, a leaving row is counted by the
    first node. `pool` must have a free node for every added row.
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
    """Compute the extremes of all rows ever added; return whether a null was written."""
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
