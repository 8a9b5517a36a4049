"""Follow the lines of a growing file, across truncation and rotation.

    path ──► events.log, 3 lines read ──► renamed, a new file of that name ──► its first line
                 └── its remaining lines are read first, including those still written for a while

It uses no threads and never blocks.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Protocol

import msgspec

CHUNK_BYTES = 262_144
"""The bytes that are read at once, which is also the maximum length of a line."""
_HEAD_BYTES = 256
"""The number of leading bytes by which a file is recognised, since inodes are reused."""


class FilePosition(msgspec.Struct, frozen=True):
    """The read position in a file: bytes, and the lines that end in them.

    `head` is the digest of its first bytes, up to 256 of those that were read. `overlong` says that the position is
    within a line that is too long.
    """

    device: int
    inode: int
    offset: int = 0
    lines: int = 0
    head: str = ""
    overlong: bool = False


class Lines(msgspec.Struct, frozen=True):
    """Consecutive complete lines, the first of which is number `first` (from 1), and where reading continues.

    `too_long` marks a single line that is too long.
    """

    data: bytes
    first: int
    behind: FilePosition
    too_long: bool = False


class Splitter(Protocol):
    """Splits a file into pieces, each of which may be an event.

    Statements about lines also apply to pieces.
    """

    def whole(self, data: bytes) -> int:
        """Return the length of the prefix of `data` that consists of complete pieces and their separators."""

    def pieces(self, data: bytes) -> list[bytes]:
        """Return the pieces of `data`, the last of which may lack its end at the end of a file."""


class LineSplitter:
    """Splits a file into lines."""

    def whole(self, data: bytes) -> int:
        return data.rfind(b"\n") + 1

    def pieces(self, data: bytes) -> list[bytes]:
        return data.removesuffix(b"\n").split(b"\n")


class FileLines:
    """Reads the file at `path` from `position` on, or from its beginning if the position is of another file.

    With `tailing` only complete lines are returned, and appended lines follow; a renamed file is left when `next` has
    found nothing in it `patience` times in a row. Otherwise the file is read to its end once, and `ended` becomes true.
    """

    def __init__(
        self,
        path: Path,
        position: FilePosition | None,
        tailing: bool,
        patience: int = 1,
        cutter: Splitter | None = None,
    ) -> None:
        self._path = path
        self._cutter = cutter or LineSplitter()
        self._position = position
        self._tailing = tailing
        self._patience = patience
        self._in_vain = 0
        self._file: BinaryIO | None = None
        self.ended = False

    def next(self) -> Lines | None:
        """Return the next lines; None if there are none now.

        Raises:
            OSError: the file cannot be read; a missing file has no lines.
        """
        if self.ended:
            return None
        file = self._file or self._open()
        if file is None:
            return None
        position = self._begun(file)
        file.seek(position.offset)
        data = file.read(CHUNK_BYTES)
        whole = self._cutter.whole(data)
        if whole:
            return self._taken(data[:whole], file, position)
        if len(data) == CHUNK_BYTES:
            behind = self._moved(file, position, len(data), 0, overlong=True)
            return Lines(b"", position.lines + 1, behind, too_long=not position.overlong)
        return self._last(data, file, position)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> BinaryIO | None:
        try:
            self._file = open_regular(self._renamed() or self._path)
        except FileNotFoundError:
            return None
        return self._file

    def _renamed(self) -> Path | None:
        """Return the file of the position if it was renamed within its folder and is not fully read."""
        position = self._position
        if position is None or not self._tailing or _has_number(self._path, position):
            return None
        for other in self._path.parent.iterdir():
            if _has_number(other, position) and other.stat().st_size > position.offset:
                with open_regular(other) as file:
                    if _is_continued(file, position):
                        return other
        return None

    def _begun(self, file: BinaryIO) -> FilePosition:
        """Return where to continue: at the beginning if the file was replaced or truncated."""
        if self._position is None or not _is_continued(file, self._position):
            status = os.fstat(file.fileno())
            self._position = FilePosition(status.st_dev, status.st_ino)
        return self._position

    def _taken(self, data: bytes, file: BinaryIO, position: FilePosition) -> Lines:
        self._in_vain = 0
        behind = self._moved(file, position, len(data), len(self._cutter.pieces(data)))
        if not position.overlong:
            return Lines(data, position.lines + 1, behind)
        return Lines(data.partition(b"\n")[2], position.lines + 2, behind)  # the first is the end of the previous one

    def _last(self, data: bytes, file: BinaryIO, position: FilePosition) -> Lines | None:
        """Return the incomplete last line, if it will not be completed."""
        if self._tailing:
            self._in_vain = self._in_vain + 1 if self._is_replaced(position) else 0
            if self._in_vain < self._patience or not self._in_vain:
                return None
        self._in_vain = 0
        self.ended = not self._tailing
        lines = None
        if data and not position.overlong:
            lines = Lines(data, position.lines + 1, self._moved(file, position, len(data), 1))
        elif self._tailing:
            self._position = None
        self.close()
        return lines

    def _is_replaced(self, position: FilePosition) -> bool:
        """Return whether another file has the name now. A renamed file may have no successor for a while."""
        return self._path.exists() and not _has_number(self._path, position)

    def _moved(
        self, file: BinaryIO, position: FilePosition, size: int, lines: int, overlong: bool = False
    ) -> FilePosition:
        offset = position.offset + size
        head = position.head if position.offset >= _HEAD_BYTES else _head(file, offset)
        self._position = msgspec.structs.replace(
            position, offset=offset, lines=position.lines + lines, head=head, overlong=overlong
        )
        return self._position


def open_regular(path: Path) -> BinaryIO:
    """Return the file at `path`.

    Raises OSError if it cannot be read, or is a pipe, a device, or a folder.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", closefd=True)
    if not S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is not a regular file")
    return file


def _has_number(path: Path, position: FilePosition) -> bool:
    """Return whether the file at `path` has the inode of `position`."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return (status.st_dev, status.st_ino) == (position.device, position.inode)


def _is_continued(file: BinaryIO, position: FilePosition) -> bool:
    """Return whether `file` is the file of `position`, and still begins with the same bytes."""
    status = os.fstat(file.fileno())
    same = (status.st_dev, status.st_ino) == (position.device, position.inode) and status.st_size >= position.offset
    return same and _head(file, position.offset) == position.head


def _head(file: BinaryIO, offset: int) -> str:
    """Return the digest of the first bytes up to `offset`; empty for none."""
    file.seek(0)
    return sha256(file.read(min(offset, _HEAD_BYTES))).hexdigest()[:16] if offset else ""
