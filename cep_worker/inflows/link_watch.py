"""Clock offset and stalls of the server of a link. Pure."""

from __future__ import annotations

SET_MS = 1_000
"""The difference between the advance of a clock and of the monotonic time from which the clock counts as set."""
STALLED_MS = 2_000
"""How long a server with a full window may accept nothing until accepted events are only written to the log."""


class ServerClock:
    """Estimates how far the clock of a link's server is ahead of this side's (negative: behind)."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self._asked_ms = 0
        """The time of day at which the present link was requested."""
        self._offset_ms: int | None = None
        """This side's time of day less the monotonic time."""

    def ask(self, wall_ms: int) -> None:
        """Record the time of day of the request for a link."""
        self._asked_ms = wall_ms

    def answer(self, wall_ms: int, server_ms: int) -> None:
        """Record the time of day of the server's answer, and the server's own time (0: not sent)."""
        self.ahead_ms = clock_ahead_ms(self._asked_ms, wall_ms, server_ms)

    def tick(self, monotonic_ms: int, wall_ms: int) -> None:
        """Adjust the offset when this side's clock was set."""
        offset_ms, before_ms = wall_ms - monotonic_ms, self._offset_ms
        self._offset_ms = offset_ms
        if before_ms is not None and abs(offset_ms - before_ms) > SET_MS:
            self.ahead_ms -= offset_ms - before_ms


class StallDetector:
    """Detects a server that accepts nothing while the window is full."""

    def __init__(self) -> None:
        self.stalled = False
        self._full_since: tuple[int, int] | None = None
        """Since when the window is full, and its oldest frame."""

    def tick(self, now_ms: int, oldest: int | None) -> bool:
        """Record the oldest frame of a full window (None: it is not full). Return whether the server stalls."""
        if oldest is None:
            self._full_since, self.stalled = None, False
            return False
        if self._full_since is None or self._full_since[1] != oldest:
            self._full_since, self.stalled = (now_ms, oldest), False
            return False
        if self.stalled or now_ms - self._full_since[0] < STALLED_MS:
            return False
        self.stalled = True
        return True


def clock_ahead_ms(asked_ms: int, answered_ms: int, server_ms: int) -> int:
    """Return by how much a server's clock is ahead at least (negative: behind); 0 if that is uncertain.

    The server's time was `server_ms` at some moment between a request and its answer.
    """
    if not server_ms or asked_ms <= server_ms <= answered_ms:
        return 0
    return server_ms - (answered_ms if server_ms > answered_ms else asked_ms)
