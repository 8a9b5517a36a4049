"""Operations of users on failed events: list, replay, discard.

An entry of a stream is replayed into the stream's inflow, like events of any source; one of a sink is offered to that
sink alone. An entry is removed once its events were accepted; events that fail again stay, with the new reason.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from typing import Annotated, Any, Protocol

import msgspec
import pyarrow as pa
from msgspec import Meta

from cep_common.errors import InputError
from cep_common.ids import PlanKey
from cep_common.protocol.links import StreamSchema
from cep_worker.failed_events.entries import FailedBatch, FailedEventEntry
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.plans.streams import EventStream, StreamDirectory
from topology.events.conversion import attributes_of, conversion_problem, converted

MOST_IDS = 100
MOST_REPLAYED = 1_000
"""The maximum number of entries that one request replays."""
MOST_SHOWN = 100
REPLAY_S = 5.0
"""The longest time that one request replays; the rest is left for the next request."""


class EntrySelection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entries of `plan` with these `ids`, or `all` of them.

    `id` stays the same when a plan is renamed; empty: the plan that has the name now.
    """

    plan: str
    id: str = ""
    ids: Annotated[tuple[str, ...], Meta(max_length=MOST_IDS)] = ()
    all: bool = False

    def wanted(self) -> tuple[str, ...] | None:
        """Return the ids, None for all.

        Raises InputError if both or neither are given.
        """
        if self.all == bool(self.ids):
            raise InputError("bad-request", "specify ids, or all: true")
        return None if self.all else self.ids


class RefusedReplay(msgspec.Struct, frozen=True):
    """An entry that was not replayed, and why."""

    id: str
    code: str
    reason: str


class ReplayResult(msgspec.Struct, frozen=True):
    """The result of a replay: `replayed` entries with `events` were accepted and removed; `refused` ones stay.

    The events of `under_way` are still being delivered by their sink. `left` were requested but not reached in time.
    """

    replayed: int
    events: int
    refused: tuple[RefusedReplay, ...]
    under_way: int
    left: int


class ReplayTargets(Protocol):
    """Where to replay events; any thread may call."""

    def imported(self) -> StreamDirectory:
        """Return the event streams that accept events now."""

    def submit(self, source: Hashable, stream: EventStream, batch: pa.RecordBatch) -> Future[None]:
        """Offer `batch` to the stream's inflows."""

    def replay_to_sink(
        self, key: PlanKey, stream: str, sink: str, batch: pa.RecordBatch, attempt: ReplayAttempt
    ) -> None:
        """Deliver the events again with the sink and report the outcome to `attempt`.

        A sink that is missing or full is reported at once.
        """

    def replay_to_source(
        self, key: PlanKey, stream: str, source: str, batch: pa.RecordBatch, attempt: ReplayAttempt
    ) -> None:
        """Read the messages again with the source and report the outcome to `attempt`."""


class ReplayAttempt:
    """One attempt of a sink to deliver the events of an entry.

    `outcome` is set after the attempt: None, or the reason why the entry remains.
    """

    def __init__(self, store: FailedEventStore, entry: FailedEventEntry, ended: Callable[[], None]) -> None:
        self.outcome: Future[InputError | None] = Future()
        self._store = store
        self._entry = entry
        self._ended = ended
        self._problem: InputError | None = None

    def failed(self, failed: Iterable[FailedBatch]) -> None:
        """Keep these events in the store: they could not be delivered."""
        found = list(failed)
        self._problem = InputError("failed-again", found[-1].reason if found else "")
        try:
            self._store.replace(self._entry, found)
        except InputError as error:
            self._problem = error

    def end(self) -> None:
        """End the attempt: everything that has not `failed` is delivered."""
        try:
            if self._problem is None:
                self._store.discard(self._entry.origin.key, (self._entry.id,))
        except InputError as error:
            self._problem = error
        self._finish()

    def refuse(self, problem: InputError) -> None:
        """End the attempt before trying: the entry stays unchanged."""
        self._problem = problem
        self._finish()

    def _finish(self) -> None:
        self._ended()
        self.outcome.set_result(self._problem)


class FailedEventService:
    """The operations of the HTTP server on the store. They may block. Thread-safe."""

    def __init__(self, store: FailedEventStore, offers: ReplayTargets) -> None:
        self._store = store
        self._offers = offers
        self._lock = threading.Lock()
        self._under_way: set[str] = set()

    def listed(self, key: PlanKey, limit: int) -> dict[str, Any]:
        """Return the plan's oldest entries, and how many there are.

        Raises InputError `errors-unavailable`.
        """
        entries = self._store.entries(key, None, limit)
        return {"found": self._store.counts().get(key, 0), "entries": [entry.shown() for entry in entries]}

    def discard(self, key: PlanKey, choice: EntrySelection) -> int:
        """Delete the chosen entries and return how many there were.

        Raises:
            InputError: the choice is invalid or the store is not available.
        """
        return self._store.discard(key, choice.wanted())

    def replay(self, key: PlanKey, choice: EntrySelection) -> ReplayResult:
        """Replay the chosen entries, oldest first, as far as time allows.

        Raises:
            InputError: the choice is invalid or the store is not available.
        """
        deadline = time.monotonic() + REPLAY_S
        wanted = choice.wanted()
        ids = self._store.ids(key, wanted, MOST_REPLAYED)
        asked = len(ids) if wanted is not None else self._store.counts().get(key, 0)
        done = 0
        taken: list[int] = []
        refused: list[RefusedReplay] = []
        under_way = 0
        for id_ in ids:
            if time.monotonic() >= deadline:
                break
            done += 1
            try:
                events = self._replay(key, id_, deadline)
            except InputError as error:
                refused.append(RefusedReplay(id_, error.reason_code, error.message))
            else:
                under_way += events is None
                taken += [events] if events else []
        return ReplayResult(len(taken), sum(taken), tuple(refused), under_way, max(0, asked - done))

    def _replay(self, key: PlanKey, id_: str, deadline: float) -> int | None:
        """Return the number of accepted events, 0 if the entry no longer exists, None while a sink still retries.

        Raises:
            InputError: they were not.
        """
        with self._lock:
            if id_ in self._under_way:
                return None
            self._under_way.add(id_)
        with contextlib.ExitStack() as last:
            last.callback(self._ended, id_)
            entry = next(iter(self._store.entries(key, (id_,), 1)), None)
            if entry is None:  # another request was first
                return 0
            if entry.origin.kind != "stream":
                last.pop_all()  # from now on the attempt reports its own end
                if not self._to_connector(entry, deadline):
                    return None
            else:
                self._to_stream(entry, deadline)
            rows: int = entry.failed.events.num_rows
            return rows

    def _to_connector(self, entry: FailedEventEntry, deadline: float) -> bool:
        """Return whether the sink has delivered the events, or the source accepted them; False while it tries."""
        origin = entry.origin
        attempt = ReplayAttempt(self._store, entry, lambda: self._ended(entry.id))
        replay = self._offers.replay_to_sink if origin.kind == "sink" else self._offers.replay_to_source
        replay(origin.key, origin.stream, origin.sink, entry.failed.events, attempt)
        try:
            problem = attempt.outcome.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return False
        if problem is not None:
            raise problem
        return True

    def _to_stream(self, entry: FailedEventEntry, deadline: float) -> None:
        origin = entry.origin
        stream = inflow_of(self._offers.imported(), origin.key, origin.stream)
        batch = fitting(entry.failed.events, stream.schema)
        source = ("replay", origin.key, origin.stream)
        taken = self._offers.submit(source, stream, batch)
        try:
            taken.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            if taken.cancel():
                raise InputError("no-room", f"{origin.stream} is busy; replay the entry again") from None
            taken.result()
        self._store.discard(origin.key, (entry.id,))

    def _ended(self, id_: str) -> None:
        with self._lock:
            self._under_way.discard(id_)


def fitting(events: pa.RecordBatch, schema: StreamSchema) -> pa.RecordBatch:
    """Return the events with the stream's present attributes.

    An edited plan may have changed them since the events failed.

    Raises:
        InputError: the events cannot be converted.
    """
    problem = conversion_problem(attributes_of(events.schema), schema.attributes)
    if problem:
        what = f"the attributes of {schema.stream} have changed since the events failed"
        raise InputError("schema-mismatch", f"{what}: {problem}")
    return converted(events, schema.attributes)


def inflow_of(imported: StreamDirectory, key: PlanKey, stream: str) -> EventStream:
    """Return the imported stream of the plan.

    Raises InputError.
    """
    reason = (
        "its events come from queries of the plan, not from a source: replay the events of the queries' "
        "input, or discard the entry"
    )
    nowhere = InputError("no-inflow", f"{stream} of {key.plan} accepts no external events: {reason}")
    try:
        return imported.own(key, stream)
    except InputError as error:
        raise nowhere if error.reason_code == "unknown-stream" else error from error
