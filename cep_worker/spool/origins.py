"""What a log has taken of batches that may come again: the newest of each source of them, so that none counts twice.

A record tells where its batch came from (`cep_worker.spool.records`), and so both get to the disk or neither does. What
the log's present file does not tell is in a file beside it, written when another one begins or the last one is freed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

import msgspec

from cep_worker.spool.identity import read_note, write_note
from cep_worker.spool.records import Origin

logger = logging.getLogger(__name__)

ORIGINS_FILE = "origins.json"
MOST_SOURCES = 4_096
"""So many sources are remembered, those of which something came last: each run of a plan that feeds this one has some,
and does not come again once it is over."""


class Newest(msgspec.Struct, frozen=True):
    """By source, in hexadecimal digits: the number of the newest batch, and its position in the log."""

    sources: dict[str, tuple[int, int]] = {}


class Origins:
    """Belongs to the log's thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._newest: dict[bytes, tuple[int, int]] = {}
        self._changed = False

    def recover(self, found: Iterable[tuple[Origin, int]], last_position: int) -> None:
        """The log ends at `last_position`; `found` are the origins in its last file, with their positions. What was
        noted of later positions never got to the log, or is lost: it may come again."""
        kept = read_note(self._folder / ORIGINS_FILE, Newest) or Newest()
        for source, (number, position) in kept.sources.items():
            if position <= last_position:
                self._newest[bytes.fromhex(source)] = (number, position)
        for origin, position in found:
            self.note(origin, position)

    def has(self, origin: Origin) -> bool:
        """The log has taken the batch, or a later one of its source."""
        newest = self._newest.get(origin.source)
        return newest is not None and origin.number <= newest[0]

    def note(self, origin: Origin, position: int) -> None:
        """The batch stands in the log at `position`."""
        self._newest.pop(origin.source, None)
        self._newest[origin.source] = (origin.number, position)
        if len(self._newest) > MOST_SOURCES:
            del self._newest[next(iter(self._newest))]
        self._changed = True

    def keep(self) -> None:
        """All is known even when the files are gone that tell of it. Raises OSError."""
        if self._changed:
            sources = {source.hex(): newest for source, newest in self._newest.items()}
            write_note(self._folder / ORIGINS_FILE, Newest(sources))
            self._changed = False

    def keep_if_possible(self) -> None:
        """As `keep`, where files must be freed: on a full disk that something may count twice is the lesser evil."""
        try:
            self.keep()
        except OSError as error:
            logger.warning("not noted which results have come already: folder=%s reason=%s",
                           self._folder, error.strerror)  # fmt: skip
