"""sum, avg, count and stdDev: accumulators with a few numbers that every row changes.

NaN and the infinities cannot be subtracted from a total again, so they are not added to it but counted:

    cells of a real total     total   rows   the finite values' sum, scaled   infinities counted

As long as the total is finite, the last two are not used, and the loops for common moves ignore them. Otherwise each
move updates both, and the total is computed from them, so the result is always that of the stored rows. NaN is counted
as one infinity of either sign, whose sum is NaN. The sum of the finite values is scaled down, because it may exceed the
range of a float64.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.bits import as_bits, as_real
from siddhi.engine.jit.kernels import kernel_part, seldom_part, state_kernel
from siddhi.engine.jit.memory import set_byte, set_word, word_at
from siddhi.engine.operators.aggregates.moves import (
    ADD,
    AVERAGE,
    CELL,
    CLEAR,
    DOING_MASK,
    FORM,
    GROUP_SHIFT,
    KIND,
    LINE,
    MASK,
    REAL,
    REAL_RESULT,
    REMOVE,
    ROW_MASK,
    ROW_SHIFT,
    VALUES,
    WIDE,
    WRITE,
    is_null,
    real_at,
    value_at,
)

_SCALE = 2.0**-64
"""Scales sums that overflow; exact except for values too small to affect such a sum."""
_NEGATIVE = 1 << 32
"""One negative infinity in the count; positive ones are counted in the lower bits."""


@kernel_part
def _is_finite(number):  # type: ignore[no-untyped-def]
    return number - number == 0.0


@kernel_part
def _as_infinities(value):  # type: ignore[no-untyped-def]
    """Return the increment of the count for NaN or an infinity."""
    if value != value:  # noqa: PLR0124 - NaN alone differs from itself
        return np.int64(1 + _NEGATIVE)
    return np.int64(1) if value > 0 else np.int64(_NEGATIVE)


@kernel_part
def _sum_of_infinities(counted):  # type: ignore[no-untyped-def]
    """Return the sum of the counted infinities.

    In windows that count more removed than added rows the count may be negative.
    """
    positive = ((counted + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
    negative = (counted - positive) >> 32
    total = 0.0
    if positive != 0:
        total += positive * np.inf
    if negative != 0:
        total -= negative * np.inf
    return total


@seldom_part
def _change_total(total_at, value, sign):  # type: ignore[no-untyped-def]
    """Add the floating-point `value` to the total at `total_at`, or subtract it: `sign` is 1 or -1."""
    before = as_real(np.int64(word_at(total_at)))
    total = before + sign * value
    if _is_finite(total):
        set_word(total_at, as_bits(total))
        return
    if _is_finite(before):
        set_word(total_at + 16, as_bits(before * _SCALE))
        set_word(total_at + 24, 0)
    scaled, counted = as_real(np.int64(word_at(total_at + 16))), np.int64(word_at(total_at + 24))
    if _is_finite(value):
        scaled += sign * (value * _SCALE)
    else:
        counted += sign * _as_infinities(value)
    set_word(total_at + 16, as_bits(scaled))
    set_word(total_at + 24, counted)
    set_word(total_at, as_bits(_sum_of_infinities(counted) if counted != 0 else scaled / _SCALE))


@kernel_part
def _add_all(moves, place, count, cells_at, width, values, real):  # type: ignore[no-untyped-def]
    """Apply the moves from `place` on that only add a row; return the position of the first other move, or `count`.

    The loop also ends at a move with a total that is not finite. The value of a row is the float64 or int64 at the
    address `values`. This is a loop of its own because in batch windows nearly all moves are of this kind.
    """
    while place < count and moves[place] & DOING_MASK == ADD:
        move = moves[place]
        total_at = cells_at + width * (move >> GROUP_SHIFT)
        total = np.int64(word_at(total_at))
        value = np.int64(word_at(values + 8 * ((move >> ROW_SHIFT) & ROW_MASK)))
        if real:
            changed = as_real(total) + as_real(value)
            if not _is_finite(changed):
                break
            set_word(total_at, as_bits(changed))
        else:
            set_word(total_at, total + value)
        set_word(total_at + 8, np.int64(word_at(total_at + 8)) + 1)
        place += 1
    return place


@kernel_part
def _slide_all(moves, place, count, cells_at, width, values, real, mean, out_at, valid_at):  # type: ignore[no-untyped-def]
    """Apply the moves from `place` on that each remove or add one row and write its group.

    Values and groups are at these addresses. Return the position of the first other move or of one with a total that is
    not finite, or `count`, and the number of rows written. This is a loop of its own because in sliding windows nearly
    all moves are of this kind.
    """
    written = np.int64(0)
    while place < count:
        move = moves[place]
        doing = move & DOING_MASK
        removes = doing == REMOVE
        if not removes and doing != ADD | WRITE:
            break  # a move that only writes may come when there are no values
        total_at = cells_at + width * (move >> GROUP_SHIFT)
        value = np.int64(word_at(values + 8 * ((move >> ROW_SHIFT) & ROW_MASK)))
        total, size = np.int64(word_at(total_at)), np.int64(word_at(total_at + 8))
        if removes:
            if real:
                changed = as_real(total) - as_real(value)
                if not _is_finite(changed):
                    break
                set_word(total_at, as_bits(changed))
            else:
                set_word(total_at, total - value)
            set_word(total_at + 8, size - 1)
            place += 1
            continue  # measured: sharing the end of both branches takes twice as long
        if size == -1:
            break  # in windows that count more removed than added rows
        if real:
            changed = as_real(total) + as_real(value)
            if not _is_finite(changed):
                break
            total = as_bits(changed)
        else:
            total += value
        set_word(total_at, total)
        set_word(total_at + 8, size + 1)
        set_word(out_at + 8 * written, as_bits(as_real(total) / (size + 1)) if mean else total)
        set_byte(valid_at + written, 1)
        written += 1
        place += 1
    return place, written


@state_kernel
def follow_totals(moves, count, plan, number, lines, cells, out, out_valid, written):  # type: ignore[no-untyped-def]
    """Compute sums (integers wrap as in Java) and averages; return whether a null was written.

    Each value is added to or subtracted from a running total. A value that has just been added is always counted.
    """
    cell, real, line = plan[number, CELL], plan[number, REAL_RESULT] != 0, plan[number, LINE]
    mean = plan[number, KIND] == AVERAGE
    form, values, mask = lines[line, FORM], lines[line, VALUES], lines[line, MASK]
    cells_at, width = np.int64(cells.ctypes.data) + 8 * cell, 8 * cells.shape[1]  # faster than indexing
    out_at, valid_at = np.int64(out.ctypes.data) + 8 * number * out.shape[1], np.int64(out_valid.ctypes.data)
    valid_at += number * out.shape[1]
    plain = mask == 0 and form == (REAL if real else WIDE)
    place = np.int64(0)
    nulls = False
    while place < count:
        if plain:
            at, flags_at = out_at + 8 * written, valid_at + written
            if real:  # separate copies of the loops: a test for each move takes a third longer
                place = _add_all(moves, place, count, cells_at, width, values, real=True)
                place, more = _slide_all(
                    moves, place, count, cells_at, width, values, real=True, mean=mean, out_at=at, valid_at=flags_at
                )
            else:
                place = _add_all(moves, place, count, cells_at, width, values, real=False)
                place, more = _slide_all(
                    moves, place, count, cells_at, width, values, real=False, mean=mean, out_at=at, valid_at=flags_at
                )
            written += more
            if place == count:
                break
        move = moves[place]
        total_at, row = cells_at + width * (move >> GROUP_SHIFT), (move >> ROW_SHIFT) & ROW_MASK
        size_at = total_at + 8
        if move & CLEAR:
            set_word(total_at, 0)
            set_word(size_at, 0)
        if move & (ADD | REMOVE) and not is_null(mask, row):
            sign = 1 if move & ADD else -1
            if real:
                _change_total(total_at, real_at(form, values, row), sign)
            else:
                set_word(total_at, np.int64(word_at(total_at)) + sign * value_at(form, values, row))
            set_word(size_at, np.int64(word_at(size_at)) + sign)
        if move & WRITE:
            total, size = np.int64(word_at(total_at)), np.int64(word_at(size_at))
            held = size != 0 or (move & ADD != 0 and not mean and not is_null(mask, row))
            out[number, written] = as_bits(as_real(total) / size) if mean else total
            out_valid[number, written] = held
            nulls |= not held
            written += 1
        place += 1
    return nulls


@state_kernel
def follow_counts(moves, count, plan, number, lines, cells, out, out_valid, written):  # type: ignore[no-untyped-def] # noqa: ARG001 - as all others
    """Count the stored rows, including nulls; return False, as no null is written."""
    cell = plan[number, CELL]
    for place in range(count):
        move = moves[place]
        group = move >> GROUP_SHIFT
        if move & CLEAR:
            cells[group, cell] = 0
        if move & ADD:
            cells[group, cell] += 1
        elif move & REMOVE:
            cells[group, cell] -= 1
        if move & WRITE:
            out[number, written] = cells[group, cell]
            out_valid[number, written] = True
            written += 1
    return False


@state_kernel
def follow_deviations(moves, count, plan, number, lines, cells, out, out_valid, written):  # type: ignore[no-untyped-def]
    """Update (sum, mean, squared distances) by Welford's method, and its inverse for removed values.

    The fourth cell is the count, the fifth counts NaN and infinities, which the others exclude. Return whether a null
    was written.
    """
    cell, line = plan[number, CELL], plan[number, LINE]
    form, values, mask = lines[line, FORM], lines[line, VALUES], lines[line, MASK]
    nulls = False
    for place in range(count):
        move = moves[place]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & ROW_MASK
        if move & CLEAR:
            for part in range(5):
                cells[group, cell + part] = 0
        if move & (ADD | REMOVE) and not is_null(mask, row):
            value = real_at(form, values, row)
            sign = 1 if move & ADD else -1
            finite = _is_finite(value)
            size = cells[group, cell + 3] + (sign if finite else 0)
            cells[group, cell + 3] = size
            if not finite:
                cells[group, cell + 4] += sign
            elif size == 0 or (size == 1 and sign > 0):
                first = as_bits(value) if size else np.int64(0)
                cells[group, cell] = first
                cells[group, cell + 1] = first
                cells[group, cell + 2] = 0
            else:
                old = as_real(cells[group, cell + 1])
                total = as_real(cells[group, cell]) + sign * value
                mean = total / size
                spread = as_real(cells[group, cell + 2]) + sign * ((value - old) * (value - mean))
                cells[group, cell] = as_bits(total)
                cells[group, cell + 1] = as_bits(mean)
                # Rounding may give a negative sum for equal values, which has no square root.
                cells[group, cell + 2] = as_bits(max(spread, 0.0))
        if move & WRITE:
            size = cells[group, cell + 3] + cells[group, cell + 4]
            spread = as_real(cells[group, cell + 2]) if cells[group, cell + 4] == 0 else np.nan
            out[number, written] = as_bits(np.sqrt(spread / size)) if size > 1 else np.int64(0)
            out_valid[number, written] = size != 0
            nulls |= size == 0
            written += 1
    return nulls
