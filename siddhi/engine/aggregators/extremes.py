"""min and max of what is held, and their forever forms."""

from __future__ import annotations

import numpy as np

from siddhi.engine.aggregators.moves import (
    ADD,
    BEFORE,
    CELL,
    CLEAR,
    FREE_NODE,
    GROUP_SHIFT,
    ITEM,
    LARGEST,
    LINE,
    MASK,
    NEXT,
    NODES_LEFT,
    NULLS,
    REMOVE,
    ROW_MASK,
    ROW_SHIFT,
    TIMES,
    WRITE,
    called,
    inlined,
    is_null,
)


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
def follow_extremes(  # type: ignore[no-untyped-def] # noqa: C901, PLR0912 - one loop, compiled as a whole
    moves, count, aim, values, valid, cells, nodes, items, pool, out, out_valid, written
):
    """Keeps for each group the values that may still become its extreme, best first, as a list of nodes.

    A newcomer drops the worse values behind the best; a leaving value takes its first equal with it. Equal neighbours
    share a node.
    """
    head, line, mask, largest = aim[CELL], aim[LINE], aim[MASK], aim[LARGEST]
    tail = head + 1
    for number in range(count):
        move = moves[number]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & ROW_MASK
        if move & CLEAR:
            while cells[group, head] > 0:
                _unlink(nodes, cells, group, head, cells[group, head], pool)
        if move & ADD and not is_null(valid, mask, row):
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
        elif move & REMOVE and not is_null(valid, mask, row):
            value = items.dtype.type(values[line, row])
            node = cells[group, head]
            while node > 0 and items[node, ITEM] != value and not (np.isnan(items[node, ITEM]) and np.isnan(value)):
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
def follow_records(moves, count, aim, values, valid, cells, records, out, out_valid, written):  # type: ignore[no-untyped-def]
    """The largest or least of all that ever came, whether it came or went."""
    cell, line, mask, largest = aim[CELL], aim[LINE], aim[MASK], aim[LARGEST]
    for number in range(count):
        move = moves[number]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & ROW_MASK
        if move & CLEAR:
            cells[group, cell + 1] = 0
        if move & (ADD | REMOVE) and not is_null(valid, mask, row):
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
