"""The interface for measuring the working time of queries."""

from __future__ import annotations

from typing import Protocol


class QueryWatch(Protocol):
    """Records the working time of each query, or other node of the graph.

    The engine reads no clock of its own.
    """

    def now_ns(self) -> int:
        """Return the time in nanoseconds, from any origin."""

    def worked(self, name: str, events: int, length_ns: int) -> None:
        """Record the working time of a node for `events`; 0 when only time had advanced."""
