"""A hash index over rows that may be added and removed anywhere.

    buckets   ends    0 ──► 3 ──► 7        positions of the rows whose keys are in the bucket,
                      1 ──► 2              oldest first; each is linked to its neighbours, so
                      2 (empty)            that any can be removed without a search

A key is one or more int64 numbers (`siddhi.engine.operators.tables.key_bits`); rows with equal keys are found in order
of position.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.jit.arrays import INT64, BoolArray, Int64Array
from siddhi.engine.jit.kernels import NO_MASK, grown, kernel_part, state_kernel

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)
FIRST, LAST = 0, 1
BEFORE, AFTER = 0, 1
_GONE = -2
"""The link of a row that is in no bucket."""


@kernel_part
def bucket_of(rows, row, mask):  # type: ignore[no-untyped-def]
    hashed = np.uint64(0)
    for part in range(rows.shape[1]):
        hashed = (hashed ^ np.uint64(rows[row, part])) * _MIX
        hashed ^= hashed >> _SHIFT
    return np.int64(hashed & np.uint64(mask))


@kernel_part
def same_key(keys, place, rows, row):  # type: ignore[no-untyped-def]
    same = True
    for part in range(rows.shape[1]):
        same &= keys[place, part] == rows[row, part]
    return same


@kernel_part
def _tie(ends, links, bucket, before, after, first, last):  # type: ignore[no-untyped-def]
    """Link `before` to `first` and `last` to `after`; -1 is an end of the bucket."""
    if before < 0:
        ends[bucket, FIRST] = first
    else:
        links[before, AFTER] = first
    if after < 0:
        ends[bucket, LAST] = last
    else:
        links[after, BEFORE] = last


@kernel_part
def put_in_bucket(ends, links, bucket, place):  # type: ignore[no-untyped-def]
    """Insert `place` after the last lower one of its bucket, which usually is the last of all."""
    before = ends[bucket, LAST]
    while before > place:
        before = links[before, BEFORE]
    after = ends[bucket, FIRST] if before < 0 else links[before, AFTER]
    links[place, BEFORE] = before
    links[place, AFTER] = after
    _tie(ends, links, bucket, before, after, place, place)


@kernel_part
def put_in_with_key(ends, links, keys, rows, row, place):  # type: ignore[no-untyped-def]
    """Insert `place` with the key at `row` of `rows`."""
    for part in range(keys.shape[1]):
        keys[place, part] = rows[row, part]
    put_in_bucket(ends, links, bucket_of(keys, place, len(ends) - 1), place)


@state_kernel
def put_in(ends, links, keys, places):  # type: ignore[no-untyped-def]
    """Insert rows into their buckets; `keys` has their keys already."""
    for number in range(len(places)):
        place = places[number]
        put_in_bucket(ends, links, bucket_of(keys, place, len(ends) - 1), place)


@kernel_part
def take_out_of_bucket(ends, links, keys, place):  # type: ignore[no-untyped-def]
    """Remove `place` from its bucket, if it is in one."""
    if links[place, BEFORE] != _GONE:
        bucket = bucket_of(keys, place, len(ends) - 1)
        before, after = links[place, BEFORE], links[place, AFTER]
        _tie(ends, links, bucket, before, after, after, before)
        links[place, BEFORE] = _GONE


@state_kernel
def take_out(ends, links, keys, places):  # type: ignore[no-untyped-def]
    """Remove rows from their buckets, if they are in one."""
    for number in range(len(places)):
        take_out_of_bucket(ends, links, keys, places[number])


@kernel_part
def _is_null(rows, row, nulls, codes):  # type: ignore[no-untyped-def]
    """Return whether a row equals nothing: `nulls` marks it, or its key is a null code."""
    return (len(nulls) > 0 and nulls[row]) or (codes and rows[row, 0] < 0)


@kernel_part
def _first(ends, links, keys, rows, row):  # type: ignore[no-untyped-def]
    place = ends[bucket_of(rows, row, len(ends) - 1), FIRST]
    while place >= 0 and not same_key(keys, place, rows, row):
        place = links[place, AFTER]
    return place


@state_kernel
def find_first(ends, links, keys, rows, nulls, codes, found):  # type: ignore[no-untyped-def]
    """Write the first position with the key of each of `rows`, -1 for none; return how many have one."""
    count = 0
    for row in range(len(rows)):
        place = -1
        if not _is_null(rows, row, nulls, codes):
            place = _first(ends, links, keys, rows, row)
        found[row] = place
        count += place >= 0
    return count


@state_kernel
def count_all(ends, links, keys, rows, nulls, codes):  # type: ignore[no-untyped-def]
    """Return the number of pairs of one of `rows` and a position with its key."""
    count = 0
    for row in range(len(rows)):
        if _is_null(rows, row, nulls, codes):
            continue
        place = ends[bucket_of(rows, row, len(ends) - 1), FIRST]
        while place >= 0:
            count += same_key(keys, place, rows, row)
            place = links[place, AFTER]
    return count


@state_kernel
def find_all(ends, links, keys, rows, nulls, codes, probes, places):  # type: ignore[no-untyped-def]
    """Write all pairs of one of `rows` and a position with its key, ordered by both."""
    count = 0
    for row in range(len(rows)):
        if _is_null(rows, row, nulls, codes):
            continue
        place = ends[bucket_of(rows, row, len(ends) - 1), FIRST]
        while place >= 0:
            if same_key(keys, place, rows, row):
                probes[count] = row
                places[count] = place
                count += 1
            place = links[place, AFTER]


@state_kernel
def find_or_put_in(ends, links, keys, rows, used, places, fresh):  # type: ignore[no-untyped-def]
    """Write the position of each of `rows`; a new key gets the next position from `used` on and is `fresh`.

    Return the next free position.
    """
    for row in range(len(rows)):
        place = _first(ends, links, keys, rows, row)
        fresh[row] = place < 0
        if place < 0:
            place = used
            used += 1
            put_in_with_key(ends, links, keys, rows, row, place)
        places[row] = place
    return used


class HashIndex:
    """Positions by the key of the attributes `names`. Keys of rows are (n, `len(names)`) int64, C-contiguous."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._ends: Int64Array = np.full((16, 2), -1, dtype=np.int64)
        self._links: Int64Array = np.full((8, 2), _GONE, dtype=np.int64)
        self._keys: Int64Array = np.zeros((8, len(self.names)), dtype=np.int64)

    @staticmethod
    def none() -> HashIndex:
        """Return an index without buckets, which means no index to loops."""
        index = HashIndex(("",))
        index._ends = index._ends[:0]
        return index

    def add(self, places: Int64Array, rows: Int64Array) -> None:
        """Add the rows at `places`, which were not in the index, under the keys `rows`."""
        if len(places):
            self.make_room(int(places.max()) + 1)
            self._keys[places] = rows
            put_in(self._ends, self._links, self._keys, places)

    def remove(self, places: Int64Array) -> None:
        """Take the rows at `places` out of the index."""
        take_out(self._ends, self._links, self._keys, places)

    def first(self, rows: Int64Array, nulls: BoolArray = NO_MASK, *, codes: bool = False) -> tuple[Int64Array, int]:
        """Return the first position with the key of each row, -1 for none; and how many rows have one.

        Rows marked in `nulls` have none, nor do null strings if keys are `codes` of strings (one part).
        """
        found: Int64Array = np.empty(len(rows), INT64)
        count = find_first(self._ends, self._links, self._keys, rows, nulls, codes, found)
        return found, count

    def all(
        self, rows: Int64Array, nulls: BoolArray = NO_MASK, *, codes: bool = False
    ) -> tuple[Int64Array, Int64Array]:
        """Return pairs (row, position) of equal keys, ordered by both; `nulls` and `codes` as in `first`."""
        count = count_all(self._ends, self._links, self._keys, rows, nulls, codes)
        pairs = np.empty((2, count), dtype=np.int64)
        if count:
            find_all(self._ends, self._links, self._keys, rows, nulls, codes, pairs[0], pairs[1])
        return pairs[0], pairs[1]

    def first_or_add(self, rows: Int64Array, used: int) -> tuple[Int64Array, BoolArray]:
        """Return the position of each row's key, and whether the key is new: new keys get positions from `used` on."""
        self.make_room(used + len(rows))
        places = np.empty(len(rows), dtype=np.int64)
        fresh = np.empty(len(rows), dtype=np.bool_)
        find_or_put_in(self._ends, self._links, self._keys, rows, used, places, fresh)
        return places, fresh

    def clear(self) -> None:
        """Remove all rows."""
        self._ends.fill(-1)
        self._links.fill(_GONE)

    @property
    def arrays(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return buckets, neighbours and keys as loops take them; they are valid until more room is needed."""
        return self._ends, self._links, self._keys

    def make_room(self, count: int) -> None:
        """Make room for positions below `count`, with at least as many buckets."""
        if count > len(self._links):
            self._links = grown(self._links, count, _GONE)
            self._keys = grown(self._keys, count)
        if count > len(self._ends):
            held = np.flatnonzero(self._links[:, BEFORE] != _GONE)
            self._ends = np.full((1 << (2 * count - 1).bit_length(), 2), -1, dtype=np.int64)
            put_in(self._ends, self._links, self._keys, held)
