"""The loops that run a program over all rows of a small batch, instruction by instruction.

Instruction i writes line i of `values` (the same memory as `values_f`) and of `valid`. Of each input the plan has three
words: its form, and then where its values are and where the bytes are that say which are not null (0: all are). A
constant has its value instead of an address.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.bits import as_bits, as_real
from siddhi.engine.jit.kernels import kernel_part, state_kernel
from siddhi.engine.jit.memory import byte_at, offset_at, set_byte, set_word, single_at, word_at
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
    MOD_F,
    NOT,
    OR,
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
INPUT_WORDS = 3

RESULT_I, RESULT_F, RESULT_BOOL = range(3)
"""Forms of results: eight bytes a value, or one."""


@kernel_part
def _load(at, rows, values, values_f, valid, i):  # type: ignore[no-untyped-def] # noqa: C901, PLR0912 - one loop a form
    """Line `i` gets the input whose words are at the address `at`."""
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


@state_kernel
def run_over_rows(  # type: ignore[no-untyped-def]
    lines, plan_at, rows, values, values_f, valid, result, result_at, valid_at
):  # fmt: skip
    """Write the value of the program `lines` for each row; return how many are null."""
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
        else:
            _decide(do, a, b, rows, values, valid, i)
    last, nulls = lines.shape[0] - 1, 0
    if result == RESULT_BOOL:
        for row in range(rows):
            set_byte(result_at + row, values[last, row] != 0)
        return nulls
    for row in range(rows):
        set_byte(valid_at + row, valid[last, row])
        nulls += not valid[last, row]
        set_word(result_at + 8 * row, values[last, row] if result == RESULT_I else as_bits(values_f[last, row]))
    return nulls
