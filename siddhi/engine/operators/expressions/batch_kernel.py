"""Loops that run a program over all rows of a small batch, one instruction after the other.

Instruction i writes line i of `values` (the same memory as `values_f`) and of `valid`. The plan has three words for
each input: its form, the address of its values, and the address of its validity bytes (0: no nulls). A constant has its
value instead of an address. Each result has three words, too: the address for its values, the address for its validity
bytes, and the number of nulls, which the loop writes.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.bits import as_real
from siddhi.engine.jit.kernels import kernel_part, state_kernel
from siddhi.engine.jit.memory import byte_at, offset_at, set_byte, set_offset, set_word, single_at, word_at
from siddhi.engine.operators.expressions.register_kernel import (
    ADD_F,
    AND,
    DIFFER_F,
    DIFFER_I,
    DIV_F,
    DIV_I,
    I_TO_F32,
    I_TO_F64,
    INPUT_F,
    IS_NULL,
    MOD_F,
    NOT,
    OR,
    STORE_BOOL,
    STORE_CODE,
    STORE_I32,
    TO_F32,
    TO_I32,
    TRUTH,
    broken_result,
    compare_f,
    compare_i,
    whole_result,
)

CONSTANT_I, CONSTANT_F, VALUES_64, VALUES_I32, VALUES_F32, VALUES_BOOL, VALUES_CODE = range(7)
"""Forms of inputs."""
INPUT_WORDS = RESULT_WORDS = 3

CHOOSE, COALESCE, GREATEST, SMALLEST, KEEP = range(STORE_CODE + 1, STORE_CODE + 6)
"""Instructions that only this loop has: the first operand where the preceding register is true, else the second; the
first operand that is not null; the greater or the lesser of two floats, ignoring null and NaN; and continue only with
the rows for which a register is true."""


@kernel_part
def _load(at, rows, values, values_f, valid, i):  # type: ignore[no-untyped-def] # noqa: C901, PLR0912 - one loop a form
    """Fill line `i` with the input described at the address `at`."""
    form, place, known = np.int64(word_at(at)), np.int64(word_at(at + 8)), np.int64(word_at(at + 16))
    for row in range(rows):
        valid[i, row] = known == 0 or byte_at(known + row) != 0
    if form == CONSTANT_I:
        for row in range(rows):
            values[i, row] = place
    elif form == CONSTANT_F:
        for row in range(rows):
            values_f[i, row] = as_real(place)
    elif form == VALUES_64:
        for row in range(rows):
            values[i, row] = np.int64(word_at(place + 8 * row))
    elif form == VALUES_I32:
        for row in range(rows):
            values[i, row] = offset_at(place + 4 * row)
    elif form == VALUES_F32:
        for row in range(rows):
            values_f[i, row] = single_at(place + 4 * row)
    elif form == VALUES_BOOL:
        for row in range(rows):
            values[i, row] = byte_at(place + row)
    else:
        for row in range(rows):
            values[i, row] = np.int64(word_at(place + 8 * row))
            valid[i, row] = values[i, row] >= 0


@kernel_part
def _calculate(do, a, b, rows, values, values_f, valid, i):  # type: ignore[no-untyped-def]
    for row in range(rows):
        valid[i, row] = valid[a, row] and valid[b, row]
    if do >= DIV_F:
        for row in range(rows):
            valid[i, row] = valid[i, row] and values_f[b, row] != 0.0
    if do >= ADD_F:
        for row in range(rows):
            values_f[i, row] = broken_result(do, values_f[a, row], values_f[b, row])
    elif do < DIV_I:
        for row in range(rows):
            values[i, row] = whole_result(do, values[a, row], values[b, row])
    else:
        for row in range(rows):
            divisor = values[b, row]
            if divisor == 0:
                valid[i, row], divisor = False, 1
            values[i, row] = whole_result(do, values[a, row], divisor)


@kernel_part
def _convert(do, a, rows, values, values_f, valid, i):  # type: ignore[no-untyped-def]
    for row in range(rows):
        valid[i, row] = valid[a, row]
    if do == TO_I32:
        for row in range(rows):
            values[i, row] = np.int64(np.int32(values[a, row]))
    elif do == TO_F32:
        for row in range(rows):
            values_f[i, row] = np.float64(np.float32(values_f[a, row]))
    elif do == I_TO_F32:
        for row in range(rows):
            values_f[i, row] = np.float64(np.float32(values[a, row]))
    else:
        for row in range(rows):
            values_f[i, row] = np.float64(values[a, row])


@kernel_part
def _compare(do, a, b, rows, values, values_f, valid, i):  # type: ignore[no-untyped-def]
    of_null = do in (DIFFER_I, DIFFER_F)
    if do <= DIFFER_I:
        for row in range(rows):
            values[i, row] = compare_i(do, values[a, row], values[b, row])
    else:
        for row in range(rows):
            values[i, row] = compare_f(do, values_f[a, row], values_f[b, row])
    for row in range(rows):
        if not (valid[a, row] and valid[b, row]):
            values[i, row] = of_null
        valid[i, row] = True


@kernel_part
def _decide(do, a, b, rows, values, valid, i):  # type: ignore[no-untyped-def]
    for row in range(rows):
        if do == TRUTH:
            truth = valid[a, row] and values[a, row] != 0
        elif do == AND:
            truth = values[a, row] != 0 and values[b, row] != 0
        elif do == OR:
            truth = values[a, row] != 0 or values[b, row] != 0
        elif do == NOT:
            truth = values[a, row] == 0
        else:
            truth = not valid[a, row]
        values[i, row] = truth
        valid[i, row] = True


@kernel_part
def _select(do, a, b, rows, values, values_f, valid, i):  # type: ignore[no-untyped-def]
    if do <= COALESCE:
        for row in range(rows):
            first = valid[a, row] if do == COALESCE else values[i - 1, row] != 0
            values[i, row] = values[a, row] if first else values[b, row]
            valid[i, row] = valid[a, row] if first else valid[b, row]
        return
    for row in range(rows):
        one, other = values_f[a, row], values_f[b, row]
        better = other > one if do == GREATEST else other < one
        if not valid[a, row] or np.isnan(one):
            better = True
        if not valid[b, row] or np.isnan(other):
            better = False
        values_f[i, row] = other if better else one
        valid[i, row] = valid[a, row]


@kernel_part
def _keep(a, rows, values, positions, kept, filtered):  # type: ignore[no-untyped-def]
    """Write the rows for which line `a` is true, among all or the first `kept` in `positions`, into `positions`.

    Return their number.
    """
    left = np.int64(0)
    for number in range(kept if filtered else rows):
        row = positions[number] if filtered else np.int64(number)
        positions[left] = row
        left += values[a, row] != 0
    return left


@kernel_part
def _store(do, a, at, rows, values, valid):  # type: ignore[no-untyped-def]
    """Write line `a` to the addresses described at `at`; return the number of nulls."""
    place, known = np.int64(word_at(at)), np.int64(word_at(at + 8))
    if do == STORE_BOOL:
        for row in range(rows):
            set_byte(place + row, valid[a, row] and values[a, row] != 0)
    elif do == STORE_CODE:
        for row in range(rows):
            set_word(place + 8 * row, values[a, row] if valid[a, row] else np.int64(-1))
    elif do == STORE_I32:
        for row in range(rows):
            set_offset(place + 4 * row, np.int32(values[a, row]))
    else:  # a float has the same bytes in `values`
        for row in range(rows):
            set_word(place + 8 * row, values[a, row])
    nulls = np.int64(0)
    if known != 0:
        for row in range(rows):
            set_byte(known + row, valid[a, row])
            nulls += not valid[a, row]
    set_word(at + 16, nulls)
    return nulls


@state_kernel
def run_over_rows(lines, plan_at, results_at, rows, values, values_f, valid, positions):  # type: ignore[no-untyped-def]
    """Run the program `lines` for each of `rows` rows.

    Results are stored for all of them. Return the number of rows that are kept, whose positions are in `positions` if
    there is a `KEEP`, and the number of nulls in results. No instruction after a `KEEP` runs when no row is left.
    """
    kept, filtered, nulls = np.int64(rows), False, np.int64(0)
    for i in range(lines.shape[0]):
        do, a, b = lines[i, 0], lines[i, 1], lines[i, 2]
        if do <= INPUT_F:
            _load(plan_at + 8 * INPUT_WORDS * a, rows, values, values_f, valid, i)
        elif do <= MOD_F:
            _calculate(do, a, b, rows, values, values_f, valid, i)
        elif do <= I_TO_F64:
            _convert(do, a, rows, values, values_f, valid, i)
        elif do <= DIFFER_F:
            _compare(do, a, b, rows, values, values_f, valid, i)
        elif do <= IS_NULL:
            _decide(do, a, b, rows, values, valid, i)
        elif do <= STORE_CODE:
            nulls += _store(do, a, results_at + 8 * RESULT_WORDS * b, rows, values, valid)
        elif do == KEEP:
            kept = _keep(a, rows, values, positions, kept, filtered)
            filtered = True
            if kept == 0:
                break
        else:
            _select(do, a, b, rows, values, values_f, valid, i)
    return kept, nulls
