"""File sources that read one file after the other.

They read the files of a folder, files that are one body, and files that are moved or deleted after reading.

    folder ──► a file that is complete ──► its pieces, or the whole file ──► accepted ──► kept, moved or deleted
"""

from __future__ import annotations

import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cep_worker.formats.rejections import EventsRejectedError
from cep_worker.sources.base import SourceContext
from cep_worker.sources.file import FileSource, LineEvents
from cep_worker.sources.file_lines import FileLines, FilePosition, open_regular
from cep_worker.sources.read_position import ReadPosition
from query_plan.connectors.options import path_of
from query_plan.connectors.sources import WHOLE_FILES, FileSourceOptions

logger = logging.getLogger(__name__)

_Seen = tuple[int, int, int]
"""Inode, size and time of a file, by which changed files are detected."""


class FilesSource(FileSource):
    """Reads files one after the other. The worker that reads holds `lock`; `position` returns that of a file."""

    def __init__(
        self,
        context: SourceContext,
        options: FileSourceOptions,
        events: LineEvents,
        lock: ReadPosition,
        position: Callable[[Path], ReadPosition],
    ) -> None:
        self._options = options
        self._position_of = position
        self._most_bytes = context.http.body_bytes
        self._pattern = re.compile(options.file_name_pattern) if options.file_name_pattern else None
        self._done: dict[Path, _Seen] = {}
        interval_ms = options.dir_polling_interval if options.dir_uri else options.file_polling_interval
        self._scan_s = interval_ms / 1000
        super().__init__(context, options, events, lock)

    def _follow(self) -> None:
        while not self._ending.is_set():
            for path in list(self._waiting()):
                if self._ending.is_set():
                    return
                self._process(path)
            self._ending.wait(self._scan_s)

    def _waiting(self) -> Iterator[Path]:
        """Yield the files to read, oldest first, and forget finished files that are gone."""
        if self._options.dir_uri:
            found = [one for one in self._path.iterdir() if self._pattern is None or self._pattern.fullmatch(one.name)]
        else:
            found = [self._path]
        seen: dict[Path, _Seen] = {}
        for path in found:
            if (one := _seen(path)) is not None:
                seen[path] = one
        self._done = {path: one for path, one in self._done.items() if seen.get(path) == one}
        quiet_ns = time.time_ns() - int(min(self._scan_s, 1.0) * 1e9)
        waiting = ((one[2], path) for path, one in seen.items() if path not in self._done and one[2] <= quiet_ns)
        yield from (path for _, path in sorted(waiting))

    def _process(self, path: Path) -> None:
        before = _seen(path)
        if reason := self._forbidden(path):
            self._done[path] = before or (0, 0, 0)
            self._report_skipped(reason)
            return
        position = self._position_of(path)
        whole = self._options.mode in WHOLE_FILES
        try:
            ended = self._read_whole(path, position) if whole else self._read_pieces(path, position)
            failed = False
        except (OSError, ValueError, EventsRejectedError) as error:
            self._report_skipped(f"{path}: {getattr(error, 'strerror', None) or error}")
            ended = failed = True
        if not ended or before is None:
            return
        options = self._options
        action = options.action_after_failure if failed else options.action_after_process
        target = options.move_after_failure if failed else options.move_after_process
        try:
            if action == "delete":
                path.unlink(missing_ok=True)
            elif action == "move":
                _move(path, path_of(target))
            else:
                self._done[path] = before
                return
            position.path.unlink(missing_ok=True)
        except OSError as error:
            self._done[path] = before  # the file has been read and is not read again
            self._report_problem(f"{path} has been read, but {action} failed: {error.strerror or error}")

    def _read_pieces(self, path: Path, position: ReadPosition) -> bool:
        """Return whether the file has been read to its end."""
        lines = FileLines(path, position.load(), tailing=False, cutter=self._events.cutter)
        try:
            while not (self._ending.is_set() or lines.ended):
                found = lines.next()
                if found is not None and self._bring(found):
                    self._keep(found.behind, position)
        finally:
            lines.close()
        return lines.ended and not self._ending.is_set()

    def _read_whole(self, path: Path, position: ReadPosition) -> bool:
        """Read a file that is one body, as `_read_pieces` does."""
        before = position.load()
        with open_regular(path) as file:
            status = path.stat()
            if before is not None and (before.device, before.inode, before.offset) == (
                status.st_dev, status.st_ino, status.st_size,
            ):  # fmt: skip
                return True
            data = file.read(self._most_bytes + 1)
        if len(data) > self._most_bytes:
            raise EventsRejectedError("too-large", f"it is larger than http.body_bytes ({self._most_bytes})")
        batch = self._events.read_whole(data, self._now_ms())
        if not self._accepted(batch):
            return False
        self._keep(FilePosition(status.st_dev, status.st_ino, len(data)), position)
        return True


def _seen(path: Path) -> _Seen | None:
    """Return a value that changes when the file changes; None if it is not a regular file."""
    try:
        if path.is_symlink() or not path.is_file():
            return None
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _move(path: Path, folder: Path) -> None:
    """Move the file to `folder`, under a unique name.

    Raises:
        OSError: it cannot be moved.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target, number = folder / path.name, 0
    while target.exists():
        number += 1
        target = folder / f"{path.name}.{number}"
    shutil.move(path, target)
