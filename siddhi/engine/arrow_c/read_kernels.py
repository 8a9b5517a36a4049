"""The loop that reads a record batch which Arrow has exported by its C data interface."""

from __future__ import annotations

import numpy as np

from siddhi.engine.arrow_c.string_kernels import encode_strings
from siddhi.engine.arrow_c.write_kernels import BUFFERS, CHILDREN, CODES, NULL_COUNT, NUMBERS, OFFSET, RELEASE
from siddhi.engine.jit.kernels import kernel_part, state_kernel
from siddhi.engine.jit.memory import (
    byte_at,
    call_at,
    copy_bytes,
    offset_at,
    set_byte,
    set_offset,
    set_word,
    word_at,
)

PLACE, FORM, WIDTH, NULLS, PLAN_WIDTH = range(5)
"""The columns of a plan line: the position of its column in the batch, the form of its values (see `record_kernels`),
and the size of a value in bytes. The loop adds the number of nulls."""
DONE = -1


@kernel_part
def _spread_bits(source, first, count, target):  # type: ignore[no-untyped-def]
    """Write `count` bits from bit `first` of `source` as one byte each; return the number of zeros."""
    zeros = 0
    for place in range(count):
        bit = (byte_at(source + ((first + place) >> 3)) >> ((first + place) & 7)) & 1
        set_byte(target + place, bit)
        zeros += bit == 0
    return zeros


@kernel_part
def _clear_nulls(valid_at, count, values_at, width):  # type: ignore[no-untyped-def]
    """Write zeros in place of the nulls among `count` values of `width` bytes, whose bytes are undefined."""
    for place in range(count):
        if byte_at(valid_at + place) == 0:
            for byte in range(width):
                set_byte(values_at + width * place + byte, 0)


@state_kernel
def read_records(array_at, plan, rows, block, begin, stride, slots, starts, heap, count):  # type: ignore[no-untyped-def]
    """Copy the columns of `plan` from the `ArrowArray` at `array_at`, which has `rows` rows, and release the array.

    `block` is divided from position `begin` on into lines of `stride` numbers, at least as many as rows. Line i gets
    the values of column i. If the column has nulls, these read as 0, and line `len(plan) + i` gets a byte for each row
    that is 1 where the value is not null. `slots`, `starts` and `heap` belong to a string pool with `count` strings.
    Returns (`DONE`, strings in the pool, nulls in all columns except strings). If the pool has no room for a string,
    the size of that string replaces `DONE`: the caller then makes room and calls again.
    """
    children = np.int64(word_at(array_at + 8 * CHILDREN))
    nulls = np.int64(0)
    for line in range(len(plan)):
        child = np.int64(word_at(children + 8 * plan[line, PLACE]))
        first = np.int64(word_at(child + 8 * OFFSET)) + np.int64(word_at(array_at + 8 * OFFSET))
        buffers = np.int64(word_at(child + 8 * BUFFERS))
        valid_at = np.int64(word_at(buffers)) if word_at(child + 8 * NULL_COUNT) != 0 else np.int64(0)
        values_at = np.int64(word_at(buffers + 8))
        form, width = plan[line, FORM], plan[line, WIDTH]
        place = begin + stride * line
        target = np.int64(block.ctypes.data) + 8 * place
        plan[line, NULLS] = 0
        if form == CODES:
            data_at = np.int64(word_at(buffers + 16))
            data_end = data_at + np.int64(offset_at(values_at + 4 * (first + rows)))
            codes = block[place : place + rows]
            done, count = encode_strings(
                values_at, data_at, data_end, valid_at, first, 0, slots, starts, heap, count, codes
            )
            if done < rows:
                offset = values_at + 4 * (first + done)
                return np.int64(offset_at(offset + 4)) - np.int64(offset_at(offset)), count, nulls
            continue
        if form == NUMBERS:
            copy_bytes(target, values_at + width * first, rows * width)
        else:
            _spread_bits(values_at, first, rows, target)
        if valid_at != 0:
            told_at = target + 8 * stride * len(plan)
            plan[line, NULLS] = _spread_bits(valid_at, first, rows, told_at)
            _clear_nulls(told_at, rows, target, width)
            nulls += plan[line, NULLS]
    call_at(np.int64(word_at(array_at + 8 * RELEASE)), array_at)
    return np.int64(DONE), count, nulls


@state_kernel
def keep_rows(block, stride, plan, rows, positions, kept):  # type: ignore[no-untyped-def]
    """Move the values of the first `kept` of `positions` to the front of all lines of `plan` in `block`.

    Positions ascend. There are `rows` rows, without nulls. Return False without a change when their timestamps, in line
    0, do not ascend: then the clock at a row depends on rows that are left out.
    """
    for row in range(1, rows):
        if block[row] < block[row - 1]:
            return False
    for line in range(len(plan)):
        at = np.int64(block.ctypes.data) + 8 * stride * line
        width = plan[line, WIDTH]
        for place in range(kept):
            position = positions[place]
            if width == 8:
                set_word(at + 8 * place, np.int64(word_at(at + 8 * position)))
            elif width == 4:
                set_offset(at + 4 * place, np.int32(offset_at(at + 4 * position)))
            else:
                set_byte(at + place, byte_at(at + position))
    return True
