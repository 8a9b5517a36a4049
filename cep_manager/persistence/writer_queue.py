"""Writers of one process take turns at a database that has one writer at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class WriterQueue:
    """Gives turns in the order in which threads asked for them.

    SQLite lets those who wait try again after a pause that grows, so a thread that writes one transaction after the
    other keeps everybody else waiting: after a failure of a thousand plans, the leader could not confirm its lease.
    """

    def __init__(self, timeout_s: float) -> None:
        """Threads wait for at most `timeout_s`."""
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._queue: deque[threading.Event] = deque()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Run the block when all who came before are done. Raises TimeoutError."""
        mine = threading.Event()
        with self._lock:
            self._queue.append(mine)
            self._wake_first()
        try:
            if not mine.wait(self._timeout_s):
                raise TimeoutError
            yield
        finally:
            with self._lock:
                self._queue.remove(mine)
                self._wake_first()

    def _wake_first(self) -> None:
        if self._queue:
            self._queue[0].set()
