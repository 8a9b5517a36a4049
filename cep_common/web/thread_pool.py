"""A pool with a fixed number of daemon threads that handle requests."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)

Task = Callable[[], None]


class ThreadPool:
    """Runs tasks in the order in which they come. Any thread may call `submit`."""

    def __init__(self, threads: int, name: str) -> None:
        """Start the threads."""
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        # daemons, since a request that never ends must not keep the process from ending
        self._threads = [threading.Thread(target=self._run, name=f"{name}-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Task) -> None:
        """Run `task` when a thread is free."""
        self._tasks.put(task)

    def stop(self, timeout_s: float) -> None:
        """End the threads after the queued tasks; wait at most `timeout_s` for each."""
        while not self._tasks.empty():
            try:
                self._tasks.get_nowait()
            except queue.Empty:
                break
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join(timeout_s)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception:
                logger.exception("a request failed")
