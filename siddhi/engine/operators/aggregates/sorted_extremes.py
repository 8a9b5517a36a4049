"""min and max over stored rows that leave in any order: a search tree with all values of each group.

The tree is a treap: a binary search tree by key and a heap by a hash of the key. So its shape depends only on the
values in it, not on the order of arrival, and its depth is about twice the logarithm of their number.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import kernel_part, seldom_part, state_kernel
from siddhi.engine.operators.aggregates.extremes import key_of, value_of
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

_LESS, _MORE = NEXT, BEFORE
"""Columns of a node: the branches with lesser and with greater keys."""
_FIRST_FACTOR, _SECOND_FACTOR, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93), np.uint64(32)


@kernel_part
def _height(key):  # type: ignore[no-untyped-def]
    """Return the heap priority of the node of `key`; different keys have different priorities."""
    mixed = np.uint64(key) * _FIRST_FACTOR
    mixed = (mixed ^ (mixed >> _HALF)) * _SECOND_FACTOR
    return mixed ^ (mixed >> _HALF)


@kernel_part
def _hang(nodes, cells, group, root, above, side, node):  # type: ignore[no-untyped-def]
    """Make `node` the child of `above` on this side, or the root if `above` is 0."""
    if above > 0:
        nodes[above, side] = node
    else:
        cells[group, root] = node


@kernel_part
def _free(nodes, node, pool):  # type: ignore[no-untyped-def]
    nodes[node, TIMES] = 0
    nodes[node, NEXT] = pool[FREE_NODE]
    pool[FREE_NODE] = node
    pool[NODES_LEFT] += 1


@seldom_part
def _add(nodes, cells, group, root, key, pool):  # type: ignore[no-untyped-def]
    """Add one row with `key` to the tree of its group."""
    height = _height(key)
    above, side = np.int64(0), _LESS
    node = cells[group, root]
    while node > 0 and _height(nodes[node, ITEM]) > height:
        above, side = node, _LESS if key < nodes[node, ITEM] else _MORE
        node = nodes[node, side]
    if node > 0 and nodes[node, ITEM] == key:
        nodes[node, TIMES] += 1
        return
    new = pool[FREE_NODE]
    pool[FREE_NODE] = nodes[new, NEXT]
    pool[NODES_LEFT] -= 1
    nodes[new, ITEM], nodes[new, TIMES] = key, 1
    _hang(nodes, cells, group, root, above, side, new)
    # Split the subtree below the new node: lesser keys on one side, greater ones on the other.
    less, less_side, more, more_side = new, _LESS, new, _MORE
    while node > 0:
        if nodes[node, ITEM] < key:
            nodes[less, less_side] = node
            less, less_side = node, _MORE
            node = nodes[node, _MORE]
        else:
            nodes[more, more_side] = node
            more, more_side = node, _LESS
            node = nodes[node, _LESS]
    nodes[less, less_side] = 0
    nodes[more, more_side] = 0
    best = cells[group, root + 1]
    if best == 0 or key < nodes[best, ITEM]:
        cells[group, root + 1] = new


@seldom_part
def _remove(nodes, cells, group, root, key, pool):  # type: ignore[no-untyped-def]
    """Remove one row with `key` from the tree of its group, if there is one."""
    above, side = np.int64(0), _LESS
    node = cells[group, root]
    while node > 0 and nodes[node, ITEM] != key:
        above, side = node, _LESS if key < nodes[node, ITEM] else _MORE
        node = nodes[node, side]
    if node == 0:
        return
    nodes[node, TIMES] -= 1
    if nodes[node, TIMES] > 0:
        return
    less, more = nodes[node, _LESS], nodes[node, _MORE]
    if node == cells[group, root + 1]:
        # The best node has no lesser branch: the next best is the least below it, or its parent.
        best = more if more > 0 else above
        while more > 0 and nodes[best, _LESS] > 0:
            best = nodes[best, _LESS]
        cells[group, root + 1] = best
    _free(nodes, node, pool)
    while less > 0 and more > 0:
        if _height(nodes[less, ITEM]) > _height(nodes[more, ITEM]):
            _hang(nodes, cells, group, root, above, side, less)
            above, side, less = less, _MORE, nodes[less, _MORE]
        else:
            _hang(nodes, cells, group, root, above, side, more)
            above, side, more = more, _LESS, nodes[more, _LESS]
    _hang(nodes, cells, group, root, above, side, less if less > 0 else more)


@seldom_part
def _clear(nodes, cells, group, root, pool):  # type: ignore[no-untyped-def]
    """Remove all nodes of a group."""
    node = cells[group, root]
    while node > 0:
        less, more = nodes[node, _LESS], nodes[node, _MORE]
        following = less if less > 0 else more
        if less > 0 and more > 0:
            last = less
            while nodes[last, _MORE] > 0:
                last = nodes[last, _MORE]
            nodes[last, _MORE] = more
        _free(nodes, node, pool)
        node = following
    cells[group, root] = cells[group, root + 1] = 0


@state_kernel
def follow_sorted_extremes(  # type: ignore[no-untyped-def]
    moves, count, plan, number, lines, cells, nodes, pool, out, out_valid, written
):
    """Count each value of each group; return whether a null was written.

    The first cell has the root of the tree, the second the node of the best value. `pool` must have a free node for
    every added row.
    """
    root, largest, line = plan[number, CELL], plan[number, LARGEST] != 0, plan[number, LINE]
    form, values, mask = lines[line, FORM], lines[line, VALUES], lines[line, MASK]
    real = form == REAL
    nulls = False
    for place in range(count):
        move = moves[place]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & ROW_MASK
        if move & CLEAR:
            _clear(nodes, cells, group, root, pool)
        if move & (ADD | REMOVE) and not is_null(mask, row):
            key = key_of(value_at(form, values, row), real, largest)
            if move & ADD:
                _add(nodes, cells, group, root, key, pool)
            else:
                _remove(nodes, cells, group, root, key, pool)
        if move & WRITE:
            best = cells[group, root + 1]
            out[number, written] = value_of(nodes[best, ITEM], real, largest)
            out_valid[number, written] = best > 0
            nulls |= best <= 0
            written += 1
    return nulls
