"""The delivery progress of one publisher's results: a small file beside its group files.

After a restart it shows what each consumer has, and which files must exist, so that missing or truncated files are
detected.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cep_common.process.atomic_files import write_atomically
from cep_worker.storage.checked_json import copy_of, read_checked, with_checksum
from cep_worker.storage.file_changes import replaced

FILE = "progress.json"


class DeliveryPosition(msgspec.Struct, frozen=True):
    """The progress of a consumer (see `Tap`): all files up to number `done`, and `frames` frames of the next one."""

    stream: str
    name: str
    form: str
    done: int
    frames: int = 0


class DeliveryProgress(msgspec.Struct, frozen=True):
    """The delivery progress of the publisher's log with the identity `log`.

    `rows` rows to be delivered were written to its files; files up to number `dropped`, with `dropped_rows` rows, were
    delivered and deleted.
    """

    log: str
    rows: int = 0
    dropped: int = 0
    dropped_rows: int = 0
    consumers: tuple[DeliveryPosition, ...] = ()


def read_progress(folder: Path) -> DeliveryProgress | None:
    """Return the stored progress; None if it is unknown, so that consumers may get results again.

    Raises OSError.
    """
    # with a checksum, since a corrupted number would delete files that have not been delivered
    return read_checked(folder / FILE, DeliveryProgress)


def write_progress(folder: Path, progress: DeliveryProgress) -> None:
    """Write `progress`, without a sync.

    Raises OSError.
    """
    data = with_checksum(progress)
    for place in (copy_of(folder / FILE), folder / FILE):
        write_atomically(place, data)
        replaced(place)
