"""Track which files of the worker's folder have changed since they were last mirrored.

Stores call `appended` and `replaced` right after they have written. Without a recorder, in a worker without a node, a
call costs one comparison.
"""

from __future__ import annotations

import threading
from pathlib import Path

_recorder: FileChanges | None = None


class FileChanges:
    """Collects changes.

    Any thread may record them; one thread takes them.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._changed: dict[Path, None] = {}
        self._sizes: dict[Path, int] = {}
        self.wanted = threading.Event()
        """Set when there are changes, or a thread waits."""

    def note(self, path: Path, size: int | None = None) -> None:
        """Record that the file at `path` has changed; `size` is its valid length (None: all of it)."""
        with self._lock:
            self._changed[path] = None
            if size is not None:
                self._sizes[path] = size
        self.wanted.set()

    def take(self) -> dict[Path, int | None]:
        """Return the files that have changed since the last call, each with its valid length (None: all of it)."""
        with self._lock:
            changed, self._changed = self._changed, {}
            return {path: self._sizes.get(path) for path in changed}

    def size_of(self, path: Path) -> int | None:
        """Return the valid length of the file; None: all of it."""
        with self._lock:
            return self._sizes.get(path)

    def forget(self, path: Path) -> None:
        """Record that the file was deleted."""
        with self._lock:
            self._sizes.pop(path, None)


def record_with(recorder: FileChanges | None) -> None:
    """Record changes of this process with `recorder` from now on (None: nowhere)."""
    global _recorder  # noqa: PLW0603 - stores are many, and the process has one folder
    _recorder = recorder


def appended(path: Path, size: int) -> None:
    """Record that the append-only file at `path` has `size` bytes now."""
    if _recorder is not None:
        _recorder.note(path, size)


def replaced(path: Path) -> None:
    """Record that the file at `path` was written as a whole."""
    if _recorder is not None:
        _recorder.note(path)
