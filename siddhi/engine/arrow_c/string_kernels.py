"""The loops of the string pool, over the UTF-8 bytes of Arrow arrays in place.

A pool keeps the bytes of all its strings in one heap; string c is `heap[starts[c]:starts[c + 1]]`. A hash table with
two numbers in each slot contains the strings; most lookups do not read the heap:

    slot[0]   27 bits of hash │ 4 bits of size (9: more than 8 bytes) │ 32 bits of code      -1: free
    slot[1]   the first 8 bytes, which are all of a short string
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.kernels import kernel_part, state_kernel
from siddhi.engine.jit.memory import byte_at, copy_bytes, fetch, offset_at, set_word, word_at
from siddhi.engine.tuning import MAX_CACHED_STRING_SLOTS, STRING_LOOKUP_BLOCK_ROWS

_MIX_A = np.uint64(0x9E3779B97F4A7C15)
_MIX_B = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_SHORT = 8
_TAG_BITS = np.uint64(0x7FFFFFF0)
_CODE_BITS = 0xFFFFFFFF
_ALL_BYTES = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel_part
def _word(address, size, end):  # type: ignore[no-untyped-def]
    """Return up to eight bytes at `address` as a number; nothing at or after `end` is read."""
    if address + 8 <= end:
        word = word_at(address)
        if size < 8:
            word &= ~(_ALL_BYTES << np.uint64(8 * size))
        return word
    word = np.uint64(0)
    for place in range(min(size, 8)):
        word |= np.uint64(byte_at(address + place)) << np.uint64(8 * place)
    return word


@kernel_part
def _tag(address, size, end, head):  # type: ignore[no-untyped-def]
    """Return the upper half of the slot for the `size` bytes at `address`; the lower half is the code.

    `head` are the first eight of the bytes.
    """
    mixed = head * _MIX_A
    if size > _SHORT:
        mixed ^= np.uint64(size) * _MIX_B
        for done in range(_SHORT, size, 8):
            mixed ^= mixed >> _HALF
            mixed = (mixed ^ _word(address + done, size - done, end)) * _MIX_A
    return _mixed_tag(mixed, size)


@kernel_part
def _mixed_tag(mixed, size):  # type: ignore[no-untyped-def]
    """Return the tag of `size` bytes after their words have been mixed."""
    mixed ^= mixed >> _HALF
    mixed *= _MIX_B
    return np.int64((mixed >> _HALF) & _TAG_BITS) | min(size, _SHORT + 1)


@kernel_part
def _place_of(tag, mask):  # type: ignore[no-untyped-def]
    """Return the position where the search for a string starts."""
    return (tag >> 4) & mask


@kernel_part
def _same_tail(address, size, end, kept, kept_end):  # type: ignore[no-untyped-def]
    """Return whether the bytes after the first eight at `address` and at `kept` are equal."""
    for done in range(_SHORT, size, 8):
        if _word(address + done, size - done, end) != _word(kept + done, size - done, kept_end):
            return False
    return True


@kernel_part
def _code_of(address, size, end, head, tag, slots, starts, heap, count):  # type: ignore[no-untyped-def]
    """Return the code of a string. A new string is added, with the code `count`.

    Return -1 when slots, starts or heap have no room.
    """
    heap_at = np.int64(heap.ctypes.data)
    mask = len(slots) - 1
    slot = _place_of(tag, mask)
    while slots[slot, 0] >= 0:
        if slots[slot, 0] >> 32 == tag and slots[slot, 1] == head:
            code = slots[slot, 0] & _CODE_BITS
            kept = starts[code]
            if size <= _SHORT or (
                starts[code + 1] - kept == size and _same_tail(address, size, end, heap_at + kept, heap_at + len(heap))
            ):
                return code
        slot = (slot + 1) & mask
    used = starts[count]
    if 2 * count + 2 > len(slots) or count + 2 > len(starts) or used + size > len(heap):
        return np.int64(-1)
    if size <= _SHORT and used + _SHORT <= len(heap):
        set_word(heap_at + used, head)  # the bytes after the string are unused
    else:
        copy_bytes(heap_at + used, address, size)
    slots[slot, 0] = tag << 32 | count
    slots[slot, 1] = head
    starts[count + 1] = used + size
    return np.int64(count)


@kernel_part
def _encode_known(offsets_at, data_at, data_end, valid_at, first, row, rows, slots_at, mask, codes_at):  # type: ignore[no-untyped-def]
    """Write the codes of the strings from `row` on, as long as they are found at once.

    Stop at the first string that is null, long, empty, or neither in its first position of the table nor in the next;
    return its row, or `rows`. This is a loop of its own because nearly all strings take it: code for rare cases would
    occupy registers.
    """
    last = data_end - _SHORT
    stop = np.int64(offset_at(offsets_at + 4 * (first + row)))
    while row < rows:
        place = first + row
        start, stop = stop, np.int64(offset_at(offsets_at + 4 * place + 4))
        address, size = data_at + start, stop - start
        null = valid_at != 0 and not (byte_at(valid_at + (place >> 3)) >> (place & 7)) & 1
        if null or size <= 0 or size > _SHORT or address > last:
            break
        head = word_at(address) & _ALL_BYTES >> np.uint64(64 - 8 * size)
        tag = _mixed_tag(head * _MIX_A, size)
        slot_at = slots_at + 16 * _place_of(tag, mask)
        told = np.int64(word_at(slot_at))
        if told >> 32 != tag or word_at(slot_at + 8) != head:
            slot_at = slots_at + 16 * ((_place_of(tag, mask) + 1) & mask)
            told = np.int64(word_at(slot_at))
            if told >> 32 != tag or word_at(slot_at + 8) != head:
                break
        set_word(codes_at + 8 * row, told & _CODE_BITS)
        row += 1
    return row


@state_kernel
def encode_strings(offsets_at, data_at, data_end, valid_at, first, begin, slots, starts, heap, count, codes):  # type: ignore[no-untyped-def]
    """Write the codes of the strings from row `begin` on into `codes`; return (rows done, strings in the pool).

    `offsets_at`, `data_at` and `valid_at` are the addresses of an Arrow array's int32 offsets, its bytes (up to
    `data_end`) and its validity bits (0: nothing is null), `first` its own offset. New strings are added; the loop ends
    early when slots, starts or heap have no room for the next.
    """
    slots_at, codes_at = np.int64(slots.ctypes.data), np.int64(codes.ctypes.data)  # faster than indexing
    mask = len(slots) - 1
    far = len(slots) > MAX_CACHED_STRING_SLOTS
    together = STRING_LOOKUP_BLOCK_ROWS if far else max(len(codes), 1)
    for block in range(begin, len(codes), together):
        rows = min(block + together, len(codes))
        if far:
            for row in range(block, rows):
                start = np.int64(offset_at(offsets_at + 4 * (first + row)))
                size = np.int64(offset_at(offsets_at + 4 * (first + row) + 4)) - start
                tag = _tag(data_at + start, size, data_end, _word(data_at + start, size, data_end))
                fetch(slots_at + 16 * _place_of(tag, mask))
        row, size = block, np.int64(0)
        while True:
            if size <= _SHORT:  # prefetch for the string after a long one
                row = _encode_known(offsets_at, data_at, data_end, valid_at, first, row, rows, slots_at, mask, codes_at)
            if row == rows:
                break
            place = first + row
            start = np.int64(offset_at(offsets_at + 4 * place))
            address, size = data_at + start, np.int64(offset_at(offsets_at + 4 * place + 4)) - start
            if valid_at != 0 and not (byte_at(valid_at + (place >> 3)) >> (place & 7)) & 1:
                set_word(codes_at + 8 * row, -1)
            else:
                head = _word(address, size, data_end)
                tag = _tag(address, size, data_end, head)
                code = _code_of(address, size, data_end, np.int64(head), tag, slots, starts, heap, count)
                if code < 0:
                    return row, count
                count += code == count
                set_word(codes_at + 8 * row, code)
            row += 1
    return len(codes), count


@state_kernel
def place_strings(slots, starts, heap, count):  # type: ignore[no-untyped-def]
    """Fill the empty hash table `slots` with the strings of the heap."""
    heap_at = np.int64(heap.ctypes.data)
    heap_end = heap_at + len(heap)
    mask = len(slots) - 1
    for code in range(count):
        address, size = heap_at + starts[code], starts[code + 1] - starts[code]
        head = _word(address, size, heap_end)
        tag = _tag(address, size, heap_end, head)
        slot = _place_of(tag, mask)
        while slots[slot, 0] >= 0:
            slot = (slot + 1) & mask
        slots[slot, 0] = tag << 32 | code
        slots[slot, 1] = np.int64(head)


@state_kernel
def measure_strings(codes, starts, offsets):  # type: ignore[no-untyped-def]
    """Write the int32 offsets of the concatenated strings of `codes`; return (total bytes, number of nulls)."""
    total = 0
    nulls = 0
    offsets[0] = 0
    for row in range(len(codes)):
        code = codes[row]
        if code < 0:
            nulls += 1
        else:
            total += starts[code + 1] - starts[code]
        offsets[row + 1] = total
    return total, nulls


@state_kernel
def copy_strings(codes, starts, heap, data):  # type: ignore[no-untyped-def]
    """Write the bytes of the strings of `codes` one after the other into `data`."""
    filled = 0
    for row in range(len(codes)):
        code = codes[row]
        if code >= 0:
            for byte in range(starts[code], starts[code + 1]):
                data[filled] = heap[byte]
                filled += 1


@state_kernel
def measure_taken(offsets_at, positions):  # type: ignore[no-untyped-def]
    """Return the bytes of the strings at `positions`."""
    total = 0
    for row in range(len(positions)):
        place = offsets_at + 4 * positions[row]
        total += int(offset_at(place + 4)) - int(offset_at(place))
    return total


@state_kernel
def copy_taken(offsets_at, data_at, positions, offsets, data):  # type: ignore[no-untyped-def]
    """Write the strings at `positions` one after the other into `data`, and the start of each into `offsets`.

    Returns their total size; strings that do not fit are counted but not written.
    """
    filled = np.int64(0)
    offsets[0] = 0
    for row in range(len(positions)):
        place = offsets_at + 4 * positions[row]
        start = np.int64(offset_at(place))
        size = np.int64(offset_at(place + 4)) - start
        if filled + size <= len(data):
            for byte in range(size):
                data[filled + byte] = byte_at(data_at + start + byte)
        filled += size
        offsets[row + 1] = filled
    return filled
