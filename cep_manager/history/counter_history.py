"""The growth of the counters of one component instance, for up to a day. Pure.

For each window a ring of samples is kept, each with the values of all counters at its time:

    ──●────────●────────●────────●────────●───▶ now
      oldest          ▲                     the totals
                      └ now − window: between two samples, told as if events had come evenly

The count for a window is the total minus the sample at its start. An instance takes 171 samples of 8 bytes for each
counter and 80 bytes besides: some 35 KB for a stage with four streams, at most 0.8 MB for one with `MOST_COUNTERS`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from operator import attrgetter

import msgspec

Counter = tuple[str, str]
"""A counter's name, and its stream or latency bucket, if any."""

WINDOWS_S = (600, 10_800, 86_400)
SAMPLE_MS = (10_000, 180_000, 1_800_000)
"""The interval between the samples of each window's ring."""

MOST_COUNTERS = 512
"""Further streams of an instance are counted together."""
OTHERS = "(others)"


class CounterSample(msgspec.Struct, frozen=True):
    """The counter values at `at_ms`; counters that were added later are missing at the end."""

    at_ms: int
    values: array[int]


class CounterHistory(msgspec.Struct, frozen=True):
    """The counters of an instance.

    `since_ms` is when counting began, `heard_ms` the time of the report of `totals`; `rings` hold samples for each of
    `WINDOWS_S`, oldest first. All times are monotonic.
    """

    since_ms: int
    heard_ms: int
    counters: tuple[Counter, ...]
    totals: array[int]
    rings: tuple[tuple[CounterSample, ...], ...]

    def in_all(self) -> dict[Counter, int]:
        """Return the counts since counting began."""
        return dict(zip(self.counters, self.totals, strict=True))

    def within(self, window_s: int, now_ms: int) -> dict[Counter, int]:
        """Return the counts of the last `window_s` seconds, one of `WINDOWS_S`."""
        ring = self.rings[WINDOWS_S.index(window_s)]
        before = self._at(ring, now_ms - window_s * 1_000)
        return {
            counter: total - (before[index] if index < len(before) else 0)
            for index, (counter, total) in enumerate(zip(self.counters, self.totals, strict=True))
        }

    def _at(self, ring: tuple[CounterSample, ...], at_ms: int) -> list[int]:
        following = bisect_right(ring, at_ms, key=attrgetter("at_ms"))
        if following == 0:
            return list(ring[0].values)
        one = ring[following - 1]
        other = ring[following] if following < len(ring) else CounterSample(self.heard_ms, self.totals)
        if at_ms >= other.at_ms:
            return list(other.values)
        share = (at_ms - one.at_ms) / (other.at_ms - one.at_ms)
        known = len(one.values)
        return [
            before + round(share * (after - before))
            for before, after in zip(
                (*one.values, *(0 for _ in range(len(other.values) - known))), other.values, strict=True
            )
        ]


class Track:
    """Counters of one instance; `history` is an immutable copy of them."""

    def __init__(self, since_ms: int) -> None:
        self._since_ms = since_ms
        self._index: dict[Counter, int] = {}
        self._totals: array[int] = array("q")
        beginning = CounterSample(since_ms, array("q"))
        self._rings = [
            deque([beginning], maxlen=window_s * 1_000 // sample_ms + 1)
            for window_s, sample_ms in zip(WINDOWS_S, SAMPLE_MS, strict=True)
        ]
        self._copies = tuple(tuple(ring) for ring in self._rings)
        self.history = CounterHistory(since_ms, since_ms, (), self._totals, self._copies)

    def grow(self, growth: Mapping[Counter, int], now_ms: int) -> None:
        """Add `growth` to the counters."""
        if not any(growth.values()) and growth.keys() <= self._index.keys() and not self._due(now_ms):
            return  # so it is of nearly all plans at any moment: the next sample says it
        # Nothing was heard of it for as long as nothing happened: what comes now did not grow all that time.
        for ring in self._due(now_ms - SAMPLE_MS[0]) if self._index else ():
            ring.append(CounterSample(now_ms - SAMPLE_MS[0], self._totals))
        totals = array("q", self._totals)
        for counter, events in growth.items():
            index = self._index.get(counter)
            if index is None:
                index = self._begin(counter, totals)
            totals[index] += events
        self._totals = totals
        self._take_samples(now_ms)
        self.history = CounterHistory(self._since_ms, now_ms, tuple(self._index), totals, self._copies)

    def _begin(self, counter: Counter, totals: array[int]) -> int:
        if len(self._index) >= MOST_COUNTERS:
            counter = (counter[0], OTHERS)
            if counter in self._index:
                return self._index[counter]
        self._index[counter] = len(totals)
        totals.append(0)
        return self._index[counter]

    def _take_samples(self, now_ms: int) -> None:
        due = self._due(now_ms)
        if due:
            sample = CounterSample(now_ms, self._totals)
            for ring in due:
                ring.append(sample)
            self._copies = tuple(tuple(ring) for ring in self._rings)

    def _due(self, now_ms: int) -> list[deque[CounterSample]]:
        """Return the rings whose next sample is due."""
        return [
            ring for ring, sample_ms in zip(self._rings, SAMPLE_MS, strict=True) if now_ms - ring[-1].at_ms >= sample_ms
        ]
