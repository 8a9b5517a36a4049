"""The thread that writes the metric tables: their database may be slow or gone, nobody else waits for it."""

from __future__ import annotations

import logging
import threading
from collections import deque

import msgspec

from cep_common.clock import Clock
from cep_manager.errors import StoreError
from cep_manager.metric_tables.database import MetricDatabase
from cep_manager.metric_tables.model import MetricRow

logger = logging.getLogger(__name__)

MOST_LOOKS = 40
"""So many looks wait for a database that does not answer; then the oldest are given up."""

REMOVE_EVERY_MS = 60_000
RETRY_S = 5.0


class MetricTablesView(msgspec.Struct, frozen=True):
    """How the metric tables fare: where they are (empty: nowhere), how many rows were written and given up since the
    manager started, when some were written last (time of day; 0: never), and why none can be written now (empty: all
    is well)."""

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
        self._view = MetricTablesView(database.address, interval_ms, retention_ms)

    def put(self, rows: list[MetricRow]) -> None:
        """The rows will be written, in order, unless too many wait already: then the oldest go."""
        with self._changed:
            self._waiting.append(rows)
            if len(self._waiting) > MOST_LOOKS:
                given_up = len(self._waiting.popleft())
                self._view = msgspec.structs.replace(self._view, dropped_rows=self._view.dropped_rows + given_up)
            self._changed.notify()

    def view(self) -> MetricTablesView:
        """How it stands."""
        with self._changed:
            return msgspec.structs.replace(self._view, waiting_rows=sum(map(len, self._waiting)))

    def close(self) -> None:
        """Ends the thread; what waits is not written. A database that hangs is not waited for longer than it may."""
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
        """The rows that wait longest are written and what is old is gone; False when the database could not do that.
        There are some; for the thread, and for tests that have none."""
        with self._changed:
            rows = self._waiting[0]
        try:
            self._database.write(rows)
            now_ms = self._clock.monotonic_ms()
            if now_ms - self._removed_ms >= REMOVE_EVERY_MS:
                self._database.remove_before(self._clock.now_ms() - self._retention_ms)
                self._removed_ms = now_ms
        except StoreError as error:
            if error.message != self._view.problem:
                logger.warning("metric tables not written: %s", error.message)
            with self._changed:
                self._view = msgspec.structs.replace(self._view, problem=error.message)
            return False
        with self._changed:
            if self._waiting and self._waiting[0] is rows:
                self._waiting.popleft()
            if self._view.problem:
                logger.info("metric tables are written again")
            written = self._view.written_rows + len(rows)
            self._view = msgspec.structs.replace(
                self._view, problem="", written_rows=written, written_ms=self._clock.now_ms()
            )
        return True
