"""Persistent counts of events that were on disk and could not be read."""

from __future__ import annotations

import logging
from bisect import insort
from pathlib import Path

import msgspec

from cep_worker.storage.checked_json import copy_of, read_checked, write_checked
from cep_worker.storage.damaged_files import LOOK_MS, SUFFIX

LOST_FILE = "lost.json"

logger = logging.getLogger(__name__)

MOST_PLACES = 1_024
"""Maximum number of remembered places of losses (the newest are kept), and of files with
damaged records."""
MOST_POSITIONS = 256
"""Maximum number of damaged records recorded per file. In a file with more, all records between the first and the
last count as known."""


class LossRecord(msgspec.Struct, frozen=True):
    """The stored losses: `rows` lost rows.

    `places` has the newest places of losses with the number of rows at each; `records` has the files with single
    damaged records, and their positions.
    """

    rows: int = 0
    places: dict[str, int] = {}
    records: dict[str, list[int]] = {}


class Losses:
    """Counts the lost events of the files in a folder, each once.

    Damage stays in the files and is found again by each process that reads them. The count stays until an operator
    removes its file. Belongs to one thread.
    """

    def __init__(self, folder: Path) -> None:
        """Read the count in `folder`, which need not exist before a loss.

        Raises:
            OSError: it cannot be read.
        """
        self._folder = folder
        self._lost = read_lost(folder)
        self._kept = self._lost.rows > 0
        """Whether the count is on disk."""
        self._wrote = self._owes = False
        """Whether the count was written since the last tick; later losses are not written yet."""
        self._looked_ms: int | None = None

    @property
    def rows(self) -> int:
        """Return the number of lost events."""
        return self._lost.rows

    def note(self, rows: int, place: str) -> None:
        """Count `rows` events lost at `place`, except those that were counted there before.

        The count is saved if possible: the first loss at once, later ones with the next tick, since a file may be
        damaged in thousands of places.
        """
        places = dict(self._lost.places)
        known = places.pop(place, 0)
        if rows <= known:
            return
        newest = (*places.items(), (place, rows))[-MOST_PLACES:]
        self._noted(LossRecord(self._lost.rows + rows - known, dict(newest), self._lost.records))

    def note_record(self, rows: int, place: str, position: int) -> None:
        """Count the events of a damaged record at `position`, or just before it.

        `place` names the file of the record.
        """
        records = dict(self._lost.records)
        positions = list(records.pop(place, ()))
        full = len(positions) >= MOST_POSITIONS
        if position in positions or (full and positions[0] < position < positions[-1]):
            return
        insort(positions, position)
        if full:  # keep the first and the last one
            del positions[1 if position == positions[-1] else -2]
        newest = (*records.items(), (place, positions))[-MOST_PLACES:]
        self._noted(LossRecord(self._lost.rows + rows, self._lost.places, dict(newest)))

    def tick(self, now_ms: int) -> None:
        """Check from time to time whether the file was removed, and restart counting from 0."""
        if self._owes:
            self._write()
        self._wrote = False
        if not self._kept or (self._looked_ms is not None and now_ms - self._looked_ms < LOOK_MS):
            return
        self._looked_ms = now_ms
        if not (self._folder / LOST_FILE).exists():
            self._lost, self._kept = LossRecord(0, self._lost.places, self._lost.records), False

    def close(self) -> None:
        """Save all counted losses."""
        if self._owes:
            self._write()

    def _noted(self, lost: LossRecord) -> None:
        self._lost = lost
        if self._wrote:
            self._owes = True
        else:
            self._write()

    def _write(self) -> None:
        self._wrote, self._owes = True, False
        try:
            write_lost(self._folder, self._lost)
            self._kept = True
        except OSError as error:
            logger.warning("cannot save the count of lost events: folder=%s events=%d reason=%s",
                           self._folder, self._lost.rows, error.strerror)  # fmt: skip


def read_lost(folder: Path) -> LossRecord:
    """Return the stored losses of the files in `folder`.

    The count is reset when an operator has removed the file. For a damaged file its copy is used, or else at least one
    event is reported.
    """
    path = folder / LOST_FILE
    if not path.exists():
        return LossRecord()
    found = read_checked(path, LossRecord)
    if found is None:
        logger.error("the count of lost events is damaged, and so is its copy; at least 1 is reported: file=%s", path)
    return found or LossRecord(1)


def has_losses(folder: Path) -> bool:
    """Return whether there is a count of lost events, or a file that was set aside, anywhere in `folder`."""
    return any(True for pattern in (LOST_FILE, f"*{SUFFIX}") for _ in folder.rglob(pattern))


def write_lost(folder: Path, lost: LossRecord) -> None:
    """Write `lost` to `folder`, and a copy.

    The file is written first, since a copy alone means that an operator has removed the file.
    """
    path = folder / LOST_FILE
    for place in (path, copy_of(path)):
        write_checked(place, lost, copied=False)
