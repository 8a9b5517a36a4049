"""A worker's folder of logs: `<wal.path>/<worker>/<tenant>/<plan>/<stream>/`, used by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import secrets
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa

from cep_common.clock import Clock, SystemClock
from cep_common.errors import ConfigError, DecodeError
from cep_common.ids import SUPER_TENANT, PlanKey, parse_tenant
from cep_common.process.private_folders import make_private
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import RemovedPlan, StreamBinding
from cep_worker.config import WalConfig
from cep_worker.inflows.wal.identity import LogIdentity, new_identity, read_identity, write_identity
from cep_worker.inflows.wal.log import LogLimits, StreamLog
from cep_worker.inflows.wal.recovery import log_of_segments
from cep_worker.inflows.wal.segment import SUFFIX as SEGMENT_SUFFIX
from cep_worker.storage.group_commit import DiskSync
from cep_worker.storage.losses import has_losses
from cep_worker.storage.orphaned_folders import OrphanedFolder, OrphanedFolders
from cep_worker.storage.ownership import Ownership
from topology.events.frames import arrow_schema, decode_batch

logger = logging.getLogger(__name__)

NAME_FILE = "name"
LOCK_FILE = "lock"
REMOVED = ".removed-"
LONGEST_COMPONENT = 150

KeepFailed = Callable[[PlanKey, str, pa.RecordBatch, str], int]
"""Stores events of a plan's stream as failed, with a reason; returns how many could not be stored."""


class WalStore:
    """The folder of one worker, locked until `close`.

    `name` is the worker's name: the one that was configured, or one that is kept in `wal.path`.
    """

    def __init__(self, config: WalConfig, name: str, clock: Clock | None = None) -> None:
        """Open the folder of a worker.

        Raises:
            ConfigError: the folder cannot be used, or another worker uses it.
        """
        path = Path(config.path)
        self._limits = LogLimits(config.maximum_bytes, config.segment_bytes)
        try:
            make_private(path)
            self.name = name or _kept_name(path / NAME_FILE)
            self._folder = path / safe_component(self.name)
            self._folder.mkdir(exist_ok=True, mode=0o700)
            # before anything in the folder is read, since two processes that append to one log would assign the same
            # positions to different events
            self._lock = _lock(self._folder / LOCK_FILE, self.name)
            self.ownership = Ownership(self._folder, self._folder / LOCK_FILE)
            self.orphans = OrphanedFolders(
                self._folder, "log", config.orphan_retention_ms, (clock or SystemClock()).now_ms
            )
            """Logs of plans that are missing."""
            self._unfinished = list(self._folder.glob(f"{REMOVED}*"))
            """Folders that an earlier process was about to delete."""
        except OSError as error:
            raise ConfigError(f"wal.path: {path} cannot be used: {error.strerror}") from error
        self._removed: dict[tuple[PlanKey, int], bool] = {}
        """Undeployed plans with their deployment times, and whether all of their events were processed."""

    def note_removed(self, plans: Iterable[RemovedPlan]) -> None:
        """Set which plans users have undeployed, whose logs may be deleted."""
        self._removed = {(one.key, one.deployed_ms): one.drained for one in plans}

    def open_log(self, key: PlanKey, binding: StreamBinding, disk_sync: DiskSync, deployed_ms: int = 0) -> StreamLog:
        """Open the log of an imported stream, with earlier events, even ones with other attributes.

        `deployed_ms` is when the plan was first deployed (0: unknown).

        Raises:
            ConfigError: the log cannot be read.
        """
        folder = self._folder_of(key, binding.stream)
        try:
            self._settle_place(folder, key, binding.stream, deployed_ms, disk_sync)
            identity = self._identity_in(folder, key, binding, deployed_ms)
            log = StreamLog(folder, identity, self._limits, disk_sync)
            with contextlib.ExitStack() as opened:
                # From here on the log has open files, which any failure must close.
                opened.callback(log.close)
                log.rename(key)
                log.define(binding.attributes)
                opened.pop_all()
        except OSError as error:
            raise ConfigError(f"wal.path: {folder} cannot be used: {error.strerror}") from error
        return log

    def has_waiting(self, key: PlanKey, stream: str, deployed_ms: int = 0) -> bool:
        """Return whether a log of the plan's stream has events that may not have been processed."""
        folder = self._folder_of(key, stream)
        self._settle_place(folder, key, stream, deployed_ms, DiskSync())
        identity = read_identity(folder)
        return identity is not None and _rows_waiting(folder, identity, self._limits) > 0

    def keep_only(
        self,
        wanted: Iterable[tuple[PlanKey, str]],
        disk_sync: DiskSync,
        whole: Collection[PlanKey] = (),
        failed: KeepFailed | None = None,
        served: Mapping[PlanKey, int] = MappingProxyType({}),
    ) -> None:
        """Keep logs of `wanted` streams, and of plans that are kept as a `whole`.

        Logs of plans that users have undeployed are deleted, those of missing plans are set aside. Events that were not
        processed of a stream that a plan no longer imports, if it is `served` and was deployed at that time, are given
        to `failed`.
        """
        # by folder rather than by identity, since a log whose identity cannot be read must not be deleted
        kept = {self._folder_of(key, stream) for key, stream in wanted}
        plans = {self._plan_folder(key) for key in whole}
        going_on = {self._plan_folder(key): deployed_ms for key, deployed_ms in served.items()}
        tenants = [path for path in self._folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
        for folder in (folder for tenant in tenants for folder in tenant.glob("*/*")):
            if folder not in kept and folder.parent not in plans:
                try:
                    self._clear(folder, going_on.get(folder.parent), disk_sync, failed)
                except OSError as error:  # retried when plans change
                    logger.error("a log cannot be deleted or set aside: folder=%s reason=%s", folder, error.strerror)  # noqa: TRY400 - the text says it all
        while self._unfinished:
            disk_sync.deleted(self._unfinished.pop())

    def open_orphaned(self, one: OrphanedFolder) -> StreamLog | None:
        """Open a log that is set aside; None if it cannot be identified.

        Raises OSError.
        """
        folder = self.orphans.path(one)
        identity = read_identity(folder)
        return StreamLog(folder, identity, self._limits, DiskSync()) if identity is not None else None

    def close(self) -> None:
        """Unlock the folder; another process may use it then."""
        os.close(self._lock)

    def _folder_of(self, key: PlanKey, stream: str) -> Path:
        return self._plan_folder(key) / safe_component(stream)

    def _plan_folder(self, key: PlanKey) -> Path:
        return self._folder / str(key.tenant) / safe_component(key.identity)

    def _settle_place(self, folder: Path, key: PlanKey, stream: str, deployed_ms: int, disk_sync: DiskSync) -> None:
        """Make sure that a log at `folder` belongs to the plan.

        The log of another plan with this name is removed, and an orphaned log of this plan is used again.

        Raises:
            OSError: the disk fails.
        """
        identity = read_identity(folder)
        # names are reused: events of an undeployed plan must not go to a new plan of the same name
        if identity is not None and deployed_ms and identity.deployed_ms not in (0, deployed_ms):
            self._clear(folder, None, disk_sync, None)
        # an empty folder would prevent moving an orphaned log back
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        if not folder.exists():
            self.orphans.take_back(key, deployed_ms, folder, stream)

    def _identity_in(self, folder: Path, key: PlanKey, binding: StreamBinding, deployed_ms: int) -> LogIdentity:
        """Return the identity of the log in `folder`; if its file is lost or damaged, the segments show it.

        Raises OSError.
        """
        identity = read_identity(folder)
        if identity is None:
            log = log_of_segments(folder)
            if log:
                logger.error("the description of a log is lost, its events are assumed to have the stream's "
"current attributes: folder=%s", folder)  # fmt: skip
            identity = new_identity(key, binding, deployed_ms, log)
            if log:
                write_identity(folder, identity)
        elif not identity.deployed_ms and deployed_ms:
            identity = msgspec.structs.replace(identity, deployed_ms=deployed_ms)
            write_identity(folder, identity)
        return identity

    def _clear(self, folder: Path, served_ms: int | None, disk_sync: DiskSync, failed: KeepFailed | None) -> None:
        """Delete a log that no stream needs, set it aside, or move its events to the failed events.

        `served_ms` is the deployment time of the served plan of its name.
        """
        identity = read_identity(folder)
        if identity is None:
            # segments without an owner may contain accepted events, so they are set aside for an operator
            if any(folder.glob(f"*{SEGMENT_SUFFIX}")) or has_losses(folder):
                self._orphan_list(folder, None, 0, "its plan cannot be identified")
            else:
                self._delete(folder, disk_sync)
            return
        key = identity.key()
        waiting = _rows_waiting(folder, identity, self._limits)
        if served_ms is not None and identity.deployed_ms in (0, served_ms):
            if failed is not None and waiting and self._fail(folder, identity, failed):
                self._orphan_list(folder, identity, waiting, "its stream is not imported, and its events do not fit "
                                "among the failed ones")  # fmt: skip
            else:
                self._delete(folder, disk_sync)
        # deleted only if this plan was certainly undeployed; events of a plan that is merely missing are kept
        elif (key, identity.deployed_ms) in self._removed:
            # after a plan was drained, events since its last checkpoint still count as waiting, since no further
            # checkpoint is taken
            if waiting and not self._removed[key, identity.deployed_ms]:
                logger.error("accepted events are dropped, their plan was undeployed: folder=%s events=%d",
                             folder, waiting)  # fmt: skip
            self._delete(folder, disk_sync)
        else:
            self._orphan_list(folder, identity, waiting, "its plan is missing and was not undeployed")

    def _orphan_list(self, folder: Path, identity: LogIdentity | None, waiting: int, reason: str) -> None:
        if identity is None:
            key, stream, deployed_ms = PlanKey(_tenant_of(folder), unquote(folder.parts[-2])), folder.name, 0
        else:
            key, stream, deployed_ms = identity.key(), identity.stream, identity.deployed_ms
        self.orphans.put(folder, key, deployed_ms, waiting, reason, stream)

    def _fail(self, folder: Path, identity: LogIdentity, failed: KeepFailed) -> int:
        """Store waiting events of a removed stream as failed, and return how many were lost."""
        key, reason = identity.key(), f"{identity.plan} does not import {identity.stream} now"
        log = StreamLog(folder, identity, self._limits, DiskSync())
        reader = log.reader(log.secured)
        lost = 0
        try:
            for record in reader.records():
                schema = arrow_schema(StreamSchema(identity.stream, identity.attributes_at(record.position)))
                lost += failed(key, identity.stream, decode_batch(record.body, schema, record.rows), reason)
                # Secured record by record, so that little is repeated after an interruption. After a lost record
                # nothing more is secured, and the log is set aside.
                if not lost:
                    log.secure(record.position)
        except DecodeError as error:
            logger.error("a log cannot be read: folder=%s reason=%s", folder, error)  # noqa: TRY400 - the text says it all
            lost += max(1, log.rows_waiting())
        finally:
            reader.close()
            log.close()
        return lost

    def _delete(self, folder: Path, disk_sync: DiskSync) -> None:
        if folder.is_dir():
            removed = self._folder / f"{REMOVED}{secrets.token_hex(8)}"
            # renamed first, which is atomic: deleting large files may take long, and a half-deleted log must never be
            # opened
            folder.rename(removed)
            disk_sync.deleted(removed)


def safe_component(name: str) -> str:
    """Return a unique folder name for `name`.

    Letters, digits, `_`, `-`, `~` and inner dots are kept.
    """
    quoted = quote(name, safe="")
    if quoted.startswith("."):
        quoted = f"%2E{quoted[1:]}"
    if len(quoted) > LONGEST_COMPONENT:
        # quoting never produces `%` followed by hex digits at this length, so shortened names cannot collide with
        # others
        quoted = f"{quoted[:LONGEST_COMPONENT]}%{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return quoted


def _tenant_of(folder: Path) -> int:
    """Return the tenant of a log without a readable identity."""
    try:
        return parse_tenant(folder.parts[-3])
    except ValueError:
        return SUPER_TENANT


def _rows_waiting(folder: Path, identity: LogIdentity, limits: LogLimits) -> int:
    log = StreamLog(folder, identity, limits, DiskSync())
    try:
        return log.rows_waiting()
    finally:
        log.close()


def _kept_name(file: Path) -> str:
    """Return the name in `file`, which is created with a random name if missing."""
    made = f"{socket.gethostname()}-{secrets.token_hex(3)}"
    passing = file.with_name(f"{NAME_FILE}.{made}")
    # a hard link is atomic, and fails for all but the first of several processes
    passing.write_text(made, encoding="utf-8")
    try:
        os.link(passing, file)  # fails if another process was first
    except FileExistsError:
        pass
    finally:
        passing.unlink()
    return file.read_text(encoding="utf-8").strip()


def _lock(file: Path, name: str) -> int:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "another process"
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise
        raise ConfigError(
            f"wal.path: {file.parent} is used by process {owner}; give each worker on a host a different name "
            f"(name; this one is {name}) or another wal.path"
        ) from error
    # under the lock; the process id is only used in the error of other processes
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor
