"""The thread that reads the counters of all plans at an interval, keeps the newest points, and writes rows."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from cep_common.clock import Clock
from cep_common.ids import PlanKey
from cep_common.monitoring.paced_log import PacedLog
from cep_manager.config import MetricTablesConfig
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import PlanStoreError
from cep_manager.monitoring.metric_tables.database import MetricDatabase
from cep_manager.monitoring.metric_tables.history import PlanHistory, Wanted, from_points, from_tables
from cep_manager.monitoring.metric_tables.model import PlanPoint
from cep_manager.monitoring.metric_tables.readings import PlanReader
from cep_manager.monitoring.metric_tables.recording import Recording
from cep_manager.monitoring.metric_tables.writer import MetricTablesView, MetricWriter

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

KEPT_MS = 10_800_000
"""How long points are kept in memory."""


class MetricRecorder(threading.Thread):
    """Runs until `close`. `look` gives what the control loop knows, None while this manager does not lead."""

    def __init__(self, config: MetricTablesConfig, look: Callable[[], ClusterSnapshot | None], clock: Clock) -> None:
        """Raise PlanStoreError when `metrics.tables.url` can be no database; one that does not answer is waited for."""
        super().__init__(name="metric-recorder", daemon=True)
        self._config = config
        self._look = look
        self._clock = clock
        self._reader, self._recording = PlanReader(), Recording(keeps_rows=bool(config.url))
        self._points: dict[PlanKey, deque[PlanPoint]] = {}
        self._closing = threading.Event()
        self._database = MetricDatabase(config.url) if config.url else None
        self.writer: MetricWriter | None = None
        if self._database is not None:
            self.writer = MetricWriter(self._database, config.interval_ms, config.retention_ms, clock)

    def run(self) -> None:
        if self.writer is not None:
            self.writer.start()
        while not self._closing.wait(self._config.interval_ms / 1_000):
            try:
                self.record()
            except Exception:
                # The thread's border: metrics of one interval that trip a defect must not end those to come.
                paced_logger.exception("metrics of plans not recorded")

    def record(self) -> None:
        """Take one reading of the counters. Called by the thread, and by tests that have none."""
        snapshot = self._look()
        if snapshot is None:
            self._reader, self._recording = PlanReader(), Recording(keeps_rows=self.writer is not None)
            self._points = {}
            return
        rows, points = self._recording.take(self._reader.read(snapshot), snapshot.now_ms, self._clock.now_ms())
        kept = KEPT_MS // self._config.interval_ms + 1
        known = {key: self._points.get(key) or deque(maxlen=kept) for key in points}
        for key, point in points.items():
            known[key].append(point)
        self._points = known
        if self.writer is not None and rows:
            self.writer.put(rows)

    def history(self, key: PlanKey, wanted: Wanted) -> PlanHistory:
        """Return the plan's metrics: from the tables, or from memory where tables are off or cannot be read."""
        problem = self.writer.unreadable() if self.writer is not None else ""
        if self._database is not None and not problem:
            try:
                return from_tables(self._database.read, key, wanted, self._config.interval_ms)
            except PlanStoreError as error:
                problem = error.message
        return from_points(tuple(self._points.get(key, ())), key, wanted, problem)

    def view(self) -> MetricTablesView:
        """Return the status of the tables."""
        if self.writer is not None:
            return self.writer.view()
        return MetricTablesView("", self._config.interval_ms, self._config.retention_ms)

    def close(self) -> None:
        """Stop recording."""
        self._closing.set()
        if self.ident is not None:
            self.join()
        if self.writer is not None:
            self.writer.close()
