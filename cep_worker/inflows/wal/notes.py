"""Notes beside a log, which a process of a worker leaves for the next one."""

from __future__ import annotations

import logging
from pathlib import Path

from cep_worker.inflows.wal.identity import read_failed, read_former, read_given_up, write_failed, write_given_up

logger = logging.getLogger(__name__)


class LogNotes:
    """The notes in the folder of a log. Losing one costs repeated work, so a full disk is only reported."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def failed_to(self) -> int:
        """Return the position up to which events that cannot be converted were stored as failed."""
        return read_failed(self._folder)

    def note_failed(self, position: int) -> None:
        """Record that events up to `position` that cannot be converted were stored as failed."""
        try:
            write_failed(self._folder, position)
        except OSError as error:  # the disk is full: they may be stored twice
            self._warn("position of failed events", error)

    def given_up(self) -> frozenset[int]:
        """Return the positions of records that are no longer sent."""
        return read_given_up(self._folder)

    def note_given_up(self, positions: frozenset[int], unneeded: int) -> None:
        """Record that the records at these positions are no longer sent; those up to `unneeded` are not read again."""
        try:
            write_given_up(self._folder, [one for one in positions if one > unneeded])
        except OSError as error:  # the disk is full: the next process detects them again
            self._warn("positions of skipped events", error)

    def former(self, epoch: int) -> str:
        """Return the receiver instance of the last link in `epoch`, or an empty text."""
        return read_former(self._folder, epoch)

    def _warn(self, what: str, error: OSError) -> None:
        logger.warning("cannot save the %s: folder=%s reason=%s", what, self._folder, error.strerror)
