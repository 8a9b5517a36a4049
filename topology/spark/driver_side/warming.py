"""Warm up executors: start Python on them before any topology is placed there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from py4j.protocol import Py4JError
from pyspark import SparkContext

from topology.spark.driver_side.executors import Executor

logger = logging.getLogger(__name__)

FIRST_PAUSE_MS = 2_000
"""Longer than the delay until the list of executors reflects recent events."""
LONGEST_PAUSE_MS = 60_000


def run_a_task_on_each(context: SparkContext, executors: int) -> None:
    """Run that many short tasks, which Spark spreads over the executors that are ready."""
    try:
        context.parallelize(range(executors), executors).map(str).collect()
    except (Py4JError, OSError) as error:  # its process has ended
        logger.warning("not warmed up: %s", error)


class Warming:
    """Runs a task on each new executor, so that plans need not wait there until Python has started.

    This matters when plans are moved after a driver or an executor has died. Spark lists an executor somewhat before it
    gives tasks to it, so that one round of tasks may miss it: more follow, at growing distances, until a task has begun
    there.
    """

    def __init__(self, run_tasks: Callable[[int], None]) -> None:
        """Create a warmer; `run_tasks` is called with a number of executors, in a separate thread."""
        self._run_tasks = run_tasks
        self._running: threading.Thread | None = None
        self._cold: frozenset[str] = frozenset()
        self._pause_ms = FIRST_PAUSE_MS
        self._next_ms = 0

    def see(self, executors: Sequence[Executor], now_ms: int) -> None:
        """Begin a round of tasks if one of these executors needs it, and no round is running or has just ended.

        `now_ms` is monotonic.
        """
        usable = [one for one in executors if one.usable]
        cold = frozenset(one.executor for one in usable if not one.has_run)
        if cold - self._cold:
            self._pause_ms, self._next_ms = FIRST_PAUSE_MS, now_ms
        self._cold = cold
        if not cold or now_ms < self._next_ms or (self._running is not None and self._running.is_alive()):
            return
        self._next_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)
        self._running = threading.Thread(target=self._run_tasks, args=(len(usable),), name="warming", daemon=True)
        self._running.start()
