"""Which files plans may open: those in folders of a list, and never those of the system itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

APPLICATION_ID = 0x43455053
"""The mark of SQLite files of managers (`PRAGMA application_id`), wherever they are: "CEPS"."""

NOT_LISTED = "is in none of the folders whose files plans may use"
_KERNEL = ("/proc", "/sys", "/dev")
"""Places without regular files: the process's own memory, its open files, devices."""
_SQLITE = b"SQLite format 3\0"
_BESIDE_SQLITE = ("-wal", "-shm", "-journal")

Resolve = Callable[[str], str]


def is_within(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or in it; both are whole and without links."""
    return Path(path).is_relative_to(folder)


def is_system_database(path: str) -> bool:
    """Return whether the file is the database of a manager, or one that SQLite keeps beside that."""
    for suffix in _BESIDE_SQLITE:
        path = path.removesuffix(suffix)
    with suppress(OSError), open(path, "rb") as file:
        head = file.read(100)
        return head.startswith(_SQLITE) and int.from_bytes(head[68:72], "big") == APPLICATION_ID
    return False


def refuse_file(path: str, folders: Iterable[str], protected: Iterable[str], resolve: Resolve, here: bool) -> str:
    """Why the file may not be opened, without the key that would allow it; empty when it may.

    Args:
        path: As the plan has it.
        folders: The folders in which files may be opened.
        protected: Files and folders of the system.
        resolve: Makes a path whole, and follows its links where the file is of this host.
        here: Whether it is; then its content is looked at as well.
    """
    if "\0" in path:
        return "is not a name of a file"
    real = resolve(path)
    # `//x` is a path of its own to Python, and the same as `/x` to the kernel.
    real = "/" + real.lstrip("/") if real.startswith("//") else real
    if any(is_within(real, folder) for folder in _KERNEL):
        return "belongs to the kernel"
    if any(is_within(real, resolve(one)) for one in protected) or (here and is_system_database(real)):
        return "belongs to this system"
    if not any(is_within(real, resolve(folder)) for folder in folders):
        return NOT_LISTED
    return ""


def real_path(path: str) -> str:
    """Return the whole path of a file of this host, with links resolved."""
    return os.path.realpath(path)


def written_path(working_folder: str, path: str) -> str:
    """Return the whole path of a file of a process that works in `working_folder` of another host.

    It is derived without access to that host.
    """
    return os.path.normpath(os.path.join("/", working_folder, path))
