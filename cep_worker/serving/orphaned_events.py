"""Operations of users on orphaned events: list, restore to a plan, discard."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from concurrent.futures import Future
from typing import Protocol

import msgspec
import pyarrow as pa

from cep_common.errors import DecodeError, InputError
from cep_common.protocol.links import StreamSchema
from cep_worker.failed_events.service import fitting, inflow_of
from cep_worker.inflows.wal.log import StreamLog
from cep_worker.inflows.wal.store import WalStore
from cep_worker.outflows.transactional_log.store import TransactionalLogStore
from cep_worker.plans.streams import EventStream, StreamDirectory
from cep_worker.storage.orphaned_folders import OrphanedFolder, OrphanedFolders
from cep_worker.storage.records import BatchOrigin, StoredRecord
from topology.events.frames import arrow_schema, decode_batch

UNKNOWN_ID = "unknown-id"
"""The error code for an unknown id."""
UNAVAILABLE = "set-aside-unavailable"
RESTORE_S = 5.0
"""The time limit of one request to restore; the rest is left for the next request."""


class OrphanListing(msgspec.Struct, frozen=True):
    """Accepted events (`log`) or results that were set aside at `since_ms` and are deleted at `until_ms`."""

    id: str
    kind: str
    plan: str
    stream: str
    events: int
    since_ms: int
    until_ms: int
    reason: str


class RestoreResult(msgspec.Struct, frozen=True):
    """The plan took `events`, `lost` could not be read, and `left` remain: ask again."""

    id: str
    events: int
    left: int
    lost: int = 0


class DiscardResult(msgspec.Struct, frozen=True):
    """`events` were deleted."""

    id: str
    events: int


class EventSubmitter(Protocol):
    """Accepts restored events. Thread-safe."""

    def imported(self) -> StreamDirectory:
        """Return the event streams that accept events now."""

    def submit(
        self, source: Hashable, stream: EventStream, batch: pa.RecordBatch, origin: BatchOrigin | None = None
    ) -> Future[None]:
        """Offer `batch` to the stream's inflows, which accept each `origin` once."""


class OrphanedEventService:
    """Lists, restores and discards orphaned data. All methods raise InputError.

    Thread-safe; operations run one at a time.
    """

    def __init__(self, wal: WalStore, prepared: TransactionalLogStore, offers: EventSubmitter) -> None:
        self._wal = wal
        self._prepared = prepared
        self._offers = offers
        self._lock = threading.Lock()

    def listed(self, tenant: int) -> tuple[OrphanListing, ...]:
        """Return the tenant's orphaned data, oldest first."""
        found: list[OrphanListing] = []
        for folders in self._folders():
            until = {one.id: one.until_ms for one in folders.reports()}
            found += [
                OrphanListing(
                    one.id, one.kind, one.plan, one.stream, one.events, one.since_ms, until.get(one.id, 0), one.reason
                )
                for one in folders.entries()
                if one.tenant == tenant
            ]
        return tuple(sorted(found, key=lambda one: (one.since_ms, one.id)))

    def restore(self, tenant: int, id_: str) -> RestoreResult:
        """Submit the events of a log to the stream of its name in the plan of its name, each once."""
        with self._lock:
            folders, one = self._find(tenant, id_)
            if one.kind != "log":
                problem = "results belong to the deployment that produced them, and are delivered when it is back"
                raise InputError("cannot-restore", f"{id_}: {problem}; else discard them")
            imported = self._offers.imported()
            stream = inflow_of(imported, imported.named(one.key), one.stream)
            try:
                log = self._wal.open_orphaned(one)
                if log is None:
                    problem = f"the content of {folders.path(one)} is unknown: its log.json is damaged"
                    raise InputError("cannot-restore", f"{id_}: {problem}")
                try:
                    restored = self._restore(one, log, stream)
                finally:
                    log.close()
                if restored.left:
                    folders.note_events(one, restored.left)
                else:
                    folders.delete(one, "it was restored")
            except OSError as error:
                raise _unavailable(one, error) from error
            return restored

    def discard(self, tenant: int, id_: str) -> DiscardResult:
        """Delete orphaned data."""
        with self._lock:
            folders, one = self._find(tenant, id_)
            try:
                folders.delete(one, "it was discarded")
            except OSError as error:
                raise _unavailable(one, error) from error
            return DiscardResult(one.id, one.events)

    def _folders(self) -> tuple[OrphanedFolders, ...]:
        try:
            return self._wal.orphans, self._prepared.orphans()
        except OSError as error:
            raise InputError(UNAVAILABLE, f"orphaned data cannot be read: {error.strerror}") from error

    def _find(self, tenant: int, id_: str) -> tuple[OrphanedFolders, OrphanedFolder]:
        for folders in self._folders():
            one = folders.find(id_)
            if one is not None and one.tenant == tenant:
                return folders, one
        raise InputError(UNKNOWN_ID, f"there is no orphaned data with the id {id_[:40]} here")

    def _restore(self, one: OrphanedFolder, log: StreamLog, stream: EventStream) -> RestoreResult:
        deadline = time.monotonic() + RESTORE_S
        known_lost = log.lost_rows
        events = 0
        reader = log.reader(log.secured)
        try:
            for record in reader.records():
                if time.monotonic() >= deadline:
                    return RestoreResult(one.id, events, max(1, log.rows_waiting()))
                events += self._take(one, log, record, stream, deadline)
                log.secure(record.position)
        finally:
            reader.close()
        return RestoreResult(one.id, events, 0, log.lost_rows - known_lost)

    def _take(
        self, one: OrphanedFolder, log: StreamLog, record: StoredRecord, stream: EventStream, deadline: float
    ) -> int:
        """Send the record's events to the stream and return their number."""
        identity = log.identity
        schema = arrow_schema(StreamSchema(identity.stream, identity.attributes_at(record.position)))
        try:
            batch = fitting(decode_batch(record.body, schema, record.rows), stream.schema)
        except DecodeError:
            log.note_lost(record.rows, "invalid records", record.position)
            return 0
        origin = BatchOrigin(bytes.fromhex(identity.log), record.position)
        taken = self._offers.submit(("restore", one.id), stream, batch, origin)
        try:
            taken.result(max(0.1, deadline - time.monotonic()))
        except TimeoutError:
            if taken.cancel():
                raise InputError("no-room", f"{one.stream} of {one.plan} is busy; restore the rest again") from None
            taken.result()
        return record.rows


def _unavailable(one: OrphanedFolder, error: OSError) -> InputError:
    return InputError(UNAVAILABLE, f"orphaned data {one.id} cannot be used: {error.strerror or error}")
