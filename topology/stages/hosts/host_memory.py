"""Resource limits of a stage host: memory (the plan with the largest state is stopped first) and open files."""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Sequence
from pathlib import Path

from topology.errors import TopologyError
from topology.stages.tasks.task import Task
from topology.stages.tasks.usage import memory_bytes

logger = logging.getLogger(__name__)

LOOK_MS = 100
"""Interval of checks of the host's memory."""
AGAIN_MS = 5_000
"""How long memory may take to become free after a plan was stopped, before the next one is stopped."""


FILES_OF_A_TASK = 64
"""More files than a plan of some streams opens. ZeroMQ aborts the process when it cannot open any more."""


def raise_file_limit() -> None:
    """Let the process open as many files as the system allows it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def refuse_beyond_files() -> None:
    """Raise TopologyError when another plan might open more files than the process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    if soft != resource.RLIM_INFINITY and open_now + FILES_OF_A_TASK > soft:
        raise TopologyError(
            "host-full",
            f"the stage host has {open_now} files open and may have {soft}: raise the limit of open files of Spark's "
            "executors (ulimit -n), or write @Plan:host('own')",
        )


class HostMemory:
    """Stops tasks while the process holds more than `limit_bytes`; 0: there is no limit."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._next_ms = 0
        self._turns = -1

    def due_ms(self, turns: int) -> int | None:
        """Return when to `look` next after `turns` turns of all tasks; None: not before another turn."""
        return self._next_ms if self._limit_bytes and turns != self._turns else None

    def is_due(self, now_ms: int, turns: int) -> bool:
        """Return whether to `look`: the memory of a host without turns does not change."""
        due_ms = self.due_ms(turns)
        return due_ms is not None and now_ms >= due_ms

    def look(self, now_ms: int, tasks: Sequence[Task], turns: int) -> Task | None:
        """Return the task that was stopped, if one was; `turns` is how many were given before."""
        if not self.is_due(now_ms, turns):
            return None
        self._next_ms, self._turns = now_ms + LOOK_MS, turns
        held_bytes = memory_bytes()
        working = [task for task in tasks if not task.stopping]
        if held_bytes > self._limit_bytes:
            self._turns = -1
        if held_bytes <= self._limit_bytes or not working:
            return None
        largest = max(working, key=held_state)
        self._next_ms, self._turns = now_ms + AGAIN_MS, -1  # check again even without turns
        largest.stop(TopologyError("memory-limit", describe(held_bytes, self._limit_bytes, len(tasks), largest)))
        return largest


def held_state(task: Task) -> int:
    """Return the size of the task's state at its last measurement."""
    return sum(held.bytes for report in task.reports for held in report.held)


def describe(held_bytes: int, limit_bytes: int, plans: int, task: Task) -> str:
    """Return the message for the user."""
    held, limit, own = (f"{count / 2**20:.0f}m" for count in (held_bytes, limit_bytes, held_state(task)))
    return (
        f"the stage host of {plans} plans held {held}, stages.task_memory_bytes of the driver's configuration allows "
        f"{limit}; this plan's state is the largest ({own}): write what it needs as @Plan:resources(memory='…'), which "
        "gives it a task of its own, or keep less"
    )
