"""An inflow: sends the events of all sources of an imported stream to one receiver stage.

Accepted events are kept in a log on disk until the topology no longer needs them, unless the plan delivers at most
once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pyarrow as pa
import zmq

from cep_common.ids import PlanKey
from cep_common.protocol.links import OpenLink, StreamSchema
from cep_common.protocol.registry import DeployedPlan, EndpointAssigned, InflowReport, StreamBinding
from cep_common.security.roles import SocketKind
from cep_common.sockets.multiplexing import SharedConnections
from cep_worker.config import WorkerConfig
from cep_worker.inflows.backlog import MemoryBacklog
from cep_worker.inflows.logged_backlog import KeepFailed, LoggedBacklog
from cep_worker.inflows.receiver_link import ReceiverLink, ReceiverLinkLimits
from cep_worker.inflows.wal.age import OldestAge
from cep_worker.inflows.wal.errors import BatchTooLargeError, WalFullError
from cep_worker.inflows.wal.identity import LastReceiver
from cep_worker.inflows.wal.log import StreamLog
from cep_worker.inflows.watermarks import InflowWatermark
from cep_worker.plans.event_trace import EventTrace
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.runtime.worker_metrics import WalMetrics
from cep_worker.storage.records import BatchOrigin
from siddhi.column_names import TIMESTAMP
from topology.events.conversion import attributes_of, conversion_problem, converted
from topology.events.frames import arrow_schema
from topology.events.watermarks import NO_WATERMARK

logger = logging.getLogger(__name__)


def _ignore() -> None:
    """Do nothing: the default callback for activity."""


class Inflow:
    """Sends batches of one stream from its sources to a receiver stage.

    Adds watermarks when event time drives the plan. Belongs to the data thread.
    """

    def __init__(
        self,
        event_loop: EventLoop,
        context: zmq.Context[zmq.Socket[bytes]],
        plan: DeployedPlan,
        binding: StreamBinding,
        worker: str,
        config: WorkerConfig,
        log: StreamLog | None,
        changed: Callable[[], None],
        room: Callable[[], None],
        failed: KeepFailed,
        now_ms: int,
        wall_ms: Callable[[], int],
        shared: SharedConnections | None = None,
        stir: Callable[[], None] = _ignore,
    ) -> None:
        """Create the inflow, which owns `log`.

        Accepted events that cannot be processed go to `failed`. `wall_ms` returns the time of day.
        """
        self._wall_ms = wall_ms
        self.key: PlanKey = plan.key
        self.epoch = plan.epoch
        self.binding = binding
        self.playback = plan.playback
        self.logged = log is not None
        self.trace = EventTrace(plan.key, binding, "before")
        self._receiver = ""
        """The receiver instance that was assigned last."""
        self._log = log
        self._oldest = OldestAge()
        self._now_ms = now_ms
        self._former = log.notes.former(plan.epoch) if log is not None else ""
        """The peer of the last link in this epoch."""
        self._watermark = InflowWatermark(config.inflow.idle_ms, config.inflow.out_of_order_ms, now_ms)
        self._opened = False
        """Whether a link to a receiver was ever open; before that no receiver waits for this inflow."""
        limits = ReceiverLinkLimits(
            config.inflow.batch_rows, config.inflow.max_in_flight_frames, config.registry.connect_ms
        )
        self._worker = worker
        most_rows = config.inflow.waiting_rows
        backlog = (
            MemoryBacklog(most_rows, arrow_schema(self._schema()))
            if log is None
            else LoggedBacklog(log, most_rows, failed)
        )
        self._failed = failed
        self._tell = changed
        self._out = ReceiverLink(
            event_loop, context, SocketKind.RECEIVER, self._opening(), backlog, limits, self._changed, room, wall_ms,
            shared, stir,
        )  # fmt: skip
        self._stir = stir

    @property
    def needs_endpoint(self) -> bool:
        """Return whether no link to a receiver is open or being opened."""
        return self._out.needs_endpoint

    @property
    def asks(self) -> bool:
        """Return whether to request a receiver: there is no link, or its receiver does not respond."""
        return self._out.asks

    @property
    def last_error(self) -> str:
        """Return why nothing more can be stored, or the last refusal by a receiver; empty without an error."""
        return self._out.problem or self._out.last_error

    @property
    def former(self) -> str:
        """Return the receiver instance of the last link in this epoch, which has the sent events; empty without one."""
        return self._former

    def has_room(self) -> bool:
        """Return whether a batch may be prepared."""
        return self._out.has_room()

    def prepare(self, batch: pa.RecordBatch, body: Any, origin: BatchOrigin | None = None) -> Any:
        """Reserve room for `batch` and its `origin`, and return its Arrow IPC form if the backlog needs it.

        Call `has_room` first.

        Raises:
            WalFullError: there is no room now.
            BatchTooLargeError: it never fits.
        """
        return self._out.prepare(batch, body, origin) if batch.num_rows else body

    def join(self, source: Hashable, now_ms: int) -> None:
        """Register `source`: event time waits for its first events."""
        self._stir()
        if self.playback:
            self._watermark.join(source, now_ms)
            self._promise()

    def has_taken(self, origin: BatchOrigin) -> bool:
        """Return whether the batch, or a later one of its source, was accepted before.

        At-most-once plans do not remember batches.
        """
        return self._log is not None and self._log.has_taken(origin)

    def newest_of(self, source: bytes) -> int | None:
        """Return the number of the newest batch accepted from the source; None if none is known."""
        return self._log.newest_of(source) if self._log is not None else None

    def pass_over(self, source: Hashable, batch: pa.RecordBatch, promised_ms: int, now_ms: int) -> None:
        """Advance time only: `batch` was accepted before."""
        self._stir()
        if self.playback:
            self._watermark.advance(source, latest_timestamp_ms(batch), promised_ms, now_ms)
            self._promise()

    def offer(
        self,
        source: Hashable,
        batch: pa.RecordBatch,
        body: Any,
        promised_ms: int,
        now_ms: int,
        origin: BatchOrigin | None = None,
    ) -> None:
        """Accept a prepared batch.

        `source` promises that later events have `promised_ms` or a later time (`NO_WATERMARK`: no promise). A batch
        that may be sent again has an `origin`.
        """
        self._stir()
        if self.playback:
            self._watermark.advance(source, latest_timestamp_ms(batch), promised_ms, now_ms)
            if batch.num_rows == 0:
                self._promise()
                return
            watermark_ms = self._watermark.watermark_ms
        elif batch.num_rows == 0:
            return
        else:
            watermark_ms = self._wall_ms()
        if self.trace.on:
            self.trace.note(batch, now_ms)
        self._out.offer(batch, body, watermark_ms, origin)

    def pause(self, paused: bool) -> None:
        """Stop sending to the topology while `paused`; accepted events wait."""
        self._out.pause(paused)

    def rest(self, source: Hashable) -> None:
        """Mark `source` as idle: it has nothing more to send for now."""
        self._stir()
        if self.playback:
            self._watermark.rest(source)
            self._promise()

    def note_more(self, source: Hashable, now_ms: int, *, more: bool) -> None:
        """Note whether `source` has more to send, for which event time waits however long it takes."""
        self._stir()
        if self.playback:
            self._watermark.note_more(source, now_ms, more=more)
            self._promise()

    def leave(self, source: Hashable) -> None:
        """Forget the watermark of `source`, which has ended."""
        self._stir()
        if self.playback:
            self._watermark.leave(source)
            self._promise()

    def connect(self, assigned: EndpointAssigned, now_ms: int) -> None:
        """Connect to the assigned receiver instance, unless the present link works."""
        if not self._out.follows(assigned.attempt):
            return
        self._receiver = assigned.instance
        self._out.connect(assigned.endpoint, now_ms, assigned.attempt)
        if self.playback:
            self._promise()

    def rename(self, key: PlanKey) -> None:
        """Take the plan's new name; links and waiting events are unchanged."""
        self.key = key
        self.trace = EventTrace(key, self.binding, "before")
        if self._log is not None:
            self._log.rename(key)

    def take_epoch(self, plan: DeployedPlan, now_ms: int) -> None:
        """Restart under another epoch, with a new link and new event time; waiting events stay."""
        self.epoch = plan.epoch
        self._former = ""
        self._opened = False
        self._out.reopen(self._opening())
        if self.playback:
            self._watermark.restart(now_ms)
            self._promise()

    def tick(self, now_ms: int) -> None:
        """Send due heartbeats, and mark silent sources as idle."""
        self._out.tick(now_ms)
        self._now_ms = now_ms
        if self._log is not None:
            self._oldest.note(self._log.last_position, self._log.secured, now_ms)
        if self.playback:
            if not self._out.has_room():
                self._watermark.hold(now_ms)
            self._watermark.expire(now_ms)
            self._promise()

    def report(self) -> InflowReport:
        """Return its status."""
        connected = self._out.connected
        return InflowReport(
            stream=self.binding.stream,
            connected=connected,
            sent_events=self._out.sent_events,
            waiting_events=self._out.waiting_rows,
            receiver=self._receiver if connected else "",
            in_flight_rows=self._out.in_flight_rows,
            window_rows=self._out.window_rows,
        )

    def wal(self) -> WalMetrics | None:
        """Return the status of its log, if it has one."""
        log = self._log
        if log is None:
            return None
        return WalMetrics(
            stream=self.binding.stream,
            size_bytes=log.size_bytes,
            lost_events=log.lost_rows,
            full=bool(log.problem),
            maximum_bytes=log.maximum_bytes,
            segments=log.segments,
            oldest_ms=self._oldest.age_ms(self._now_ms),
            problem=log.problem,
            spare_bytes=log.spare_bytes,
            damaged_file_bytes=log.damaged_file_bytes,
            secured=log.secured >= log.last_position,
        )

    def drained(self) -> bool:
        """Return whether everything was sent and acknowledged."""
        return self._out.drained()

    def is_quiet(self) -> bool:
        """Return whether it is idle, so that it need not be ticked often."""
        log = self._log
        secured = log is None or (not log.problem and log.secured >= log.last_position)
        return secured and not self.last_error and self._out.is_quiet() and (not self.playback or self._watermark.idle)

    def take_out(self) -> list[pa.RecordBatch]:
        """Close the link and return undelivered batches that are only in memory.

        A log outlives the inflow.
        """
        return self._out.take_out() if self._log is None else []

    def give_up(self, reason: str) -> None:
        """Close the link and store undelivered events as failed, since the stream no longer exists."""
        for events in self._out.take_out():
            if self._failed(events, reason) and self._log is not None:
                self._log.note_lost(events.num_rows, "the stream no longer exists")

    def adopt(self, events: pa.RecordBatch, now_ms: int) -> None:
        """Add events that were accepted for the stream with other attributes or another delivery guarantee."""
        problem = conversion_problem(attributes_of(events.schema), self.binding.attributes)
        if problem:
            self._failed(events, f"its stream was edited: {problem}")
            return
        batch = converted(events, self.binding.attributes)
        try:
            body = self.prepare(batch, None)
        except (WalFullError, BatchTooLargeError) as error:
            self._failed(events, error.message)
        else:
            self._out.offer(batch, body, NO_WATERMARK)

    def close(self) -> None:
        """Close the link and the log. Only events in the log can still be sent later."""
        self._out.close()

    def _changed(self) -> None:
        if self._out.connected and not self._opened:
            self._opened = True
            if self.playback:
                self._watermark.opened(self._now_ms)
                self._promise()
        if self._out.connected and self._former != self._receiver:
            self._former = self._receiver
            self._keep_former()
        self._tell()

    def _keep_former(self) -> None:
        """Save the receiver, so that the next process of this worker requests the same one."""
        if self._log is not None:
            try:
                self._log.keep_former(LastReceiver(self.epoch, self._former))
            except OSError as error:  # the disk is full; sent events may be processed twice if the worker dies now
                logger.warning("the receiver cannot be saved: stream=%s reason=%s", self.binding.stream, error.strerror)

    def _promise(self) -> None:
        self._out.promise(self._watermark.watermark_ms, self._watermark.idle)

    def _opening(self) -> OpenLink:
        sends_times = not self.playback
        return OpenLink(self._worker, (self._schema(),), self.key, self.epoch, sends_times=sends_times)

    def _schema(self) -> StreamSchema:
        return StreamSchema(self.binding.stream, self.binding.attributes)


def latest_timestamp_ms(batch: pa.RecordBatch) -> int | None:
    """Return the latest time in `batch`, in milliseconds; None when it has no rows.

    `_timestamp` holds no nulls.
    """
    if batch.num_rows == 0:
        return None
    return int(np.max(batch.column(TIMESTAMP).to_numpy(zero_copy_only=True)))
