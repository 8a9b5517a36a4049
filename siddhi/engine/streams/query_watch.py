"""Who measures how long queries work."""

from __future__ import annotations

from typing import Protocol


class QueryWatch(Protocol):
    """A record of how long each query, or other node of the graph, works.

    The engine reads no clock of its own.
    """

    def now_ns(self) -> int:
        """Return the time, in nanoseconds since whenever."""

    def worked(self, name: str, events: int, length_ns: int) -> None:
        """Record that the node worked this long on a piece of `events`; 0 when only time had passed."""
