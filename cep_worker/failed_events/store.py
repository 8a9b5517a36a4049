"""The failed-event store: a worker's own database of events that could not be processed.

`<errors.path>/<worker>/errors.db` is created with the first entry, and used by one process at a time. Entries are
durable when `keep` returns.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa
import sqlalchemy
from sqlalchemy import URL, BigInteger, Column, Connection, Engine, Index, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from cep_common.errors import InputError
from cep_common.ids import PlanKey
from cep_common.process.private_folders import make_private
from cep_common.protocol.registry import RemovedPlan
from cep_worker.config import ErrorsConfig, WalConfig
from cep_worker.failed_events.entries import (
    FailedBatch,
    FailedEventEntry,
    FailureOrigin,
    bounded,
    decode_events,
    encode_events,
    joined,
    pieces,
)
from cep_worker.inflows.wal.store import safe_component

logger = logging.getLogger(__name__)

T = TypeVar("T")

FILE = "errors.db"
UNAVAILABLE = "errors-unavailable"
"""The error code if the store cannot be read or written now."""

_METADATA = MetaData()
_ENTRIES = Table(
    "entries",
    _METADATA,
    Column("number", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("tenant", Integer, nullable=False),
    Column("plan", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("sink", Text, nullable=False),
    Column("time_ms", BigInteger, nullable=False),
    Column("query", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("events", LargeBinary, nullable=False),
    Index("entries_of_plan", "tenant", "plan", "number"),
    sqlite_autoincrement=True,
)
"""`number` rises with time; the events are an Arrow stream with its schema."""
_OWNERS = Table(
    "owners",
    _METADATA,
    Column("tenant", Integer, primary_key=True, autoincrement=False),
    Column("plan", Text, primary_key=True),
    Column("deployed_ms", BigInteger, nullable=False),
    Column("missing_ms", BigInteger, nullable=False),
)
"""When each plan with entries was first deployed, and since when (time of day) it is missing without having been
undeployed (0: it exists)."""


@dataclass(frozen=True, slots=True)
class KeepResult:
    """The number of events that are in the store now, the number that are not, and the reason."""

    events: int = 0
    lost: int = 0
    problem: str = ""


class FailedEventStore:
    """Keeps at most `errors.max_entries` entries of each plan.

    When it is full, new entries are dropped, since the oldest show how the problem began.

    Thread-safe. Threads that must not block on a disk call only `counts` and `keep_only`.
    """

    def __init__(
        self,
        config: ErrorsConfig,
        worker: str,
        now_ms: Callable[[], int],
        missing_ms: int = WalConfig().orphan_retention_ms,
    ) -> None:
        """`now_ms` gives the time of day.

        Entries of a plan that is missing stay for `missing_ms`.
        """
        self._config = config
        self._missing_ms = missing_ms
        self._owners: dict[PlanKey, int] | None = None
        """When each plan with entries was deployed, as of the last update; -1 if it was missing then."""
        self._file = Path(config.path) / safe_component(worker) / FILE
        self._now_ms = now_ms
        self._lock = threading.RLock()
        self._engine: Engine | None = None
        self._closed = False
        self._counts: Counter[PlanKey] = Counter()

    def open_existing(self) -> None:
        """Count the entries of earlier processes.

        If the store cannot be used, the reason is logged now and at each use.
        """
        if self._file.exists():
            try:
                with self._lock:
                    self._opened()
            except (SQLAlchemyError, OSError) as error:
                logger.error("the error store cannot be used: file=%s reason=%s", self._file, _said(error))  # noqa: TRY400 - the text says it all

    def counts(self) -> dict[PlanKey, int]:
        """Return the number of entries of each plan that has some, without waiting."""
        return {key: count for key, count in self._counts.copy().items() if count > 0}

    def keep(self, origin: FailureOrigin, failed: Iterable[FailedBatch]) -> KeepResult:
        """Store the events durably while there is room."""
        parts = self._parts(failed)
        try:
            with self._lock:
                room = self._config.max_entries - self._room_taken(origin.key)
                taken = [part for part in parts if part.events.nbytes <= self._config.max_entry_bytes][: max(room, 0)]
                if taken:
                    with self._begun() as connection:
                        self._insert(connection, origin, taken, self._now_ms())
                    self._counts[origin.key] += len(taken)
        except (SQLAlchemyError, OSError) as error:
            return KeepResult(0, _rows(parts), f"the error store cannot be written: {_said(error)}")
        lost = _rows(parts) - _rows(taken)
        return KeepResult(_rows(taken), lost, self._why_lost(parts, room) if lost else "")

    def keep_of_stream(self, key: PlanKey, stream: str, events: pa.RecordBatch, reason: str) -> int:
        """Store accepted events of the stream that cannot be processed. Return how many could not be stored."""
        return self._keep(FailureOrigin(key, stream, "stream"), events, reason)

    def keep_of_sink(self, key: PlanKey, stream: str, sink: str, events: pa.RecordBatch, reason: str) -> int:
        """Store results that the stream's sink cannot deliver. Return how many could not be stored."""
        return self._keep(FailureOrigin(key, stream, "sink", sink), events, reason)

    def _keep(self, origin: FailureOrigin, events: pa.RecordBatch, reason: str) -> int:
        kept = self.keep(origin, (FailedBatch(events, reason),))
        logger.error("events cannot be processed: plan=%s stream=%s sink=%s reason=%s kept_as_failed=%d lost=%d %s",
                     origin.key.topology(), origin.stream, origin.sink, reason, kept.events, kept.lost,
                     kept.problem)  # fmt: skip
        return kept.lost

    def entries(self, key: PlanKey, ids: Collection[str] | None, limit: int) -> list[FailedEventEntry]:
        """Return the oldest `limit` entries of the plan, or of those with `ids`.

        Raises InputError `errors-unavailable`.
        """
        wanted = sqlalchemy.select(_ENTRIES).where(self._chosen(key, ids)).order_by(_ENTRIES.c.number).limit(limit)
        nothing: list[Any] = []
        rows = self._run(lambda connection: list(connection.execute(wanted)), nothing)
        return [self._entry(row) for row in rows]

    def ids(self, key: PlanKey, ids: Collection[str] | None, limit: int) -> list[str]:
        """Return which of `ids` (of all, if None) exist among the plan's oldest `limit` entries.

        Raises InputError `errors-unavailable`.
        """
        chosen = self._chosen(key, ids)
        wanted = sqlalchemy.select(_ENTRIES.c.id).where(chosen).order_by(_ENTRIES.c.number).limit(limit)
        nothing: list[str] = []
        return self._run(lambda connection: list(connection.execute(wanted).scalars()), nothing)

    def discard(self, key: PlanKey, ids: Collection[str] | None) -> int:
        """Delete the plan's entries with `ids`, or all, and return how many there were.

        Raises InputError `errors-unavailable`.
        """
        chosen = self._chosen(key, ids)
        return self._run(lambda connection: self._delete(connection, key, chosen), 0)

    def replace(self, entry: FailedEventEntry, failed: Iterable[FailedBatch]) -> None:
        """Keep only `failed` of the entry's events, under the same id, possibly with new reasons.

        An entry that was discarded in the meantime is not restored. Raises InputError `errors-unavailable`, and the
        entry is unchanged.
        """
        parts = self._parts(failed)
        key = entry.origin.key

        def put(connection: Connection) -> None:
            if self._delete(connection, key, self._chosen(key, (entry.id,))):
                self._insert(connection, entry.origin, parts, entry.time_ms, entry.id)
                self._counts[key] += len(parts)

        self._run(put, None)

    def keep_only(
        self,
        plans: Collection[PlanKey],
        served: Mapping[PlanKey, int] = MappingProxyType({}),
        removed: Collection[RemovedPlan] = (),
    ) -> None:
        """Set which plans exist, and when the `served` ones were first deployed."""
        owners = {key: served.get(key, 0) if key in plans else -1 for key in self.counts()}
        if owners != self._owners:
            self._owners = owners
            task = partial(self._note_owners, owners, frozenset(removed))
            threading.Thread(target=task, name="error store", daemon=True).start()

    def owners(self) -> dict[PlanKey, tuple[int, int]]:
        """Return for each plan with entries when it was first deployed, and since when it is missing (0: it exists).

        Raises:
            InputError: `errors-unavailable`.
        """
        nothing: list[Any] = []
        rows = self._run(lambda connection: list(connection.execute(sqlalchemy.select(_OWNERS))), nothing)
        return {PlanKey(row.tenant, row.plan): (row.deployed_ms, row.missing_ms) for row in rows}

    def close(self) -> None:
        """Close the store; another process may use it then."""
        with self._lock:
            self._closed = True
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def _note_owners(self, owners: dict[PlanKey, int], removed: frozenset[RemovedPlan]) -> None:
        try:
            known = self.owners()
            for key, deployed_ms in owners.items():
                before_ms, missing_ms = known.get(key, (0, 0))
                if deployed_ms >= 0:
                    self._run(lambda connection, note=(key, deployed_ms or before_ms, 0): _own(connection, *note), None)  # type: ignore[misc]
                elif RemovedPlan(key, before_ms) in removed:
                    self._forget(key, "it was undeployed")
                elif missing_ms and self._now_ms() - missing_ms >= self._missing_ms:
                    self._forget(key, "it was missing for wal.orphan_retention_ms")
                elif not missing_ms:
                    since = (key, before_ms, self._now_ms())
                    self._run(lambda connection, note=since: _own(connection, *note), None)  # type: ignore[misc]
                    logger.error("plan with failed events is missing and was not undeployed: plan=%s entries=%d",
                                 key.topology(), self._counts[key])  # fmt: skip
        except InputError as error:  # retried when plans change
            self._owners = None
            logger.error("entries of removed plans cannot be deleted: reason=%s", error)  # noqa: TRY400 - the text says it all

    def _forget(self, key: PlanKey, reason: str) -> None:
        count = self.discard(key, None)
        self._run(lambda connection: connection.execute(_OWNERS.delete().where(_owned(key))), None)
        logger.warning("failed events deleted with their plan: plan=%s entries=%d reason=%s",
                       key.topology(), count, reason)  # fmt: skip

    def _parts(self, failed: Iterable[FailedBatch]) -> list[FailedBatch]:
        """Return the events in parts that become one entry each."""
        return [
            FailedBatch(part, bounded(one.reason), one.query)
            for one in joined(failed)
            for part in pieces(one.events, self._config.max_entry_bytes)
        ]

    def _room_taken(self, key: PlanKey) -> int:
        """Return how many entries the plan has, which may be from an earlier process."""
        if self._engine is None and self._file.exists():
            self._opened()
        return self._counts[key]

    def _why_lost(self, parts: list[FailedBatch], room: int) -> str:
        config = self._config
        if any(part.events.nbytes > config.max_entry_bytes for part in parts) and len(parts) <= room:
            return f"an event of more than {config.max_entry_bytes} bytes is not kept (errors.max_entry_bytes)"
        return f"the error store is full: {config.max_entries} entries of the plan are kept (errors.max_entries)"

    def _chosen(self, key: PlanKey, ids: Collection[str] | None) -> Any:
        own = (_ENTRIES.c.tenant == key.tenant) & (_ENTRIES.c.plan == key.identity)
        return own if ids is None else own & _ENTRIES.c.id.in_(ids)

    def _insert(
        self, connection: Connection, origin: FailureOrigin, parts: list[FailedBatch], time_ms: int, first_id: str = ""
    ) -> None:
        rows = [
            {
                "id": first_id if first_id and not number else secrets.token_hex(6),
                "tenant": origin.key.tenant,
                "plan": origin.key.identity,
                "stream": origin.stream,
                "kind": origin.kind,
                "sink": origin.sink,
                "time_ms": time_ms,
                "query": part.query,
                "reason": part.reason,
                "events": encode_events(part.events),
            }
            for number, part in enumerate(parts)
        ]
        if rows:
            connection.execute(_ENTRIES.insert(), rows)

    def _delete(self, connection: Connection, key: PlanKey, chosen: Any) -> int:
        count = connection.execute(_ENTRIES.delete().where(chosen)).rowcount
        self._counts[key] -= count
        return count

    def _run(self, call: Callable[[Connection], T], nothing: T) -> T:
        """Return the result of `call` in a transaction, or `nothing` if nothing was ever stored."""
        try:
            with self._lock:
                if self._engine is None and not self._closed and not self._file.exists():
                    return nothing
                before = self._counts.copy()
                try:
                    with self._begun() as connection:
                        return call(connection)
                except BaseException:
                    self._counts = before
                    raise
        except (SQLAlchemyError, OSError) as error:
            raise InputError(UNAVAILABLE, f"the error store {self._file} cannot be used: {_said(error)}") from error

    def _entry(self, row: Any) -> FailedEventEntry:
        try:
            events = decode_events(row.events)
        except (pa.ArrowException, OSError, EOFError) as error:
            problem = f"the entry {row.id} of {self._file} cannot be read, discard it: {error}"
            raise InputError(UNAVAILABLE, problem) from error
        origin = FailureOrigin(PlanKey(row.tenant, row.plan), row.stream, row.kind, row.sink)
        return FailedEventEntry(row.id, origin, row.time_ms, FailedBatch(events, row.reason, row.query))

    def _begun(self) -> Any:
        return self._opened().begin()

    def _opened(self) -> Engine:
        """Return the database, which is created if missing.

        Raises SQLAlchemyError and OSError.
        """
        if self._closed:
            raise OSError("the worker is shutting down")
        if self._engine is None:
            make_private(self._file.parent)
            self._file.touch(mode=0o600)  # SQLite creates its other files with the same mode
            url = URL.create("sqlite", database=str(self._file))
            engine = sqlalchemy.create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False})
            sqlalchemy.event.listen(engine, "connect", _prepare)
            try:
                _METADATA.create_all(engine)
                with engine.begin() as connection:
                    counted = sqlalchemy.func.count()
                    columns = (_ENTRIES.c.tenant, _ENTRIES.c.plan)
                    found = connection.execute(sqlalchemy.select(*columns, counted).group_by(*columns)).all()
            except BaseException:
                engine.dispose()
                raise
            self._counts = Counter({PlanKey(tenant, plan): count for tenant, plan, count in found})
            self._engine = engine
        return self._engine


def _owned(key: PlanKey) -> Any:
    return (_OWNERS.c.tenant == key.tenant) & (_OWNERS.c.plan == key.identity)


def _own(connection: Connection, key: PlanKey, deployed_ms: int, missing_ms: int) -> None:
    connection.execute(_OWNERS.delete().where(_owned(key)))
    row = {"tenant": key.tenant, "plan": key.identity, "deployed_ms": deployed_ms, "missing_ms": missing_ms}
    connection.execute(_OWNERS.insert().values(row))


def _prepare(connection: Any, _record: Any) -> None:
    """Set up a connection: durable commits, deleted space returned, and exclusive access."""
    for pragma in ("auto_vacuum=FULL", "locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _rows(parts: Iterable[FailedBatch]) -> int:
    return sum(part.events.num_rows for part in parts)


def _said(error: SQLAlchemyError | OSError) -> str:
    """Return the error without its SQL statement, which may contain events."""
    cause = getattr(error, "orig", None) or error
    return str(getattr(cause, "strerror", None) or cause)
