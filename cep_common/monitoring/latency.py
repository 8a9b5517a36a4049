"""Latency histograms: the bounds of their buckets, which writers and readers share, and percentiles.

Each bucket reaches 9 % further than the one before, so that percentiles are accurate to within 5 %.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping

PER_DOUBLING = 8
"""The number of buckets between a latency and twice that latency."""
FIRST_NS = 64_000
"""The upper bound of bucket 0."""
BUCKETS = 22 * PER_DOUBLING + 1
"""The number of buckets; the last one contains everything longer than about 246 s."""


_BOUNDS_NS = [FIRST_NS * 2 ** (index / PER_DOUBLING) for index in range(BUCKETS - 1)]


def bucket(length_ns: int) -> int:
    """Return the index of the bucket of a latency."""
    return bisect_left(_BOUNDS_NS, length_ns)


def upper_bound_ms(index: int) -> float:
    """Return the upper bound of bucket `index`; infinity for the last one."""
    return math.inf if index >= BUCKETS - 1 else FIRST_NS / 1e6 * 2 ** (index / PER_DOUBLING)


def middle_ms(index: int) -> float:
    """Return the latency that represents bucket `index`: its middle, or the lower bound of the last bucket."""
    return FIRST_NS / 1e6 * 2 ** ((min(index, BUCKETS - 1) - 0.5) / PER_DOUBLING)


def percentile_ms(counts: Mapping[int, int], share: float) -> float | None:
    """Return the latency that `share` (0 to 1) of all counted items did not exceed; None if nothing was counted.

    The result is the middle of the bucket in which it lies.
    """
    left = share * sum(counts.values())
    if left <= 0:
        return None
    index = 0
    for index in sorted(counts):
        left -= counts[index]
        if left <= 0:
            break
    return middle_ms(index)
