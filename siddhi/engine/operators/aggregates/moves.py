"""Moves: the operations of rows on the accumulators of their groups.

    moves   ──►  add row 7 to group 2 · remove row 1 from group 0 · write group 2 · …        what happens, in order
    plan         a line for each aggregate: its kind, its argument's line, its first cell
    lines        a line for each argument: the form and the addresses of its values and validity
    cells        a line for each group: the accumulators of every aggregate
    nodes        lists and trees of the values for min and max, which the cells refer to
    table        the count of each value in each group, for distinctCount
    out          line a, column k: the value of aggregate a at the k-th write

Each kind of aggregate has its own loop over all moves, so an app compiles only the loops that it uses. Arguments are
stored in one of three forms: narrow int32 (int, bool, string codes), wide int64 (long, string codes) and real float64
(float and double). Cells, nodes and results are int64; floats are stored as their bits.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.bits import as_real
from siddhi.engine.jit.kernels import kernel_part
from siddhi.engine.jit.memory import byte_at, offset_at, word_at

ADD, REMOVE, CLEAR, WRITE = 1, 2, 4, 8
"""The operations of a move: reset the group (always first), add or remove the row, write the group's aggregates."""
ROW_SHIFT, GROUP_SHIFT = 4, 34
"""A move is `group << GROUP_SHIFT | row << ROW_SHIFT | operations`."""
ROW_MASK = (1 << (GROUP_SHIFT - ROW_SHIFT)) - 1
DOING_MASK = (1 << ROW_SHIFT) - 1

SUM, AVERAGE, COUNT, DEVIATION, EXTREME, RECORD, DISTINCT, SORTED_EXTREME = range(8)
KIND, CELL, LINE, LARGEST, REAL_RESULT, PLAN_WIDTH = range(6)
"""Columns of the plan: the aggregate's kind, its first cell, the line of its argument, whether it is a maximum, whether
sums are floating-point."""
FORM, VALUES, MASK, LINE_WIDTH = range(4)
"""Columns of lines: the form of the values, the address of the first value, and the address of the first validity byte
(0: no nulls)."""
NO_ARGUMENT, NARROW, WIDE, REAL = range(4)
CELLS = {SUM: 2, AVERAGE: 2, COUNT: 1, DEVIATION: 5, EXTREME: 2, RECORD: 2, DISTINCT: 2, SORTED_EXTREME: 2}
"""The number of cells of each kind; all cells of a new group are 0."""
REAL_CELLS = 4
"""The number of cells of a floating-point sum or average."""

FREE_NODE, NODES_LEFT, ENTRIES, POOL_SIZE = 0, 1, 2, 3
"""The pool's state: the first unused node, the number of unused nodes, and the number of entries in use."""
ITEM, NEXT, BEFORE, TIMES = 0, 1, 2, 3
"""Columns of a node: a value, its neighbours in a list or its branches in a tree (0: none), the number of its rows."""
OWNER, EPOCH, VALUE, HOLDS = 0, 1, 2, 3
"""Columns of an entry: group and aggregate, the group's epoch, the value, and its count."""
NO_OWNER = -1
NULL_VALUE = np.iinfo(np.int64).min
"""Represents null among counted values, which are numbers; a null string has its own code."""


@kernel_part
def is_null(mask, row):  # type: ignore[no-untyped-def]
    return mask != 0 and byte_at(mask + row) == 0


@kernel_part
def value_at(form, values, row):  # type: ignore[no-untyped-def]
    """Return the integer, or the bits of the floating-point number, in `row` of the values at the address `values`."""
    if form == NARROW:
        return np.int64(offset_at(values + 4 * row))
    return np.int64(word_at(values + 8 * row))


@kernel_part
def real_at(form, values, row):  # type: ignore[no-untyped-def]
    """Return the value in `row` as a floating-point number."""
    value = value_at(form, values, row)
    return as_real(value) if form == REAL else np.float64(value)
