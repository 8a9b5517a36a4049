"""The age of the oldest event of a log that is still needed.

Pure.
"""

from __future__ import annotations

from collections import deque

MOST_MARKS = 2_048
SPACING_MS = 500
"""The initial precision of ages; it becomes coarser the longer events wait."""


class OldestAge:
    """Samples the written position of the log, to determine the age of events.

    Times are monotonic.
    """

    def __init__(self) -> None:
        self._marks: deque[tuple[int, int]] = deque()
        self._newest = 0
        self._spacing_ms = SPACING_MS

    def note(self, last_position: int, secured: int, now_ms: int) -> None:
        """Record the last written position, and the position up to which the log is no longer needed."""
        while self._marks and self._marks[0][0] <= secured:
            self._marks.popleft()
        if not self._marks:
            self._spacing_ms = SPACING_MS
        if last_position <= max(self._newest, secured):
            return
        self._newest = last_position
        if self._marks and now_ms - self._marks[-1][1] < self._spacing_ms:
            self._marks[-1] = (last_position, self._marks[-1][1])
        else:
            self._marks.append((last_position, now_ms))
        if len(self._marks) > MOST_MARKS:
            marks = list(self._marks)
            pairs = zip(marks[::2], [*marks[1::2], marks[-1]], strict=False)
            self._marks = deque((later[0], earlier[1]) for earlier, later in pairs)
            self._spacing_ms *= 2

    def age_ms(self, now_ms: int) -> int:
        """Return the age of the oldest event that is still needed; 0 when there is none."""
        return max(0, now_ms - self._marks[0][1]) if self._marks else 0
