"""How far the results of one publisher have got: a small file beside its group files.

It tells, when the process starts again, what each consumer has had, and what of the files must be there: files that are
gone or end too early are noticed by it.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from cep_common.process.atomic_files import write_atomically
from cep_worker.storage.checked_json import checked, with_checksum
from cep_worker.storage.file_changes import replaced

logger = logging.getLogger(__name__)

FILE = "progress.json"


class DeliveryPosition(msgspec.Struct, frozen=True):
    """A consumer (see `Tap`) has all up to the file of number `done`, and `frames` frames of the next one."""

    stream: str
    name: str
    form: str
    done: int
    frames: int = 0


class DeliveryProgress(msgspec.Struct, frozen=True):
    """`log` is the identity of the publisher's log.

    Its files were given `rows` rows that are to be delivered; those up to number `dropped`, with `dropped_rows` rows,
    were, and are deleted.
    """

    log: str
    rows: int = 0
    dropped: int = 0
    dropped_rows: int = 0
    consumers: tuple[DeliveryPosition, ...] = ()


def read_progress(folder: Path) -> DeliveryProgress | None:
    """Return what is known; None when nothing is.

    Raises OSError.
    """
    path = folder / FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    # With a checksum: a number that is merely another one would have files deleted that nobody has had yet.
    found = checked(data, DeliveryProgress)
    if found is None:
        logger.error("delivery positions are damaged, consumers may get results again: file=%s", path)
    return found


def write_progress(folder: Path, progress: DeliveryProgress) -> None:
    """Keep `progress`, which outlives this process.

    Raises OSError.
    """
    write_atomically(folder / FILE, with_checksum(progress))
    replaced(folder / FILE)
