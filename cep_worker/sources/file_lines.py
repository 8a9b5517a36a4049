"""The lines of a file that grows, and how far they are read: through truncation, and when another file takes its place.

    path ──► events.log, 3 lines read ──► renamed, a new file of that name ──► its first line
                 └── what is left of it is read first, as whoever renamed it may still have written to it

Knows no thread and no event; nothing waits.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import msgspec

CHUNK_BYTES = 262_144
"""So much is read at once; a line that is longer is none."""


class Position(msgspec.Struct, frozen=True):
    """What of which file is read: bytes, and the lines in them."""

    device: int
    inode: int
    offset: int = 0
    lines: int = 0


class Lines(msgspec.Struct, frozen=True):
    """Whole lines that follow each other, of which the first has the number `first` (from 1), and where reading goes on
    behind them. `too_long` says that there is a line instead that is too long to be taken."""

    data: bytes
    first: int
    behind: Position
    too_long: bool = False


class FileLines:
    """Reads the file at `path` from `position` on, or from its beginning if that is of another file.

    With `tailing` a line counts once its end is there, and what is appended follows. Otherwise the file is read to its
    end once: then `ended` is true.
    """

    def __init__(self, path: Path, position: Position | None, tailing: bool) -> None:
        self._path = path
        self._position = position
        self._tailing = tailing
        self._file: BinaryIO | None = None
        self._overlong = False
        self.ended = False

    def next(self) -> Lines | None:
        """The lines that follow; None when there are none now. OSError when the file cannot be read; one that is not
        there has no lines."""
        if self.ended:
            return None
        file = self._file or self._open()
        if file is None:
            return None
        position = self._begun(file)
        file.seek(position.offset)
        data = file.read(CHUNK_BYTES)
        whole = data.rfind(b"\n") + 1
        if whole:
            return self._taken(data[:whole], position)
        if len(data) == CHUNK_BYTES:
            return self._passed_over(data, position)
        return self._last(data, file, position)

    def close(self) -> None:
        """The file is not held any more."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> BinaryIO | None:
        try:
            self._file = (self._renamed() or self._path).open("rb")
        except FileNotFoundError:
            return None
        return self._file

    def _renamed(self) -> Path | None:
        """The file of the position, if it stands in the same folder under another name, and is not read to its end."""
        position = self._position
        if position is None or not self._tailing or _is_at(self._path, position):
            return None
        for other in self._path.parent.iterdir():
            if _is_at(other, position):
                return other if other.stat().st_size > position.offset else None
        return None

    def _begun(self, file: BinaryIO) -> Position:
        """Where to read on: at the beginning of a file that is another one, or was cut."""
        status = os.fstat(file.fileno())
        position = self._position
        same = position is not None and (position.device, position.inode) == (status.st_dev, status.st_ino)
        if position is None or not same or status.st_size < position.offset:
            position = self._position = Position(status.st_dev, status.st_ino)
            self._overlong = False
        return position

    def _taken(self, data: bytes, position: Position) -> Lines:
        count = data.count(b"\n")
        behind = self._moved(position, len(data), count)
        if not self._overlong:
            return Lines(data, position.lines + 1, behind)
        self._overlong = False  # the first of them is the end of the one that was passed over
        return Lines(data.partition(b"\n")[2], position.lines + 2, behind)

    def _passed_over(self, data: bytes, position: Position) -> Lines:
        """A piece of a line that is longer than all that is read at once."""
        told, self._overlong = self._overlong, True
        return Lines(b"", position.lines + 1, self._moved(position, len(data), 0), too_long=not told)

    def _last(self, data: bytes, file: BinaryIO, position: Position) -> Lines | None:
        """What stands at the end without a line end counts as a line if nobody will end it."""
        if self._tailing and not self._is_replaced(position):
            return None
        file.seek(position.offset)
        if len(file.read(CHUNK_BYTES)) > len(data):
            return self.next()  # written in the moment before another one took its place
        self.close()
        self.ended = not self._tailing
        if not data or self._overlong:
            self._position = None if self._tailing else self._position
            return None
        return Lines(data, position.lines + 1, self._moved(position, len(data), 1))

    def _is_replaced(self, position: Position) -> bool:
        """Whether another file has the name now; one that was renamed may be followed by none for a while."""
        return self._path.exists() and not _is_at(self._path, position)

    def _moved(self, position: Position, size: int, lines: int) -> Position:
        self._position = msgspec.structs.replace(position, offset=position.offset + size, lines=position.lines + lines)
        return self._position


def _is_at(path: Path, position: Position) -> bool:
    """Whether the file at `path` is that of `position`."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return (status.st_dev, status.st_ino) == (position.device, position.inode)
