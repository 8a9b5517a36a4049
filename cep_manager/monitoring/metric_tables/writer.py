"""The thread that writes the metric tables, so that a slow or unreachable database blocks no other thread."""

from __future__ import annotations

import logging
import threading
from collections import deque

import msgspec

from cep_common.clock import Clock
from cep_common.monitoring.paced_log import PacedLog
from cep_manager.errors import PlanStoreError
from cep_manager.monitoring.metric_tables.database import MetricDatabase
from cep_manager.monitoring.metric_tables.model import MetricRow

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

MOST_LOOKS = 40
"""The number of readings that wait for a database that does not respond; then the oldest are dropped."""

REMOVE_EVERY_MS = 60_000
RETRY_S = 5.0

HANGS_MS = 10_000
"""How long a database call may take before no further one is started."""


class MetricTablesView(msgspec.Struct, frozen=True):
    """Status of the metric tables.

    Where they are (empty: nowhere), how many rows were written and dropped since the manager started, when some were
    last written (time of day; 0: never), and why none can be written now or old ones cannot be removed (empty: no
    problem).
    """

    address: str
    interval_ms: int
    retention_ms: int
    written_rows: int = 0
    dropped_rows: int = 0
    waiting_rows: int = 0
    written_ms: int = 0
    problem: str = ""


class MetricWriter(threading.Thread):
    """Runs until `close`. `put` and `view` may be called by any thread."""

    def __init__(self, database: MetricDatabase, interval_ms: int, retention_ms: int, clock: Clock) -> None:
        super().__init__(name="metric-tables", daemon=True)
        self._database = database
        self._retention_ms = retention_ms
        self._clock = clock
        self._waiting: deque[list[MetricRow]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._removed_ms = -REMOVE_EVERY_MS
        self._busy_since_ms: int | None = None
        self._unwritten = ""
        self._unremoved = ""
        self._view = MetricTablesView(database.address, interval_ms, retention_ms)

    def put(self, rows: list[MetricRow]) -> None:
        """Queue the rows for writing, in order; if too many wait already, drop the oldest."""
        with self._changed:
            self._waiting.append(rows)
            if len(self._waiting) > MOST_LOOKS:
                given_up = len(self._waiting.popleft())
                self._view = msgspec.structs.replace(self._view, dropped_rows=self._view.dropped_rows + given_up)
            self._changed.notify()

    def view(self) -> MetricTablesView:
        """Return the status of the tables."""
        with self._changed:
            problem = self._unwritten or self._hanging() or self._unremoved
            return msgspec.structs.replace(self._view, waiting_rows=sum(map(len, self._waiting)), problem=problem)

    def close(self) -> None:
        """End the thread; what waits is not written. A database that hangs is not waited for longer than it may."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self.ident is not None:
            self.join(RETRY_S)
        self._database.close()

    def run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._waiting)
                if self._closing:
                    return
            if not self.write_next():
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, timeout=RETRY_S)

    def write_next(self) -> bool:
        """Write the rows that wait longest and remove old ones; return False if they could not be written.

        Called with rows waiting, by the thread, or by tests without one.
        """
        with self._changed:
            rows = self._waiting[0]
            self._busy_since_ms = self._clock.monotonic_ms()
        try:
            self._database.write(rows)
        except PlanStoreError as error:
            paced_logger.problem("write", "metric tables not written: %s", error.message)
            self._idle(error.message)
            return False
        except Exception as error:
            # The thread's border: rows that trip a defect must not end those to come.
            logger.exception("metric rows dropped rows=%d", len(rows))
            self._take_off(rows, dropped=len(rows))
            self._idle(f"rows were dropped: {error!r}")
            return False
        paced_logger.over("write", "metric tables are written again")
        self._take_off(rows, written=len(rows))
        self._idle("")
        self._tidy()
        return True

    def unreadable(self) -> str:
        """Return why the database is not to be asked for anything now; empty: it answers."""
        with self._changed:
            return self._unwritten or self._hanging()

    def _tidy(self) -> None:
        """Delete some of the old rows if it is time for that."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._removed_ms < REMOVE_EVERY_MS:
            return
        self._removed_ms = now_ms
        with self._changed:
            self._busy_since_ms = now_ms
        problem, done = "", True
        try:
            done = self._database.remove_before(self._clock.now_ms() - self._retention_ms)
        except PlanStoreError as error:
            problem = f"old rows are not removed: {error.message}"
            paced_logger.problem("tidy", "metric tables not tidied: %s", error.message)
        except Exception as error:
            # The thread's border: rows must be written though old ones cannot be removed.
            logger.exception("old metric rows not removed")
            problem = f"old rows are not removed: {error!r}"
        if not done:
            self._removed_ms = now_ms - REMOVE_EVERY_MS  # there is more: at the next look
        with self._changed:
            self._unremoved, self._busy_since_ms = problem, None

    def _take_off(self, rows: list[MetricRow], written: int = 0, dropped: int = 0) -> None:
        """Remove these rows from the queue: they were written, or dropped."""
        with self._changed:
            if not self._waiting or self._waiting[0] is not rows:
                dropped = 0  # others have come in such numbers that they were given up already, and counted
            else:
                self._waiting.popleft()
            self._view = msgspec.structs.replace(
                self._view,
                written_rows=self._view.written_rows + written,
                dropped_rows=self._view.dropped_rows + dropped,
                written_ms=self._clock.now_ms() if written else self._view.written_ms,
            )

    def _idle(self, problem: str) -> None:
        """Note that the database has answered, or its error."""
        with self._changed:
            self._unwritten, self._busy_since_ms = problem, None

    def _hanging(self) -> str:
        """Return the problem of a database that does not answer; empty if no request has been pending for long."""
        busy_ms = 0 if self._busy_since_ms is None else self._clock.monotonic_ms() - self._busy_since_ms
        return f"the database has not answered for {busy_ms // 1_000} s" if busy_ms >= HANGS_MS else ""
