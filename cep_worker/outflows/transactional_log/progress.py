"""The delivery progress of one publisher's results: a small file beside its group files.

It tells, when the process starts again, what each consumer has had, and what of the files must be there: files that are
gone or end too early are noticed by it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cep_common.process.atomic_files import write_atomically
from cep_worker.storage.checked_json import copy_of, read_checked, with_checksum
from cep_worker.storage.file_changes import replaced

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
    """Return the known state; None when nothing is: consumers may get results again then.

    Raises OSError.
    """
    # With a checksum: a corrupted number would delete files that have not been delivered yet.
    return read_checked(folder / FILE, DeliveryProgress)


def write_progress(folder: Path, progress: DeliveryProgress) -> None:
    """Keep `progress`, which outlives this process.

    Raises OSError.
    """
    data = with_checksum(progress)
    for place in (copy_of(folder / FILE), folder / FILE):
        write_atomically(place, data)
        replaced(place)
