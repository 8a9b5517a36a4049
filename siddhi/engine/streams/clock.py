"""The app's clock: its time at each event, and between events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from siddhi.engine.columnar.column import viewed_numbers
from siddhi.engine.jit.arrays import Int64Array, filled
from siddhi.engine.jit.bits import address_of
from siddhi.engine.jit.kernels import state_kernel
from siddhi.engine.jit.memory import fetch, word_at
from siddhi.engine.operators.base.operator import NEVER
from siddhi.engine.tuning import CACHE_LINE_NUMBERS, CLOCK_PREFETCH_ROWS

LONG_AGO = int(np.iinfo(np.int64).min)
_ODD_ORDERS: Int64Array = np.arange(1, 2 * 8_192, 2)
_ONE_ORDER = _ODD_ORDERS[:1]


@state_kernel
def _ascend(stamps_at, count, floor):  # type: ignore[no-untyped-def]
    """Return whether no time is less than the previous one, or than `floor`.

    It takes an address, since passing a read-only array would take a microsecond longer.
    """
    for block in range(0, count, CACHE_LINE_NUMBERS):
        fetch(stamps_at + 8 * (block + CLOCK_PREFETCH_ROWS))
        for row in range(block, min(block + CACHE_LINE_NUMBERS, count)):
            stamp = np.int64(word_at(stamps_at + 8 * row))
            if stamp < floor:
                return False
            floor = stamp
    return True


def ascends(times: pa.Array) -> bool:
    """Return whether none of `times`, int64, is null or lies before the one in front of it."""
    return not times.null_count and bool(_ascend(address_of(viewed_numbers(times)), len(times), LONG_AGO))


def event_clocks(stamps: Int64Array, clock: int) -> Int64Array:
    """Return the clock at each event when event time `stamps` drives it, starting from `clock`; it never goes back.

    The array is `stamps` itself when these ascend, which is the common case.
    """
    if len(stamps) == 1:
        return stamps if stamps.item() >= clock else filled(1, clock)
    if _ascend(address_of(stamps), len(stamps), clock):
        return stamps
    clocks: Int64Array = np.maximum(stamps, clock)
    return np.maximum.accumulate(clocks)


class AppClock:
    """The clock of an app, which events drive, and the time reported from outside.

        event time      an event moves the clock to its own time, unless it shows a later one. It never goes back
        system clock    an event is processed at its own time, but not after the time outside; a late event at the time
                        of the latest event before it. So the clock follows the events of a backlog, and goes back to
                        them if time had advanced before

    `now` is the last reported time outside, `events` the time to which events have moved the clock, `last` the time at
    the end of the last step, and `shown` the latest time so far: no timer shows an earlier one.
    """

    __slots__ = ("events", "is_set", "last", "now", "playback", "shown")

    def __init__(self, *, playback: bool) -> None:
        """Create a clock that has not started.

        Args:
            playback: Whether event time drives it.
        """
        self.playback = playback
        self.is_set = False
        self.now = self.events = self.last = self.shown = 0

    def start(self, now_ms: int) -> None:
        """Set the clock to `now_ms`; 0 means that it has not been set."""
        self.is_set = now_ms != 0
        self.now = self.last = self.shown = now_ms
        self.events = now_ms if self.playback else 0

    def told(self, now_ms: int | None) -> int:
        """Return the time outside after it was reported as `now_ms` (None: not reported); it never goes back."""
        if self.playback:
            return self.last if now_ms is None else max(now_ms, self.last)
        if now_ms is not None and now_ms > self.now:
            self.now = now_ms
        return self.now

    @property
    def limit(self) -> int:
        """The latest time to which an event may move the clock."""
        return NEVER if self.playback else self.now

    def at_rows(self, stamps: Int64Array) -> Int64Array:
        """Return the clock at each event when these have the times `stamps`."""
        if not self.playback and stamps.max() > self.now:
            stamps = np.minimum(stamps, self.now)
        return event_clocks(stamps, self.events)

    def move(self, clocks: Int64Array) -> int:
        """Move the clock to the last of `clocks`, on behalf of events.

        Return the least time that timers see on the way.
        """
        first = clocks.item(0)
        floor = min(self.last, first) if self.is_set else first
        self.follow(clocks.item(-1))
        return floor

    def follow(self, time: int) -> None:
        """Move the clock to `time`, on behalf of events, when no timer is due."""
        self.is_set = True
        self.last = self.events = time
        self.shown = max(self.shown, time)

    def advance(self, now_ms: int) -> tuple[Int64Array, int]:
        """Set the clock to `now_ms`, or leave it if that is earlier.

        Return that time, and the least that timers see on the way.
        """
        time = max(self.shown, now_ms)
        floor = self.last
        self.is_set = self.is_set or time != 0
        self.last = self.shown = time
        self.now = max(self.now, time)
        if self.playback:
            self.events = time
        return filled(1, time), floor

    def saved(self) -> ClockState | None:
        """Return the clock as a state, None when it has not been set."""
        return ClockState(self.shown, self.now, self.events, self.last) if self.is_set else None

    def restore(self, state: ClockState | None) -> None:
        """Restore the clock from `saved`."""
        self.is_set = state is not None
        self.shown, self.now, self.events, self.last = state or ClockState()


class ClockState(NamedTuple):
    """The clock in a snapshot; see `AppClock`."""

    shown: int = 0
    now: int = 0
    events: int = 0
    last: int = 0


def latest(states: Iterable[ClockState | None]) -> ClockState | None:
    """Return the clock of an app that replaces several; None when none of their clocks has been set."""
    times = [state for state in states if state is not None]
    return ClockState(*map(max, zip(*times, strict=True))) if times else None


def root_orders(count: int) -> Int64Array:
    """Return the orders of `count` root chunks, one row each (`siddhi.engine.operators.base.operator`)."""
    if count == 1:
        return _ONE_ORDER
    return _ODD_ORDERS[:count] if count <= len(_ODD_ORDERS) else np.arange(1, 2 * count, 2)
