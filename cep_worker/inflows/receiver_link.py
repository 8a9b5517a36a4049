"""Send one stream over a link that is replaced when it breaks. The backlog decides what to resend."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import zmq

from cep_common.ids import Endpoint
from cep_common.monitoring.paced_log import PacedLog
from cep_common.protocol.links import OpenLink
from cep_common.security.roles import SocketKind
from cep_common.sockets.multiplexing import SharedConnections
from cep_common.sockets.probe import GreetingProbe
from cep_worker.inflows.backlog import Backlog
from cep_worker.inflows.batching import QueuedBatch, ReadyFrame
from cep_worker.inflows.link_watch import ServerClock, StallDetector
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.storage.records import BatchOrigin
from topology.events.frames import arrow_schema, encode_batch
from topology.events.watermarks import NO_WATERMARK
from topology.links.sender import LinkSender, LinkState

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)


@dataclass(frozen=True, slots=True)
class ReceiverLinkLimits:
    """Limits of a link. Small batches are joined up to `batch_rows`.

    While `max_in_flight_frames` are unacknowledged only full frames are sent at once, others wait for the next tick:
    under load, batches become larger instead of piling up at the peer. They cannot wait for acknowledgements, since the
    peer may need later watermarks before it can acknowledge. A link that is not open after `connect_ms` is given up.
    """

    batch_rows: int
    max_in_flight_frames: int
    connect_ms: int


ALONE_MS = 1_000
"""How long to wait for the acknowledgement of a frame that is sent alone."""
ASK_MS = 500
"""How long a server may acknowledge nothing before its process is probed …"""
SILENT_MS = 1_500
"""… and until its end is no evidence if the probe found it stopped. Less than the lease of a task."""


def _ignore() -> None:
    """Do nothing: the default callback for activity."""


class ReceiverLink:
    """Sends batches of one stream, in order.

    Belongs to the data thread.

    If the opening `sends_times`, the watermark of batches is the time at which they were accepted by the clock
    `wall_ms`, and the server is notified when nothing waits any more.

    `changed` is called when the link opens or breaks, `room` when there is room again, and `stir` at any activity,
    after which an idle link must be ticked often again.
    """

    def __init__(
        self,
        event_loop: EventLoop,
        context: zmq.Context[zmq.Socket[bytes]],
        kind: SocketKind,
        opening: OpenLink,
        backlog: Backlog,
        limits: ReceiverLinkLimits,
        changed: Callable[[], None],
        room: Callable[[], None],
        wall_ms: Callable[[], int],
        shared: SharedConnections | None = None,
        stir: Callable[[], None] = _ignore,
    ) -> None:
        self._shared = shared
        self._stir = stir
        self._event_loop = event_loop
        self._context = context
        self._kind = kind
        self.opening = msgspec.structs.replace(opening, log=backlog.log)
        self._stream = opening.streams[0]
        self._backlog = backlog
        backlog.wake = lambda: event_loop.defer(self.pump)
        self._limits = limits
        self._changed = changed
        self._room = room
        self._wall_ms = wall_ms
        self._clock = ServerClock()
        self._ticked_ms = 0
        self._alone_ms: int | None = None
        """Since when the frame that was sent alone is in flight."""
        self._stall = StallDetector()
        self._greeting = GreetingProbe()
        self._paused = False
        self._link: LinkSender | None = None
        self._connected_ms = 0
        self._watermark_ms = NO_WATERMARK
        self._sent_watermark_ms = NO_WATERMARK
        self._resting = opening.sends_times
        self._reported_idle = False
        self.sent_events = 0
        self.last_error = ""

    @property
    def connected(self) -> bool:
        """Return whether the link is open."""
        return self._link is not None and self._link.state is LinkState.OPEN

    @property
    def needs_endpoint(self) -> bool:
        """Return whether no link is open or being opened, so that `connect` should be called."""
        return self._link is None

    @property
    def asks(self) -> bool:
        """Return whether to request an endpoint: `needs_endpoint`, or the link's server does not respond."""
        return self._link is None or (self.connected and self._link.silent)

    def follows(self, attempt: int) -> bool:
        """Return whether to connect to the endpoint of the topology's attempt `attempt`.

        A server that does not respond may only be busy, so the link is only replaced by one to a later attempt.
        """
        return self._link is None or (self.asks and attempt > self.opening.attempt)

    @property
    def waiting_rows(self) -> int:
        """Return the number of rows that must be sent or resent."""
        return self._backlog.rows

    @property
    def in_flight_rows(self) -> int:
        """Return the number of rows that were sent over the link and are not acknowledged."""
        return 0 if self._link is None else self._link.outbox.in_flight_rows

    @property
    def window_rows(self) -> int:
        """Return the maximum number of rows in flight; 0 without a link."""
        return 0 if self._link is None else self._link.outbox.window_rows or 0

    @property
    def problem(self) -> str:
        """Return why nothing can be accepted now; empty if something can."""
        return self._backlog.problem

    @property
    def peer(self) -> str:
        """Return the address of the link's server; empty without a link."""
        return "" if self._link is None else f"{self._link.endpoint.host}:{self._link.endpoint.port}"

    def has_room(self) -> bool:
        """Return whether a batch may be prepared."""
        return self._backlog.has_room(self.connected and not self._stall.stalled and not self._paused)

    def prepare(self, batch: pa.RecordBatch, body: Any = None, origin: BatchOrigin | None = None) -> Any:
        """Reserve room for `batch` and its `origin`, and return its Arrow IPC form if the backlog needs it.

        Call `has_room` first.

        Raises:
            WalFullError: there is no room now.
            BatchTooLargeError: it never fits.
        """
        return self._backlog.prepare(batch, body, origin)

    def offer(
        self,
        batch: pa.RecordBatch,
        body: Any = None,
        watermark_ms: int = NO_WATERMARK,
        origin: BatchOrigin | None = None,
    ) -> None:
        """Accept a prepared batch and send it as soon as the link allows.

        A batch that may be sent again has an `origin`.
        """
        self._stir()
        self._resting = self.opening.sends_times
        self._reported_idle = False
        self._watermark_ms = max(self._watermark_ms, watermark_ms)
        self._backlog.append(QueuedBatch(batch, body, self._watermark_ms, origin=origin))
        self._event_loop.defer(self.pump)

    def promise(self, watermark_ms: int, resting: bool) -> None:
        """Send a watermark: later events are not before `watermark_ms`. `resting` marks the inflow as idle."""
        self._watermark_ms = max(self._watermark_ms, watermark_ms)
        self._resting = resting
        if not resting:
            self._reported_idle = False
        self._event_loop.defer(self.pump)

    def connect(self, endpoint: Endpoint, now_ms: int, attempt: int = 0) -> None:
        """Replace the link by one to `endpoint` of the topology's attempt `attempt`."""
        self._stir()
        self._leave()
        self.opening = msgspec.structs.replace(self.opening, attempt=attempt)
        self._connected_ms = now_ms
        self._clock.ask(self._wall_ms())
        self._link = LinkSender(
            self._context, self._kind, endpoint, self.opening, now_ms, patient=False, shared=self._shared
        )
        for socket in self._link.sockets:
            self._event_loop.watch(socket, self._handle)

    def pause(self, paused: bool) -> None:
        """Stop sending while `paused`; accepted events go to the backlog while it has room."""
        if paused != self._paused:
            self._stir()
            self._paused = paused
            self._room()
            self._event_loop.defer(self.pump)

    def reopen(self, opening: OpenLink) -> None:
        """Close the link and continue under another epoch, with the backlog and without the promised watermark."""
        self._leave()
        self.opening = msgspec.structs.replace(opening, log=self._backlog.log)
        if not opening.sends_times:
            self._watermark_ms = NO_WATERMARK
        self._resting = opening.sends_times
        self._stir()
        self._changed()

    def pump(self, now_ms: int) -> None:
        """Send frames that need not wait."""
        self._send_waiting(self._limits.max_in_flight_frames)

    def tick(self, now_ms: int) -> None:
        """Send heartbeats and delayed frames, and give up a link that does not open in time."""
        self._ticked_ms = now_ms
        self._backlog.tick(now_ms)
        self._clock.tick(now_ms, self._wall_ms())
        link = self._link
        if link is None:
            return
        link.tick(now_ms)
        if link.state is LinkState.CONNECTING and now_ms - self._connected_ms > self._limits.connect_ms:
            paced_logger.problem(
                self._stream.stream, "link not opened in time: stream=%s peer=%s", self._stream.stream, self.peer
            )
            self._leave()
            self._changed()
            return
        self._look(link)
        self._send_waiting(None)
        self._note_stall(now_ms)
        self._note_silence(link, now_ms)

    def drained(self) -> bool:
        """Return whether everything was sent and acknowledged."""
        return not self._backlog and (self._link is None or not self._link.outbox.pending)

    def is_quiet(self) -> bool:
        """Return whether the link works and nothing is to be sent or awaited."""
        return self.connected and not self.asks and not self._paused and not self.problem and self.drained()

    def take_out(self) -> list[pa.RecordBatch]:
        """Close the link and return undelivered batches in order."""
        self._leave()
        return self._backlog.take_out()

    def close(self) -> None:
        """Close the link in order, and the backlog."""
        self._leave()
        self._backlog.close()

    def _send_waiting(self, most_frames: int | None) -> None:
        """Send while the link has room; only full frames if more than `most_frames` are in flight."""
        link = self._link
        if link is None:
            return
        if self._paused:
            link.release()
            return
        was_full = not self.has_room()
        while link.has_room() and self._backlog:
            if self._backlog.is_isolated and not self._may_go_alone(link):
                break
            waits = most_frames is not None and len(link.outbox.pending) >= most_frames
            if waits and not self._backlog.fills(self._limits.batch_rows):
                break
            frame = self._backlog.take(self._limits.batch_rows)
            if frame is None:
                break
            self._backlog.sent(self._send(link, frame), frame)
            if not frame.again:
                self.sent_events += frame.rows
        if not link.outbox.pending:
            link.release()
        if link.has_room() and not self._backlog:
            self._tell_time(link)
        if was_full and self.has_room():
            self._room()

    def _send(self, link: LinkSender, frame: ReadyFrame) -> int:
        self._sent_watermark_ms = max(self._sent_watermark_ms, frame.watermark_ms)
        to, position = self._stream.stream, frame.position
        if not self.opening.sends_times:
            return link.send(to, frame.body, frame.rows, frame.watermark_ms, position)
        self._reported_idle = self._is_caught_up(link, frame.rows)
        return link.send(
            to, frame.body, frame.rows, frame.watermark_ms, position,
            accepted=frame.accepted, ahead_ms=self._clock.ahead_ms, caught_up=self._reported_idle,
        )  # fmt: skip

    def _may_go_alone(self, link: LinkSender) -> bool:
        """Return whether the next frame, which must be alone in the server's process, may be sent.

        Many plans may share the process. If it ends, the frame in flight must be known.
        """
        if self._awaits_answer(link):
            return False
        if not link.outbox.pending:
            link.release()  # links of other plans have their turn first
        return link.claim(self._ticked_ms)

    def _awaits_answer(self, link: LinkSender) -> bool:
        """Return whether frames in flight must be acknowledged first.

        The wait is limited, since the receiver may need the following events to acknowledge.
        """
        if not link.outbox.pending:
            self._alone_ms = None
            return False
        if self._alone_ms is None:
            self._alone_ms = self._ticked_ms
        if self._ticked_ms - self._alone_ms < ALONE_MS:
            return True
        self._alone_ms = self._ticked_ms
        return False

    def _is_caught_up(self, link: LinkSender, rows: int) -> bool:
        """Return whether nothing waits once `rows` more are in flight, and the next events can be sent at once."""
        outbox, window_rows = link.outbox, link.outbox.window_rows or 0
        leaves = (
            outbox.in_flight_rows + rows < window_rows and len(outbox.pending) + 1 < self._limits.max_in_flight_frames
        )
        return leaves and not self._backlog

    def _tell_time(self, link: LinkSender) -> None:
        """Send a watermark that has advanced without events, in an empty batch."""
        if self.opening.sends_times:
            if not self._reported_idle and self._is_caught_up(link, 0):
                link.mark_idle()
                self._reported_idle = True
            return
        if self._watermark_ms > self._sent_watermark_ms:
            empty = pa.RecordBatch.from_pylist([], schema=arrow_schema(self._stream))
            self._send(link, ReadyFrame(encode_batch(empty), 0, self._watermark_ms))
        if self._resting and not self._reported_idle:
            link.mark_idle()
            self._reported_idle = True

    def _handle(self, now_ms: int) -> None:
        self._stir()
        link = self._link
        if link is None:
            return
        before = link.state
        was_full = not self.has_room()
        link.handle()
        if link.state is LinkState.OPEN and before is not LinkState.OPEN:
            attempt = self.opening.attempt
            self._backlog.resume(
                link.position, link.secures, link.goes_back, attempt, cleared=link.cleared, doubtful=link.doubtful
            )
            self._clock.answer(self._wall_ms(), link.server_ms)
            self.last_error = ""
            logger.info("link established: stream=%s peer=%s", self._stream.stream, self.peer)
            self._changed()
        self._note_progress(link)
        self._look(link)
        if was_full and self.has_room():
            self._room()
        self._event_loop.defer(self.pump)

    def _note_stall(self, now_ms: int) -> None:
        """Accept only events that fit into the log while the server accepts nothing."""
        link = self._link
        full = link is not None and not link.has_room() and bool(link.outbox.pending)
        if self._stall.tick(now_ms, link.outbox.first_unacknowledged if link is not None and full else None):
            self._room()

    def _note_silence(self, link: LinkSender, now_ms: int) -> None:
        """Probe a server that acknowledges nothing: the end of a stopped process is no evidence against events."""
        if self._backlog.silent_ms >= ASK_MS:
            self._greeting.ask(link.endpoint, now_ms)
        else:
            self._greeting.forget()  # a result from an earlier silence does not apply to this one

    def _note_progress(self, link: LinkSender) -> None:
        """Report to the backlog what the server has accepted and secured."""
        self._backlog.acknowledged(link.outbox.first_unacknowledged)
        if link.secured:
            self._backlog.secure(link.secured, link.unneeded)

    def _look(self, link: LinkSender) -> None:
        """Handle refusals, and leave a link that is no longer connected."""
        for refusal in link.refusals:
            if refusal.code == "stale-epoch":  # the topology was restarted, the manager knows its new endpoint
                logger.info("link refused: stream=%s peer=%s code=%s", self._stream.stream, self.peer, refusal.code)
                continue
            self.last_error = f"{self.peer} refused {self._stream.stream}: {refusal.code}: {refusal.reason}"
            paced_logger.problem(self._stream.stream, "link refused: stream=%s peer=%s code=%s reason=%s",
                          self._stream.stream, self.peer, refusal.code, refusal.reason,
                          level=logging.ERROR)  # fmt: skip
        link.refusals.clear()
        if link.state.has_failed:
            level = logging.WARNING if link.outbox.window_rows is not None else logging.INFO  # it was never open
            text = "link %s: stream=%s peer=%s"
            paced_logger.problem(
                self._stream.stream, text, link.state.value, self._stream.stream, self.peer, level=level
            )
            self._leave()
            self._stir()
            self._changed()

    def _leave(self) -> None:
        """Close the link and return its unacknowledged frames to the backlog."""
        link = self._link
        if link is None:
            return
        self._link = None
        self._reported_idle = False
        self._sent_watermark_ms = NO_WATERMARK
        ran = self._greeting.runs or self._backlog.silent_ms < SILENT_MS
        self._greeting.forget()
        self._backlog.give_back(link.unacknowledged(), ran)
        for socket in link.sockets:
            self._event_loop.unwatch(socket)
        link.close()
