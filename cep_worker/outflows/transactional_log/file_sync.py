"""Sync complete files in the background, without delaying events."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path

from cep_worker.storage.group_commit import sync_folders

Task = Callable[[], None]


class FileSync:
    """Syncs files to disk in a separate thread, in order.

    `post` runs a call on the data thread. A disk error is raised there and ends the worker, which cannot keep its
    guarantees.
    """

    def __init__(self, post: Callable[[Task], None]) -> None:
        self._post = post
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="prepared results")
        self._thread.start()

    def file(self, descriptor: int, folder: Path) -> None:
        """Sync the file in `folder`, then close `descriptor`."""
        self._tasks.put(lambda: _sync(descriptor, folder))

    def when_done(self, call: Task) -> None:
        """Run `call` on the data thread when all earlier files are on disk."""
        self._tasks.put(lambda: self._post(call))

    def close(self) -> None:
        """Wait until all files are on disk."""
        self._tasks.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except OSError as error:
                self._post(_raiser(error))
                return


def _sync(descriptor: int, folder: Path) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    with contextlib.suppress(FileNotFoundError):  # the folder was deleted meanwhile
        sync_folders(folder)


def _raiser(error: OSError) -> Task:
    def fail() -> None:
        raise error

    return fail
