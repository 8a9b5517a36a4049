"""Hash tables over int64 keys, for groups, partitions and counted values."""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.kernels import grown, kernel, kernel_array

_MIX_A = np.uint64(0x9E3779B97F4A7C15)
_MIX_B = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(29)
NULL_KEY = np.iinfo(np.int64).min + 1
"""The value of null in a key of numbers: the least int64, which has the bits of -0.0."""


@kernel
def mix(state, value):  # type: ignore[no-untyped-def]
    """Return a hash that combines `value` with the hash `state`."""
    mixed = (np.uint64(state) ^ np.uint64(value)) * _MIX_A
    mixed ^= mixed >> _SHIFT
    mixed *= _MIX_B
    mixed ^= mixed >> _SHIFT
    return np.int64(mixed)


@kernel
def _find_or_add(slots, keys, count, rows, ids):  # type: ignore[no-untyped-def]
    """Write the id of each row of `rows` (n, k) into `ids`; new keys get ids from `count` on. Returns the new count."""
    mask = len(slots) - 1
    width = rows.shape[1]
    for row in range(rows.shape[0]):
        hashed = np.int64(0)
        for part in range(width):
            hashed = mix(hashed, rows[row, part])
        place = hashed & mask
        while True:
            found = slots[place]
            if found < 0:
                slots[place] = count
                for part in range(width):
                    keys[count, part] = rows[row, part]
                ids[row] = count
                count += 1
                break
            same = True
            for part in range(width):
                if keys[found, part] != rows[row, part]:
                    same = False
                    break
            if same:
                ids[row] = found
                break
            place = (place + 1) & mask
    return count


class KeyTable:
    """Gives every distinct key of `width` int64 parts an id, dense from 0."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.count = 0
        self._slots: Int64Array = np.full(16, -1, dtype=np.int64)
        self._keys: Int64Array = np.zeros((8, width), dtype=np.int64)

    @property
    def keys(self) -> Int64Array:
        """The key of each id, (count, width)."""
        return self._keys[: self.count]

    def ids(self, rows: Int64Array) -> Int64Array:
        """Return the id of each row of `rows`, (n, width); new keys get the next ids in order of appearance."""
        need = self.count + len(rows)
        self._keys = grown(self._keys, need)
        if 2 * need > len(self._slots):
            self._rehash(1 << int(4 * need - 1).bit_length())
        ids = np.empty(len(rows), dtype=np.int64)
        self.count = _find_or_add(self._slots, self._keys, self.count, kernel_array(rows), ids)
        return ids

    def _rehash(self, size: int) -> None:
        self._slots = np.full(size, -1, dtype=np.int64)
        known = self._keys[: self.count].copy()
        self.count = _find_or_add(self._slots, self._keys, 0, known, np.empty(len(known), dtype=np.int64))

    def snapshot(self) -> State:
        return self.keys.copy()

    def restore(self, keys: AnyArray) -> None:
        self.__init__(self.width)  # type: ignore[misc] # a table is what its keys make of it
        self.ids(keys.reshape(-1, self.width))


def key_bits(values: AnyArray, valid: BoolArray | None) -> Int64Array:
    """Return values as int64 that are equal exactly where the values are; null becomes `NULL_KEY`.

    Floating-point numbers compare as in Java: NaN equals NaN, and 0.0 differs from -0.0.
    """
    if values.dtype.kind == "f":
        wide = values.astype(np.float64)
        wide[np.isnan(wide)] = np.nan
        bits: Int64Array = wide.view(np.int64)
    else:
        bits = values.astype(np.int64, copy=False)
    return bits if valid is None else np.where(valid, bits, NULL_KEY)
