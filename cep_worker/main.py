"""The worker process: sets up the process, runs a worker and waits for signals."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from types import FrameType

from cep_common.inspection.endpoint import Inspection
from cep_common.nodes.role_watch import RoleWatch
from cep_common.process.freed_memory import keep_freed_memory
from cep_common.process.priority import raise_process_priority
from cep_worker.config import WorkerConfig
from cep_worker.mirror.standby import await_activation
from cep_worker.runtime.lazy_imports import load_lazy_imports
from cep_worker.worker import Worker

SWITCH_INTERVAL_S = 0.0005
"""The interpreter's switch interval, which bounds how long other threads delay the data thread."""


def run(config: WorkerConfig, insight: Inspection | None = None) -> None:
    """Run a worker until SIGTERM or SIGINT. Managers may read `insight`.

    Raises PortInUseError or ConfigError when it cannot start, and any error that ended it.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    raise_process_priority(config.registry.priority)
    keep_freed_memory()
    load_lazy_imports()  # a passive node has done so before it takes over
    leaving = threading.Event()

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler
        leaving.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    watch = RoleWatch(config.node.folder) if config.node.folder else None
    if watch is not None and not await_activation(config, watch, leaving):
        return
    worker = Worker(config, insight=insight, watch=watch, ended=leaving)
    worker.start()
    gc.collect()
    gc.freeze()  # garbage collections skip objects that exist now, which shortens their pauses
    worker.ended.wait()
    worker.stop()
    if watch is not None:
        watch.close()
    if worker.failure is not None:
        raise worker.failure
