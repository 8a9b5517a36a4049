"""A worker's folder of held results: `<results.path>/<worker>/<tenant>/<plan>/<epoch>/<publisher>/`, used by one
process at a time, from when a plan needs it."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from cep_common.errors import ConfigError
from cep_common.ids import PlanKey
from cep_common.messages import DeployedPlan
from cep_worker.config import ResultsConfig
from cep_worker.consumers import Consumers
from cep_worker.held.held_results import HeldResults
from cep_worker.held.syncing import FileSync
from cep_worker.reactor import Reactor
from cep_worker.spool.folder import safe_component
from cep_worker.stream_counts import StreamCounts

logger = logging.getLogger(__name__)

LOCK_FILE = "lock"


class HeldStore:
    """Opens the held results of plans. Belongs to the reactor's thread."""

    def __init__(self, config: ResultsConfig, worker: str, reactor: Reactor) -> None:
        self._config = config
        self._folder = Path(config.path) / safe_component(worker)
        self._reactor = reactor
        self._lock: int | None = None
        self._sync: FileSync | None = None

    def wanted(self, plan: DeployedPlan) -> bool:
        """The plan's results are held, or some of a former deployment still are."""
        return plan.delivery == "exactly-once" or self._folder_of(plan.key).is_dir()

    def open(self, plan: DeployedPlan, consumers: Consumers, counts: StreamCounts | None = None) -> HeldResults:
        """What is held of the plan's results. Raises ConfigError when the folder cannot be used, or another process
        uses it."""
        try:
            self._take_lock()
            if self._sync is None:
                self._sync = FileSync(self._reactor.post)
            most_bytes = self._config.undelivered_bytes
            return HeldResults(
                self._folder_of(plan.key), plan, self._reactor, self._sync, consumers, most_bytes, counts
            )
        except OSError as error:
            raise ConfigError(f"results.path: {self._folder} cannot be used: {error.strerror or error}") from error

    def keep_only(self, keys: Iterable[PlanKey]) -> None:
        """Held results of other plans than `keys` are given up."""
        kept = {self._folder_of(key) for key in keys}
        gone = [folder for folder in self._folder.glob("*/*") if folder.is_dir() and folder not in kept]
        try:
            if gone:
                self._take_lock()
            for folder in gone:
                shutil.rmtree(folder)
                logger.warning("held results of a plan that is not deployed any more are given up: folder=%s", folder)
        except (OSError, ConfigError) as error:
            logger.error("held results cannot be deleted: reason=%s", error)  # noqa: TRY400 - the text says it all

    def close(self) -> None:
        """Everything is on the disk; another process may use the folder."""
        if self._sync is not None:
            self._sync.close()
            self._sync = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _folder_of(self, key: PlanKey) -> Path:
        return self._folder / str(key.tenant) / safe_component(key.identity)

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise ConfigError(
                f"results.path: {self._folder} is in use by another worker; no two workers of a path share a name"
            ) from error
        self._lock = lock
