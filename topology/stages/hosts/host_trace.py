"""What tells, after a stage host has died, which plan was at work in it: a small file in memory that outlives it.

The host writes the plan's key before each turn and takes it away after it, which costs no system call. It holds a lock
on its file as long as it lives, so another host of the machine knows a file whose host is dead, and reads it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from cep_common.ids import PlanKey
from cep_common.process.private_folders import make_private

_SIZE = 4096
_LENGTH = struct.Struct("=I")


def default_folder() -> Path:
    """Return where the hosts of this user on this machine keep their files."""
    return Path(tempfile.gettempdir()) / f"cep-stage-hosts-{os.getuid()}"


class HostTrace:
    """The file of one host. `note` and `close` are for one thread."""

    def __init__(self, host: str, folder: Path) -> None:
        """Create the trace file of `host` in `folder`. Raise OSError when that fails."""
        make_private(folder)
        self._path = folder / host
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._file, _SIZE)
            self._memory = mmap.mmap(self._file, _SIZE)
        except BaseException:
            os.close(self._file)
            raise

    def note(self, key: PlanKey | None) -> None:
        """Record that the plan `key` is being processed from now on; None: no plan is."""
        if key is None:
            self._memory[: _LENGTH.size] = bytes(_LENGTH.size)
            return
        data = msgspec.json.encode(key)[: _SIZE - _LENGTH.size]
        self._memory[_LENGTH.size : _LENGTH.size + len(data)] = data
        self._memory[: _LENGTH.size] = _LENGTH.pack(len(data))

    def close(self) -> None:
        """Take the file away: the host ends in order."""
        self._path.unlink(missing_ok=True)
        self._memory.close()
        os.close(self._file)


def left_behind(folder: Path) -> Iterator[tuple[str, PlanKey]]:
    """Yield each host of this machine that has died, with the plan that was at work then, and remove its file."""
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return
    for path in paths:
        # Another process may have read and removed it, or its host is up.
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            key = _read(path)
            if key is not None:
                yield path.name, key


def _read(path: Path) -> PlanKey | None:
    file = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        data = os.pread(file, _SIZE, 0)
        if len(data) < _SIZE:
            return None  # it is being made
        path.unlink()
    finally:
        os.close(file)
    (length,) = _LENGTH.unpack_from(data)
    return msgspec.json.decode(data[_LENGTH.size : _LENGTH.size + length], type=PlanKey) if length else None
