"""The slots in which an aggregation stores values: one for each duration, bucket and group."""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.hashing import KeyTable
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.jit.kernels import grown, kernel, kernel_array
from siddhi.engine.operators.base.operator import NEVER


@kernel
def _from_cache(buckets, groups, cached_buckets, cached_slots, slots):  # type: ignore[no-untyped-def]
    """Write the slots of rows in the bucket their group used last, else -1; return the number of the latter."""
    missed = 0
    for row in range(buckets.shape[0]):
        group = groups[row]
        for level in range(buckets.shape[1]):
            if cached_buckets[group, level] == buckets[row, level]:
                slots[row, level] = cached_slots[group, level]
            else:
                slots[row, level] = -1
                missed += 1
    return missed


class SlotIndex:
    """Slots are numbered from 0 in order of appearance. A level is the index of a duration in the aggregation."""

    def __init__(self, levels: int) -> None:
        self.levels = levels
        self.oldest: Int64Array = np.full(levels, NEVER, dtype=np.int64)
        """The start of the oldest bucket of each level, `NEVER` for a level without buckets."""
        self._table = KeyTable(3)
        self._members: list[list[Int64Array]] = [[] for _ in range(levels)]
        self._forget_cache()

    def _forget_cache(self) -> None:
        self._cached_buckets: Int64Array = np.full((8, self.levels), NEVER, dtype=np.int64)
        self._cached_slots: Int64Array = np.zeros((8, self.levels), dtype=np.int64)

    @property
    def count(self) -> int:
        """The number of slots."""
        return self._table.count

    def buckets(self, slots: Int64Array) -> Int64Array:
        """Return the starts of the buckets of `slots`."""
        starts: Int64Array = self._table.keys[slots, 1]
        return starts

    def groups(self, slots: Int64Array) -> Int64Array:
        """Return the group ids of `slots`."""
        ids: Int64Array = self._table.keys[slots, 2]
        return ids

    def slots(self, buckets: Int64Array, groups: Int64Array) -> Int64Array:
        """Return the slot of each row on each level, (n, levels); new buckets and groups get new slots.

        `buckets` are the starts of the rows' buckets, (n, levels); `groups` their group ids, (n,).
        """
        self._cached_buckets = grown(self._cached_buckets, int(groups.max(initial=-1)) + 1, NEVER)
        self._cached_slots = grown(self._cached_slots, len(self._cached_buckets))
        found = np.empty(buckets.shape, dtype=np.int64)
        groups = kernel_array(groups)
        if _from_cache(kernel_array(buckets), groups, self._cached_buckets, self._cached_slots, found):
            rows, levels = np.nonzero(found < 0)
            keys = np.column_stack([levels, buckets[rows, levels], groups[rows]])
            before = self.count
            found[rows, levels] = self._table.ids(keys)
            self._note_new(before)
            self._cached_buckets[groups[rows], levels] = buckets[rows, levels]
            self._cached_slots[groups[rows], levels] = found[rows, levels]
        return found

    def _note_new(self, before: int) -> None:
        new = self._table.keys[before:]
        for level in range(self.levels if len(new) else 0):
            of_level = np.flatnonzero(new[:, 0] == level)
            if len(of_level):
                self._members[level].append(of_level + before)
                self.oldest[level] = min(int(self.oldest[level]), int(new[of_level, 1].min()))

    def of_level(self, level: int, start_ms: int, end_ms: int) -> Int64Array:
        """Return the slots of the buckets of `level` that start at `start_ms` or later and before `end_ms`, by time."""
        if not self._members[level]:
            return np.zeros(0, dtype=np.int64)
        self._members[level] = [np.concatenate(self._members[level])]
        slots = self._members[level][0]
        starts = self.buckets(slots)
        inside = (starts >= start_ms) & (starts < end_ms)
        picked: Int64Array = slots[inside][np.argsort(starts[inside], kind="stable")]
        return picked

    def older(self, before_ms: Int64Array) -> Int64Array:
        """Return the slots of the buckets that start before their level's time in `before_ms`."""
        keys = self._table.keys
        return np.flatnonzero(keys[:, 1] < before_ms[keys[:, 0]])

    def keep(self, slots: Int64Array, new_groups: Int64Array) -> None:
        """Keep only the slots `slots`, which become slots 0, 1, …; group g becomes group `new_groups[g]`."""
        keys = self._table.keys[slots]
        keys[:, 2] = new_groups[keys[:, 2]]
        self.restore(keys)

    def snapshot(self) -> State:
        return self._table.snapshot()

    def restore(self, state: State) -> None:
        self._table.restore(state)
        self._members = [[] for _ in range(self.levels)]
        self.oldest[:] = NEVER
        self._forget_cache()
        self._note_new(0)
