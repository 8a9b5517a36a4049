"""The driver's current executors, looked up once a second in a separate thread so that decisions do not wait."""

from __future__ import annotations

import logging
import threading
from typing import Any

import msgspec
from py4j.protocol import Py4JError
from pyspark import SparkContext

from cep_common.clock import Clock
from topology.driver.lifecycle import SETTLES_MS
from topology.spark.errors import SessionLostError

logger = logging.getLogger(__name__)

POLL_S = 1.0
"""The maximum delay until the driver knows that an executor joined or left."""


class Executor(msgspec.Struct, frozen=True):
    """An executor that Spark has or had since the time of day `since_ms`.

    One that is not `usable` is not ready yet, or was lost or excluded. A task has begun on it once it `has_run`.
    """

    executor: str
    host: str
    slots: int
    usable: bool
    has_run: bool
    since_ms: int


def read_executors(context: SparkContext) -> tuple[Executor, ...]:
    """Return every executor that the session ever had, with its slots. Raise SessionLostError when it has ended."""
    try:
        spark = context._jsc.sc()
        if spark.isStopped():
            raise SessionLostError("Spark ended the session: its master was lost, or the application was killed")
        active_only = False
        summaries = spark.statusStore().executorList(active_only)
        found = [summaries.apply(index) for index in range(summaries.size())]
        # the driver's own entry has slots in local mode only
        return tuple(_described(one) for one in found if one.maxTasks())
    except (Py4JError, OSError) as error:
        raise SessionLostError(f"Spark's process does not respond: {error}") from error


def _described(summary: Any) -> Executor:
    """Convert one of Java's org.apache.spark.status.api.v1.ExecutorSummary."""
    host, _, port = summary.hostPort().rpartition(":")
    if not port.isdecimal() or (":" in host and not host.endswith("]")):
        host = ""  # there is no port, and it gets no tasks, until the executor is ready
    return Executor(
        executor=summary.id(),
        host=host,
        slots=summary.maxTasks(),
        usable=bool(host) and summary.isActive() and not summary.isExcluded(),
        has_run=summary.totalTasks() > 0,
        since_ms=summary.addTime().getTime(),
    )


class ExecutorWatch(threading.Thread):
    """Watches the executors until `close`.

    `executors` are as they were at the monotonic time `seen_ms`, at most `POLL_S` ago; `lost` is the reason why there
    is no session.
    """

    def __init__(self, context: SparkContext, clock: Clock) -> None:
        super().__init__(name="executors", daemon=True)
        self._context = context
        self._clock = clock
        self._closing = False
        self._wake = threading.Event()
        self.seen_ms = clock.monotonic_ms()
        self.executors = read_executors(context)
        self.lost: SessionLostError | None = None

    def run(self) -> None:
        while True:
            if self._wake.wait(POLL_S) and not self._closing:
                self._wake.clear()
                self._wake.wait(SETTLES_MS / 1000)
            if self._closing:
                return
            seen_ms = self._clock.monotonic_ms()
            try:
                found = read_executors(self._context)
            except SessionLostError as error:
                if not self._closing:
                    self.lost = error
                return
            self._tell(found)
            self.executors, self.seen_ms = found, seen_ms

    def look_again(self) -> None:
        """Look up the executors once Spark's list reflects recent events."""
        self._wake.set()

    def close(self) -> None:
        """End the thread and wait for it."""
        self._closing = True
        self._wake.set()
        self.join()

    def slots(self) -> tuple[int, ...]:
        """Return the slots of each executor that can be used now."""
        return tuple(one.slots for one in self.executors if one.usable)

    def hosts(self) -> dict[str, str]:
        """Return the host of each executor by its id, including lost ones."""
        return {one.executor: one.host for one in self.executors}

    def _tell(self, found: tuple[Executor, ...]) -> None:
        before = {one.executor for one in self.executors if one.usable}
        now = {one.executor for one in found if one.usable}
        for one in found:
            if one.executor in now - before:
                logger.info("executor joined: executor=%s host=%s slots=%d", one.executor, one.host, one.slots)
            elif one.executor in before - now:
                logger.warning("executor lost: executor=%s host=%s slots=%d", one.executor, one.host, one.slots)
