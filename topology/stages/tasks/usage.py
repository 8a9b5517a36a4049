"""What a task's process uses, and the limit that its plan has set."""

from __future__ import annotations

import re
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from topology.errors import TopologyError

_STATUS = Path("/proc/self/status")
_ANONYMOUS = re.compile(rb"^RssAnon:\s+(\d+) kB", re.MULTILINE)

LOOK_S = 0.1
"""The interval at which a task with a limit checks its memory."""


def memory_bytes() -> int:
    """Return the private memory of the process; without /proc the maximum that it ever used."""
    try:
        found = _ANONYMOUS.search(_STATUS.read_bytes())
    except FileNotFoundError:
        found = None
    if found is not None:
        return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class TaskTime:
    """Counts time from its creation on, since a forked process has used time before its task began."""

    def __init__(self) -> None:
        self._since_ns = time.process_time_ns()
        self._started_ns = time.monotonic_ns()

    def up_ms(self) -> int:
        """Return how long the task has existed."""
        return (time.monotonic_ns() - self._started_ns) // 1_000_000

    def used_ms(self) -> int:
        """Return the processor time of all threads since then."""
        return (time.process_time_ns() - self._since_ns) // 1_000_000


class MemoryGuard(threading.Thread):
    """Stops a task that uses more than `limit_bytes`. Runs until `close`; between checks tasks may exceed it."""

    def __init__(
        self, task: int, limit_bytes: int, stop: Callable[[TopologyError], None], *, by_plan: bool = True
    ) -> None:
        """`by_plan`: the plan has set the limit, not the configuration."""
        super().__init__(name=f"memory of task {task}", daemon=True)
        self._task = task
        self._limit_bytes = limit_bytes
        self._stop_task = stop
        self._by_plan = by_plan
        self._closing = threading.Event()

    def run(self) -> None:
        while not self._closing.wait(LOOK_S):
            held = memory_bytes()
            if held > self._limit_bytes:
                self._stop_task(TopologyError("memory-limit", self._excess(held)))
                return

    def _excess(self, held_bytes: int) -> str:
        describe = describe_excess if self._by_plan else describe_default_excess
        return describe(self._task, held_bytes, self._limit_bytes)

    def close(self) -> None:
        """End the thread and wait for it."""
        self._closing.set()
        self.join()


def describe_excess(task: int, held_bytes: int, limit_bytes: int) -> str:
    """Return the message about a task that held too much memory."""
    held, limit = (f"{count / 2**20:.0f}m" for count in (held_bytes, limit_bytes))
    return f"task {task} held {held}, @Plan:resources(memory='{limit}') is the limit: raise it, or keep less state"


def describe_default_excess(task: int, held_bytes: int, limit_bytes: int) -> str:
    """Return the message about a task that held too much memory although its plan has set no limit."""
    held, limit = (f"{count / 2**20:.0f}m" for count in (held_bytes, limit_bytes))
    return (
        f"task {task} held {held}, stages.task_memory_bytes of the driver's configuration allows {limit}: "
        "request the memory that the plan "
        f"needs with @Plan:resources(memory='…'), or keep less state"
    )
