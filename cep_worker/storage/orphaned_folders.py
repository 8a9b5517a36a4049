"""Orphaned data: data at a worker of plans that are missing but were not undeployed, kept for some days.

A list of plans names those that were undeployed, whose data at the worker is deleted. If a plan is merely missing
(because of an empty, old or damaged database, or another manager), its folder is moved to

    <folder>/.set-aside/<id>/     the files as they were, and aside.json, which describes them

and moved back as soon as the plan exists again.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from cep_common.ids import PlanKey
from cep_common.process.private_folders import make_private
from cep_common.protocol.worker_reports import OrphanReport
from cep_worker.storage.group_commit import sync_folders

logger = logging.getLogger(__name__)

FOLDER = ".set-aside"
NOTE = "aside.json"
DELETED = ".deleted"
LOOK_MS = 60_000
"""Interval between checks for expired data."""

Kind = Literal["log", "results"]


class OrphanedFolder(msgspec.Struct, frozen=True):
    """Data of a missing plan, orphaned since the time of day `since_ms`.

    `deployed_ms` is when the plan was first deployed; `events` are not processed, or not delivered.
    """

    id: str
    kind: Kind
    tenant: int
    plan: str
    deployed_ms: int
    events: int
    since_ms: int
    reason: str
    stream: str = ""
    plan_id: str = ""

    @property
    def key(self) -> PlanKey:
        """The plan."""
        return PlanKey(self.tenant, self.plan, self.plan_id)


class OrphanedFolders:
    """The orphaned data in a worker's folder. Thread-safe.

    Methods raise OSError when the disk fails.
    """

    def __init__(self, folder: Path, kind: Kind, keep_ms: int, now_ms: Callable[[], int]) -> None:
        """Read what is there.

        `now_ms` returns the time of day; `tick` deletes data older than `keep_ms`. Raises OSError.
        """
        self._folder = folder / FOLDER
        self._kind = kind
        self._keep_ms = keep_ms
        self._now_ms = now_ms
        self._lock = threading.RLock()
        self._looked_ms = 0
        self._entries: dict[str, OrphanedFolder] = {}
        if self._folder.is_dir():
            self._read()

    def entries(self) -> tuple[OrphanedFolder, ...]:
        """Return all entries, oldest first."""
        with self._lock:
            return tuple(sorted(self._entries.values(), key=lambda one: (one.since_ms, one.id)))

    def find(self, id_: str) -> OrphanedFolder | None:
        """Return the entry with the id; None if there is none."""
        with self._lock:
            return self._entries.get(id_)

    def path(self, one: OrphanedFolder) -> Path:
        """Return the folder of an entry."""
        return self._folder / one.id

    def reports(self) -> tuple[OrphanReport, ...]:
        """Return the report for managers."""
        return tuple(
            OrphanReport(
                one.id, one.kind, one.tenant, one.plan, one.events, one.since_ms, one.since_ms + self._keep_ms,
                one.stream,
            )
            for one in self.entries()
        )  # fmt: skip

    def put(
        self, place: Path, key: PlanKey, deployed_ms: int, events: int, reason: str, stream: str = ""
    ) -> OrphanedFolder:
        """Set the folder at `place` aside.

        After an OSError the folder is unchanged.
        """
        one = OrphanedFolder(
            secrets.token_hex(4),
            self._kind,
            key.tenant,
            key.plan,
            deployed_ms,
            events,
            self._now_ms(),
            reason,
            stream,
            key.id,
        )
        with self._lock:
            self._folder.mkdir(exist_ok=True, mode=0o700)
            (place / NOTE).write_bytes(msgspec.json.encode(one))
            place.rename(self.path(one))
            self._entries[one.id] = one
            sync_folders(self._folder, levels=1)
        what = f"stream={stream} " if stream else ""
        logger.error("set aside: id=%s kind=%s plan=%s %sevents=%d reason=%s",
                     one.id, self._kind, key.topology(), what, events, reason)  # fmt: skip
        return one

    def take_back(self, key: PlanKey, deployed_ms: int, place: Path, stream: str = "") -> bool:
        """Move the plan's newest orphaned folder back to `place` and return whether there was one.

        `place` must be free; the plan is the one deployed at `deployed_ms`.

        Raises:
            OSError: it cannot be moved.
        """
        with self._lock:
            found = [
                one
                for one in self.entries()
                if (one.key, one.stream) == (key, stream) and one.deployed_ms in (0, deployed_ms)
            ]
            if not found or not deployed_ms:
                return False
            one = found[-1]
            make_private(place.parent)
            (self.path(one) / NOTE).unlink(missing_ok=True)
            self.path(one).rename(place)
            del self._entries[one.id]
            sync_folders(place.parent)
        logger.warning("orphaned data is used again, its plan is back: id=%s kind=%s plan=%s events=%d",
                       one.id, self._kind, key.topology(), one.events)  # fmt: skip
        return True

    def delete(self, one: OrphanedFolder, reason: str) -> None:
        """Delete it.

        Raises OSError.
        """
        with self._lock:
            if self._entries.pop(one.id, None) is None:
                return
            doomed = self._folder / f"{one.id}{DELETED}"
            self.path(one).rename(doomed)
        shutil.rmtree(doomed)
        say = logger.error if one.events else logger.info
        say("orphaned data deleted: id=%s kind=%s plan=%s events=%d reason=%s",
            one.id, self._kind, one.key.topology(), one.events, reason)  # fmt: skip

    def note_events(self, one: OrphanedFolder, events: int) -> None:
        """Store the number of remaining events.

        Raises OSError.
        """
        with self._lock:
            if one.id in self._entries:
                self._entries[one.id] = msgspec.structs.replace(one, events=events)
                (self.path(one) / NOTE).write_bytes(msgspec.json.encode(self._entries[one.id]))

    def tick(self) -> None:
        """Delete expired data."""
        now_ms = self._now_ms()
        if 0 <= now_ms - self._looked_ms < LOOK_MS:
            return
        self._looked_ms = now_ms
        for one in self.entries():
            if now_ms - one.since_ms >= self._keep_ms:
                try:
                    self.delete(one, f"it was set aside for {self._keep_ms} ms (wal.orphan_retention_ms)")
                except OSError as error:
                    logger.error("orphaned data cannot be deleted: id=%s reason=%s", one.id, error.strerror)  # noqa: TRY400 - the text says it all

    def _read(self) -> None:
        for path in sorted(self._folder.iterdir()):
            if path.suffix == DELETED:
                shutil.rmtree(path, ignore_errors=True)
                continue
            try:
                note = msgspec.json.decode((path / NOTE).read_bytes(), type=OrphanedFolder)
            except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
                # data that cannot be identified is never deleted, an operator must decide
                logger.error("orphaned data cannot be identified, it stays: folder=%s reason=%s", path, error)  # noqa: TRY400 - the text says it all
                continue
            self._entries[path.name] = msgspec.structs.replace(note, id=path.name)
