"""A priority queue of wake-up times."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter", bound=Hashable)


class WakeTimes(Generic[Waiter]):
    """A time for each waiter; another one replaces it. Belongs to one thread. Times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._times: dict[Waiter, int] = {}
        self._heap: list[tuple[int, int, Waiter]] = []
        """Entries of waiters that want another time by now are ignored."""
        self._numbers = itertools.count()

    def set(self, waiter: Waiter, wake_ms: int) -> None:
        """Let `waiter` be due at `wake_ms`."""
        if self._times.get(waiter) != wake_ms:
            self._times[waiter] = wake_ms
            heapq.heappush(self._heap, (wake_ms, next(self._numbers), waiter))

    def remove(self, waiter: Waiter) -> None:
        """Forget `waiter`."""
        self._times.pop(waiter, None)

    def next_ms(self, latest_ms: int) -> int:
        """Return when the next waiter is due, at `latest_ms` at the latest."""
        while self._heap:
            wake_ms, _, waiter = self._heap[0]
            if self._times.get(waiter) == wake_ms:
                return min(wake_ms, latest_ms)
            heapq.heappop(self._heap)
        return latest_ms

    def take_due(self, now_ms: int) -> dict[Waiter, None]:
        """Return the waiters whose time has come; they have none until it is set again."""
        due: dict[Waiter, None] = {}
        while self.next_ms(now_ms + 1) <= now_ms:
            _, _, waiter = heapq.heappop(self._heap)
            del self._times[waiter]
            due[waiter] = None
        return due
