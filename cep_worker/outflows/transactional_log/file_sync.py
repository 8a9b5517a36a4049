"""Gets complete files onto the disk without holding events up."""

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
    """Forces files to the disk in a separate thread, in order.

    `post` has a call made on the data thread. A disk that fails fails the worker there, which cannot keep its word.
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
        """`call` is made on the data thread when all files that were given before are on the disk."""
        self._tasks.put(lambda: self._post(call))

    def close(self) -> None:
        """Wait until everything that was handed over is on disk."""
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
    with contextlib.suppress(FileNotFoundError):  # the folder was deleted meanwhile and is not needed
        sync_folders(folder)


def _raiser(error: OSError) -> Task:
    def fail() -> None:
        raise error

    return fail
