"""The built-in egress: clients subscribe to exported streams and get their events over the same ZeroMQ socket.

The messages of a subscription:

    listener                          worker
      subscribe {event_stream} ────────▶
      ◀──────────── subscribed {schema}
      ◀──────────── data {sequence 1} + batch
      acknowledge {sequence 1} ────────▶
      ◀──────────── beat-link                 while there is nothing to send
      close-link ──────────────────────▶
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

import pyarrow as pa
import zmq

from cep_common.errors import DecodeError, InputError, PortInUseError
from cep_common.ids import PlanKey
from cep_common.protocol.codec import MAXIMUM_CONTROL_BYTES, decode, encode
from cep_common.protocol.links import Acknowledge, BeatLink, CloseLink, Data, Subscribe, Subscribed
from cep_common.protocol.registry import Message, Rejected
from cep_common.protocol.worker_reports import MOST_LISTENERS, ListenerReport
from cep_common.security.context import refusal_of
from cep_common.security.roles import SocketKind
from cep_common.sockets.transport import bind, listening_socket, receive_from
from cep_worker.config import EgressConfig
from cep_worker.inflows.batching import BatchingQueue, QueuedBatch
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.plans.streams import EventStream, SchemaFit, StreamDirectory
from cep_worker.runtime.event_loop import EventLoop
from topology.events.watermarks import NO_WATERMARK
from topology.links.protocol import Outbox, PendingFrame

logger = logging.getLogger(__name__)

BATCH_ROWS = 4_096
"""The rows up to which small batches for a busy listener are joined."""

FRAMES_UNDER_WAY = 64
MOST_BYTES = 64 * 1024 * 1024
"""The bytes that may wait for a listener, and be in flight to it, before one more batch: rows may be huge."""
KEY_SHARE = 4
"""The maximum share of all subscriptions for one restricted key."""
BEAT_MS = 1_000
RECEIVE_AT_ONCE = 256

Source = tuple[PlanKey, str]
"""An exported stream of a plan."""


class Listener:
    """One subscription, with its waiting and unacknowledged batches."""

    def __init__(
        self, egress: Egress, peer: bytes, user: str, asked: Subscribe, stream: EventStream, config: EgressConfig
    ) -> None:
        """Create a subscription of `user`, which is known by the key of the connection."""
        self._egress = egress
        self.peer = peer
        self.user = user
        self.asked = asked
        self.stream = stream
        self._config = config
        self._waiting = BatchingQueue()
        self._left = False
        self._outbox = Outbox(window_rows=config.window_rows)
        self._sent: deque[tuple[int, int, int]] = deque()
        """Sequence number, time and size of the frames in flight."""
        self._waiting_bytes = self._under_way_bytes = 0

    @property
    def name(self) -> str:
        """Return the stream's name as the listener gave it."""
        return self.asked.event_stream

    def has_room(self) -> bool:
        """Return whether it has room for another batch."""
        return self._left or (self._waiting.rows < self._config.waiting_rows and self._waiting_bytes < MOST_BYTES)

    def append(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt) -> None:
        """Queue `batch` and settle its receipt at once.

        At once, since a listener that does not read must not block checkpoints and changes of the plan.
        """
        if not self._left:
            self._waiting.append(QueuedBatch(batch, body))
            self._waiting_bytes += batch.nbytes
        receipt.settle()

    def leave(self) -> None:
        """Stop delivering to the listener."""
        self._left = True

    def acknowledged(self, sequence: int) -> None:
        """Record that the listener has processed all frames up to `sequence`."""
        self._outbox.acknowledged(sequence)
        while self._sent and self._sent[0][0] <= sequence:
            self._under_way_bytes -= self._sent.popleft()[2]

    def waiting_events(self) -> int:
        """Return the number of events that have not been sent yet."""
        return self._waiting.rows

    def in_flight_rows(self) -> int:
        """Return the number of rows that were sent and are not acknowledged."""
        return self._outbox.in_flight_rows

    def lag_ms(self, now_ms: int) -> int:
        """Return how long the oldest unacknowledged frame has been in flight."""
        return now_ms - self._sent[0][1] if self._sent else 0

    def next_frame(self, now_ms: int) -> list[Any] | None:
        """Return the next frame and record it as sent; None when there is none or the window is full."""
        outbox = self._outbox
        if not self._waiting or not outbox.has_room() or len(outbox.pending) >= FRAMES_UNDER_WAY:
            return None
        if self._under_way_bytes >= MOST_BYTES:
            return None
        frame = self._waiting.take(BATCH_ROWS)
        size = memoryview(frame.body).nbytes
        self._waiting_bytes = max(0, self._waiting_bytes - size) if self._waiting else 0
        sequence = outbox.next_sequence
        data = Data(self.stream.schema.stream, sequence, frame.rows, NO_WATERMARK)
        outbox.sent(PendingFrame(sequence, frame.rows, data, ()))
        self._sent.append((sequence, now_ms, size))
        self._under_way_bytes += size
        return encode(data, bodies=(frame.body,))


class _EgressTap:
    """Adapts a listener to one plan's stream, whose columns may be in another order."""

    form = ""
    lasting = False

    def __init__(self, egress: Egress, listener: Listener) -> None:
        self.name = f"listener {listener.peer.hex()}"
        self._egress = egress
        self._listener = listener
        self._fit = SchemaFit(listener.stream.schema.attributes)

    def has_room(self) -> bool:
        return self._listener.has_room()

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None = None) -> None:
        if self._fit.is_whole(batch):
            self._listener.append(batch, body, receipt)
        elif problem := self._fit.problem(batch):
            logger.error("results cannot be sent to a listener, their stream was edited: stream=%s events=%d reason=%s",
                         self._listener.name, batch.num_rows, problem)  # fmt: skip
            receipt.settle()
        else:
            self._listener.append(self._fit.fitted(batch), None, receipt)
        self._egress.pump_later(self._listener)

    def commit(self, group: GroupId, receipt: DeliveryReceipt) -> None:
        """Settle at once: listeners do not use groups."""
        receipt.settle()


class Egress:
    """Serves listeners.

    A listener that blocks a plan while it is more than `lag_ms` behind is disconnected, so that no listener can stop a
    plan. Belongs to the data thread. `room` is called when there is room again.
    """

    def __init__(self, event_loop: EventLoop, config: EgressConfig, room: Callable[[], None]) -> None:
        self._event_loop = event_loop
        self._config = config
        self._room = room
        self._directory = StreamDirectory(None)
        self._listeners: dict[bytes, Listener] = {}
        self._taps: dict[Source, list[_EgressTap]] = {}
        self._ready: dict[Listener, None] = {}
        self._socket: zmq.Socket[bytes] | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._beat_ms = 0

    def listen(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        """Start listening; clients can subscribe from now on."""
        socket = listening_socket(
            context, SocketKind.EGRESS, self._config.host, MAXIMUM_CONTROL_BYTES, high_water_mark=0
        )
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        try:
            bind(socket, self._config.host, self._config.port, "listeners")
        except PortInUseError:
            socket.close()
            raise
        self._socket, self._context = socket, context
        self._event_loop.watch(socket, self._handle)

    def taps(self, key: PlanKey, stream: str) -> list[_EgressTap]:
        """Return the listeners of an exported stream."""
        return self._taps.get((key, stream), [])

    def reroute(self, exported: StreamDirectory) -> None:
        """Handle a change of the deployed plans: end subscriptions of streams that no longer exist."""
        self._directory = exported
        for listener in list(self._listeners.values()):
            try:
                stream = exported.resolve(listener.name, listener.asked.tenant)
            except InputError as error:
                self._refuse(listener, error.reason_code, error.message)
                continue
            if stream.schema != listener.stream.schema:
                self._refuse(listener, "schema-changed", f"{listener.name} now has other attributes; subscribe again")
            else:
                listener.stream = stream
        self._tap()

    def pump_later(self, listener: Listener) -> None:
        """Send to `listener` at the end of this turn."""
        self._ready[listener] = None
        self._event_loop.defer(self._pump)

    def tick(self, now_ms: int) -> None:
        """Disconnect listeners that are too slow or no longer respond."""
        for listener in list(self._listeners.values()):
            if not listener.has_room() and listener.lag_ms(now_ms) > self._config.lag_ms:
                reason = f"more than {self._config.lag_ms} ms behind with {self._config.waiting_rows} events waiting"
                self._refuse(listener, "listener-too-slow", f"{listener.name}: {reason}")
        if now_ms - self._beat_ms >= BEAT_MS:
            self._beat_ms = now_ms
            for listener in list(self._listeners.values()):
                reason = self._not_allowed(listener.user, listener.asked)
                if reason:
                    self._refuse(listener, "not-authorised", reason)
                else:
                    self._send(listener.peer, encode(BeatLink()))

    def reports(self, now_ms: int) -> tuple[ListenerReport, ...]:
        """Return the reports of listeners, up to the maximum number."""
        return tuple(
            ListenerReport(
                tenant=listener.asked.tenant,
                event_stream=listener.name,
                waiting_events=listener.waiting_events(),
                in_flight_rows=listener.in_flight_rows(),
                lag_ms=listener.lag_ms(now_ms),
            )
            for listener in islice(self._listeners.values(), MOST_LISTENERS)
        )

    def drained(self) -> bool:
        """Return whether all waiting events were sent to listeners."""
        return not any(listener._waiting for listener in self._listeners.values())

    def close(self) -> None:
        """Notify listeners that the worker shuts down, and close."""
        if self._socket is None:
            return
        for listener in list(self._listeners.values()):
            self._refuse(listener, "leaving", "the worker is shutting down")
        self._event_loop.unwatch(self._socket)
        self._socket.close(linger=200)
        self._socket = None

    def _handle(self, now_ms: int) -> None:
        for _ in range(RECEIVE_AT_ONCE):
            received = receive_from(self._socket) if self._socket is not None else None
            if received is None:
                return
            user, (peer, *frames) = received
            try:
                message = decode(frames).message
            except DecodeError as error:
                self._send(peer, encode(Rejected(error.code, error.message)))
                continue
            self._take(peer, user, message)

    def _take(self, peer: bytes, user: str, message: Message) -> None:
        listener = self._listeners.get(peer)
        if listener is not None and listener.user != user:  # another peer with its routing id
            self._send(peer, encode(Rejected("not-authorised", "the subscription has another key")))
            return
        match message:
            case Subscribe():
                self._subscribe(peer, user, message)
            case Acknowledge(sequence=sequence) if listener is not None:
                was_full = not listener.has_room()
                listener.acknowledged(sequence)
                self.pump_later(listener)
                if was_full:
                    self._room()
            case CloseLink() if listener is not None:
                self._forget(listener)
            case BeatLink() | CloseLink():
                return
            case _ if listener is None:
                self._send(peer, encode(Rejected("link-unknown", "subscribe first")))
            case _:
                self._send(peer, encode(Rejected("frame-unexpected", f"a {message.TYPE} is not expected here")))

    def _not_allowed(self, user: str, asked: Subscribe) -> str:
        return refusal_of(self._context, user, "listen", asked.tenant, asked.event_stream)

    def _subscribe(self, peer: bytes, user: str, asked: Subscribe) -> None:
        if reason := self._not_allowed(user, asked):
            self._send(peer, encode(Rejected("not-authorised", reason)))
            return
        if ":" in user and peer not in self._listeners:
            of_key = sum(listener.user == user for listener in self._listeners.values())
            if of_key >= max(1, self._config.listeners // KEY_SHARE):
                reason = f"{of_key} listeners with this key are already connected"
                self._send(peer, encode(Rejected("too-many-listeners", reason)))
                return
        if peer not in self._listeners and len(self._listeners) >= self._config.listeners:
            reason = f"{self._config.listeners} listeners are already connected"
            self._send(peer, encode(Rejected("too-many-listeners", reason)))
            return
        try:
            stream = self._directory.resolve(asked.event_stream, asked.tenant)
        except InputError as error:
            self._send(peer, encode(Rejected(error.reason_code, error.message)))
            return
        former = self._listeners.get(peer)
        if former is not None:
            self._forget(former)
        self._listeners[peer] = Listener(self, peer, user, asked, stream, self._config)
        self._tap()
        logger.info("listener subscribed: stream=%s tenant=%d", asked.event_stream, asked.tenant)
        self._send(peer, encode(Subscribed(stream.schema)))

    def _tap(self) -> None:
        """Connect listeners to the streams of the plans that they refer to."""
        self._taps = {}
        for listener in self._listeners.values():
            for member in listener.stream.members:
                self._taps.setdefault((member.key, member.binding.stream), []).append(_EgressTap(self, listener))

    def _pump(self, now_ms: int) -> None:
        ready, self._ready = self._ready, {}
        for listener in ready:
            was_full = not listener.has_room()
            while self._listeners.get(listener.peer) is listener:
                frames = listener.next_frame(now_ms)
                if frames is None:
                    break
                self._send(listener.peer, frames)
            if was_full and listener.has_room():
                self._room()

    def _refuse(self, listener: Listener, code: str, reason: str) -> None:
        logger.warning("listener refused: stream=%s code=%s", listener.name, code)
        self._forget(listener)
        self._send(listener.peer, encode(Rejected(code, reason)))

    def _forget(self, listener: Listener) -> None:
        if self._listeners.get(listener.peer) is listener:
            del self._listeners[listener.peer]
        self._tap()
        listener.leave()
        self._room()

    def _send(self, peer: bytes, frames: list[Any]) -> None:
        """Send to `peer`, and forget it when it is disconnected."""
        if self._socket is None:
            return
        try:
            self._socket.send_multipart([peer, *frames], flags=zmq.NOBLOCK, copy=True)
        except zmq.ZMQError:
            listener = self._listeners.get(peer)
            if listener is not None:
                logger.info("listener gone: stream=%s", listener.name)
                self._forget(listener)
