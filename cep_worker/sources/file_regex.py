"""Split a file by regular expressions: `begin.regex` and `end.regex` of a `file` source.

With these options a piece extends

    begin and end    from a match of the first to the end of a match of the second
    begin alone      from each match to the next one
    end alone        up to the end of each match
"""

from __future__ import annotations

import re


class RegexSplitter:
    """Splits a file by one or two expressions."""

    def __init__(self, begin: str, end: str) -> None:
        self._begin = re.compile(begin.encode()) if begin else None
        self._end = re.compile(end.encode()) if end else None

    def whole(self, data: bytes) -> int:
        if self._end is None:
            starts = self._starts(data)
            return starts[-1] if len(starts) > 1 else 0
        return max((stop for _, stop in self._enclosed(data)), default=0)

    def pieces(self, data: bytes) -> list[bytes]:
        if self._end is None:
            starts = self._starts(data)
            ends = [*starts[1:], len(data)]
            return [data[start:stop] for start, stop in zip(starts, ends, strict=True)]
        return [data[start:stop] for start, stop in self._enclosed(data)]

    def _starts(self, data: bytes) -> list[int]:
        return [found.start() for found in self._begin.finditer(data)] if self._begin is not None else []

    def _enclosed(self, data: bytes) -> list[tuple[int, int]]:
        """Yield the bounds of each piece."""
        found: list[tuple[int, int]] = []
        place = 0
        while self._end is not None:
            begin = self._begin.search(data, place) if self._begin is not None else None
            if self._begin is not None and begin is None:
                break
            start, inside = (place, place) if begin is None else begin.span()
            end = self._end.search(data, inside)
            if end is None or end.end() == place:
                break
            found.append((start, end.end()))
            place = end.end()
        return found
