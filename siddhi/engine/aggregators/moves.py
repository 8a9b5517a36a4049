"""What rows do to the accumulators of their groups, told as moves.

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

kernel = numba.njit(cache=True, _nrt=False, error_model="numpy")  # type: ignore[call-overload]
"""Loops over state arrays that allocate nothing: without reference counts they run several times as fast."""
called = numba.njit(_nrt=False, error_model="numpy")  # type: ignore[call-overload]
inlined = numba.njit(_nrt=False, error_model="numpy", inline="always")  # type: ignore[call-overload]

ADD, REMOVE, CLEAR, WRITE = 1, 2, 4, 8
"""What a move does, one or several: the group starts anew (always first), the row is added or removed, the group's
aggregates are written."""
ROW_SHIFT, GROUP_SHIFT = 4, 34
"""A move is `group << GROUP_SHIFT | row << ROW_SHIFT | what it does`."""
ROW_MASK = (1 << (GROUP_SHIFT - ROW_SHIFT)) - 1

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
def is_null(valid, mask, row):  # type: ignore[no-untyped-def]
    return mask >= 0 and not valid[mask, row]


@inlined
def whole_argument(source, line, row, wide, narrow):  # type: ignore[no-untyped-def]
    return wide[line, row] if source == WIDE else np.int64(narrow[line, row])


@inlined
def real_argument(source, line, row, wide, reals, narrow):  # type: ignore[no-untyped-def]
    if source == REAL:
        return reals[line, row]
    return np.float64(wide[line, row]) if source == WIDE else np.float64(narrow[line, row])
