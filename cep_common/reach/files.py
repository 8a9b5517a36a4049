"""Which files plans may open: those in listed folders, and never those of the system itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

APPLICATION_ID = 0x43455053
"""The `PRAGMA application_id` of managers' SQLite files, by which they are recognised anywhere: "CEPS"."""

NOT_LISTED = "is in none of the folders whose files plans may use"
_KERNEL = ("/proc", "/sys", "/dev")
"""Folders without regular files: the process's own memory, its open files, devices."""
_SQLITE = b"SQLite format 3\0"
_BESIDE_SQLITE = ("-wal", "-shm", "-journal")

Resolve = Callable[[str], str]


def is_within(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or in it; both are absolute and without links."""
    return Path(path).is_relative_to(folder)


def is_system_database(path: str) -> bool:
    """Return whether the file is a manager's database, or a file that SQLite keeps beside it."""
    for suffix in _BESIDE_SQLITE:
        path = path.removesuffix(suffix)
    with suppress(OSError), open(path, "rb") as file:
        head = file.read(100)
        return head.startswith(_SQLITE) and int.from_bytes(head[68:72], "big") == APPLICATION_ID
    return False


def refuse_file(path: str, folders: Iterable[str], protected: Iterable[str], resolve: Resolve, here: bool) -> str:
    """Return why the file may not be opened, without the key that would allow it; empty when it may.

    Args:
        path: The path as written in the plan.
        folders: The folders in which files may be opened.
        protected: Files and folders of the system.
        resolve: Makes a path absolute, and follows links if the file is on this host.
        here: Whether the file is on this host, so that its content is inspected as well.
    """
    if "\0" in path:
        return "is not a file name"
    real = resolve(path)
    # Python distinguishes `//x` from `/x`, the kernel does not.
    real = "/" + real.lstrip("/") if real.startswith("//") else real
    if any(is_within(real, folder) for folder in _KERNEL):
        return "belongs to the kernel"
    if any(is_within(real, resolve(one)) for one in protected) or (here and is_system_database(real)):
        return "belongs to this system"
    if not any(is_within(real, resolve(folder)) for folder in folders):
        return NOT_LISTED
    return ""


def real_path(path: str) -> str:
    """Return the absolute path of a file of this host, with links resolved."""
    return os.path.realpath(path)


def written_path(working_folder: str, path: str) -> str:
    """Return the absolute path of a file of a process whose working folder is `working_folder` on another host.

    It is derived without access to that host.
    """
    return os.path.normpath(os.path.join("/", working_folder, path))
