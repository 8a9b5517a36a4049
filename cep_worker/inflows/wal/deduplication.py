"""Detection of repeated batches: the log remembers the newest batch of each source.

Each record names the origin of its batch, and the first record of each segment repeats the newest origins before it
(`cep_worker.storage.records`): so the last segment holds all of them, and they are as durable as the batches.
"""

from __future__ import annotations

from collections.abc import Iterable

from cep_worker.storage.records import KEYED, BatchOrigin

MOST_SOURCES = 4_096
"""The number of most recent sources that are remembered; repeated batches of others are counted twice.

Each run of a plan that feeds this one has sources of its own, which end with the run.
"""
MOST_KEYS = 4_096
"""The number of newest keys of single requests that are remembered.

They are counted separately, so that many requests with keys do not displace sources.
"""


class SeenOrigins:
    """The newest batch of each origin in a log. Belongs to the log's thread."""

    def __init__(self) -> None:
        self._newest: dict[bytes, int] = {}
        self._keys: dict[bytes, None] = {}

    def __bool__(self) -> bool:
        return bool(self._newest or self._keys)

    def has(self, origin: BatchOrigin) -> bool:
        """Return whether the log has the batch, or a later one of its source."""
        if origin.number == KEYED:
            return origin.source in self._keys
        newest = self._newest.get(origin.source)
        return newest is not None and origin.number <= newest

    def newest_of(self, source: bytes) -> int | None:
        """Return the number of the newest batch of the source; None if the source is unknown."""
        return self._newest.get(source)

    def note(self, origin: BatchOrigin) -> None:
        """Record that the log has the batch, the newest of its source."""
        if origin.number == KEYED:
            self._keys[origin.source] = None
            if len(self._keys) > MOST_KEYS:
                del self._keys[next(iter(self._keys))]
            return
        # Removed and inserted again, so that the dictionary is in order of use and its first key is the next to remove.
        self._newest.pop(origin.source, None)
        self._newest[origin.source] = origin.number
        if len(self._newest) > MOST_SOURCES:
            del self._newest[next(iter(self._newest))]

    def note_all(self, origins: Iterable[BatchOrigin]) -> None:
        """Record the batches in order."""
        for origin in origins:
            self.note(origin)

    def newest(self, most_keys: int = MOST_KEYS) -> tuple[BatchOrigin, ...]:
        """Return the newest batch of each source, the most recently used last, and the newest keys."""
        keys = (BatchOrigin(key, KEYED) for key in list(self._keys)[-most_keys:])
        return (*keys, *(BatchOrigin(source, number) for source, number in self._newest.items()))
