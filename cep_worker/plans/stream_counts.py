"""Counts of the results of each exported stream of a plan that a worker has received and delivered."""

from __future__ import annotations

from collections import Counter


class StreamCounts:
    """Counters that never decrease while the worker serves the plan, across all epochs.

    Belongs to the data thread.
    """

    def __init__(self) -> None:
        self._received: Counter[str] = Counter()
        self._delivered: Counter[str] = Counter()

    def received(self, stream: str, rows: int) -> None:
        """Count events that came from publishers."""
        self._received[stream] += rows

    def delivered(self, stream: str, rows: int) -> None:
        """Count events that all consumers of the stream have delivered."""
        self._delivered[stream] += rows

    def of(self, stream: str) -> tuple[int, int]:
        """Return the numbers of received and of delivered events."""
        return self._received[stream], self._delivered[stream]
