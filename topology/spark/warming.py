"""Python starts on executors before any topology is put there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from py4j.protocol import Py4JError
from pyspark import SparkContext

from topology.spark.executors import Executor

logger = logging.getLogger(__name__)


def run_a_task_on_each(context: SparkContext, executors: int) -> None:
    """Runs that many short tasks, which Spark spreads over those executors that take tasks by then."""
    try:
        context.parallelize(range(executors), executors).map(str).collect()
    except Py4JError as error:
        logger.warning("not warmed up: %s", error)


class Warming:
    """Lets a task begin on each executor: plans that are to run there, after a driver or an executor has died, need
    not wait until Python has started.

    Spark lists an executor somewhat before it gives tasks to it, so that one round of tasks may pass it by; it is
    looked at again until a task has begun there.
    """

    def __init__(self, run_tasks: Callable[[int], None]) -> None:
        """`run_tasks` is called with a number of executors, in a thread of its own."""
        self._run_tasks = run_tasks
        self._running: threading.Thread | None = None

    def see(self, executors: Sequence[Executor]) -> None:
        """Begins a round of tasks if one of these executors needs it, and none is under way."""
        usable = [one for one in executors if one.usable]
        if all(one.has_run for one in usable) or (self._running is not None and self._running.is_alive()):
            return
        self._running = threading.Thread(target=self._run_tasks, args=(len(usable),), name="warming", daemon=True)
        self._running.start()
