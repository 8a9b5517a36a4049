"""A worker in this process, with a data thread and a control thread, which never wait for each other."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

from cep_common.clock import Clock, SystemClock
from cep_common.inspection.endpoint import Inspection, InspectionEndpoint, open_inspection
from cep_common.nodes.role_watch import RoleWatch
from cep_common.security.context import open_context
from cep_common.security.roles import Role
from cep_worker.config import WorkerConfig
from cep_worker.coordination.control_loop import ControlLoop
from cep_worker.data_plane import DataPlane
from cep_worker.inflows.wal.store import WalStore
from cep_worker.mirror.sender import MirrorSender
from cep_worker.plans.connectors import read_artefacts
from cep_worker.runtime.lazy_imports import load_lazy_imports
from cep_worker.serving.plan_flow import PlanSnapshot
from cep_worker.storage.file_changes import FileChanges, record_with

logger = logging.getLogger(__name__)


class Worker:
    """A worker in this process."""

    def __init__(
        self,
        config: WorkerConfig,
        clock: Clock | None = None,
        insight: Inspection | None = None,
        watch: RoleWatch | None = None,
        ended: threading.Event | None = None,
    ) -> None:
        """Create a worker; managers may read `insight` once it has started.

        With a `watch` it is the active one of two nodes and mirrors accepted events.
        """
        self._clock = clock or SystemClock()
        artefacts = (read_artefacts(config.artefacts.sources), read_artefacts(config.artefacts.sinks))
        listens = {
            "outflow.host": config.outflow.host,
            "ingress.host": config.ingress.host,
            "egress.host": config.egress.host,
        }
        self._context = open_context(config.security, Role.WORKER, listens)
        try:
            self._wal = WalStore(config.wal, config.name, self._clock)
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self.name = self._wal.name
        self._mirror: MirrorSender | None = None
        if watch is not None:
            changes = FileChanges(Path(config.node.state))
            record_with(changes)
            self._mirror = MirrorSender(config.node, self._context, watch, changes, self._clock.now_ms)
        self._data = DataPlane(
            config, self.name, self._wal, self._context, self._clock, artefacts, self._changed, self._mirror
        )
        self._control = ControlLoop(config, self.name, self._context, self._clock, self._data, self._wal.ownership)
        self._config, self._insight = config, insight
        self._inspection: InspectionEndpoint | None = None
        self._data_thread = threading.Thread(target=self._run_data, name="data")
        self._control_thread = threading.Thread(target=self._control.run, name="control")
        self.ended = ended or threading.Event()
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Open the built-in services and register with the managers.

        Raises:
            PortInUseError: a port is taken.
        """
        load_lazy_imports()
        try:
            self._data.open()
        except BaseException:
            self._context.destroy(linger=0)
            self._wal.close()
            raise
        self._inspection = open_inspection(
            self._context, Role.WORKER, self._config.outflow.host, self._config.log, self._insight, self._config.host
        )
        self._control.insight = self._inspection.address if self._inspection is not None else None
        if self._mirror is not None:
            self._mirror.start()
        self._data_thread.start()
        self._control_thread.start()
        logger.info("worker started: worker=%s", self.name)

    def stop(self) -> None:
        """Deliver accepted events within `leave_ms`, and close everything."""
        self._data.stop()
        self._data_thread.join()
        self._control.stop()
        self._control_thread.join()
        if self._mirror is not None:
            self._mirror.close()
        if self._inspection is not None:
            self._inspection.close()
        self._context.destroy(linger=0)  # close what a failure left open
        self._wal.close()
        logger.info("worker left: worker=%s", self.name)

    def health(self) -> dict[str, Any]:
        """Return the status of the worker, as `GET /health` shows it."""
        return self._data.gateway.health()

    def snapshots(self) -> tuple[PlanSnapshot, ...]:
        """Return the status of its plans."""
        return self._data.snapshots()

    def _changed(self) -> None:
        self._control.wake()

    def _run_data(self) -> None:
        try:
            self._data.run()
        except BaseException as failure:
            logger.exception("the data thread failed: worker=%s", self.name)
            self.failure = failure
        finally:
            self.ended.set()
