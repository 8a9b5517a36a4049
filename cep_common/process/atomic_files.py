"""Atomic replacement of files: a reader finds the old contents or the new ones, never a part."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path


def write_atomically(
    path: Path, data: bytes, *, durable: bool = False, mode: int | None = None, several_writers: bool = False
) -> None:
    """Replace the file at `path`, whose folder exists, by one with `data`.

    Args:
        path: The file; it need not exist.
        data: The new contents.
        durable: Write the contents to the disk first, so that they survive a loss of power.
        mode: Permissions of the new file; by default those that the process gives to files.
        several_writers: Other processes may replace the file at the same time.

    Raises:
        OSError: The file cannot be written; the old one is unchanged.
    """
    new = path.with_name(f"{path.name}.{os.getpid()}.new" if several_writers else f"{path.name}.new")
    try:
        with new.open("wb") as file:
            if mode is not None:  # before it has any contents
                os.fchmod(file.fileno(), mode)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        with suppress(OSError):  # on a full disk it would take the space that the next attempt needs
            new.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Sync the entries of `folder` to the disk, where its file system can do that.

    Raises:
        OSError: The disk fails, or the folder does not exist.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
