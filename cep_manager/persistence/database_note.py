"""A record next to an SQLite database of its last content: one that was replaced, emptied or put back is noticed.

What SQLite cannot read at the end of its write-ahead file it leaves out without a word: the database is sound then, and
an older one. The note tells.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgspec
import sqlalchemy
from sqlalchemy import Connection

from cep_common.process.atomic_files import write_atomically
from cep_manager.persistence.schema import LEADER, PLANS, system_identity

logger = logging.getLogger(__name__)

SUFFIX = ".last"


class Contents(NamedTuple):
    """The identity of a database, how often its plans were written, and how many there are."""

    system: str
    changes: int
    plans: int


class Note(msgspec.Struct, frozen=True):
    """The last content of the database, and the problem found with it, until an operator removes the file."""

    system: str
    changes: int
    plans: int
    problem: str = ""


def contents_of(connection: Connection) -> Contents:
    """Return a summary of the database's present contents."""
    changes = connection.scalar(sqlalchemy.select(LEADER.c.changes)) or 0
    plans = connection.scalar(sqlalchemy.select(sqlalchemy.func.count()).select_from(PLANS)) or 0
    return Contents(system_identity(connection), int(changes), int(plans))


def problem_of(before: Note, now: Contents) -> str:
    """Return what is wrong with a database that had the contents `before`; empty when nothing is."""
    had = f"it had {before.plans} plans, and has {now.plans}"
    if before.system != now.system:
        return f"it is a different database than before ({had}): workers of the former one accept no plans from it"
    if now.changes < before.changes:
        lacks = before.changes - now.changes
        return f"it is an old copy, or its newest changes could not be read: {lacks} changes are missing ({had})"
    return f"its plans are gone: {had}" if before.plans and not now.plans else ""


class DatabaseNote:
    """The note in `<database>.last`. Any thread may use it."""

    def __init__(self, database: Path | None) -> None:
        """`database` is the file; None: nothing is recorded."""
        self._path = database.with_name(f"{database.name}{SUFFIX}") if database is not None else None
        self._noted: Note | None = None

    def check(self, read: Callable[[], Contents]) -> None:
        """Compare what `read` finds in the database with the record, before anything is written to it."""
        before = self._read()  # first: another manager may be writing to the database
        now = read()
        found = problem_of(before, now) if before is not None else ""
        if found:
            logger.error("the database has changed unexpectedly: file=%s %s", self._path, found)
        self._noted = Note(*now, found or (before.problem if before is not None else ""))
        if self._noted != before:
            self._write(self._noted)

    def written(self, now: Contents) -> None:
        """Note the database's contents after plans were written."""
        if self._path is None:
            return
        note = Note(*now, self.problem())
        if note != self._noted:
            self._noted = note
            self._write(note)

    def problem(self) -> str:
        """Return the problem found in the database, until an operator removes the note."""
        noted = self._noted
        if noted is None or self._path is None or not noted.problem:
            return ""
        return noted.problem if self._path.exists() else ""

    def where(self) -> str:
        """Return the name of the note's file."""
        return str(self._path or "")

    def _read(self) -> Note | None:
        if self._path is None:
            return None
        try:
            text, _, checksum = self._path.read_bytes().rpartition(b"\n#")
            if checksum.strip() == f"{crc32(text):08x}".encode():
                return msgspec.json.decode(text, type=Note)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            logger.warning("the note of the database's contents cannot be read: file=%s reason=%s", self._path, error)
            return None
        logger.warning("the note of the database's contents is damaged: file=%s", self._path)
        return None

    def _write(self, note: Note) -> None:
        if self._path is None:
            return
        data = msgspec.json.encode(note)
        sealed = data + f"\n#{crc32(data):08x}\n".encode()
        try:
            write_atomically(self._path, sealed, mode=0o600, several_writers=True)
        except OSError as error:
            logger.warning("note of the database's contents not written: file=%s reason=%s", self._path, error.strerror)
