"""Atomic appends of groups of results to a file, each exactly once.

    write    frames go to an unnamed file, one for each log, since groups of several logs may be open
    commit   1  the group's frames become <file>.pending, which is synced
             2  <file>.commits says: this group is there, and is in <file>.pending for <file> from its length on
             3  <file>.pending is appended to <file>
             4  <file>.commits says: this group is there

A commit that was interrupted between 2 and 4 is continued at 3 when the file is opened again; one that was interrupted
before 2 did not happen.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

import msgspec

from cep_common.process.atomic_files import sync_folder, write_atomically
from cep_worker.outflows.consumers import FrameId, GroupId

logger = logging.getLogger(__name__)

MOST_LOGS = 1_000
"""The number of logs (one for each publisher instance and epoch) whose newest group is stored."""

COPIED_BYTES = 1_048_576

Checkpoint = tuple[int, int, int]
"""(epoch, attempt, checkpoint) of a group; groups of a log come in this order."""


class PendingGroup(msgspec.Struct, frozen=True):
    """A pending file of `size` bytes, to be appended after the first `length` bytes of the file."""

    length: int
    size: int


class CommittedGroups(msgspec.Struct, frozen=True):
    """The newest group of each log in the file, and the file's length with them (0: unknown)."""

    newest: dict[str, Checkpoint] = {}
    pending: PendingGroup | None = None
    length: int = 0


@dataclass(slots=True)
class _BegunGroup:
    """The frames of a group up to `frame`."""

    frame: FrameId
    file: IO[bytes]


class FileGroups:
    """Appends groups to the file at `path`.

    Belongs to one thread and locks the file. After an OSError the call may be repeated.
    """

    def __init__(self, path: Path) -> None:
        """Open the groups of the file at `path`.

        Raises:
            BlockingIOError: the file is open elsewhere; OSError when it cannot be opened.
        """
        self._path = path
        self.missing_bytes = 0
        """Committed bytes that are missing from the file because it was truncated or replaced."""
        self._commits_path = path.with_name(f"{path.name}.commits")
        self._staging: BinaryIO = path.with_name(f"{path.name}.pending").open("ab+", buffering=0)
        try:
            fcntl.flock(self._staging, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._commits = _read(self._commits_path)
            self._note_missing()
            self._redo()
        except BaseException:
            self._staging.close()
            raise
        self._begun: dict[str, _BegunGroup] = {}
        """The uncommitted group of each log."""

    def has(self, group: GroupId) -> bool:
        """Return whether the file holds the group already."""
        newest = self._commits.newest.get(group.log)
        return newest is not None and newest >= _checkpoint(group)

    def begin(self, frame: FrameId) -> None:
        """Begin to write `frame` after the earlier frames of its group.

        A repeated group starts over, and an uncommitted group of the same log is discarded.
        """
        begun = self._begun.get(frame.group.log)
        if begun is None or not frame.follows(begun.frame):
            self._forget(frame.group.log)
            file = tempfile.TemporaryFile(dir=self._path.parent, buffering=0)  # noqa: SIM115 - closed by _forget
            begun = self._begun[frame.group.log] = _BegunGroup(frame, file)
        begun.frame = frame

    def write(self, log: str, text: memoryview) -> int:
        """Write `text` to the current frame of `log`. Return how many bytes were written; write the others again."""
        return self._begun[log].file.write(text)

    def commit(self, group: GroupId) -> None:
        """Append the group to the file, unless the file contains it already."""
        self._redo()
        if not self.has(group):
            size = self._stage(group)
            os.fsync(self._staging.fileno())
            newest = {log: last for log, last in self._commits.newest.items() if log != group.log}
            for log in list(newest)[: max(0, len(newest) - MOST_LOGS + 1)]:
                del newest[log]
            self._note_missing()
            length = self._end_line()
            self._note(CommittedGroups({**newest, group.log: _checkpoint(group)}, PendingGroup(length, size), length))
            self._redo()
        self._forget(group.log)

    def close(self) -> None:
        """Close the files and discard uncommitted groups."""
        for log in list(self._begun):
            self._forget(log)
        self._staging.close()

    def _stage(self, group: GroupId) -> int:
        """Write exactly the group's frames to the pending file, and return their size."""
        self._staging.truncate(0)
        begun = self._begun.get(group.log)
        if begun is None or begun.frame.group != group:
            return 0
        begun.file.seek(0)
        while text := begun.file.read(COPIED_BYTES):
            rest = memoryview(text)
            while rest:
                rest = rest[self._staging.write(rest) :]
        return self._staging.seek(0, os.SEEK_END)

    def _forget(self, log: str) -> None:
        begun = self._begun.pop(log, None)
        if begun is not None:
            begun.file.close()

    def _redo(self) -> None:
        """Append a committed group that may not be in the file yet."""
        pending = self._commits.pending
        if pending is None:
            return
        if self._staging.seek(0, os.SEEK_END) != pending.size:
            raise OSError(f"{self._staging.name} does not match {self._commits_path}")
        self._staging.seek(0)
        with self._path.open("ab") as file:
            file.truncate(min(pending.length, file.seek(0, os.SEEK_END)))
            shutil.copyfileobj(self._staging, file)
            file.flush()
            os.fsync(file.fileno())
            length = file.tell()
        self._note(CommittedGroups(self._commits.newest, None, length))

    def _note_missing(self) -> None:
        """Count committed bytes that are missing from the file, once.

        Later groups are appended to the present contents.
        """
        size = self._path.stat().st_size if self._path.exists() else 0
        pending = self._commits.pending
        missing = (pending.length if pending is not None else self._commits.length) - size
        if missing <= 0:
            return
        size = self._end_line()
        if pending is not None:
            pending = PendingGroup(size, pending.size)
        self._note(CommittedGroups(self._commits.newest, pending, size))
        self.missing_bytes += missing
        logger.error("output file is shorter than what was committed to it, results are missing from it: "
                     "file=%s bytes=%d", self._path, missing)  # fmt: skip

    def _end_line(self) -> int:
        """End an incomplete line, and return the file's length."""
        with self._path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    size += file.write(b"\n")
        return size

    def _note(self, commits: CommittedGroups) -> None:
        write_atomically(self._commits_path, msgspec.json.encode(commits), durable=True)
        sync_folder(self._path.parent)
        self._commits = commits


def _checkpoint(group: GroupId) -> Checkpoint:
    return group.epoch, group.attempt, group.checkpoint


def _read(path: Path) -> CommittedGroups:
    try:
        return msgspec.json.decode(path.read_bytes(), type=CommittedGroups)
    except FileNotFoundError:
        return CommittedGroups()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OSError(f"{path} cannot be parsed: {error}") from error
