"""The order in which a Java hash map goes through its keys, where an answer depends on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def string_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned 32-bit number."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def hash_map_order(keys: Iterable[str], among: int | None = None) -> list[str]:
    """`keys`, given in order of insertion, as a `HashMap` of them is walked: by bucket, inside one by insertion.

    `among`: how many keys the map has when `keys` are but some of them.
    """
    listed = list(keys)
    return [listed[place] for place in hash_order([string_hash(key) for key in listed], among)]


def hash_order(hashes: Sequence[int], among: int | None = None) -> list[int]:
    """The places of keys with these hash codes, in the order of `hash_map_order`."""
    count = len(hashes) if among is None else among
    size = 16
    while count > size * 3 // 4:
        size *= 2
    buckets = [(value ^ value >> 16) & (size - 1) for value in hashes]
    return sorted(range(len(hashes)), key=buckets.__getitem__)
