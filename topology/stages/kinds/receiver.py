"""The receiver stage, at which workers' events enter a topology."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns

import numpy as np
import pyarrow as pa
import zmq

from cep_common.protocol.links import Data, MarkIdle, OpenLink
from cep_common.protocol.registry import Rejected
from cep_common.security.roles import SocketKind
from cep_common.sockets.multiplexing import SharedListener
from topology.acks import Ack, AckLedger
from topology.events.bundle import Bundle
from topology.events.frames import shifted, with_clocks
from topology.events.watermarks import NO_WATERMARK
from topology.links.positions import Positions
from topology.links.server import CLOSED, FrameArrived, IncomingLink, LinkArrived, LinkEvent, LinkGone, LinkServer
from topology.links.shared import STALLED_MS
from topology.model import RECEIVER, Topology
from topology.stages.contract import NO_STATE, Emit, InstanceStatistics, Parts

POSITIONS = "positions"
"""The part of the state with the positions reached in the workers' logs."""
SECURED = "secured"
"""The part with the positions that checkpoints contain. Only a state that goes to another topology has it, whose first
checkpoint is yet to come; a checkpoint holds all that it says was taken."""
WRONG_MS = 5_000
"""The difference from a sender's clock from which one of both, and so the times of events, are considered wrong."""


@dataclass(slots=True)
class _LinkProgress:
    """The progress of a link, and its unsettled frames.

    `watermark_ms` is the newest that the link sent; `idle` when it said that nothing more comes for now, under the
    system clock that nothing waits; `heard` when it said anything at all; `stalled` when it is silent.
    """

    frames: AckLedger = field(default_factory=AckLedger)
    watermark_ms: int = NO_WATERMARK
    idle: bool = False
    heard: bool = False
    stalled: bool = False
    set_ms: int = 0
    """The total adjustment of the receiver's clock when the link opened."""


class Receiver:
    """Accepts workers' links, one for each worker and imported stream, and numbers their frames.

    With `secures` it reports to senders with logs which positions checkpoints contain; without, an acknowledgement is
    all they get.
    """

    def __init__(
        self,
        name: str,
        topology: Topology,
        emit: Emit,
        context: zmq.Context[zmq.Socket[bytes]],
        host: str,
        ports: tuple[int, int],
        window_rows: int,
        secures: bool = False,
        clock: Callable[[], int] | None = None,
        shared: SharedListener | None = None,
    ) -> None:
        """Create a receiver; `clock` is the time of day, against which senders set theirs.

        It listens on a channel of `shared`, or on a separate port.
        """
        self.name = name
        self.statistics = InstanceStatistics(topology.plan.receiver.name, RECEIVER)
        self._positions = Positions()
        self._topology = topology
        self._by_clock = topology.plan.playback is None
        self._paused = False
        """Whether reading is suspended, so that processing time must not pass unread events."""
        self._emit = emit
        self._next_ticket = 0
        self._clock = clock
        self._offset_ms: int | None = None
        """The time of day less the monotonic time."""
        self._set_ms = 0
        """The total adjustment of the time of day."""
        self.goes_back = False
        """Whether it starts from a checkpoint that may not be the newest, so that senders must resend later events."""
        self.connections: tuple[str, ...] = ()
        """The workers' connected links; replaced as a whole, so that another thread may read it."""
        resume = self._resume if secures else None
        if shared is not None:
            channel = f"{topology.key.topology()}/{topology.epoch}/{topology.attempt}/{name}"
            self.server = LinkServer.share(shared, channel, window_rows, self._accept, resume, clock)
        else:
            self.server = LinkServer.listen(
                context, SocketKind.RECEIVER, host, ports, window_rows, self._accept, resume=resume, clock=clock
            )

    def open(self, now_ms: int, state: Parts = NO_STATE) -> None:
        if POSITIONS in state:
            self._positions = Positions.restored([state[POSITIONS]], [state[SECURED]] if SECURED in state else None)

    def on_readable(self, monotonic_ms: int) -> None:
        """Read the workers' messages."""
        for event in self.server.receive(monotonic_ms):
            self._take(event)
        self._look_at_silence(monotonic_ms)

    def pace(self, monotonic_ms: int, *, full: bool) -> None:
        """Suspend reading while the topology is `full`; called each turn.

        Under the system clock, time waits until what arrived meanwhile has been read.
        """
        if not self._by_clock or full == self._paused or (not full and self.server.unread(monotonic_ms)):
            return
        self._paused = full
        for link in self.server.links.values():
            self._pass_on(link)

    def on_bundle(self, bundle: Bundle, now_ms: int) -> None:
        raise TypeError(f"{self.name} accepts events from links, not from {bundle.source}")

    def on_time(self, now_ms: int) -> None:
        """Remove lost workers, and repeat the watermarks of those that wait for this receiver.

        A worker whose frames are unread or not acknowledged here is not silent. `now_ms` is the monotonic time.
        """
        for gone in self.server.expire(now_ms):
            self._take(gone)
        self._note_clock(now_ms)
        unread = self._look_at_silence(now_ms)
        for link in self.server.links.values():
            if unread or link.inbox.held_rows:
                self._pass_on(link)

    def _look_at_silence(self, now_ms: int) -> bool:
        """Let processing time wait for senders that have fallen silent; return whether something is unread."""
        unread = self.server.unread(now_ms)
        for link in self.server.links.values():
            stalled = link.opening.sends_times and not unread and now_ms - self.server.heard_ms(link) >= STALLED_MS
            if stalled != link.attachment.stalled:
                link.attachment.stalled = stalled
                self._pass_on(link)
        return unread

    def _note_clock(self, monotonic_ms: int) -> None:
        """Track adjustments of this clock, since senders synchronise with it only when a link opens."""
        if self._clock is None:
            return
        offset_ms, before_ms = self._clock() - monotonic_ms, self._offset_ms
        self._offset_ms = offset_ms
        if before_ms is not None and abs(offset_ms - before_ms) > WRONG_MS:
            self._set_ms += offset_ms - before_ms

    def next_deadline_ms(self) -> int | None:
        return None

    def is_drained(self) -> bool:
        """Return whether all results of the received frames have been passed on."""
        return not any(link.attachment.frames for link in self.server.links.values())

    def snapshot(self) -> Parts:
        """Return the accepted and secured positions of logs; senders keep later events."""
        return {POSITIONS: self._positions.snapshot(), SECURED: self._positions.secured_snapshot()}

    def mark(self, checkpoint: int) -> Parts:
        self._positions.mark(checkpoint)
        self._emit(Bundle.marker(self.name, checkpoint))
        return {POSITIONS: self._positions.snapshot()}

    def complete(self, checkpoint: int, oldest: int = 0) -> None:
        """Report to senders what they need not keep, now that `checkpoint` is complete.

        `oldest` is the first checkpoint that is retained.
        """
        self._positions.complete(checkpoint, oldest)
        for link in self.server.links.values():
            self._secure(link)

    def abandon(self, checkpoint: int) -> None:
        """Discard `checkpoint`, which will not be completed."""
        self._positions.abandon(checkpoint)

    def close(self) -> None:
        self.server.close()

    def _accept(self, opening: OpenLink) -> Rejected | None:
        topology = self._topology
        if (opening.key, opening.epoch, opening.attempt) != (topology.key, topology.epoch, topology.attempt):
            return Rejected("stale-epoch", f"this is {topology.run()}")
        imported = {stream.id for stream in topology.plan.receiver.streams}
        for stream in opening.streams:
            if stream.stream not in imported or topology.streams[stream.stream] != stream:
                return Rejected(code="schema-mismatch", reason=f"{stream.stream} is not imported with these attributes")
        return None

    def _take(self, event: LinkEvent) -> None:
        match event:
            case LinkArrived(link=link):
                idle = self._by_clock and not link.opening.sends_times
                link.attachment = _LinkProgress(idle=idle, set_ms=self._set_ms)
                self._end_former(link)
                self._note_connections()
                self._secure(link)
                self._pass_on(link)
            case FrameArrived(link=link, sequence=sequence, batch=batch, message=message):
                progress: _LinkProgress = link.attachment
                progress.frames.took(sequence)
                progress.heard, progress.stalled = True, False
                if isinstance(message, Data) and batch is not None:
                    progress.idle = self._by_clock and (message.caught_up or not link.opening.sends_times)
                    if self._positions.take(_channel(link.opening), link.opening.log, message.position):
                        self._data(link, message, batch, sequence)
                    else:
                        self._pass_on(link)
                        self._finished(link, sequence)
                else:
                    progress.idle = isinstance(message, MarkIdle)
                    self._pass_on(link)
                    self._finished(link, sequence)
            case LinkGone(link=link, reason=reason):
                # A broken link is waited for like a silent one, and so is one that closed before it sent anything: its
                # worker may be about to connect to another receiver.
                progress = link.attachment
                if self._by_clock:
                    ended = progress.idle and (reason == CLOSED or not link.opening.sends_times)
                else:
                    ended = reason == CLOSED
                progress.idle, progress.stalled = ended and progress.heard, False
                self._note_connections()
                self._pass_on(link)

    def _end_former(self, link: IncomingLink) -> None:
        """Stop accepting frames of links that `link` replaces.

        Their unread frames are resent over `link`, possibly in other batches, so that reading both would count events
        twice.
        """
        channel = _channel(link.opening)
        for other in list(self.server.links.values()):
            if other is not link and _channel(other.opening) == channel:
                self.server.drop(other, "link-replaced", f"{channel} has another link")

    def _data(self, link: IncomingLink, message: Data, batch: pa.RecordBatch, sequence: int) -> None:
        progress: _LinkProgress = link.attachment
        stream, watermark_ms, clock_ms = message.stream, message.watermark_ms, NO_WATERMARK
        if self._by_clock and link.opening.sends_times and watermark_ms > NO_WATERMARK:
            ahead_ms = message.ahead_ms + self._set_ms - progress.set_ms
            watermark_ms = clock_ms = watermark_ms + ahead_ms
            if abs(ahead_ms) > WRONG_MS:
                batch = shifted(batch, ahead_ms)  # windows use both: they must come from the same clock
            if message.accepted:
                batch = with_clocks(batch, _clocks(message, ahead_ms))
        progress.watermark_ms = max(progress.watermark_ms, watermark_ms)
        self.statistics.passed(stream, batch.num_rows)
        came_ns = perf_counter_ns()

        def through() -> None:
            self.statistics.gone_on(batch.num_rows, came_ns, perf_counter_ns())
            self._finished(link, sequence)

        receipt = Ack(through)
        self._pass_on(link, ((stream, batch),), receipt=receipt, clock_ms=clock_ms)
        receipt.settle()

    def _pass_on(
        self,
        link: IncomingLink,
        batches: tuple[tuple[str, pa.RecordBatch], ...] = (),
        receipt: Ack | None = None,
        clock_ms: int = NO_WATERMARK,
    ) -> None:
        progress: _LinkProgress = link.attachment
        bundle = Bundle(
            source=self.name,
            origin=self.name,
            ticket=self._next_ticket,
            channel=_channel(link.opening),
            streams=tuple(stream.stream for stream in link.opening.streams),
            watermark_ms=progress.watermark_ms,
            idle=progress.idle and not (self._by_clock and (self._paused or progress.stalled)),
            batches=batches,
            receipt=receipt,
            clock_ms=clock_ms,
            full=link.inbox.is_full(),
        )
        self._next_ticket += 1
        self._emit(bundle)

    def _note_connections(self) -> None:
        self.connections = tuple(sorted(_channel(link.opening) for link in self.server.links.values()))

    def _resume(self, opening: OpenLink) -> tuple[int, bool]:
        return self._positions.of(_channel(opening), opening.log), self.goes_back

    def _secure(self, link: IncomingLink) -> None:
        position = self._positions.secured_of(_channel(link.opening), link.opening.log)
        if position:
            self.server.secure(link, position, self._positions.unneeded_of(_channel(link.opening), link.opening.log))

    def _finished(self, link: IncomingLink, sequence: int) -> None:
        last = link.attachment.frames.settle(sequence)
        if last is not None:
            self.server.done(link, last)


def _clocks(message: Data, ahead_ms: int) -> pa.Array:
    """Return when each row of a frame was accepted, in this side's time of day."""
    rows, times = zip(*message.accepted, strict=True)
    return pa.array(np.repeat(np.array(times, dtype=np.int64) + ahead_ms, rows))


def _channel(opening: OpenLink) -> str:
    return f"{opening.sender}/{','.join(stream.stream for stream in opening.streams)}"
