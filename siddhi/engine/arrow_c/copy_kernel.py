"""The loop that copies rows of a record batch into another one through Arrow's C data interface.

    records ──exported──▶ ArrowArray ──pass_records──▶ ArrowArray ──imported──▶ records
                                       tests, plan

Each test has a line with its column and bound; each leaves fewer rows for the next. The plan is that
of `siddhi.engine.arrow_c.write_kernels`, which writes the batch; this loop sets the addresses of its columns.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.arrow_c.write_kernels import (
    BUFFERS,
    CHILDREN,
    NULL_COUNT,
    OFFSET,
    RELEASE,
    describe,
    write_block,
)
from siddhi.engine.jit.bits import as_real
from siddhi.engine.jit.kernels import kernel_part, seldom_part, state_kernel
from siddhi.engine.jit.memory import byte_at, call_at, offset_at, single_at, word_at

COLUMN, STORED, AS_REAL, ACCEPTED, NULL_PASSES, BOUND, BOUND_SIZE, TEST_FIELDS = range(8)
"""A test: the position of its column, the storage of the values, whether they are compared as float64, which relations
to the bound pass, whether null passes, the bound itself and, for a string, its size in bytes."""
INT32, INT64, FLOAT32, FLOAT64, STRING = range(5)
"""How a column stores values. The bound is an int64, the bits of a float64, or the position of the string's bytes."""
LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
"""Relations of a value to the bound, one bit each."""

REFUSED = -1
_LEAST = np.iinfo(np.int64).min


@kernel_part
def _relation(value, bound):  # type: ignore[no-untyped-def]
    if value < bound:
        return LESS
    if value == bound:
        return EQUAL
    return GREATER if value > bound else UNORDERED


@kernel_part
def _relation_of_text(place, data_at, test, texts_at):  # type: ignore[no-untyped-def]
    """Return `EQUAL`, or another relation, for two texts."""
    start = np.int64(offset_at(place))
    size = np.int64(offset_at(place + 4)) - start
    if size != test[BOUND_SIZE]:
        return UNORDERED
    for byte in range(size):
        if byte_at(data_at + start + byte) != byte_at(texts_at + test[BOUND] + byte):
            return UNORDERED
    return EQUAL


@kernel_part
def _relation_of(test, values_at, data_at, row, texts_at):  # type: ignore[no-untyped-def]
    """Return the relation of the value in `row`, which is not null, to the bound of `test`."""
    stored = test[STORED]
    if stored == STRING:
        return _relation_of_text(values_at + 4 * row, data_at, test, texts_at)
    if stored == FLOAT64:
        return _relation(as_real(np.int64(word_at(values_at + 8 * row))), as_real(test[BOUND]))
    if stored == FLOAT32:
        return _relation(np.float64(single_at(values_at + 4 * row)), as_real(test[BOUND]))
    whole = np.int64(word_at(values_at + 8 * row)) if stored == INT64 else np.int64(offset_at(values_at + 4 * row))
    if test[AS_REAL] != 0:
        return _relation(np.float64(whole), as_real(test[BOUND]))
    return _relation(whole, test[BOUND])


@seldom_part
def _left_by(test, child, base, texts_at, positions, count):  # type: ignore[no-untyped-def]
    """Write those of the `count` positions whose rows pass `test` into `positions`; return their number."""
    first = np.int64(word_at(child + 8 * OFFSET)) + base
    buffers = np.int64(word_at(child + 8 * BUFFERS))
    valid_at = np.int64(word_at(buffers)) if word_at(child + 8 * NULL_COUNT) != 0 else np.int64(0)
    values_at = np.int64(word_at(buffers + 8))
    data_at = np.int64(word_at(buffers + 16)) if test[STORED] == STRING else np.int64(0)
    left = 0
    for number in range(count):
        row = positions[number]
        place = first + row
        if valid_at != 0 and (byte_at(valid_at + (place >> 3)) >> (place & 7)) & 1 == 0:
            passes = test[NULL_PASSES] != 0
        else:
            passes = _relation_of(test, values_at, data_at, place, texts_at) & test[ACCEPTED] != 0
        positions[left] = row
        left += passes
    return left


@kernel_part
def _latest(child, base, rows):  # type: ignore[no-untyped-def]
    """Return the greatest timestamp in the column `child`; the least int64 when some may be null."""
    buffers = np.int64(word_at(child + 8 * BUFFERS))
    latest = np.int64(_LEAST)
    if word_at(child + 8 * NULL_COUNT) == 0 or word_at(buffers) == 0:
        first = np.int64(word_at(child + 8 * OFFSET)) + base
        stamps_at = np.int64(word_at(buffers + 8)) + 8 * first
        for row in range(rows):
            latest = max(latest, np.int64(word_at(stamps_at + 8 * row)))
    return latest


@seldom_part
def _passing(array_at, rows, tests, texts_at, positions):  # type: ignore[no-untyped-def]
    """Write the positions of the rows that pass all `tests` into `positions`; return their number."""
    children = np.int64(word_at(array_at + 8 * CHILDREN))
    base = np.int64(word_at(array_at + 8 * OFFSET))
    for row in range(rows):
        positions[row] = row
    count = np.int64(rows)
    for number in range(len(tests)):
        child = np.int64(word_at(children + 8 * tests[number, COLUMN]))
        count = _left_by(tests[number], child, base, texts_at, positions, count)
    return count


@state_kernel
def passing_records(array_at, rows, tests, texts_at, stamps, positions):  # type: ignore[no-untyped-def]
    """Count the rows that pass all `tests` of the `ArrowArray` at `array_at`.

    Return how many of its `rows` rows pass, and the latest timestamp of all, which are in the column in place `stamps`;
    (`REFUSED`, …) when timestamps may be null. The array is released when none passes. `positions` gets those that do.
    """
    children = np.int64(word_at(array_at + 8 * CHILDREN))
    latest = _latest(np.int64(word_at(children + 8 * stamps)), np.int64(word_at(array_at + 8 * OFFSET)), rows)
    count = np.int64(REFUSED)
    if latest != _LEAST:
        count = _passing(array_at, rows, tests, texts_at, positions)
    if count <= 0:
        call_at(np.int64(word_at(array_at + 8 * RELEASE)), array_at)
    return count, latest


@state_kernel
def pass_records(array_at, rows, tests, texts_at, plan, columns, positions, release_at, out):  # type: ignore[no-untyped-def]
    """Write the rows that pass all `tests` of the `ArrowArray` at `array_at` into a new block, and release the array.

    `rows` is the number of rows. `out` describes the block, an `ArrowArray` that Arrow will own. Line i of `plan` is
    filled from the column in position `columns[i]` (-1: as the plan specifies); line 0 has the timestamps. `positions`
    has room for `rows` numbers; `texts_at` is the address of the strings that tests compare with. Returns (rows that
    passed, the latest timestamp). Nothing is written when no row passed, or when `release_at`, the address of the
    function that frees the block, is 0. Returns (`REFUSED`, …) when timestamps may be null, memory is exhausted, or a
    column has too much text.
    """
    children = np.int64(word_at(array_at + 8 * CHILDREN))
    base = np.int64(word_at(array_at + 8 * OFFSET))
    latest = _latest(np.int64(word_at(children + 8 * columns[0])), base, rows)
    count = np.int64(REFUSED)
    if latest != _LEAST:
        count = _passing(array_at, rows, tests, texts_at, positions)
        if count > 0 and release_at != 0:
            positions_at = np.int64(positions.ctypes.data) if count < rows else np.int64(0)
            for line in range(len(plan)):
                if columns[line] >= 0:
                    child = np.int64(word_at(children + 8 * columns[line]))
                    describe(plan[line], child, base, rows, positions_at)
            if not write_block(plan, count, columns, 0, 0, release_at, out):
                count = np.int64(REFUSED)
    call_at(np.int64(word_at(array_at + 8 * RELEASE)), array_at)
    return count, latest
