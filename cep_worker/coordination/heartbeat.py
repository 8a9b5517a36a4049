"""Timers of requests to managers.

Pure: a function of times, without a clock of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class HeartbeatTimer:
    """A timer of a request that is sent every `interval_ms`, and at once after a change."""

    interval_ms: int
    done_ms: int | None = None

    def due(self, now_ms: int) -> bool:
        return self.done_ms is None or now_ms - self.done_ms >= self.interval_ms

    def done(self, now_ms: int) -> None:
        self.done_ms = now_ms

    def wait_ms(self, now_ms: int) -> int:
        """Return how long until it is due."""
        return 0 if self.done_ms is None else max(0, self.done_ms + self.interval_ms - now_ms)

    def at_once(self) -> None:
        """Make the next heartbeat due now."""
        self.done_ms = None


@dataclass(slots=True)
class RetryTimer:
    """Timers of requests that are repeated every `interval_ms` until they succeed."""

    interval_ms: int
    _tried_ms: dict[Hashable, int] = field(default_factory=dict)

    def due(self, wanted: Iterable[Hashable], now_ms: int) -> list[Hashable]:
        """Return the members of `wanted` whose interval has passed, and record the attempt.

        Other members are forgotten, so they are due at once when they are wanted again.
        """
        names = dict.fromkeys(wanted)
        self._tried_ms = {name: tried_ms for name, tried_ms in self._tried_ms.items() if name in names}
        ready = [name for name in names if now_ms - self._tried_ms.get(name, -self.interval_ms) >= self.interval_ms]
        self._tried_ms.update(dict.fromkeys(ready, now_ms))
        return ready
