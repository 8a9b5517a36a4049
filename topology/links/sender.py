"""The sender of a link, over a ZeroMQ DEALER. It belongs to one thread; no call blocks."""

from __future__ import annotations

import logging
from enum import Enum
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from cep_common.errors import DecodeError
from cep_common.ids import Endpoint
from cep_common.monitoring.paced_log import PacedLog
from cep_common.protocol.codec import MAXIMUM_DATA_BYTES, decode, encode
from cep_common.protocol.links import (
    Acknowledge,
    BeatLink,
    CloseLink,
    Data,
    LinkOpened,
    MarkIdle,
    OpenLink,
    Secured,
    SettleBundles,
)
from cep_common.protocol.registry import Message, Rejected
from cep_common.security.roles import SocketKind
from cep_common.sockets.multiplexing import CHANNEL_CLOSED, Connection, SharedConnections, SharedLink
from cep_common.sockets.shared_socket import SharedSocket
from cep_common.sockets.transport import connecting_socket, readable, receive_now, send_now
from topology.links.protocol import Outbox, PendingFrame

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

OPEN_TIMEOUT_MS = 5_000
"""How long opening a link may take until it counts as lost."""

BEAT_MS = 1_000

SILENT_MS = 1_000
"""How long a server may leave a heartbeat unanswered until it is considered hung or disconnected."""


class LinkState(Enum):
    """CONNECTING → OPEN → CLOSED, or REFUSED, or LOST (ask the manager for another endpoint)."""

    CONNECTING = "connecting"
    OPEN = "open"
    REFUSED = "refused"
    LOST = "lost"
    CLOSED = "closed"

    @property
    def has_failed(self) -> bool:
        """Whether the link was refused or lost: it must be closed, and its frames sent over another one."""
        return self in (LinkState.REFUSED, LinkState.LOST)


class LinkSender:
    """The sending end of a link to `endpoint`. Poll `sockets` for reading and call `handle`; call `tick` now and then.

    `refusals` collects what the server refused, the link itself or single frames, until the owner clears it. A
    `patient` sender waits for a server that does not listen yet; for others the link is lost then.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        kind: SocketKind,
        endpoint: Endpoint,
        opening: OpenLink,
        now_ms: int,
        patient: bool = True,
        shared: SharedConnections | None = None,
    ) -> None:
        """Open a link; a link to a channel uses a `shared` connection if there are any, otherwise a separate one."""
        self.endpoint = endpoint
        self.opening = opening
        self.state = LinkState.CONNECTING
        self.outbox = Outbox()
        self.refusals: list[Rejected] = []
        self.settled: list[int] = []
        """Sequence numbers of bundles that were settled, until the owner clears them."""
        self.position = 0
        """What the server had of the sender's log when the link was opened; continue after it."""
        self.secures = False
        """The server reports what is secured; otherwise what is acknowledged need not be kept."""
        self.server_ms = 0
        """The server's time of day when the link was opened; 0: it did not report it."""
        self.goes_back = False
        """Whether the events after `position` are needed even if they were secured."""
        self.cleared: tuple[int, ...] = ()
        """Earlier attempts of the server's topology that no event ended."""
        self.doubtful: tuple[int, ...] = ()
        """The attempts whose ends are weak evidence against events."""
        self.secured = self.unneeded = 0
        """The newest checkpoint holds the sender's log up to here; every one that is retained up to there."""
        self._since_ms = now_ms
        self._beat_ms = now_ms
        self._answered = False
        self._unanswered_ms: int | None = None
        """When the first beat since the server's last answer was sent."""
        self.silent = False
        """The link seems to be connected, but its server does not respond.

        There may be another one by now, which the manager knows.
        """
        self.socket: zmq.Socket[bytes] | SharedLink
        self._monitor: zmq.Socket[bytes] | None = None
        self._connection: Connection | None = None
        """The connection that only this link uses, to a process that listens once for all."""
        if endpoint.channel and shared is not None:
            self.socket = shared.open(endpoint)
        elif endpoint.channel:
            self._connection = Connection(context, kind, Endpoint(endpoint.host, endpoint.port))
            self.socket = self._connection.open(endpoint.channel)
        else:
            self.socket = connecting_socket(context, kind, MAXIMUM_DATA_BYTES, high_water_mark=0)
            refused = 0 if patient else zmq.EVENT_CONNECT_RETRIED
            self._monitor = self.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED | refused)
            self.socket.connect(endpoint.url())
        send_now(self.socket, encode(opening))  # if that fails, the link does not open in time and is lost

    @property
    def sockets(self) -> tuple[zmq.Socket[bytes] | SharedSocket, ...]:
        """The sockets to poll."""
        if self._connection is not None:
            return self._connection.socket, self._connection.monitor
        return (self.socket,) if self._monitor is None else (self.socket, self._monitor)

    @property
    def answered(self) -> bool:
        """Whether the server has ever answered."""
        return self._answered

    def has_room(self) -> bool:
        """Return whether `send` may be called now."""
        return self.state is LinkState.OPEN and self.outbox.has_room()

    def send(
        self,
        stream: str,
        body: Any,
        rows: int,
        watermark_ms: int,
        position: int = 0,
        *,
        accepted: tuple[tuple[int, int], ...] = (),
        ahead_ms: int = 0,
        caught_up: bool = False,
    ) -> int:
        """Send one batch and return its sequence number; call `has_room` before.

        The last of its events is at `position` in the sender's log (0: in none). `accepted`, `ahead_ms` and
        `caught_up` as in `Data`.
        """
        sequence = self.outbox.next_sequence
        message = Data(
            stream, sequence, rows, watermark_ms, self.opening.epoch, position, accepted, ahead_ms, caught_up
        )
        return self.send_frame(message, sequence, rows, (body,))

    def mark_idle(self) -> int:
        """Report that the sender is idle."""
        sequence = self.outbox.next_sequence
        return self.send_frame(MarkIdle(sequence=sequence), sequence, 0, ())

    def send_frame(self, message: Message, sequence: int, rows: int, bodies: tuple[Any, ...]) -> int:
        """Send a numbered message of any type that the server understands."""
        # Kept before it is sent: if the link is lost in between, the frame is sent again over the next one.
        self.outbox.sent(PendingFrame(sequence, rows, message, bodies))
        # Only a lost connection can refuse: ZeroMQ's queue has no limit here, and the window keeps it short.
        if not send_now(self.socket, encode(message, bodies=bodies), copy=False):
            self.state = LinkState.LOST
        return sequence

    def handle(self) -> int:
        """Process received messages, and return the number of rows freed by acknowledgements."""
        freed = 0
        if self._connection is not None:
            self._connection.pump()
        while (frames := receive_now(self.socket)) is not None:
            try:
                message = decode(frames).message
            except DecodeError as error:
                text = "unreadable response on a link: endpoint=%s error=%s"
                paced_logger.problem(self.endpoint.url(), text, self.endpoint.url(), error)
                continue
            freed += self._take(message)
        # After the answers: what the server said before the connection ended still counts.
        lost = self._connection.lost if self._connection is not None else False
        if isinstance(self.socket, SharedLink):
            lost = lost or self.socket.lost
            self.silent = self.socket.silent
        while self._monitor is not None and readable(self._monitor):
            recv_monitor_message(self._monitor)
            lost = True
        if lost and self.state in (LinkState.CONNECTING, LinkState.OPEN):
            self.state = LinkState.LOST
        return freed

    def tick(self, now_ms: int) -> None:
        """Send heartbeats, detect missing responses, and close a link that was not opened in time."""
        if self.state is LinkState.CONNECTING and now_ms - self._since_ms > OPEN_TIMEOUT_MS:
            self.state = LinkState.LOST
        if isinstance(self.socket, SharedLink):  # its connection sends heartbeats for all links
            if self._connection is not None:
                self._connection.tick(now_ms)
            self.silent = self.socket.silent
            return
        self.silent = self._unanswered_ms is not None and now_ms - self._unanswered_ms >= SILENT_MS
        if self.state is LinkState.OPEN and now_ms - self._beat_ms >= BEAT_MS:
            self._beat_ms = now_ms
            # the time-out runs from the first unanswered heartbeat, later ones must not extend it
            if self._unanswered_ms is None:
                self._unanswered_ms = now_ms
            if not send_now(self.socket, encode(BeatLink())):
                self.state = LinkState.LOST

    def keep_alive(self, now_ms: int) -> None:
        """Receive messages and send heartbeats while the owner of the link is busy.

        The owner handles refusals, settled bundles and a lost link at its next check.
        """
        self.handle()
        self.tick(now_ms)

    def claim(self, now_ms: int) -> bool:
        """Return whether a frame that must be alone in the server's process may be sent now.

        False while another link of this process to that one has the turn; it is called as `sockets` are readable.
        """
        return not isinstance(self.socket, SharedLink) or self.socket.claim(now_ms)

    def release(self) -> None:
        """Let other links claim."""
        if isinstance(self.socket, SharedLink):
            self.socket.release()

    def unacknowledged(self) -> list[PendingFrame]:
        """Return the frames that the server has not acknowledged, oldest first."""
        return list(self.outbox.pending)

    def close(self) -> None:
        """Close the link and notify the server if it still listens.

        A server that has not answered yet is notified as well: otherwise it would open the link later, and the
        topology would wait for its events.
        """
        if isinstance(self.socket, SharedLink):
            send_now(self.socket, encode(CloseLink()))
        elif self.state is LinkState.OPEN or not self._answered:
            self.socket.setsockopt(zmq.LINGER, 500)
            send_now(self.socket, encode(CloseLink()))
        self.state = LinkState.CLOSED
        if self._monitor is not None and not isinstance(self.socket, SharedLink):
            self.socket.disable_monitor()
            self._monitor.close(linger=0)
        self.socket.close()
        if self._connection is not None:
            self._connection.close()

    def _take(self, message: Message) -> int:
        self._answered = True
        # Any message shows that the server works, not only the answer to a beat.
        self._unanswered_ms, self.silent = None, False
        match message:
            case LinkOpened(window_rows=rows, position=position, secures=secures, now_ms=server_ms):
                self.outbox.window_rows, self.goes_back = rows, message.goes_back
                self.cleared, self.doubtful = message.cleared, message.doubtful
                self.position, self.secures, self.server_ms = position, secures, server_ms
                self.state = LinkState.OPEN
            case Secured(position=position, unneeded=unneeded):
                # Never backwards: events that were removed from the log after an earlier message cannot be sent again.
                self.secured, self.unneeded = max(self.secured, position), max(self.unneeded, unneeded)
            case Acknowledge(sequence=sequence):
                return self.outbox.acknowledged(sequence)
            case SettleBundles(sequences=sequences):
                self.settled.extend(sequences)
            case Rejected(code=code) if code == CHANNEL_CLOSED:  # as if its connection had broken
                self.state = LinkState.LOST
            case Rejected():
                self.refusals.append(message)
                # A refused frame leaves the link open; any other refusal is about the link itself.
                if not message.code.startswith("frame-"):
                    self.state = LinkState.REFUSED
            case _:
                text = "unexpected %s on a link: endpoint=%s"
                paced_logger.problem(self.endpoint.url(), text, message.TYPE, self.endpoint.url())
        return 0
