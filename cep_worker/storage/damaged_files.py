"""Damaged files that were moved aside, where they stay for inspection until an operator removes them."""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".unreadable"

LOOK_MS = 5_000
"""Interval between checks whether the files were removed."""


class DamagedFiles:
    """The damaged files of a folder."""

    def __init__(self, folder: Path, pattern: str = f"*{SUFFIX}") -> None:
        """`pattern` finds them in `folder`."""
        self._folder = folder
        self._pattern = pattern
        self._looked_ms: int | None = None
        self.size_bytes = 0
        """Their size in bytes."""
        self.look()

    def look(self) -> None:
        """Count the existing files."""
        sizes = 0
        for path in self._folder.glob(self._pattern):
            try:
                sizes += path.stat().st_size
            except OSError:  # removed at this moment, or the disk fails, which the writer will report
                continue
        self.size_bytes = sizes

    def tick(self, now_ms: int) -> None:
        """Check from time to time whether files were removed."""
        if self.size_bytes and (self._looked_ms is None or now_ms - self._looked_ms >= LOOK_MS):
            self._looked_ms = now_ms
            self.look()


def quarantine(path: Path) -> Path:
    """Move the file aside and return its new path.

    Raises:
        OSError: it cannot be moved.
    """
    aside = path.with_suffix(SUFFIX)
    path.rename(aside)
    return aside
