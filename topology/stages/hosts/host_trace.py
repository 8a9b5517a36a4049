"""Trace files, which show which plan was running when a stage host died: small memory-mapped files that survive it.

The host writes the plan's key before each turn and clears it afterwards, which needs no system call. It locks its file
while it runs, so other hosts on the machine detect the files of dead hosts and read them. Each driver process has a
folder for its hosts, so that hosts of other drivers and systems never read files in it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from cep_common.ids import PlanKey
from cep_common.process.private_folders import make_private

STALE_S = 24 * 60 * 60
"""How long a folder may be unused until it is removed, since its driver has ended or starts no hosts here any more."""
_SIZE = 4096
_LENGTH = struct.Struct("=I")


def default_folder(host: str) -> Path:
    """Return where `host` and the other hosts of its driver keep their files on this machine.

    A host's name consists of the name of its driver process and a number (`StageHosts`).
    """
    return Path(tempfile.gettempdir()) / f"cep-stage-hosts-{os.getuid()}" / host.rpartition("-")[0]


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
        """Remove the file, since the host ends in order."""
        self._path.unlink(missing_ok=True)
        self._memory.close()
        os.close(self._file)


def left_behind(folder: Path) -> Iterator[tuple[str, PlanKey]]:
    """Yield each dead host of `folder` with the plan that was running, and remove its file.

    This counts as a use of the folder, see `remove_stale`.
    """
    try:
        paths = sorted(folder.iterdir())
        os.utime(folder)
    except FileNotFoundError:
        return
    for path in paths:
        # another process has read and removed it, or its host is up
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            key = _read(path)
            if key is not None:
                yield path.name, key


def remove_stale(folder: Path) -> None:
    """Remove the folders beside `folder` that no host has used for `STALE_S`, and the files of dead hosts in them.

    Raises OSError when the folder above cannot be read.
    """
    for other in folder.parent.iterdir():
        # Another host may remove it as well; it stays if a host in it lives.
        with suppress(OSError):
            if other == folder or time.time() - other.stat().st_mtime < STALE_S:
                continue
            for path in other.iterdir():
                with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
                    _read(path)
            other.rmdir()


def _read(path: Path) -> PlanKey | None:
    file = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        data = os.pread(file, _SIZE, 0)
        if len(data) < _SIZE:
            return None  # it is being created
        path.unlink()
    finally:
        os.close(file)
    (length,) = _LENGTH.unpack_from(data)
    return msgspec.json.decode(data[_LENGTH.size : _LENGTH.size + length], type=PlanKey) if length else None
