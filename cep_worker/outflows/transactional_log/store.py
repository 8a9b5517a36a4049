"""A worker's folder of prepared results.

It is `<results.path>/<worker>/<tenant>/<plan>/<epoch>/<publisher>/`, locked when a plan first needs it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from urllib.parse import unquote

import msgspec

from cep_common.clock import Clock, SystemClock
from cep_common.errors import ConfigError
from cep_common.ids import SUPER_TENANT, PlanKey, parse_tenant
from cep_common.monitoring.paced_log import PacedLog
from cep_common.process.private_folders import make_private
from cep_common.protocol.registry import DeployedPlan, RemovedPlan
from cep_common.protocol.worker_reports import OrphanReport
from cep_worker.config import ResultsConfig, WalConfig
from cep_worker.inflows.wal.store import safe_component
from cep_worker.outflows.consumers import Consumers
from cep_worker.outflows.transactional_log.file_sync import FileSync, Task
from cep_worker.outflows.transactional_log.prepared_results import PreparedResults
from cep_worker.outflows.transactional_log.publisher_log import has_unreadable, prepared_rows
from cep_worker.plans.stream_counts import StreamCounts
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.storage.checked_json import read_checked, write_checked
from cep_worker.storage.losses import has_losses
from cep_worker.storage.orphaned_folders import OrphanedFolders

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

LOCK_FILE = "lock"
OWNER_FILE = "plan.json"


class LogOwner(msgspec.Struct, frozen=True):
    """The plan that owns a folder of results, first deployed at `deployed_ms`."""

    tenant: int
    plan: str
    deployed_ms: int
    plan_id: str = ""

    def key(self) -> PlanKey:
        """Return the plan."""
        return PlanKey(self.tenant, self.plan, self.plan_id)


class TransactionalLogStore:
    """Opens the prepared results of plans. Belongs to the data thread."""

    def __init__(
        self,
        config: ResultsConfig,
        worker: str,
        event_loop: EventLoop,
        keep_ms: int = WalConfig().orphan_retention_ms,
        clock: Clock | None = None,
        when_safe: Callable[[Task], None] = lambda call: call(),
    ) -> None:
        """Create the store; results of missing plans are kept for `keep_ms`.

        Results on this host's disk are acknowledged through `when_safe`.
        """
        self._when_safe = when_safe
        self._keep_ms = keep_ms
        self._now_ms = (clock or SystemClock()).now_ms
        self._orphans: OrphanedFolders | None = None
        self._config = config
        self._folder = Path(config.path) / safe_component(worker)
        self._event_loop = event_loop
        self._lock: int | None = None
        self._sync: FileSync | None = None

    def wanted(self, plan: DeployedPlan) -> bool:
        """Return whether the plan's results are stored, or results of a former deployment exist.

        Raises:
            ConfigError: the folder cannot be used.
        """
        try:
            self._come_back(plan)
        except OSError as error:
            raise ConfigError(f"results.path: {self._folder} cannot be used: {error.strerror or error}") from error
        return plan.delivery == "exactly-once" or self._folder_of(plan.key).is_dir()

    def open(self, plan: DeployedPlan, consumers: Consumers, counts: StreamCounts | None = None) -> PreparedResults:
        """Return the prepared results of the plan.

        Raises:
            ConfigError: the folder cannot be used, or another process uses it.
        """
        try:
            self._take_lock()
            if self._sync is None:
                self._sync = FileSync(self._post)
            most_bytes = self._config.max_undelivered_bytes
            folder = self._folder_of(plan.key)
            owner = LogOwner(plan.key.tenant, plan.key.plan, plan.deployed_ms, plan.key.id)
            if plan.deployed_ms and read_checked(folder / OWNER_FILE, LogOwner) != owner:
                write_checked(folder / OWNER_FILE, owner)
            return PreparedResults(folder, plan, self._event_loop, self._sync, consumers, most_bytes, counts)
        except OSError as error:
            raise ConfigError(f"results.path: {self._folder} cannot be used: {error.strerror or error}") from error

    def _post(self, call: Task) -> None:
        self._event_loop.post(lambda: self._when_safe(call))

    def keep_only(self, keys: Iterable[PlanKey], removed: Collection[RemovedPlan] = ()) -> None:
        """Keep the results of plans in `keys`.

        Those of undeployed plans (`removed`) are deleted, those of missing plans are set aside.
        """
        kept = {self._folder_of(key) for key in keys}
        others = [folder for folder in self._folder.glob("*/*") if folder.is_dir() and folder not in kept]
        gone = [folder for folder in others if not folder.parent.name.startswith(".")]
        try:
            if gone:
                self._take_lock()
            for folder in gone:
                self._clear(folder, removed)
        except (OSError, ConfigError) as error:
            logger.error("prepared results cannot be deleted or set aside: reason=%s", error)  # noqa: TRY400 - the text says it all

    def tick(self) -> None:
        """Delete results that were set aside too long ago."""
        try:
            self.orphans().tick()
        except OSError as error:
            paced_logger.problem("aside", "orphaned data cannot be read: folder=%s reason=%s",
                                 self._folder, error.strerror, level=logging.ERROR)  # fmt: skip

    def orphans(self) -> OrphanedFolders:
        """Return the results that are set aside.

        Raises OSError.
        """
        if self._orphans is None:
            self._orphans = OrphanedFolders(self._folder, "results", self._keep_ms, self._now_ms)
        return self._orphans

    def orphan_reports(self) -> tuple[OrphanReport, ...]:
        """Return the report of orphaned results for managers."""
        return self._orphans.reports() if self._orphans is not None else ()

    def close(self) -> None:
        """Wait until everything is on disk and unlock the folder."""
        if self._sync is not None:
            self._sync.close()
            self._sync = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _folder_of(self, key: PlanKey) -> Path:
        return self._folder / str(key.tenant) / safe_component(key.identity)

    def _clear(self, folder: Path, removed: Collection[RemovedPlan]) -> None:
        """Delete or set aside results in `folder` that belong to no deployed plan."""
        owner = read_checked(folder / OWNER_FILE, LogOwner)
        rows = prepared_rows(folder)
        if owner is not None and RemovedPlan(owner.key(), owner.deployed_ms) in removed:
            shutil.rmtree(folder)
            say = logger.error if rows else logger.info
            say("prepared results are dropped, their plan was undeployed: folder=%s events=%d", folder, rows)
        elif not rows and owner is None and not has_losses(folder) and not has_unreadable(folder):
            shutil.rmtree(folder)
        else:
            key = owner.key() if owner is not None else PlanKey(_tenant_of(folder), unquote(folder.name))
            deployed_ms = owner.deployed_ms if owner is not None else 0
            self.orphans().put(folder, key, deployed_ms, rows, "its plan is missing and was not undeployed")

    def _come_back(self, plan: DeployedPlan) -> None:
        """Restore the plan's orphaned results, unless results of its name exist."""
        folder = self._folder_of(plan.key)
        if not folder.exists() and self.orphans().entries():
            self._take_lock()
            self.orphans().take_back(plan.key, plan.deployed_ms, folder)

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        make_private(self._folder)
        lock = os.open(self._folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise ConfigError(
                f"results.path: {self._folder} is in use by another worker; no two workers of a path share a name"
            ) from error
        self._lock = lock


def _tenant_of(folder: Path) -> int:
    """Return the tenant of results without a readable header."""
    try:
        return parse_tenant(folder.parent.name)
    except ValueError:
        return SUPER_TENANT
