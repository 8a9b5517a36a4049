"""Java's hash codes and the iteration order of a Java hash map, where a result depends on them."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Sequence

import numpy as np

from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.tuning import MAX_VECTORIZED_JAVA_HASH_CHARACTERS
from siddhi.nesting import DEEPEST

_BITS = struct.Struct(">q")
_DOUBLE = struct.Struct(">d")
_NAN = 0x7FF80000


def string_hash(text: str) -> int:
    """Return `String.hashCode`, as an unsigned 32-bit number."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def string_hashes(texts: Sequence[str]) -> Int64Array:
    """Return `string_hash` of each of `texts`.

    Texts are hashed together where all are short and have no characters beyond 16 bits.
    """
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    longest = int(lengths.max(initial=0))
    if not 0 < longest <= MAX_VECTORIZED_JAVA_HASH_CHARACTERS or max(map(max, filter(None, texts))) > "\uffff":
        return np.fromiter(map(string_hash, texts), np.int64, len(texts))
    characters = np.array(texts, dtype=f"U{longest}").view(np.uint32).reshape(-1, longest)
    values: Int64Array = np.zeros(len(texts), dtype=np.int64)
    for place in range(longest):
        values = np.where(place < lengths, (31 * values + characters[:, place]) & 0xFFFFFFFF, values)
    return values


def object_hash(value: object, depth: int = 0) -> int:
    """Return Java's `hashCode` of an item of an object column, as an unsigned 32-bit number.

    The result for an object that nests too deeply is arbitrary.
    """
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, str):
        return string_hash(value)
    if isinstance(value, int):
        small = -(1 << 31) <= value < 1 << 31
        return value & 0xFFFFFFFF if small else _folded(value)
    if isinstance(value, float):
        return _NAN if value != value else _folded(_BITS.unpack(_DOUBLE.pack(value))[0])  # noqa: PLR0124 - true for NaN
    if depth > DEEPEST:
        return 0
    if isinstance(value, list | tuple):
        return functools.reduce(lambda code, item: 31 * code + object_hash(item, depth + 1) & 0xFFFFFFFF, value, 1)
    if isinstance(value, set | frozenset):
        return sum(object_hash(item, depth + 1) for item in value) & 0xFFFFFFFF
    if isinstance(value, dict):
        pairs = (object_hash(key) ^ object_hash(item, depth + 1) for key, item in value.items())
        return sum(pairs) & 0xFFFFFFFF
    return 0


def _folded(bits: int) -> int:
    return (bits ^ bits >> 32) & 0xFFFFFFFF


def hash_ranks(hashes: Sequence[int]) -> list[int]:
    """Return the ranks of these hash codes, ordered by their difference in 32 bits, as in Siddhi."""

    def difference(one: int, other: int) -> int:
        return (one - other + (1 << 31) & 0xFFFFFFFF) - (1 << 31)

    ranks = {code: rank for rank, code in enumerate(sorted(set(hashes), key=functools.cmp_to_key(difference)))}
    return [ranks[code] for code in hashes]


def hash_map_order(keys: Iterable[str], among: int | None = None) -> list[str]:
    """Return `keys` in the iteration order of a Java `HashMap`: by bucket, then by insertion.

    `keys` are given in order of insertion. `among` is the number of keys in the map when `keys` are only some of them.
    """
    listed = list(keys)
    return [listed[place] for place in hash_order([string_hash(key) for key in listed], among)]


def hash_places(hashes: Int64Array, among: int) -> Int64Array:
    """Return the buckets of keys with these hash codes in a `HashMap` of `among` keys."""
    size = 16
    while among > size * 3 // 4:
        size *= 2
    places: Int64Array = (hashes ^ hashes >> 16) & (size - 1)
    return places


def hash_order(hashes: Sequence[int], among: int | None = None) -> list[int]:
    """Return the positions of keys with these hash codes, in the order of `hash_map_order`."""
    count = len(hashes) if among is None else among
    size = 16
    while count > size * 3 // 4:
        size *= 2
    buckets = [(value ^ value >> 16) & (size - 1) for value in hashes]
    return sorted(range(len(hashes)), key=buckets.__getitem__)
