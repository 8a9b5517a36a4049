"""Recycled segment files: overwriting them costs a fraction of writing new files."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from cep_worker.inflows.wal.segment import Segment

SUFFIX = ".spare"

SHARE = 4
"""The maximum share (1/n) of a log's size for spare files."""

SMALLEST_SHARE = 2
"""The smallest file that is kept for reuse, as a fraction of a whole segment."""

IDLE_MS = 300_000
"""How long a file may be unused until it is deleted."""


class RecycledSegments:
    """The spare files of one log.

    New files are only created if there is no spare one, so that segments and spares never exceed the log's limit.
    Belongs to the log's thread.
    """

    def __init__(self, maximum_bytes: int, segment_bytes: int, delete: Callable[[Path], None]) -> None:
        """Prepare for a log of at most `maximum_bytes` in segments of `segment_bytes`."""
        self.size_bytes = 0
        self._most_bytes = maximum_bytes // SHARE
        self._segment_bytes = segment_bytes
        self._delete = delete
        self._files: list[tuple[Path, int]] = []
        self._unused = 0
        """The minimum number of spare files since `_since_ms`."""
        self._since_ms: int | None = None

    def add(self, segment: Segment) -> None:
        """Keep the file of a freed segment for reuse, or delete it."""
        path = renamed(segment.path)
        # a file that could not be renamed would be read as a segment at the next start
        if path == segment.path or not self._suits(segment):
            self._delete(path)
            return
        self._files.append((path, segment.size))
        self.size_bytes += segment.size

    def take(self) -> Path | None:
        """Return the newest spare file, which the caller then owns; None if there is none."""
        while self._files:
            # the newest, whose pages are most likely still cached, so that the oldest can expire
            path, size = self._files.pop()
            self.size_bytes -= size
            self._unused = min(self._unused, len(self._files))
            if path.exists():
                return path
        return None

    def tick(self, now_ms: int) -> None:
        """Delete spare files that have not been used for long."""
        if self._since_ms is None or now_ms - self._since_ms >= IDLE_MS:
            # Only files that were never needed in the whole interval: a single quiet moment must not cost a burst its
            # spares.
            self._drop(self._unused if self._since_ms is not None else 0)
            self._since_ms = now_ms
            self._unused = len(self._files)

    def clear(self) -> None:
        """Delete all spare files."""
        self._drop(len(self._files))

    def _suits(self, segment: Segment) -> bool:
        """Return whether the file can be recycled."""
        whole = self._segment_bytes // SMALLEST_SHARE <= segment.size <= self._segment_bytes
        # a reader that has the file open would see new records in the place of old ones
        return whole and not segment.readers and self.size_bytes + segment.size <= self._most_bytes

    def _drop(self, count: int) -> None:
        """Delete the oldest `count` files."""
        for path, size in self._files[:count]:
            self.size_bytes -= size
            self._delete(path)
        del self._files[:count]


def renamed(path: Path) -> Path:
    """Rename a segment that is deleted later and return its new path.

    The new name is unique among the logs of the folder. If renaming fails, the path is unchanged.
    """
    other = path.with_name(f"{path.stem}-{secrets.token_hex(4)}{SUFFIX}")
    try:
        path.rename(other)
    except OSError:
        return path
    return other
