"""The loop that runs a small register program over an event's inputs and a row's cells, inside compiled loops.

Instruction i writes register i. Integers, bools and codes of strings are in `r`, floats in `f`; `v` marks those that
are not null. `siddhi.engine.operators.expressions.register_program` creates programs from typed expressions.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import kernel_part

(
    INPUT_I, INPUT_F, LOAD_I32, LOAD_I64, LOAD_F32, LOAD_F64, LOAD_BOOL, LOAD_CODE,
    ADD_I, SUB_I, MUL_I, DIV_I, MOD_I, ADD_F, SUB_F, MUL_F, DIV_F, MOD_F,
    TO_I32, TO_F32, I_TO_F32, I_TO_F64,
    LESS_I, MOST_I, MORE_I, LEAST_I, EQUAL_I, DIFFER_I, LESS_F, MOST_F, MORE_F, LEAST_F, EQUAL_F, DIFFER_F,
    TRUTH, AND, OR, NOT, IS_NULL,
    STORE_I32, STORE_I64, STORE_F32, STORE_F64, STORE_BOOL, STORE_CODE,
) = range(45)  # fmt: skip
"""Instructions."""


@kernel_part
def compare_i(do, a, b):  # type: ignore[no-untyped-def]
    if do == LESS_I:
        return a < b
    if do == MOST_I:
        return a <= b
    if do == MORE_I:
        return a > b
    if do == LEAST_I:
        return a >= b
    return a == b if do == EQUAL_I else a != b


@kernel_part
def compare_f(do, a, b):  # type: ignore[no-untyped-def]
    if do == LESS_F:
        return a < b
    if do == MOST_F:
        return a <= b
    if do == MORE_F:
        return a > b
    if do == LEAST_F:
        return a >= b
    return a == b if do == EQUAL_F else a != b


@kernel_part
def whole_result(do, a, b):  # type: ignore[no-untyped-def]
    """Return the result of an integer operation; a divisor is not zero."""
    if do == ADD_I:
        return a + b
    if do == SUB_I:
        return a - b
    if do == MUL_I:
        return a * b
    if b == -1:  # the least int has no positive counterpart
        return -a if do == DIV_I else 0
    floor = a // b
    rest = a - floor * b
    if rest != 0 and (a < 0) != (b < 0):
        floor += 1
        rest -= b
    return floor if do == DIV_I else rest


@kernel_part
def broken_result(do, a, b):  # type: ignore[no-untyped-def]
    if do == ADD_F:
        return a + b
    if do == SUB_F:
        return a - b
    if do == MUL_F:
        return a * b
    return a / b if do == DIV_F else np.fmod(a, b)


@kernel_part
def run_program(  # type: ignore[no-untyped-def] # noqa: C901, PLR0912, PLR0915 - one loop, compiled as a whole
    base, start, stop, lines, event, inputs, inputs_f, inputs_valid, place, cells, cells_f, cells_f4, valid, r, f, v
):  # fmt: skip
    """Run instructions from `start` up to `stop` for an event and a row; the one at `base` writes register 0.

    Return the truth of the last register.
    """
    at = start - base
    for number in range(start, stop):
        do, a, b = lines[number, 0], lines[number, 1], lines[number, 2]
        at = number - base
        if do <= INPUT_F:
            v[at] = inputs_valid[a, event]
            if do == INPUT_I:
                r[at] = inputs[a, event]
            else:
                f[at] = inputs_f[a, event]
        elif do <= LOAD_CODE:
            v[at] = valid.shape[0] == 0 or valid[a, place]
            if do == LOAD_I32:
                r[at] = np.int64(np.int32(cells[a, place]))
            elif do == LOAD_I64:
                r[at] = cells[a, place]
            elif do == LOAD_F32:
                f[at] = cells_f4[a, 2 * place]
            elif do == LOAD_F64:
                f[at] = cells_f[a, place]
            elif do == LOAD_BOOL:
                r[at] = cells[a, place] & 255
            else:
                r[at] = cells[a, place]
                v[at] = r[at] >= 0
        elif do <= MOD_F:
            v[at] = v[a] and v[b]
            if do >= ADD_F:
                if do >= DIV_F and f[b] == 0.0:
                    v[at] = False
                if v[at]:
                    f[at] = broken_result(do, f[a], f[b])
            else:
                if do >= DIV_I and r[b] == 0:
                    v[at] = False
                if v[at]:
                    r[at] = whole_result(do, r[a], r[b])
        elif do <= I_TO_F64:
            v[at] = v[a]
            if do == TO_I32:
                r[at] = np.int64(np.int32(r[a]))
            elif do == TO_F32:
                f[at] = np.float64(np.float32(f[a]))
            elif do == I_TO_F32:
                f[at] = np.float64(np.float32(r[a]))
            else:
                f[at] = np.float64(r[a])
        elif do <= DIFFER_F:
            if not (v[a] and v[b]):
                truth = do in (DIFFER_I, DIFFER_F)
            elif do <= DIFFER_I:
                truth = compare_i(do, r[a], r[b])
            else:
                truth = compare_f(do, f[a], f[b])
            r[at] = truth
            v[at] = True
        elif do <= IS_NULL:
            if do == TRUTH:
                r[at] = v[a] and r[a] != 0
            elif do == AND:
                r[at] = r[a] != 0 and r[b] != 0
            elif do == OR:
                r[at] = r[a] != 0 or r[b] != 0
            elif do == NOT:
                r[at] = r[a] == 0
            else:
                r[at] = not v[a]
            v[at] = True
        else:
            if valid.shape[0] > 0:
                valid[b, place] = v[a]
            if do in (STORE_I64, STORE_I32, STORE_BOOL):
                cells[b, place] = r[a]
            elif do == STORE_CODE:
                cells[b, place] = r[a] if v[a] else -1
            elif do == STORE_F64:
                cells_f[b, place] = f[a]
            else:
                cells_f4[b, 2 * place] = np.float32(f[a])
    return r[at] != 0
