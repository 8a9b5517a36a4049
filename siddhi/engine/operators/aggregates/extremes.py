"""min and max of what is held, and their forever forms."""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.bits import as_real
from siddhi.engine.jit.kernels import kernel_part, seldom_part, state_kernel
from siddhi.engine.operators.aggregates.moves import (
    ADD,
    BEFORE,
    BEST,
    CELL,
    CLEAR,
    FORM,
    FREE_NODE,
    GROUP_SHIFT,
    ITEM,
    KIND,
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


@kernel_part
def _beats(value, other, real, largest):  # type: ignore[no-untyped-def]
    """True when `value` is the better of two: NaN never is, nor is anything better than NaN."""
    if real:
        return as_real(value) > as_real(other) if largest else as_real(value) < as_real(other)
    return value > other if largest else value < other


@kernel_part
def _same(value, other, real):  # type: ignore[no-untyped-def]
    if value == other or not real:
        return value == other
    left, right = as_real(value), as_real(other)
    return left == right or (np.isnan(left) and np.isnan(right))


@seldom_part
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
    nodes[node, TIMES] = 0
    nodes[node, NEXT] = pool[FREE_NODE]
    pool[FREE_NODE] = node
    pool[NODES_LEFT] += 1


@seldom_part
def _append(nodes, cells, group, head, value, pool):  # type: ignore[no-untyped-def]
    """Puts a new node of `value` behind the list of its group."""
    last, node = cells[group, head + 1], pool[FREE_NODE]
    pool[FREE_NODE] = nodes[node, NEXT]
    pool[NODES_LEFT] -= 1
    nodes[node, ITEM] = value
    nodes[node, NEXT] = 0
    nodes[node, BEFORE] = last
    nodes[node, TIMES] = 1
    if last > 0:
        nodes[last, NEXT] = node
    else:
        cells[group, head] = node
    cells[group, head + 1] = node


@state_kernel
def follow_extremes(  # type: ignore[no-untyped-def] # noqa: PLR0912 - one loop, compiled as a whole
    moves, count, plan, number, lines, cells, nodes, pool, out, out_valid, written
):
    """Keeps for each group the values that may still become its extreme, best first, as a list of nodes; returns
    whether a null was written.

    A newcomer drops the worse values behind the best; a leaving value takes its first equal with it. Equal neighbours
    share a node. `pool` must have a node left for every added row.
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
            value = value_at(form, values, row)
            node = cells[group, tail if move & ADD else head]
            if move & ADD:
                while node > 0 and _beats(value, nodes[node, ITEM], real, largest):
                    _unlink(nodes, cells, group, head, node, pool)
                    node = cells[group, tail]
                if node > 0 and nodes[node, ITEM] == value:
                    nodes[node, TIMES] += 1
                else:
                    _append(nodes, cells, group, head, value, pool)
            else:
                while node > 0 and not _same(nodes[node, ITEM], value, real):
                    node = nodes[node, NEXT]
                if node > 0:
                    nodes[node, TIMES] -= 1
                    if nodes[node, TIMES] == 0:
                        _unlink(nodes, cells, group, head, node, pool)
        if move & WRITE:
            node = cells[group, head]
            out[number, written] = nodes[node, ITEM]
            out_valid[number, written] = node > 0
            nulls |= node <= 0
            written += 1
    return nulls


@state_kernel
def follow_records(moves, count, plan, number, lines, cells, out, out_valid, written):  # type: ignore[no-untyped-def]
    """The largest or least of all that ever came, whether it came or went, or, for `BEST`, until an equal one goes;
    returns whether a null was written."""
    cell, largest, line = plan[number, CELL], plan[number, LARGEST] != 0, plan[number, LINE]
    form, values, mask = lines[line, FORM], lines[line, VALUES], lines[line, MASK]
    ends = REMOVE if plan[number, KIND] == BEST else 0
    nulls = False
    for place in range(count):
        move = moves[place]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & ROW_MASK
        if move & CLEAR:
            cells[group, cell + 1] = 0
        if move & (ADD | REMOVE) and not is_null(mask, row):
            value = value_at(form, values, row)
            if move & ends:
                if _same(cells[group, cell], value, form == REAL):
                    cells[group, cell + 1] = 0
            elif cells[group, cell + 1] == 0 or _beats(value, cells[group, cell], form == REAL, largest):
                cells[group, cell] = value
                cells[group, cell + 1] = 1
        if move & WRITE:
            out[number, written] = cells[group, cell]
            out_valid[number, written] = cells[group, cell + 1] != 0
            nulls |= cells[group, cell + 1] == 0
            written += 1
    return nulls
