"""The loop that runs a program over all rows of a small batch, from columns where they lie to the column of its value.

Of each input the plan has three words: its form, and then where its values are and where the bytes are that say which
are not null (0: all are). A constant has its value instead of an address.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.bits import as_bits, as_real
from siddhi.engine.jit.kernels import state_kernel
from siddhi.engine.jit.memory import byte_at, offset_at, set_byte, set_word, single_at, word_at
from siddhi.engine.operators.expressions.register_kernel import run_program

CONSTANT_I, CONSTANT_F, VALUES_64, VALUES_I32, VALUES_F32, VALUES_BOOL, VALUES_CODE = range(7)
"""Forms of inputs."""
INPUT_WORDS = 3

RESULT_I, RESULT_F, RESULT_BOOL = range(3)
"""Forms of results: eight bytes a value, or one."""


@state_kernel
def run_over_rows(  # type: ignore[no-untyped-def]
    lines, plan_at, inputs, rows, values, values_f, valid, result, result_at, valid_at
):  # fmt: skip
    """Write the value of the program `lines` for each row; return how many are null.

    The lines of `values` (the same memory as `values_f`) and `valid` are room for the `inputs`, and for the registers
    behind these.
    """
    for number in range(inputs):
        at = plan_at + 8 * INPUT_WORDS * number
        form, place, known = np.int64(word_at(at)), np.int64(word_at(at + 8)), np.int64(word_at(at + 16))
        for row in range(rows):
            valid[number, row] = known == 0 or byte_at(known + row) != 0
            if form == CONSTANT_I:
                values[number, row] = place
            elif form == CONSTANT_F:
                values_f[number, row] = as_real(place)
            elif form == VALUES_64:
                values[number, row] = np.int64(word_at(place + 8 * row))
            elif form == VALUES_I32:
                values[number, row] = offset_at(place + 4 * row)
            elif form == VALUES_F32:
                values_f[number, row] = single_at(place + 4 * row)
            elif form == VALUES_BOOL:
                values[number, row] = byte_at(place + row)
            else:
                values[number, row] = np.int64(word_at(place + 8 * row))
                valid[number, row] = values[number, row] >= 0
    r, f, v = values[inputs], values_f[inputs + 1], valid[inputs]
    last, nulls = lines.shape[0] - 1, 0
    for row in range(rows):
        run_program(
            0, 0, last + 1, lines, row, values, values_f, valid, 0, values, values_f, values_f, valid, r, f, v
        )  # fmt: skip
        if result == RESULT_BOOL:
            set_byte(result_at + row, r[last] != 0)
            continue
        set_byte(valid_at + row, v[last])
        nulls += not v[last]
        set_word(result_at + 8 * row, r[last] if result == RESULT_I else as_bits(f[last]))
    return nulls
