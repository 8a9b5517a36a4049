"""Partitions that are far ahead of others in event time, which a source does not read until the others follow. Pure.

    partition 0  ────────────────────▶ 12:40    more rows behind 12:05 than may wait: paused
    partition 1  ───▶ 12:05                     has unread messages: the source reads these

Time advances with the partition that is furthest behind, and until then the rows of the others wait in the memory of
stages. Rows are counted, not minutes: a few rows of a quiet partition may be hours ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from topology.events.watermarks import NO_WATERMARK

MOST_ROWS_AHEAD = 262_144
"""More rows of a partition than these do not wait for others. A client fetches some 100,000 messages of a partition
ahead, and gives them away when the partition is paused: partitions that are as far apart as that are not paused."""
STALLED_S = 10.0
"""A partition with unread messages that has given none for so long, while the source waited, holds up no other."""

Place = tuple[str, int]


@dataclass(slots=True)
class _Progress:
    newest_ms: int = NO_WATERMARK
    heard_s: float = 0.0
    batches: deque[tuple[int, int]] = field(default_factory=deque)
    """The newest time and the rows of each batch that is ahead, as far as was known."""
    rows: int = 0

    def forget_until(self, time_ms: int) -> None:
        while self.batches and self.batches[0][0] <= time_ms:
            self.rows -= self.batches.popleft()[1]


class PartitionAlignment:
    """How far the partitions of one source are in event time."""

    def __init__(self, most_rows: int = MOST_ROWS_AHEAD, stalled_s: float = STALLED_S) -> None:
        self._most_rows = most_rows
        self._stalled_s = stalled_s
        self._progress: dict[Place, _Progress] = {}
        """Of each partition that was ever read: after a rebalance it may be back, and its rows still wait."""
        self._ahead: frozenset[Place] = frozenset()

    def took(self, place: Place, newest_ms: int, rows: int, waited_s: float) -> None:
        """Note a batch of the partition.

        `waited_s` is how long the source has waited for messages until now, in all.
        """
        one = self._progress.setdefault(place, _Progress())
        one.heard_s = waited_s
        one.newest_ms = max(one.newest_ms, newest_ms)
        if rows:
            one.batches.append((newest_ms, rows))
            one.rows += rows

    def look(self, unread: Mapping[Place, bool], waited_s: float) -> tuple[frozenset[Place], frozenset[Place]]:
        """Return the partitions that are too far ahead to be read, and those for which time must wait.

        Args:
            unread: The partitions that the source reads, and whether each has unread messages.
            waited_s: How long the source has waited for messages, in all.
        """
        present = {place: self._progress.setdefault(place, _Progress(heard_s=waited_s)) for place in unread}
        for place, one in self._progress.items():
            if not unread.get(place, False):
                one.heard_s = waited_s  # it has nothing to give, or is not read here
        coming = {
            place: one
            for place, one in present.items()
            if unread[place] and (place in self._ahead or waited_s - one.heard_s < self._stalled_s)
        }
        lowest_ms = min((one.newest_ms for one in coming.values()), default=NO_WATERMARK)
        ahead = set()
        for place, one in present.items():
            one.forget_until(lowest_ms if coming else one.newest_ms)
            # Half of it before it is read again: each pause makes the client give away what it has fetched.
            if one.rows > (self._most_rows // 2 if place in self._ahead else self._most_rows):
                ahead.add(place)
        for place in self._ahead - ahead:
            self._progress[place].heard_s = waited_s  # it could give nothing
        self._ahead = frozenset(ahead)
        return self._ahead, frozenset(coming)
