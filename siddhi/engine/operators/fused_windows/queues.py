"""Queues of the partition instances: the positions of their rows in a common store, from the oldest to the newest.

    ends        instance   oldest  newest  holds        following   place      0   1   2   3   4   5
                0               4       0      2                    the next   –   3   –   2   0   –
                1               1       2      3
    unused      5

A queue takes room only for its rows, so many instances with few rows each need no more room than one with many.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.jit.arrays import AnyArray, Int64Array
from siddhi.engine.jit.kernels import grown, kernel_array, kernel_part, state_kernel

OLDEST, NEWEST, HOLDS, MIXED = 0, 1, 2, 3
"""Columns of an instance's queue: the positions of its oldest and newest row, the number of its rows, and whether rows
in order of arrival that also leave by time may be out of order."""
_ENDS = 4


@kernel_part
def join_queue(instance, place, ends, following):  # type: ignore[no-untyped-def]
    """Append the row in `place` to the queue of `instance`."""
    if ends[instance, HOLDS] == 0:
        ends[instance, OLDEST] = place
    else:
        following[ends[instance, NEWEST]] = place
    ends[instance, NEWEST] = place
    ends[instance, HOLDS] += 1


@kernel_part
def join_by_time(instance, place, ends, following, times):  # type: ignore[no-untyped-def]
    """Insert the row in `place` into the queue of `instance`, after all rows with times no later than its own."""
    if ends[instance, HOLDS] == 0 or times[place] >= times[ends[instance, NEWEST]]:
        join_queue(instance, place, ends, following)
        return
    after = ends[instance, OLDEST]
    if times[place] < times[after]:
        ends[instance, OLDEST] = place
    else:
        before = after
        while times[place] >= times[after]:
            before = after
            after = np.int64(following[after])
        following[before] = place
    following[place] = after
    ends[instance, HOLDS] += 1


@kernel_part
def bring_to_front(instance, ends, following, times, until):  # type: ignore[no-untyped-def]
    """Make the first row of `instance` with a time no later than `until` its oldest.

    Return whether there is one; otherwise record whether the rows are in order.
    """
    in_order = True
    before = place = ends[instance, OLDEST]
    for number in range(ends[instance, HOLDS]):
        if times[place] <= until:
            if number > 0:
                if place == ends[instance, NEWEST]:
                    ends[instance, NEWEST] = before
                following[before] = following[place]
                following[place] = ends[instance, OLDEST]
                ends[instance, OLDEST] = place
            return True
        in_order = in_order and times[place] >= times[before]
        before = place
        place = np.int64(following[place])
    ends[instance, MIXED] = not in_order
    return False


@kernel_part
def leave_queue(instance, ends, following, unused, unused_count):  # type: ignore[no-untyped-def]
    """Remove the oldest row of `instance`; its position is the next to be assigned."""
    place = ends[instance, OLDEST]
    unused[unused_count[0]] = place
    unused_count[0] += 1
    ends[instance, OLDEST] = following[place]
    ends[instance, HOLDS] -= 1


@state_kernel
def _walk(instances, ends, following, places):  # type: ignore[no-untyped-def]
    """Write the positions of all rows of `instances` into `places`, for each from the oldest to the newest."""
    count = 0
    for number in range(len(instances)):
        place = ends[instances[number], OLDEST]
        for _ in range(ends[instances[number], HOLDS]):
            places[count] = place
            place = np.int64(following[place])
            count += 1


class InstanceQueues:
    """The queues of all instances, over `capacity` positions."""

    def __init__(self, capacity: int) -> None:
        self.ends: Int64Array = np.zeros((8, _ENDS), dtype=np.int64)
        self.following: AnyArray = np.zeros(capacity, dtype=np.int32)
        self.unused: AnyArray = np.arange(capacity - 1, -1, -1, dtype=np.int32)
        self.unused_count: Int64Array = np.full(1, capacity, dtype=np.int64)

    @property
    def rows(self) -> int:
        """The number of rows in all queues."""
        return len(self.following) - int(self.unused_count[0])

    def know(self, instances: Int64Array) -> None:
        """Add queues for `instances`."""
        self.ends = grown(self.ends, int(instances.max(initial=-1)) + 1)

    def give_out(self, count: int) -> Int64Array:
        """Return `count` unused positions for rows that will join queues; there must be so many."""
        left = int(self.unused_count[0]) - count
        places: Int64Array = self.unused[left : left + count][::-1].astype(np.int64)
        self.unused_count[0] = left
        return places

    def grow(self, capacity: int) -> None:
        """Extend the store to `capacity` positions, no fewer than before."""
        old, left = len(self.following), int(self.unused_count[0])
        added = np.arange(capacity - 1, old - 1, -1, dtype=np.int32)
        following, unused = np.zeros(capacity, dtype=np.int32), np.zeros(capacity, dtype=np.int32)
        following[:old] = self.following
        unused[:left], unused[left : left + len(added)] = self.unused[:left], added
        self.following, self.unused = following, unused
        self.unused_count[0] = left + len(added)

    def filled(self) -> Int64Array:
        """Return the instances that have rows, ascending."""
        return np.flatnonzero(self.ends[:, HOLDS])

    def places(self, instances: Int64Array) -> Int64Array:
        """Return the positions of all rows of `instances`, one instance after the other, from oldest to newest."""
        places: Int64Array = np.empty(int(self.ends[instances, HOLDS].sum()), dtype=np.int64)
        _walk(kernel_array(instances), self.ends, self.following, places)
        return places

    def drop(self, instances: Int64Array) -> None:
        """Remove all rows of these instances."""
        known = instances[instances < len(self.ends)]
        places, left = self.places(known), int(self.unused_count[0])
        self.unused[left : left + len(places)] = places
        self.unused_count[0] = left + len(places)
        self.ends[known] = 0

    def fill(self, instances: Int64Array, counts: Int64Array, capacity: int) -> None:
        """Set the queues to the rows in the first positions.

        `counts[i]` rows belong to `instances[i]`, one instance after the other.
        """
        rows = int(counts.sum())
        behind = np.cumsum(counts)
        self.ends = np.zeros((max(int(instances.max(initial=-1)) + 1, 8), _ENDS), dtype=np.int64)
        self.ends[instances, MIXED] = 1
        self.ends[instances, OLDEST] = behind - counts
        self.ends[instances, NEWEST] = behind - 1
        self.ends[instances, HOLDS] = counts
        self.following = np.arange(1, capacity + 1, dtype=np.int32)
        self.unused = np.zeros(capacity, dtype=np.int32)
        self.unused[: capacity - rows] = np.arange(capacity - 1, rows - 1, -1)
        self.unused_count[0] = capacity - rows
