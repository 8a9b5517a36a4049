"""The worker of a passive node, which stores the active node's events and has its libraries loaded."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

import msgspec

from cep_common.monitoring.paced_log import PacedLog
from cep_common.nodes.files import MIRROR_FILE, MirrorReport, write_file
from cep_common.nodes.role_watch import RoleWatch
from cep_common.security.context import open_context
from cep_common.security.roles import Role
from cep_worker.config import WorkerConfig
from cep_worker.inflows.wal.store import LOCK_FILE, safe_component
from cep_worker.mirror.receiver import Copy, MirrorReceiver
from cep_worker.storage.checked_json import read_checked, write_checked
from cep_worker.storage.ownership import WORKER_FILE, WorkerIdentity

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

REPORT_S = 0.5


def await_activation(config: WorkerConfig, watch: RoleWatch, stopping: threading.Event) -> bool:
    """Store the active node's events until this node is active, or `stopping` is set.

    Returns:
        Whether the node is active and has adopted the worker's folder.

    Raises:
        PortInUseError, ConfigError: The event-sync server cannot listen.
        OSError: The folder cannot be written.
    """
    node = config.node
    sync_ms = {"always": 0, "interval": config.wal.fsync_interval_ms, "none": None}[config.wal.fsync]
    context = open_context(config.security, Role.WORKER, {"node.host": node.host})
    try:
        receiver = MirrorReceiver(
            context,
            node.host,
            node.port,
            Copy(Path(node.state), sync_ms),
            lambda: watch.role.node if watch.role else "",
        )
        receiver.start()
        try:
            reporter = _Reporter(config, receiver)
            active = watch.await_active(stopping, reporter.tick)
        finally:
            receiver.close()
        if receiver.failure is not None:
            raise receiver.failure
    finally:
        context.destroy(linger=0)
    if active:
        adopt_folder(config)
    return active


def adopt_folder(config: WorkerConfig) -> None:
    """Make the mirrored folder the worker's own.

    The worker continues under the identity of the active worker, which is bound to the lock file of this host. Raises
    OSError.
    """
    folder = Path(config.wal.path) / safe_component(config.name)
    found = read_checked(folder / WORKER_FILE, WorkerIdentity)
    if found is None:
        return
    lock = folder / LOCK_FILE
    lock.touch(mode=0o600)
    if found.inode != lock.stat().st_ino:
        write_checked(folder / WORKER_FILE, msgspec.structs.replace(found, inode=lock.stat().st_ino))


class _Reporter:
    """Reports the state of the passive worker to the node's manager."""

    def __init__(self, config: WorkerConfig, receiver: MirrorReceiver) -> None:
        self._path = Path(config.node.folder) / MIRROR_FILE
        self._receiver = receiver
        self._reported_at = 0.0
        self._since_ms = time.time_ns() // 1_000_000

    def tick(self) -> None:
        """Write the report when it is due. Raise the error of a mirror that has failed."""
        receiver, now = self._receiver, time.monotonic()
        if receiver.failure is not None:
            raise receiver.failure
        if now - self._reported_at < REPORT_S:
            return
        self._reported_at = now
        heard = receiver.heard_at
        silent_ms = int((now - heard) * 1000) if heard is not None else 0
        reason = "" if heard is not None else "the active node has sent nothing yet"
        report = MirrorReport(
            "passive", receiver.token, os.getpid(), since_ms=self._since_ms, reason=reason, lag_ms=silent_ms,
            mirrored_bytes=receiver.mirrored_bytes,
        )  # fmt: skip
        try:
            write_file(self._path, report)
        except OSError as error:
            paced_logger.problem("report", "the mirror's state cannot be reported: reason=%s", error)
