"""Events that were on the disk and could not be read again: how many, over all processes that ever saw to them."""

from __future__ import annotations

import logging
from bisect import insort
from pathlib import Path

import msgspec

from cep_worker.storage.checked_json import copy_of, read_checked, write_checked
from cep_worker.storage.damaged_files import LOOK_MS

LOST_FILE = "lost.json"

logger = logging.getLogger(__name__)

MOST_PLACES = 1_024
"""Maximum number of remembered places of losses (the newest are kept), and of files with
damaged records."""
MOST_POSITIONS = 256
"""Maximum number of damaged records recorded per file. In a file with more, all records between the first and the
last count as known."""


class LossRecord(msgspec.Struct, frozen=True):
    """`rows` are lost.

    `places` has the newest places where they should have been, with their number at each; `records` the files in which
    single records are damaged, with their positions.
    """

    rows: int = 0
    places: dict[str, int] = {}
    records: dict[str, list[int]] = {}


class Losses:
    """Counts what was lost of the files in a folder, each event once.

    Damage stays where it is and is found again whenever it is read, by this process or a later one. The count stays
    until a person removes its file. Belongs to one thread.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` need not be there before something is lost.

        Raises:
            OSError: it cannot be read.
        """
        self._folder = folder
        self._lost = read_lost(folder)
        self._kept = self._lost.rows > 0
        """The count is on the disk."""
        self._wrote = self._owes = False
        """Written since the last tick, and what was noted since then is not."""
        self._looked_ms: int | None = None

    @property
    def rows(self) -> int:
        """Return how many events are lost."""
        return self._lost.rows

    def note(self, rows: int, place: str) -> None:
        """Count `rows` events lost at `place`; those that were counted there before are not counted again.

        It is saved for later processes, if the disk allows it: the first loss at once, later ones with the next
        tick, as a file may be damaged in thousands of places.
        """
        places = dict(self._lost.places)
        known = places.pop(place, 0)
        if rows <= known:
            return
        newest = (*places.items(), (place, rows))[-MOST_PLACES:]
        self._noted(LossRecord(self._lost.rows + rows - known, dict(newest), self._lost.records))

    def note_record(self, rows: int, place: str, position: int) -> None:
        """Count the events of a damaged record at `position`, or right before it.

        `place` names the file of the record.
        """
        records = dict(self._lost.records)
        positions = list(records.pop(place, ()))
        full = len(positions) >= MOST_POSITIONS
        if position in positions or (full and positions[0] < position < positions[-1]):
            return
        insort(positions, position)
        if full:  # the first and the last one stay
            del positions[1 if position == positions[-1] else -2]
        newest = (*records.items(), (place, positions))[-MOST_PLACES:]
        self._noted(LossRecord(self._lost.rows + rows, self._lost.places, dict(newest)))

    def tick(self, now_ms: int) -> None:
        """Notice after a while that the file was removed, and start counting from 0."""
        if self._owes:
            self._write()
        self._wrote = False
        if not self._kept or (self._looked_ms is not None and now_ms - self._looked_ms < LOOK_MS):
            return
        self._looked_ms = now_ms
        if not (self._folder / LOST_FILE).exists():
            self._lost, self._kept = LossRecord(0, self._lost.places, self._lost.records), False

    def close(self) -> None:
        """Report everything that was noted."""
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
    """Return what is lost of the files in `folder`, as far as that was noted.

    The count is gone when a person has removed the file, not when the file is damaged: then its copy is used, or else
    one event is reported at least.
    """
    path = folder / LOST_FILE
    if not path.exists():
        return LossRecord()
    found = read_checked(path, LossRecord)
    if found is None:
        logger.error("the count of lost events is damaged, and so is its copy; at least 1 is reported: file=%s", path)
    return found or LossRecord(1)


def write_lost(folder: Path, lost: LossRecord) -> None:
    """Write `lost` to `folder`, and a copy.

    The file comes first: a copy alone means that a person has removed the file.
    """
    path = folder / LOST_FILE
    for place in (path, copy_of(path)):
        write_checked(place, lost, copied=False)
