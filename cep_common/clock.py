"""Clocks that are handed in, so that decisions never read the time themselves."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where a process shell takes its times from; decision code gets them as arguments."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, for timestamps."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back, for leases and intervals."""


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told to; for tests of plans and of the system alike."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def advance(self, milliseconds: int) -> None:
        """Moves both times on by `milliseconds`, which is not negative."""
        if milliseconds < 0:
            raise ValueError("a clock does not go back")
        self._now_ms += milliseconds
