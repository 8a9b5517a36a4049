"""The read position of a source in its file, stored on disk, and a lock between the workers of a host."""

from __future__ import annotations

import fcntl
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec

from cep_common.process.atomic_files import write_atomically
from cep_worker.sources.file_lines import FilePosition


class ReadPosition:
    """The position of the source that `names` identify, in a file in `folder`.

    Of workers that share the folder, one at a time owns it.
    """

    def __init__(self, folder: Path, *names: str) -> None:
        self._folder = folder
        self.path = folder / f"{sha256('/'.join(names).encode()).hexdigest()[:32]}.json"
        self._lock: BinaryIO | None = None

    def take(self) -> bool:
        """Try to lock the file until `release` or the end of this process. Return whether this succeeded.

        Raises:
            OSError: the folder cannot be written to.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = self.path.with_suffix(".lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        self._lock = lock
        return True

    def release(self) -> None:
        """Unlock the file."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def load(self) -> FilePosition | None:
        """Return the saved position; None if there is none.

        Raises:
            ValueError: it is damaged.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return msgspec.json.decode(data, type=FilePosition)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{self.path} is damaged; remove it to read the file from its beginning") from error

    def save(self, position: FilePosition) -> None:
        """Save the position durably.

        Raises:
            OSError: the disk fails.
        """
        write_atomically(self.path, msgspec.json.encode(position), durable=True)
