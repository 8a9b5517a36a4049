"""A worker's folder of logs: `<spool.path>/<worker>/<tenant>/<plan>/<stream>/`, used by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import secrets
import socket
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from cep_common.errors import ConfigError, DecodeError
from cep_common.ids import PlanKey
from cep_common.link_messages import StreamSchema
from cep_common.messages import StreamBinding
from cep_worker.config import SpoolConfig
from cep_worker.spool.identity import Identity, new_identity, read_identity
from cep_worker.spool.log import Log, LogLimits
from cep_worker.spool.upkeep import Upkeep
from topology.frames import arrow_schema, decode_batch

logger = logging.getLogger(__name__)

NAME_FILE = "name"
LOCK_FILE = "lock"
REMOVED = ".removed-"
LONGEST_COMPONENT = 150

KeepFailed = Callable[[PlanKey, str, pa.RecordBatch, str], int]
"""Keeps events of a plan's stream, for that reason, where people find them; gives how many could not be kept."""


class Spool:
    """The folder of one worker, locked until `close`. `name` is the worker's name: the one that was configured, or one
    that is kept in `spool.path`."""

    def __init__(self, config: SpoolConfig, name: str) -> None:
        """Raises ConfigError when the folder cannot be used, or another worker uses it."""
        path = Path(config.path)
        self._limits = LogLimits(config.maximum_bytes, config.segment_bytes)
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.name = name or _kept_name(path / NAME_FILE)
            self._folder = path / safe_component(self.name)
            self._folder.mkdir(exist_ok=True, mode=0o700)
            self._lock = _lock(self._folder / LOCK_FILE, self.name)
            self._unfinished = list(self._folder.glob(f"{REMOVED}*"))
            """Folders that a former process was about to delete."""
        except OSError as error:
            raise ConfigError(f"spool.path: {path} cannot be used: {error.strerror}") from error

    def open_log(self, key: PlanKey, binding: StreamBinding, upkeep: Upkeep) -> Log:
        """The log of the plan's imported stream, with what it held before, also when the stream had other attributes
        then. Raises ConfigError when it cannot be read."""
        folder = self._folder_of(key, binding.stream)
        try:
            identity = read_identity(folder)
            if identity is None:
                self._give_up(folder, upkeep, "the log cannot be read")
                identity = new_identity(key, binding)
            log = Log(folder, identity, self._limits, upkeep)
            with contextlib.ExitStack() as opened:
                opened.callback(log.close)
                log.define(binding.attributes)
                opened.pop_all()
        except OSError as error:
            raise ConfigError(f"spool.path: {folder} cannot be used: {error.strerror}") from error
        return log

    def has_waiting(self, key: PlanKey, stream: str) -> bool:
        """Return whether there is a log of the stream that holds events which may not have been processed."""
        folder = self._folder_of(key, stream)
        identity = read_identity(folder)
        return identity is not None and _rows_waiting(folder, identity, self._limits) > 0

    def keep_only(
        self,
        wanted: Iterable[tuple[PlanKey, str]],
        upkeep: Upkeep,
        whole: Collection[PlanKey] = (),
        failed: KeepFailed | None = None,
        served: Collection[PlanKey] = (),
    ) -> None:
        """Logs of other streams than `wanted`, and of other plans than those that are kept as a `whole`, are deleted.
        What was not processed of their events is given to `failed` when their plan is `served`, else counted."""
        kept = {self._folder_of(key, stream) for key, stream in wanted}
        plans = {self._plan_folder(key) for key in whole}
        going_on = {self._plan_folder(key) for key in served}
        tenants = [path for path in self._folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
        for folder in (folder for tenant in tenants for folder in tenant.glob("*/*")):
            if folder not in kept and folder.parent not in plans:
                try:
                    if failed is not None and folder.parent in going_on:
                        self._fail(folder, failed)
                    self._give_up(folder, upkeep, "no plan takes the stream any more")
                except OSError as error:  # tried again when plans change
                    logger.error("a log cannot be deleted: folder=%s reason=%s", folder, error.strerror)  # noqa: TRY400 - the text says it all
        while self._unfinished:
            upkeep.deleted(self._unfinished.pop())

    def close(self) -> None:
        """Another process may use the folder."""
        os.close(self._lock)

    def _folder_of(self, key: PlanKey, stream: str) -> Path:
        return self._plan_folder(key) / safe_component(stream)

    def _plan_folder(self, key: PlanKey) -> Path:
        return self._folder / str(key.tenant) / safe_component(key.identity)

    def _fail(self, folder: Path, failed: KeepFailed) -> None:
        """Keep what waits in the log of a stream that is gone among the failed events of its plan."""
        identity = read_identity(folder)
        if identity is None:
            return
        key, reason = identity.key(), f"{identity.plan} does not import {identity.stream} now"
        log = Log(folder, identity, self._limits, Upkeep())
        reader = log.reader(log.secured)
        try:
            for record in reader.records():
                schema = arrow_schema(StreamSchema(identity.stream, identity.attributes_at(record.position)))
                failed(key, identity.stream, decode_batch(record.body, schema, record.rows), reason)
            log.secure(log.last_position)
        except DecodeError as error:
            logger.error("a log cannot be read: folder=%s reason=%s", folder, error)  # noqa: TRY400 - the text says it all
        finally:
            reader.close()
            log.close()

    def _give_up(self, folder: Path, upkeep: Upkeep, reason: str) -> None:
        if not folder.is_dir():
            return
        identity = read_identity(folder)
        waiting = _rows_waiting(folder, identity, self._limits) if identity is not None else 0
        if waiting:
            logger.error("accepted events are given up: folder=%s events=%d reason=%s", folder, waiting, reason)
        elif identity is None and any(folder.iterdir()):
            logger.error("a log that cannot be read is given up: folder=%s", folder)
        removed = self._folder / f"{REMOVED}{secrets.token_hex(8)}"
        folder.rename(removed)
        upkeep.deleted(removed)


def safe_component(name: str) -> str:
    """A name of one folder, different for different names: letters, digits, `_`, `-`, `~` and inner dots stay."""
    quoted = quote(name, safe="")
    if quoted.startswith("."):
        quoted = f"%2E{quoted[1:]}"
    if len(quoted) > LONGEST_COMPONENT:
        quoted = f"{quoted[:LONGEST_COMPONENT]}%{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return quoted


def _rows_waiting(folder: Path, identity: Identity, limits: LogLimits) -> int:
    log = Log(folder, identity, limits, Upkeep())
    try:
        return log.rows_waiting()
    finally:
        log.close()


def _kept_name(file: Path) -> str:
    """The name in `file`; one is made up at first."""
    made = f"{socket.gethostname()}-{secrets.token_hex(3)}"
    passing = file.with_name(f"{NAME_FILE}.{made}")
    passing.write_text(made, encoding="utf-8")
    try:
        os.link(passing, file)  # fails when another process was first
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
            f"spool.path: {file.parent} is used by process {owner}; give each worker on a host a name of its own "
            f"(name; this one is {name}) or another spool.path"
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor
