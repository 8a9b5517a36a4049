"""Records which files of the worker's folder have changed since they were last mirrored.

Stores call `appended` and `replaced` right after they have written; without a recorder, in a worker that belongs to no
node, a call costs one comparison.
"""

from __future__ import annotations

import threading
from pathlib import Path

_recorder: FileChanges | None = None


class FileChanges:
    """Collects changes.

    Any thread may note them; one takes them.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._changed: dict[Path, None] = {}
        self._sizes: dict[Path, int] = {}
        self.wanted = threading.Event()
        """Set when there is something to take, or somebody waits."""

    def note(self, path: Path, size: int | None = None) -> None:
        """Note that the file at `path` has changed; `size` is how much of it counts, None: all."""
        with self._lock:
            self._changed[path] = None
            if size is not None:
                self._sizes[path] = size
        self.wanted.set()

    def take(self) -> dict[Path, int | None]:
        """Return what has changed since the last call, each with the bytes that count (None: all there are)."""
        with self._lock:
            changed, self._changed = self._changed, {}
            return {path: self._sizes.get(path) for path in changed}

    def size_of(self, path: Path) -> int | None:
        """Return how many bytes of the file count; None: all there are."""
        with self._lock:
            return self._sizes.get(path)

    def forget(self, path: Path) -> None:
        """Note that the file is deleted."""
        with self._lock:
            self._sizes.pop(path, None)


def record_with(recorder: FileChanges | None) -> None:
    """Note changes of this process with `recorder` from now on; None: nowhere."""
    global _recorder  # noqa: PLW0603 - stores are many, and the process has one folder
    _recorder = recorder


def appended(path: Path, size: int) -> None:
    """Note that the file at `path`, which only grows, holds `size` bytes now."""
    if _recorder is not None:
        _recorder.note(path, size)


def replaced(path: Path) -> None:
    """Note that the file at `path` was written as a whole."""
    if _recorder is not None:
        _recorder.note(path)
