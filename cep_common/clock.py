"""Injected clocks, so that decision code never reads the time itself.

The host's time of day can jump: an administrator sets it, a virtual machine wakes up, a time server is wrong. Windows,
timers and the times of events must not jump with it. So the time of day of a process is the monotonic clock plus an
offset:

    deviation up to 1 s     the offset follows, as with a clock that a time server adjusts
    a larger deviation      the offset stays, and the process logs an error
    one that lasts 60 s     the offset follows: the change was intended
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger(__name__)

FOLLOWED_MS = 1_000
"""The largest deviation of the host's clock that the process follows at once."""
HELD_MS = 60_000
"""How long a larger deviation must last before the process follows it."""


class Clock(Protocol):
    """The source of time of a process; decision code gets times as arguments."""

    def now_ms(self) -> int:
        """Return the milliseconds since the epoch, for timestamps."""

    def monotonic_ms(self) -> int:
        """Return milliseconds that never go back, for leases and intervals."""

    @property
    def deviation_ms(self) -> int:
        """Return by how much the host's clock is ahead of `now_ms` (negative: behind); 0 while `now_ms` follows it."""


class SteadyTime:
    """A time of day that does not jump. Thread-safe."""

    def __init__(self, wall_ms: Callable[[], int], elapsed_ms: Callable[[], int]) -> None:
        """`wall_ms` is the host's time of day; `elapsed_ms` never jumps."""
        self._wall_ms = wall_ms
        self._elapsed_ms = elapsed_ms
        self._offset_ms = wall_ms() - elapsed_ms()
        self._parted: tuple[int, int] | None = None
        """The deviation of the host's clock, and its start."""
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Take over the host's current time of day."""
        self._lock = threading.Lock()
        self._offset_ms, self._parted = self._wall_ms() - self._elapsed_ms(), None

    def now_ms(self) -> int:
        """Return the time of day in milliseconds since 1970."""
        with self._lock:
            elapsed_ms = self._elapsed_ms()
            deviation_ms = self._wall_ms() - elapsed_ms - self._offset_ms
            if abs(deviation_ms) <= FOLLOWED_MS:
                self._offset_ms += deviation_ms
                if self._parted is not None:
                    logger.warning("the host's clock is right again: it was ahead by %d ms", self._parted[0])
                    self._parted = None
            else:
                self._note(deviation_ms, elapsed_ms)
            return elapsed_ms + self._offset_ms

    @property
    def deviation_ms(self) -> int:
        """Return by how much the host's clock is ahead of this one (negative: behind); 0 while this one follows it."""
        parted = self._parted
        return parted[0] if parted is not None else 0

    def _note(self, deviation_ms: int, elapsed_ms: int) -> None:
        if self._parted is None or abs(deviation_ms - self._parted[0]) > FOLLOWED_MS:
            self._parted = deviation_ms, elapsed_ms
            text = "the host's clock jumped by %d ms; ignored unless it stays so for %d s: check its time server"
            logger.error(text, deviation_ms, HELD_MS // 1000)
        elif elapsed_ms - self._parted[1] >= HELD_MS:
            logger.error("the host's clock stayed %d ms ahead: the process adopts its time", deviation_ms)
            self._offset_ms += deviation_ms
            self._parted = None


def _elapsed_ms() -> int:
    """Return the milliseconds since the host was started, including those in which it was suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


_TIME_OF_DAY = SteadyTime(lambda: time.time_ns() // 1_000_000, _elapsed_ms)
"""The clock of this process."""
os.register_at_fork(after_in_child=_TIME_OF_DAY.begin)  # its parent may have started when the clock was wrong


class SystemClock:
    """The machine's own clock, whose time of day does not jump: see `SteadyTime`."""

    def now_ms(self) -> int:
        """Return the time of day in ms since the epoch."""
        return _TIME_OF_DAY.now_ms()

    @property
    def deviation_ms(self) -> int:
        """See `SteadyTime.deviation_ms`."""
        return _TIME_OF_DAY.deviation_ms

    def monotonic_ms(self) -> int:
        """Return the time of a clock that is never set, in ms since an arbitrary moment."""
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that only moves when it is set, for tests of plans and of the system."""

    def __init__(self, now_ms: int = 0) -> None:
        """Create a clock that only moves when it is set.

        Args:
            now_ms: Its first time, in ms since the epoch.
        """
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return the time that was set last, in ms since the epoch."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """Return the same time as `now_ms`."""
        return self._now_ms

    @property
    def deviation_ms(self) -> int:
        """Return 0: this clock is never corrected."""
        return 0

    def advance(self, milliseconds: int) -> None:
        """Advance both times by `milliseconds`, which is not negative."""
        if milliseconds < 0:
            raise ValueError("a clock does not go back")
        self._now_ms += milliseconds
