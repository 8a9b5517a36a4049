"""Mutual exclusion within one thread, first come first served, with a limit on how long a turn lasts."""

from __future__ import annotations

from collections.abc import Callable

Notify = Callable[[], None]

TURN_MS = 1_000
"""How long a turn lasts at most while others wait."""


class Turns:
    """Gives turns in the order of the requests. Belongs to one thread."""

    def __init__(self) -> None:
        """Create an empty queue of turns."""
        self._holder: object | None = None
        self._since_ms = 0
        self._waiting: dict[object, Notify] = {}

    def claim(self, who: object, now_ms: int, notify: Notify) -> bool:
        """Return whether `who` has the turn; if not, `notify` is called once it may have it."""
        if self._holder is who:
            return True
        self._waiting.setdefault(who, notify)
        if self._holder is None or now_ms - self._since_ms >= TURN_MS:
            first = next(iter(self._waiting))
            self._holder, self._since_ms = first, now_ms
            call = self._waiting.pop(first)
            if first is not who:
                call()
        return self._holder is who

    def release(self, who: object) -> None:
        """End the turn of `who`, or its wait for one."""
        self._waiting.pop(who, None)
        if self._holder is who:
            self._holder = None
            if self._waiting:
                next(iter(self._waiting.values()))()
