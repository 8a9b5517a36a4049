"""The loop that writes a record batch: one block of memory, in the form of Arrow's C data interface.

    block    │ children │ their addresses │ addresses of buffers │ validity, values │ validity, offsets, text │ …

Arrow is handed the block together with what frees it. So a batch costs one call, where Arrow's objects cost one or two
for each column, which tells when rows are few. A plan has a line for each column, which says where its values lie and
in which form.
"""

from __future__ import annotations

from struct import Struct

import numba
import numpy as np
from numba import types

from siddhi.engine.jit.kernels import kernel_part, seldom_part, state_kernel
from siddhi.engine.jit.memory import (
    allocate,
    byte_at,
    copy_bytes,
    free,
    offset_at,
    set_byte,
    set_offset,
    set_word,
    word_at,
)

FORM, WIDTH, VALUES, VALID, VALID_BIT, POSITIONS, FIRST_BIT, TEXT, TEXT_END, NULLS, SIZE = range(11)
"""The columns of a plan line: the form of the values, the size of one in bytes, the address of the first; the address
of the validity (0: all valid) and its first bit (-1: one byte each); the positions of the rows to take (0: all); the
first bit of bits, and the text that offsets refer to. The loop adds the number of nulls and the size of the values."""
PLAN_FIELDS = 11
PLAN_BYTES = 8 * PLAN_FIELDS
write_line = Struct("9q").pack_into
"""Write the fields from `FORM` to `TEXT_END` into a buffer, from a given byte on."""

ZEROS, NUMBERS, FLAGS, BITS, CODES, STRINGS = range(6)
"""Forms: zeros only; contiguous numbers; bools as bytes; bools as bits; codes of strings; offsets of strings."""

LENGTH, NULL_COUNT, OFFSET, BUFFER_COUNT, CHILD_COUNT, BUFFERS, CHILDREN, DICTIONARY, RELEASE, PRIVATE = range(10)
"""Fields of the interface's `ArrowArray`, eight bytes each."""
ARROW_ARRAY_FIELDS = 10
_ARRAY_BYTES = 8 * ARROW_ARRAY_FIELDS
_WORD = 8


@numba.cfunc(types.void(types.int64), cache=True)
def _release(array):  # type: ignore[no-untyped-def]
    """Free the block of an `ArrowArray`; Arrow calls it from any thread when the batch is no longer referenced."""
    block = np.int64(word_at(array + 8 * PRIVATE))
    set_word(array + 8 * RELEASE, 0)
    free(block)


RELEASE_AT = int(_release.address or 0)
"""The address of the machine code that frees a written batch."""


@kernel_part
def _rounded(size):  # type: ignore[no-untyped-def]
    return (size + 63) & ~63


@kernel_part
def _row(line, row):  # type: ignore[no-untyped-def]
    return row if line[POSITIONS] == 0 else np.int64(word_at(line[POSITIONS] + 8 * row))


@kernel_part
def _bit(address, bit):  # type: ignore[no-untyped-def]
    return (byte_at(address + (bit >> 3)) >> (bit & 7)) & 1


@kernel_part
def _is_valid(line, row):  # type: ignore[no-untyped-def]
    if line[FORM] == CODES:
        return np.int64(word_at(line[VALUES] + 8 * _row(line, row))) >= 0
    if line[VALID] == 0:
        return True
    if line[VALID_BIT] < 0:
        return byte_at(line[VALID] + _row(line, row)) != 0
    return _bit(line[VALID], line[VALID_BIT] + _row(line, row)) != 0


@kernel_part
def _text_of(line, row, starts, heap_at):  # type: ignore[no-untyped-def]
    """Return (address, size) of the string in `row`, which is not null."""
    if line[FORM] == CODES:
        code = np.int64(word_at(line[VALUES] + 8 * _row(line, row)))
        return (heap_at + starts[code], starts[code + 1] - starts[code])
    place = line[VALUES] + 4 * _row(line, row)
    start = np.int64(offset_at(place))
    return (line[TEXT] + start, np.int64(offset_at(place + 4)) - start)


@seldom_part
def _measure(line, count, starts):  # type: ignore[no-untyped-def]
    """Record the number of nulls of a column, and the size of its values."""
    nulls = 0
    if line[VALID] != 0 or line[FORM] == CODES:
        for row in range(count):
            nulls += not _is_valid(line, row)
    size = count * line[WIDTH]
    if line[FORM] == FLAGS or line[FORM] == BITS:
        size = (count + 7) >> 3
    elif line[FORM] >= CODES:
        size = _WORD  # strings are written in words, the last of which may reach beyond the end
        for row in range(count):
            if nulls == 0 or _is_valid(line, row):
                size += _text_of(line, row, starts, 0)[1]
    line[NULLS], line[SIZE] = nulls, size


@seldom_part
def _write_bits(line, count, target, validity):  # type: ignore[no-untyped-def]
    """Write the bools of a column, or its validity, as bits."""
    for start in range(0, count, 8):
        byte = 0
        for row in range(start, min(start + 8, count)):
            if validity:
                bit = _is_valid(line, row)
            elif line[FORM] == FLAGS:
                bit = byte_at(line[VALUES] + _row(line, row)) != 0
            else:
                bit = _bit(line[VALUES], line[FIRST_BIT] + _row(line, row)) != 0
            byte |= bit << (row - start)
        set_byte(target + (start >> 3), byte)


@seldom_part
def _write_numbers(line, count, target):  # type: ignore[no-untyped-def]
    width, source, positions = line[WIDTH], line[VALUES], line[POSITIONS]
    if positions == 0:
        copy_bytes(target, source, count * width)
    elif width == 8:
        for row in range(count):
            set_word(target + 8 * row, word_at(source + 8 * np.int64(word_at(positions + 8 * row))))
    elif width == 4:
        for row in range(count):
            set_offset(target + 4 * row, offset_at(source + 4 * np.int64(word_at(positions + 8 * row))))
    else:
        for row in range(count):
            set_byte(target + row, byte_at(source + np.int64(word_at(positions + 8 * row))))


@kernel_part
def _write_text(target, source, size, source_end):  # type: ignore[no-untyped-def]
    """Copy a string; up to seven bytes after it are overwritten."""
    if source + size + 8 > source_end:
        for place in range(size):
            set_byte(target + place, byte_at(source + place))
        return
    for place in range(0, size, 8):
        set_word(target + place, word_at(source + place))


@seldom_part
def _write_strings(line, count, offsets, target, starts, heap_at, heap_end):  # type: ignore[no-untyped-def]
    end = heap_end if line[FORM] == CODES else line[TEXT_END]
    filled = 0
    for row in range(count):
        set_offset(offsets + 4 * row, filled)
        if line[NULLS] == 0 or _is_valid(line, row):
            source, size = _text_of(line, row, starts, heap_at)
            _write_text(target + filled, source, size, end)
            filled += size
    set_offset(offsets + 4 * count, filled)


@seldom_part
def _write_column(line, count, array, buffers, data, starts, heap_at, heap_end, release_at):  # type: ignore[no-untyped-def]
    """Write the buffers of a column from `data` on, their addresses at `buffers`, and its `ArrowArray`.

    Return where `data` continues.
    """
    form = line[FORM]
    set_word(array + 8 * LENGTH, count)
    set_word(array + 8 * NULL_COUNT, line[NULLS])
    set_word(array + 8 * OFFSET, 0)
    set_word(array + 8 * BUFFER_COUNT, 3 if form >= CODES else 2)
    set_word(array + 8 * CHILD_COUNT, 0)
    set_word(array + 8 * BUFFERS, buffers)
    set_word(array + 8 * CHILDREN, 0)
    set_word(array + 8 * DICTIONARY, 0)
    set_word(array + 8 * RELEASE, release_at)
    set_word(array + 8 * PRIVATE, 0)  # the block is freed as a whole, by the batch
    set_word(buffers, data if line[NULLS] else 0)
    if line[NULLS]:
        _write_bits(line, count, data, True)  # noqa: FBT003 - kernels take no names
        data += _rounded((count + 7) >> 3)
    set_word(buffers + 8, data)
    if form >= CODES:
        text = data + _rounded(4 * count + 4)
        _write_strings(line, count, data, text, starts, heap_at, heap_end)
        set_word(buffers + 16, text)
        return text + _rounded(line[SIZE])
    if form == ZEROS:
        for place in range(line[SIZE]):
            set_byte(data + place, 0)
    elif form == NUMBERS:
        _write_numbers(line, count, data)
    else:
        _write_bits(line, count, data, False)  # noqa: FBT003 - as above
    return data + _rounded(line[SIZE])


@seldom_part
def describe(line, child, base, rows, positions_at):  # type: ignore[no-untyped-def]
    """Write the position of the values of the column `child` of a batch of `rows` rows into `line` of the plan.

    The line contains the form of the values already. Arrow has exported the batch, and `base` is its offset; rows are
    those in `positions_at` (0: all).
    """
    first = np.int64(word_at(child + 8 * OFFSET)) + base
    buffers = np.int64(word_at(child + 8 * BUFFERS))
    values_at = np.int64(word_at(buffers + 8))
    line[VALID] = np.int64(word_at(buffers)) if word_at(child + 8 * NULL_COUNT) != 0 else 0
    line[VALID_BIT] = line[FIRST_BIT] = first
    line[POSITIONS] = positions_at
    line[VALUES] = values_at
    if line[FORM] == STRINGS:
        line[VALUES] = values_at + 4 * first
        line[TEXT] = np.int64(word_at(buffers + 16))
        line[TEXT_END] = line[TEXT] + np.int64(offset_at(values_at + 4 * (first + rows)))
    elif line[FORM] == NUMBERS:
        line[VALUES] = values_at + line[WIDTH] * first


@seldom_part
def write_block(plan, count, starts, heap_at, heap_end, release_at, out):  # type: ignore[no-untyped-def]
    """Write a batch as `write_records` does, given the addresses between which the heap lies.

    The heap and `starts` are only used by columns of codes.
    """
    columns = len(plan)
    arrays = columns * (_ARRAY_BYTES + 8)
    head = _rounded(arrays + 8 * (1 + 3 * columns))
    total = head
    for column in range(columns):
        line = plan[column]
        _measure(line, count, starts)
        if line[SIZE] > np.int64(0x7FFFFFFF):
            return False
        total += _rounded(line[SIZE])
        total += _rounded((count + 7) >> 3) if line[NULLS] else 0
        total += _rounded(4 * count + 4) if line[FORM] >= CODES else 0
    block = allocate(total)
    if block == 0:
        return False
    children, buffers, data = block + columns * _ARRAY_BYTES, block + arrays, block + head
    out[LENGTH], out[NULL_COUNT], out[OFFSET] = count, 0, 0
    out[BUFFER_COUNT], out[CHILD_COUNT], out[BUFFERS], out[CHILDREN] = 1, columns, buffers, children
    out[DICTIONARY], out[RELEASE], out[PRIVATE] = 0, release_at, block
    set_word(buffers, 0)
    for column in range(columns):
        array = block + column * _ARRAY_BYTES
        set_word(children + 8 * column, array)
        places = buffers + 8 * (1 + 3 * column)
        data = _write_column(plan[column], count, array, places, data, starts, heap_at, heap_end, release_at)
    return True


@state_kernel
def write_records(plan, count, starts, heap, release_at, out):  # type: ignore[no-untyped-def]
    """Write a batch of `count` rows with the columns of `plan` into a new block, and describe it in `out`.

    `out` is an `ArrowArray` whose owner Arrow becomes. Return False when there is no memory, or too much text for one
    column.

    `starts` and `heap` are those of the string pool.
    """
    heap_at = np.int64(heap.ctypes.data)
    return write_block(plan, count, starts, heap_at, heap_at + len(heap), release_at, out)
