"""A sink whose writes may block, which a separate thread performs, with a bounded queue."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from cep_common.errors import CepError
from cep_common.protocol.worker_reports import TransactionReport, WrittenTopicReport
from cep_worker.failed_events.entries import FailedBatch, FailureOrigin
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.sinks.base import EventSink, SinkContext, TopicMetrics
from topology.events.frames import concatenate

logger = logging.getLogger(__name__)

BLOCKED_MS = 10_000
"""How long a sink may deliver none of its events until it is reported as blocked."""
FAILED_MS = 60_000
"""How long dropped or stored events are reported as the current error."""
KEPT_AT_ONCE = 10_000
"""The approximate number of events that are stored at once."""


class WriteError(CepError):
    """A write failed and is not retried, for all of its events or only for those in `failed`.

    `failed` may be an iterator that can be read only once. If it is empty, every event was written, and the message
    reports another problem to show.
    """

    code = "sink-write"

    def __init__(self, message: str, failed: Iterable[FailedBatch] | None = None) -> None:
        super().__init__(message)
        self.failed = failed


class SinkWriter(Protocol):
    """Delivers the batches of a `ThreadedSink`; all methods run on the sink's own thread, where they may block."""

    @property
    def problem(self) -> str:
        """Return why it is retrying now; empty if it is not. Read from other threads."""

    @property
    def steps(self) -> int:
        """Return a number that increases with each completed part of a batch. Read from other threads.

        The sink uses it to detect a blocked writer.
        """

    def write(self, batch: pa.RecordBatch, frame: FrameId | None, stopping: threading.Event) -> None:
        """Deliver `batch` or, for a part of a group, prepare it for `commit`.

        May block, and retries by its own policy until `stopping` is set.

        Args:
            batch: The events, with `_timestamp` (int64 ms).
            frame: The batch's place in a group; None for a batch outside groups. A frame that does not follow the
                previous one restarts its group: drop what was prepared of it.
            stopping: Set when the sink is closed; return soon then.

        Raises:
            WriteError: these events cannot be delivered.
        """

    def commit(self, group: GroupId, stopping: threading.Event) -> None:
        """Deliver the frames of the group that were written since it last began, unless it was delivered before.

        Frames of groups of other logs may come in between.

        Args:
            group: The group, which stays the same when it is delivered again after a restart.
            stopping: Set when the sink is closed; return soon then.

        Raises:
            WriteError: it cannot be delivered; events not named as failed cannot be kept.
        """

    def close(self) -> None:
        """Release all resources; uncommitted frames are discarded."""


class DeliveryAttempt(Protocol):
    """Receives the outcome of a replay.

    Called on the sink's thread. `failed` is only called if events failed.
    """

    def failed(self, failed: Iterable[FailedBatch]) -> None:
        """Take the events that could not be delivered."""

    def end(self) -> None:
        """End the attempt: no more outcomes follow."""


@dataclass(frozen=True, slots=True)
class _QueuedWork:
    """A batch (on its own, as a frame of a group, or for the replay `attempt`), or the commit of a group."""

    rows: int
    receipt: DeliveryReceipt
    batch: pa.RecordBatch | None = None
    frame: FrameId | None = None
    group: GroupId | None = None
    attempt: DeliveryAttempt | None = None
    works: int = 1
    """The number of batches that were joined to this one."""

    @property
    def alone(self) -> bool:
        """Return whether it is a batch outside groups, which may be joined with others."""
        return self.batch is not None and self.frame is None and self.attempt is None


class ThreadedSink:
    """A sink that queues batches, up to `waiting_rows` rows plus one batch, for a thread that writes them."""

    passes_on = True

    def __init__(self, context: SinkContext, writer: SinkWriter, on_error: str = "LOG", gather_rows: int = 0) -> None:
        """Start the thread of the sink.

        Args:
            context: The sink's context.
            writer: Delivers the batches; the sink owns and closes it.
            on_error: With STORE or STREAM, events that cannot be delivered are kept as failed events as far as there is
                room; else they are logged and dropped.
            gather_rows: The number of rows up to which waiting batches outside groups are written together, for writers
                whose writes cost a round trip each.
        """
        self._name = context.where()
        self._writer = writer
        self._store = context.errors if on_error in ("STORE", "STREAM") else None
        self._origin = context.origin()
        self._most_rows = context.waiting_rows
        self._room = context.room
        self._post: Callable[[Callable[[], None]], None] = context.event_loop.post
        self._queue: queue.SimpleQueue[_QueuedWork | None] = queue.SimpleQueue()
        self._gather_rows = gather_rows
        self._ahead: _QueuedWork | None = None
        """Work that was taken from the queue and cannot be joined with the previous work."""
        self._lock = threading.Lock()
        self._rows = 0
        self._unsettled = 0
        self._ended = False
        self._stopping = threading.Event()
        self._successor: EventSink | None = None
        self._left: int | None = None
        """Undelivered events when the worker ends, which leaves them to the next process; None: it does not end."""
        self._group_rows: dict[str, tuple[FrameId, int]] = {}
        """By log, the last frame of the uncommitted group, and its number of written rows."""
        self._error = ""
        self._stored_events = 0
        self._lost = 0
        """Events of the current work that were dropped or stored as failed."""
        self.dropped_events = 0
        self.delivered_events = 0
        self._works = 0
        self._moved = (-1, -1)
        self._moved_ms = 0
        """The progress at the last check, and when it was first seen."""
        self._failures = self._seen_failures = 0
        self._failed_ms = 0
        self._blocked = False
        self._thread = threading.Thread(target=self._run, name=f"sink {self._name}", daemon=True)
        self._thread.start()

    @property
    def written(self) -> tuple[WrittenTopicReport, ...]:
        """See TopicMetrics."""
        return self._writer.written if isinstance(self._writer, TopicMetrics) else ()

    @property
    def transactions(self) -> TransactionReport | None:
        """See TopicMetrics."""
        return self._writer.transactions if isinstance(self._writer, TopicMetrics) else None

    def has_room(self) -> bool:
        return self._rows < self._most_rows

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None = None) -> None:
        self._put(_QueuedWork(batch.num_rows, receipt, batch, frame))

    def commit(self, group: GroupId, receipt: DeliveryReceipt) -> None:
        self._put(_QueuedWork(0, receipt, group=group))

    def replay(self, batch: pa.RecordBatch, attempt: DeliveryAttempt) -> None:
        """Retry `batch`, which failed before, once."""
        self._put(_QueuedWork(batch.num_rows, DeliveryReceipt(1, _ignore), batch, attempt=attempt))

    def keep_as(self, origin: FailureOrigin) -> None:
        """Store failed events with `origin` from now on."""
        self._origin = origin

    def tick(self, now_ms: int) -> None:
        """Detect a write that hangs, and forget old failures."""
        moved = (self._works, self._writer.steps)
        if moved != self._moved or not self._unsettled:
            self._moved, self._moved_ms = moved, now_ms
        self._blocked = now_ms - self._moved_ms >= BLOCKED_MS
        if self._failures != self._seen_failures:
            self._seen_failures, self._failed_ms = self._failures, now_ms
        elif self._error and now_ms - self._failed_ms >= FAILED_MS:
            self._error = ""

    def drained(self) -> bool:
        return self._unsettled == 0

    def waiting_events(self) -> int:
        return self._rows

    def last_error(self) -> str:
        if self._error or self._writer.problem:
            return self._error or f"{self._name}: {self._writer.problem}"
        return f"{self._name}: it has delivered nothing for more than {BLOCKED_MS // 1_000} s" if self._blocked else ""

    def close(self, successor: EventSink | None = None) -> None:
        self._successor = successor
        self._stopping.set()
        self._queue.put(None)

    def leave(self) -> None:
        self._left = 0
        self.close()

    def _put(self, work: _QueuedWork) -> None:
        with self._lock:
            self._rows += work.rows
            self._unsettled += 1
            if not self._ended:
                self._queue.put(work)
                return
        self._give_up(work)

    def _run(self) -> None:
        while (work := self._next()) is not None:
            left = self._do(work)
            if left is None:
                self._done(work)
            else:
                self._give_up(left)
            if self._stopping.is_set():
                break
        self._writer.close()
        with self._lock:
            self._ended = True
        if self._ahead is not None:
            self._give_up(self._ahead)
        while not self._queue.empty():
            left = self._queue.get()
            if left is not None:
                self._give_up(left)
        if self._left:
            logger.info("sink ended with its worker, the next process delivers the rest: plan=%s sink=%s events=%d",
                        self._origin.key.topology(), self._name, self._left)  # fmt: skip

    def _next(self) -> _QueuedWork | None:
        """Return the next work, in which waiting batches are joined if possible; None when the sink ends."""
        first, self._ahead = self._ahead or self._queue.get(), None
        if first is None or not first.alone:
            return first
        works, rows = [first], first.rows
        while rows < self._gather_rows and not self._queue.empty():
            other = self._queue.get()
            if other is None:
                self._queue.put(None)
                break
            if not other.alone or rows + other.rows > self._gather_rows:
                self._ahead = other
                break
            works.append(other)
            rows += other.rows
        return _together(works) if len(works) > 1 else first

    def _done(self, work: _QueuedWork) -> None:
        self._leave(work)
        lost, self._lost = self._lost, 0
        self._works += 1
        self.delivered_events += max(0, work.rows - lost)
        self._post(partial(work.receipt.settle, lost))

    def _leave(self, work: _QueuedWork) -> None:
        with self._lock:
            was_full = self._rows >= self._most_rows
            self._rows -= work.rows
            self._unsettled -= work.works
        if was_full and self._rows < self._most_rows:
            self._room()

    def _give_up(self, work: _QueuedWork) -> None:
        """Give up `work`. Called on the sink's thread, or on the data thread for work after the sink's end."""
        if self._passes_on(work):
            self._leave(work)
            if self._left is None:
                self._post(partial(self._pass_on, work))
            else:
                self._left += work.rows
            return
        if work.batch is not None:
            self._lose(work, None, work.rows, "the sink has ended")
        if work.attempt is not None:
            work.attempt.end()
        self._done(work)

    def _passes_on(self, work: _QueuedWork) -> bool:
        """Return whether the sink has a successor, or its worker has one, that can take `work`."""
        if self._left is not None:
            return work.attempt is None
        grouped = work.frame is not None or work.group is not None
        return self._successor is not None and work.attempt is None and (not grouped or work.receipt.takes_back)

    def _pass_on(self, work: _QueuedWork) -> None:
        """On the data thread.

        Of a group the successor gets all again, for it may not have its beginning.
        """
        if work.frame is not None or work.group is not None:
            work.receipt.give_back()
        elif self._successor is not None and work.batch is not None:
            self._successor.offer(work.batch, None, work.receipt)

    def _do(self, work: _QueuedWork) -> _QueuedWork | None:
        """Write and count what fails for good; a failed commit fails its whole group.

        Return the work for a successor when the sink ends before it is delivered.
        """
        rows = work.rows if work.group is None else self._group_rows.pop(work.group.log, (None, 0))[1]
        try:
            if work.batch is not None:
                self._writer.write(work.batch, work.frame, self._stopping)
            elif work.group is not None:
                self._writer.commit(work.group, self._stopping)
        except WriteError as error:
            if self._stopping.is_set() and self._passes_on(work):
                failed = [one.events for one in error.failed or ()] if work.frame is None else []
                return replace(work, batch=concatenate(failed)) if failed else work
            self._lose(work, error.failed, rows, error.message)
        except Exception as error:  # noqa: BLE001 - the sink's own message loop: one bad batch does not end it
            self._lose(work, None, rows, f"{type(error).__name__}: {error}")
        else:
            self._error = ""
            if work.frame is not None:
                former, before = self._group_rows.get(work.frame.group.log, (work.frame, 0))
                before = before if work.frame.follows(former) else 0
                self._group_rows[work.frame.group.log] = work.frame, before + rows
        if work.attempt is not None:
            work.attempt.end()
        return None

    def _lose(self, work: _QueuedWork, failed: Iterable[FailedBatch] | None, rows: int, reason: str) -> None:
        """Store or drop failed events (None: all `rows`)."""
        self._failures += 1
        failures = self._stored_events + self.dropped_events
        try:
            self._deal_with(work, failed, rows, reason)
        finally:
            self._lost += self._stored_events + self.dropped_events - failures

    def _deal_with(self, work: _QueuedWork, failed: Iterable[FailedBatch] | None, rows: int, reason: str) -> None:
        if failed is None and work.batch is not None:
            failed = (FailedBatch(work.batch, reason),)
        if work.attempt is not None:
            work.attempt.failed(failed or ())
            self._error = f"{self._name}: events were replayed and failed again: {reason}"
            return
        handled = 0
        try:
            for some in _in_turns(failed or ()):
                self._keep(some, reason)
                handled += sum(one.events.num_rows for one in some)
        except Exception as error:  # noqa: BLE001 - what cannot be read again or kept does not end the sink either
            self._drop(rows - handled, f"{reason}; they are lost: {error}")
        if failed is None:
            self._drop(rows, reason)
        elif not handled:
            self._error = self._error or f"{self._name}: {reason}"

    def _keep(self, failed: list[FailedBatch], reason: str) -> None:
        """Store events as failed if this is configured and there is room, else drop them."""
        if self._store is None:
            self._drop(sum(one.events.num_rows for one in failed), reason)
            return
        kept = self._store.keep(self._origin, failed)
        if kept.events:
            self._stored_events += kept.events
            self._error = f"{self._name}: {self._stored_events} events kept (cep errors), the last because: {reason}"
            logger.error("sink kept events in the error store: plan=%s sink=%s events=%d reason=%s",
                         self._origin.key.topology(), self._name, kept.events, reason)  # fmt: skip
        if kept.lost:
            self._drop(kept.lost, f"{reason}; {kept.problem}")

    def _drop(self, rows: int, reason: str) -> None:
        self.dropped_events += rows
        self._error = f"{self._name}: {self.dropped_events} events dropped, the last because: {reason}"
        logger.error("sink dropped events: plan=%s sink=%s events=%d reason=%s",
                     self._origin.key.topology(), self._name, rows, reason)  # fmt: skip


def _in_turns(failed: Iterable[FailedBatch]) -> Iterator[list[FailedBatch]]:
    """Yield the events in lists of bounded size."""
    turn: list[FailedBatch] = []
    rows = 0
    for one in failed:
        turn.append(one)
        rows += one.events.num_rows
        if rows >= KEPT_AT_ONCE:
            yield turn
            turn, rows = [], 0
    if turn:
        yield turn


def _together(works: list[_QueuedWork]) -> _QueuedWork:
    """Return one work with the batches of all, which settles all their receipts."""

    def settle() -> None:
        lost = receipt.lost_rows
        for one in works:
            some = min(lost, one.rows)
            one.receipt.settle(some)
            lost -= some

    receipt = DeliveryReceipt(1, settle)
    batches = [one.batch for one in works if one.batch is not None]
    return _QueuedWork(sum(one.rows for one in works), receipt, concatenate(batches), works=len(works))


def _ignore() -> None:
    """Do nothing: only the attempt waits for it."""
