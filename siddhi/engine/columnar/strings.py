"""The strings of one running app, each with a code: operators compare, group and store codes instead of text."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from siddhi.engine.arrow_c.read_kernels import DONE, read_records
from siddhi.engine.arrow_c.string_kernels import (
    copy_strings,
    copy_taken,
    encode_strings,
    measure_strings,
    measure_taken,
    place_strings,
)
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import INT64, BoolArray, Int64Array
from siddhi.engine.jit.kernels import grown, kernel_array
from siddhi.engine.tuning import MAX_SINGLE_LOOKUPS, MAX_UNMEASURED_STRING_BYTES, MIN_STRING_SLOTS, STRINGS_PER_MERGE

NULL_CODE = -1
_LARGEST_BATCH_BYTES = 2**31 - 1
_UTF8 = pa.utf8()


class StringPool:
    """The strings of an app, each distinct one with a code, dense from 0; null is `NULL_CODE`.

    All streams and operators of an app share one pool, so that equal codes mean equal strings. Codes stay valid until
    `compact`. Unpaired surrogates, which UTF-8 cannot represent, become `?`, as in Java.
    """

    def __init__(self) -> None:
        """Create an empty pool."""
        self._slots: Int64Array = np.empty((0, 2), dtype=np.int64)
        self.generation = -1
        """Changes whenever strings may have new codes."""
        self._reset(np.zeros(1_024, dtype=np.uint8), np.zeros(65, dtype=np.int64), 0)

    def _reset(self, heap: npt.NDArray[np.uint8], starts: Int64Array, count: int, least_slots: int = 0) -> None:
        """Replace the contents of the pool by the first `count` strings of `heap`, separated by `starts`."""
        self._heap = heap
        self._starts = starts
        self._count = count
        self._known: dict[str, int] = {}
        self._texts: list[str] = []
        self.generation += 1
        self._place(max(least_slots, MIN_STRING_SLOTS))

    def _place(self, least: int) -> None:
        """Rebuild the hash table with room for twice the strings there are, and at least `least` slots."""
        size = max(least, 1 << (4 * self._count + 4).bit_length())
        if size != len(self._slots):
            self._slots = np.empty((size, 2), dtype=np.int64)
        self._slots.fill(-1)
        place_strings(self._slots, self._starts, self._heap, self._count)

    def __len__(self) -> int:
        """Return the number of texts."""
        return self._count

    @property
    def bytes_held(self) -> int:
        """The size of the strings and their hash table, in bytes."""
        return self._heap.nbytes + self._starts.nbytes + self._slots.nbytes

    @property
    def text_bytes(self) -> int:
        """The size of the strings alone, in bytes."""
        return int(self._starts[self._count])

    @property
    def memory(self) -> tuple[Int64Array, npt.NDArray[np.uint8]]:
        """Return where each string starts, and the bytes of all strings.

        String c is `heap[starts[c]:starts[c + 1]]`. The arrays are valid until the next string is added.
        """
        return self._starts, self._heap

    def code(self, text: str | None) -> int:
        """Return the code of `text`, which is added if it is new."""
        if text is None:
            return NULL_CODE
        code = self._known.get(text)
        if code is None:
            code = self._known[text] = int(self.encode(pa.array([_storable(text)], pa.utf8()))[0])
        return code

    def text(self, code: int) -> str | None:
        """Return the text of `code`, None for a negative code, which means null."""
        return None if code < 0 else self._decoded()[code]

    def codes(self, texts: Iterable[str | None]) -> Int64Array:
        """Return the codes of `texts`, which are added if they are new."""
        items = texts if isinstance(texts, list) else list(texts)
        if len(items) <= MAX_SINGLE_LOOKUPS:
            return np.array([self.code(text) for text in items], dtype=np.int64)
        try:
            array = pa.array(items, _UTF8)
        except UnicodeEncodeError:
            array = pa.array([None if text is None else _storable(text) for text in items], _UTF8)
        return self.encode(array)

    def texts(self, codes: Int64Array) -> list[str | None]:
        """Return the text of each code, None where it is negative."""
        strings = self._decoded()
        return [strings[code] if code >= 0 else None for code in codes.tolist()]

    def _decoded(self) -> list[str]:
        """Return all strings decoded to Python, as far as they have been requested."""
        for code in range(len(self._texts), self._count):
            self._texts.append(self._heap[self._starts[code] : self._starts[code + 1]].tobytes().decode())
        return self._texts

    def encode(self, array: pa.Array) -> Int64Array:
        """Return the codes of a utf8 array, nulls as `NULL_CODE`."""
        size = len(array)
        codes: Int64Array = np.empty(size, INT64)
        valid, offsets, data = array.buffers()
        if offsets is None:
            return codes
        data_at = 0 if data is None else data.address
        data_end = 0 if data is None else data_at + data.size
        valid_at = 0 if valid is None else valid.address
        done = 0
        while True:
            done, self._count = encode_strings(
                offsets.address, data_at, data_end, valid_at, array.offset, done,
                self._slots, self._starts, self._heap, self._count, codes,
            )  # fmt: skip
            if done == size:
                return codes
            self._make_room(len(array[done].as_py().encode()))

    def read_records(
        self, array_at: int, plan: Int64Array, rows: int, block: Int64Array, begin: int, stride: int
    ) -> int:
        """Read records as `siddhi.engine.arrow_c.read_kernels.read_records` does; return the number of nulls.

        Strings get codes of this pool, to which new ones are added.
        """
        while True:
            lack, self._count, nulls = read_records(
                array_at, plan, rows, block, begin, stride, self._slots, self._starts, self._heap, self._count
            )
            if lack == DONE:
                return int(nulls)
            self._make_room(lack)

    def _make_room(self, size: int) -> None:
        """Make room for one more string of `size` bytes."""
        self._starts = grown(self._starts, self._count + 2)
        self._heap = grown(self._heap, int(self._starts[self._count]) + size)
        if 2 * self._count + 2 > len(self._slots):
            self._place(2 * len(self._slots))

    def decode(self, codes: Int64Array) -> pa.StringArray:
        """Return the utf8 array of `codes`. Raise OverflowError when it would have 2 GiB or more."""
        codes = kernel_array(codes)
        offsets = np.empty(len(codes) + 1, dtype=np.int32)
        total, nulls = measure_strings(codes, self._starts, offsets)
        data = np.empty(_checked(total), dtype=np.uint8)
        copy_strings(codes, self._starts, self._heap, data)
        return _string_array(offsets, data, codes >= 0 if nulls else None, nulls)

    def compact(self, live: Int64Array, to_come: int = 0) -> Int64Array:
        """Remove every string whose code is not in `live`, and return the new code of each old one.

        The code of a removed string is `NULL_CODE`. The table has one more entry than there were codes, so that
        `remap[NULL_CODE]` is `NULL_CODE`. The pool keeps capacity for about `to_come` more strings of similar sizes:
        growing step by step again would cost as much as the strings themselves.
        """
        kept = np.unique(live[live >= 0])
        remap = np.full(self._count + 1, NULL_CODE, dtype=np.int64)
        remap[kept] = np.arange(len(kept))
        sizes = np.diff(self._starts[: self._count + 1])[kept]
        kept_bytes, soon = int(sizes.sum()), len(kept) + to_come
        soon_bytes = kept_bytes + to_come * self.text_bytes // max(self._count, 1)
        starts: Int64Array = np.zeros(max(len(kept) + 65, min(soon + 1, len(self._starts))), dtype=np.int64)
        np.cumsum(sizes, out=starts[1 : len(kept) + 1])
        heap = np.empty(max(1_024, kept_bytes, min(soon_bytes, len(self._heap))), dtype=np.uint8)
        copy_strings(kept, self._starts, self._heap, heap)
        least_slots = min(1 << (2 * soon + 1).bit_length(), len(self._slots))
        self._reset(heap, starts, len(kept), least_slots)
        return remap

    def absorb(self, other: StringPool) -> Int64Array:
        """Add all strings of `other` to this pool; return their codes here, followed by `NULL_CODE`."""
        codes: Int64Array = np.full(len(other) + 1, NULL_CODE, dtype=np.int64)
        for start in range(0, len(other), STRINGS_PER_MERGE):
            part = np.arange(start, min(start + STRINGS_PER_MERGE, len(other)))
            codes[part] = self.encode(other.decode(part))
        return codes

    def snapshot(self) -> State:
        """Return a copy of all texts: their bytes, and where each starts."""
        starts = self._starts[: self._count + 1].copy()
        return [self._heap[: starts[-1]].copy(), starts]

    def restore(self, state: State) -> None:
        """Restore the pool as `Stateful.restore` does; raise ValueError when the strings are not contiguous."""
        heap, starts = state
        if not len(starts) or starts[0] or starts[-1] != len(heap) or (starts[1:] < starts[:-1]).any():
            raise ValueError("the strings are not contiguous")
        self._reset(grown(heap, 1_024), grown(starts, 65), len(starts) - 1)


def take_strings(array: pa.StringArray, positions: Int64Array) -> pa.StringArray:
    """Return the strings of `array` at `positions`, much faster than Arrow's `take` for small arrays.

    Raise OverflowError when they would have 2 GiB or more.
    """
    valid, starts, data = array.buffers()
    if starts is None or data is None or (valid is not None and array.null_count):
        return array.take(pa.array(positions))
    offsets = np.empty(len(positions) + 1, dtype=np.int32)
    positions = kernel_array(positions)
    starts_at = starts.address + 4 * array.offset
    room = data.size if data.size <= MAX_UNMEASURED_STRING_BYTES else _checked(measure_taken(starts_at, positions))
    taken = np.empty(room, dtype=np.uint8)
    if copy_taken(starts_at, data.address, positions, offsets, taken) > room:
        return array.take(pa.array(positions))
    return _string_array(offsets, taken, None, 0)


def _checked(size: int) -> int:
    if size > _LARGEST_BATCH_BYTES:
        raise OverflowError(f"a column of strings has {size} bytes; {_LARGEST_BATCH_BYTES} is the most")
    return size


def _string_array(
    offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], valid: BoolArray | None, nulls: int
) -> pa.StringArray:
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(_UTF8, len(offsets) - 1, buffers, nulls)


def _storable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
