"""Acknowledgements that wait for the disk, as its policy asks, and then for the passive node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cep_worker.mirror.sender import MirrorSender
from cep_worker.storage.group_commit import DiskSync, Syncable


class MirroredDiskSync(DiskSync):
    """Like `DiskSync`, but events count as safe only when the passive node has them, too."""

    mirrors = True

    def __init__(self, disk: DiskSync, mirror: MirrorSender) -> None:
        self._disk = disk
        self._mirror = mirror

    def start(self) -> None:
        self._disk.start()

    def opened(self, log: Syncable) -> None:
        self._disk.opened(log)

    def closed(self, log: Syncable) -> None:
        self._disk.closed(log)

    def appended(self, log: Syncable) -> None:
        self._disk.appended(log)

    def created(self, folder: Path) -> None:
        self._disk.created(folder)

    def sealed(self, descriptor: int) -> None:
        self._disk.sealed(descriptor)

    def deleted(self, path: Path) -> None:
        self._disk.deleted(path)

    def when_safe(self, call: Callable[[], None]) -> None:
        self._disk.when_safe(lambda: self._mirror.when_mirrored(call))

    def stop(self) -> None:
        self._disk.stop()
