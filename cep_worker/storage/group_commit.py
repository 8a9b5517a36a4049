"""Disk operations of logs other than writing: syncing, closing and deleting files."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cep_common.monitoring.paced_log import PacedLog
from cep_common.process.atomic_files import sync_folder
from cep_worker.config import WalConfig

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)


class Syncable(Protocol):
    """The interface of a log that can be synced."""

    unsynced: bool

    def descriptor(self) -> int | None:
        """Return a duplicate of the descriptor of the file that is being written."""


class DiskSync:
    """The policy without syncs: the system writes back when it likes, and other operations run at once."""

    mirrors = False
    """Whether events must not be processed before they are safe, since another host may take over without them."""

    def start(self) -> None:
        """Start, before any other call."""

    def opened(self, log: Syncable) -> None:
        """Register a log that was opened."""

    def closed(self, log: Syncable) -> None:
        """Unregister a log that is closed, and sync it if the policy requires it."""

    def appended(self, log: Syncable) -> None:
        """Record that a log was written to."""

    def created(self, folder: Path) -> None:
        """Record that a file was created in `folder`."""

    def sealed(self, descriptor: int) -> None:
        """Sync a complete file if the policy requires it, and close it."""
        os.close(descriptor)

    def deleted(self, path: Path) -> None:
        """Delete a file or folder that is no longer needed."""
        delete(path)

    def when_safe(self, call: Callable[[], None]) -> None:
        """Run `call` once appended data is as durable as the policy requires."""
        call()

    def stop(self) -> None:
        """Finish all work and stop."""


class BackgroundSync(DiskSync):
    """`fsync: interval`: its own thread syncs all files to disk at intervals.

    With None it never does, and only closes and deletes files, which would hold up events otherwise.
    """

    def __init__(self, interval_ms: int | None) -> None:
        self._interval_ms = interval_ms
        self._logs: set[Syncable] = set()
        self._folders: set[Path] = set()
        self._tasks: deque[Callable[[], None]] = deque()
        self._changing = threading.Lock()
        self._woken = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="wal")

    def start(self) -> None:
        self._thread.start()

    def opened(self, log: Syncable) -> None:
        with self._changing:
            self._logs.add(log)

    def closed(self, log: Syncable) -> None:
        with self._changing:
            self._logs.discard(log)

    def created(self, folder: Path) -> None:
        with self._changing:
            self._folders.add(folder)

    def sealed(self, descriptor: int) -> None:
        self._later(lambda: self._finish(descriptor))

    def deleted(self, path: Path) -> None:
        self._later(lambda: delete(path))

    def stop(self) -> None:
        self._stopping = True
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._attend()

    def _later(self, task: Callable[[], None]) -> None:
        self._tasks.append(task)
        self._woken.set()

    def _run(self) -> None:
        pause_s = None if self._interval_ms is None else self._interval_ms / 1_000
        while not self._stopping:
            self._woken.wait(pause_s)
            self._woken.clear()
            self._attend()

    def _attend(self) -> None:
        """Sync, log disk errors and retry, since the policy gives no guarantee."""
        while self._tasks:
            self._guard(self._tasks.popleft())
        if self._interval_ms is None:
            return
        with self._changing:
            unsynced = [log for log in self._logs if log.unsynced]
            folders, self._folders = self._folders, set()
        for log in unsynced:
            self._guard(lambda log=log: synchronise(log))  # type: ignore[misc]
        for folder in folders:
            self._guard(lambda folder=folder: sync_folders(folder))  # type: ignore[misc]

    def _finish(self, descriptor: int) -> None:
        try:
            if self._interval_ms is not None:
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def _guard(self, task: Callable[[], None]) -> None:
        try:
            task()
        except OSError as error:
            paced_logger.problem("disk", "the log's disk failed: reason=%s", error, level=logging.ERROR)


class GroupCommit(BackgroundSync):
    """`fsync: always`: syncs all writes of one turn of the event loop together, then notifies the senders.

    A disk error ends the worker, which cannot keep its guarantee.
    """

    def __init__(self, defer: Callable[[Callable[[int], None]], None]) -> None:
        """Create the policy; `defer` runs a call at the end of the turn."""
        super().__init__(None)
        self._defer = defer
        self._unsynced: dict[Syncable, None] = {}
        self._calls: list[Callable[[], None]] = []

    def closed(self, log: Syncable) -> None:
        super().closed(log)
        if log in self._unsynced:
            self._commit(0)

    def appended(self, log: Syncable) -> None:
        self._unsynced[log] = None

    def created(self, folder: Path) -> None:
        sync_folders(folder)

    def sealed(self, descriptor: int) -> None:
        os.fdatasync(descriptor)
        os.close(descriptor)

    def when_safe(self, call: Callable[[], None]) -> None:
        if not self._unsynced:
            call()
            return
        if not self._calls:
            self._defer(self._commit)
        self._calls.append(call)

    def stop(self) -> None:
        self._commit(0)
        super().stop()

    def _commit(self, _now_ms: int) -> None:
        unsynced, self._unsynced = self._unsynced, {}
        calls, self._calls = self._calls, []  # they must not run if the disk fails
        for log in unsynced:
            synchronise(log)
        for call in calls:
            call()


def open_disk_sync(config: WalConfig, defer: Callable[[Callable[[int], None]], None]) -> DiskSync:
    """Return the disk operations of the policy `config.fsync`; `defer` runs a call at the end of the loop's turn."""
    if config.fsync == "always":
        return GroupCommit(defer)
    return BackgroundSync(config.fsync_interval_ms if config.fsync == "interval" else None)


def synchronise(log: Syncable) -> None:
    """Sync everything that was written to `log` before the call."""
    log.unsynced = False
    descriptor = log.descriptor()
    if descriptor is None:
        return
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def sync_folders(folder: Path, levels: int = 4) -> None:
    """Sync the entries of `folder` and of the folders above it.

    Raises:
        OSError: the disk fails.
    """
    for path in [folder, *folder.parents][:levels]:
        if not path.exists():  # deleted meanwhile
            continue
        sync_folder(path)


def delete(path: Path) -> None:
    """Delete the file or folder.

    Raises:
        OSError: it cannot be deleted.
    """
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
