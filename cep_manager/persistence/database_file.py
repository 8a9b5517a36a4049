"""The file of a manager's database (SQLite): for its user's eyes alone, and marked as a manager's."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from cep_common.reach.files import APPLICATION_ID

_BESIDE = ("", "-wal", "-shm", "-journal")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_private(path: str) -> None:
    """Make the file, which its user alone may read and write, or take it and those beside it away from others.

    SQLite makes the files beside it with the rights of this one. Raises OSError.
    """
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for suffix in _BESIDE:
        beside = Path(f"{file}{suffix}")
        if beside.exists() and (mode := beside.stat().st_mode) & _OTHERS:
            beside.chmod(stat.S_IMODE(mode) & ~_OTHERS)


def mark(connection: Any) -> None:
    """Mark the file as a manager's, so that no plan opens it, wherever it is.

    The mark goes to the file itself at once, not only to its log. Where that cannot be done now, the next connection
    does it: what is wrong with the database, the statement says for which this one is.
    """
    with suppress(sqlite3.Error):
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
