"""Batches from other threads, such as those of HTTP requests.

Each is accepted if there is room, and otherwise rejected.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from cep_common.errors import InputError
from cep_common.protocol.links import StreamSchema
from cep_worker.inflows.wal.errors import WalFullError
from cep_worker.ingest.routing import Route
from cep_worker.plans.streams import EventStream
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.storage.group_commit import DiskSync
from cep_worker.storage.records import BatchOrigin
from topology.events.watermarks import NO_WATERMARK

MakeRoute = Callable[[Hashable, StreamSchema, EventStream], Route]


@dataclass(frozen=True, slots=True)
class _Submission:
    source: Hashable
    stream: EventStream
    batch: pa.RecordBatch
    taken: Future[None]
    origin: BatchOrigin | None = None


class SubmissionQueue:
    """Batches from other threads, each with a future.

    A submitter may cancel the future: a cancelled batch is not accepted, and an accepted one cannot be cancelled.
    """

    def __init__(
        self, event_loop: EventLoop, disk_sync: DiskSync, make_route: MakeRoute, monotonic_ms: Callable[[], int]
    ) -> None:
        self._event_loop = event_loop
        self._disk_sync = disk_sync
        self._make_route = make_route
        self._monotonic_ms = monotonic_ms
        self._routes: dict[Hashable, Route] = {}
        self._waiting: deque[_Submission] = deque()

    def submit(
        self, source: Hashable, stream: EventStream, batch: pa.RecordBatch, origin: BatchOrigin | None = None
    ) -> Future[None]:
        """Submit `batch` of the stream's schema; the future is done when it is durable.

        The future fails with InputError if the stream no longer exists, the log is full, or the batch is too large. A
        batch that may be sent again has an `origin` and is accepted once. Any thread may call this method.
        """
        taken: Future[None] = Future()
        submission = _Submission(source, stream, batch, taken, origin)
        self._event_loop.post(lambda: self._arrived(submission))
        return taken

    def newest(self, stream: EventStream, origins: Sequence[bytes]) -> Future[list[int | None]]:
        """Return the number of the newest batch that the stream's inflows have accepted from each of `origins`.

        The future fails with InputError when the stream no longer exists or inactive. Any thread may call it.
        """
        found: Future[list[int | None]] = Future()

        def look() -> None:
            try:
                route = self._make_route("newest", stream.schema, stream)
            except InputError as error:
                found.set_exception(error)
            else:
                found.set_result([route.newest_of(origin) for origin in origins])

        self._event_loop.post(look)
        return found

    def join(self, source: Hashable, stream: EventStream) -> None:
        """Register `source`: event time waits for its events.

        Any thread may call it.
        """
        self._tell(source, stream, lambda route: route.join(self._monotonic_ms()))

    def note_more(self, source: Hashable, stream: EventStream, *, more: bool) -> None:
        """Note whether `source` has more to send, for which event time waits however long it takes.

        Any thread may call it.
        """
        self._tell(source, stream, lambda route: route.note_more(self._monotonic_ms(), more=more))

    def leave(self, source: Hashable, stream: EventStream) -> None:
        """Unregister `source`, which has ended.

        Any thread may call it.
        """
        self._tell(source, stream, Route.leave)

    def _tell(self, source: Hashable, stream: EventStream, what: Callable[[Route], None]) -> None:
        def tell() -> None:
            with suppress(InputError):  # no plan accepts the stream's events now, so no event time waits for sources
                what(self._make_route(source, stream.schema, stream))

        self._event_loop.post(tell)

    def retry(self, now_ms: int) -> None:
        """Accept waiting batches while there is room, in the order of each source."""
        blocked: set[Hashable] = set()
        for _ in range(len(self._waiting)):
            submission = self._waiting.popleft()
            if submission.source in blocked or not self._take(submission, now_ms):
                blocked.add(submission.source)
                self._waiting.append(submission)

    def waiting(self) -> bool:
        """Return whether a batch waits for room."""
        return bool(self._waiting)

    def reroute(self) -> None:
        """Follow a change of the deployed plans."""
        self._routes.clear()

    def _arrived(self, submission: _Submission) -> None:
        self._waiting = deque(other for other in self._waiting if not other.taken.cancelled())
        held = any(other.source == submission.source for other in self._waiting)
        if held or not self._take(submission, self._monotonic_ms()):
            self._waiting.append(submission)

    def _take(self, submission: _Submission, now_ms: int) -> bool:
        """Return whether the submission was accepted or rejected; False: it must wait."""
        try:
            route = self._route(submission)
        except InputError as error:
            if submission.taken.set_running_or_notify_cancel():
                submission.taken.set_exception(error)
            return True
        if submission.taken.cancelled():
            return True
        if not route.has_room():
            return False
        if submission.taken.set_running_or_notify_cancel():
            try:
                route.offer(submission.batch, None, NO_WATERMARK, now_ms, submission.origin)
            except WalFullError as error:
                submission.taken.set_exception(InputError("no-room", error.message))
            except InputError as error:
                submission.taken.set_exception(error)
            else:
                self._disk_sync.when_safe(partial(submission.taken.set_result, None))
        return True

    def _route(self, submission: _Submission) -> Route:
        name = (submission.source, submission.stream.schema)
        route = self._routes.get(name)
        if route is None:
            route = self._make_route(submission.source, submission.stream.schema, submission.stream)
            self._routes[name] = route
        return route
