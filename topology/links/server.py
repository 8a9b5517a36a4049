"""The server of links, over a ZeroMQ ROUTER. It belongs to one thread; no call blocks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import zmq

from cep_common.errors import DecodeError, InputError, PortInUseError
from cep_common.ids import Endpoint
from cep_common.monitoring.paced_log import PacedLog
from cep_common.protocol.codec import MAXIMUM_DATA_BYTES, decode, encode
from cep_common.protocol.links import (
    Acknowledge,
    BeatLink,
    CloseLink,
    Data,
    LinkOpened,
    OpenLink,
    Secured,
    SendBundle,
    SettleBundles,
)
from cep_common.protocol.registry import Message, Rejected
from cep_common.security.roles import SocketKind
from cep_common.sockets.multiplexing import Channel, SharedListener
from cep_common.sockets.transport import bind, bind_in_range, listening_socket, readable, receive_from, receive_now
from topology.events.frames import arrow_schema, decode_batch
from topology.links.protocol import Inbox

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

ACKNOWLEDGE_WITHIN_MS = 3
LINK_LEASE_MS = 10_000
"""A server removes a sender that has been silent for this long and whose connection was lost.

ZeroMQ's own threads keep up connections, so a sender that works longer than this in one call, and cannot beat
meanwhile, keeps its link.
"""

HUNG_MS = 60_000
"""A sender whose connection is up and that has been silent for this long counts as hung, and is forgotten, too."""

CLOSED = "closed"
"""The reason if a sender closed its link in order."""


@dataclass(slots=True, eq=False)
class IncomingLink:
    """A sender as seen by its server."""

    peer: bytes
    opening: OpenLink
    inbox: Inbox
    schemas: dict[str, pa.Schema]
    heard_ms: int
    user: str = ""
    """The client that opened it, by its key, if the server has a `permit`."""
    attachment: Any = None
    """Data of the server's owner for the link."""


@dataclass(frozen=True, slots=True)
class LinkArrived:
    """A sender has opened a link."""

    link: IncomingLink


@dataclass(frozen=True, slots=True)
class FrameArrived:
    """A numbered frame; for `data`, `batch` is its record batch."""

    link: IncomingLink
    message: Message
    sequence: int
    batch: pa.RecordBatch | None = None
    bodies: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkGone:
    """A link has ended."""

    link: IncomingLink
    reason: str


def _rows(message: Message) -> int:
    match message:
        case Data(rows=rows):
            return rows
        case SendBundle(batches=batches):
            return sum(rows for _, rows in batches)
        case _:
            return 0


LinkEvent = LinkArrived | FrameArrived | LinkGone

Accept = Callable[[OpenLink], Rejected | None]
"""Decides whether a link may open: a refusal, or None."""

Permit = Callable[[str, OpenLink], Rejected | None]
"""Decides whether a peer, known by its key, may open a link: a refusal, or None."""

Resume = Callable[[OpenLink], tuple[int, bool]]
"""What the server already has of a sender's log, and whether it returns to that from a later position."""


@dataclass(slots=True)
class LinkServer:
    """The server of any number of links.

    `trusted` False checks every batch fully, for senders from outside. With `resume` it secures what senders keep in
    logs; `secure` must then be called.
    """

    socket: zmq.Socket[bytes] | Channel
    endpoint: Endpoint
    window_rows: int
    accept: Accept
    trusted: bool = True
    resume: Resume | None = None
    clock: Callable[[], int] | None = None
    """The time of day, which senders learn when it is given."""
    permit: Permit | None = None
    """Called before `accept`, only on a separate socket."""
    cleared: tuple[int, ...] = ()
    """Earlier attempts of the topology that no event ended; sent to senders when a link opens."""
    doubtful: tuple[int, ...] = ()
    """The attempts whose ends are weak evidence against events; sent likewise."""
    links: dict[bytes, IncomingLink] = field(default_factory=dict)
    _due: dict[bytes, IncomingLink] = field(default_factory=dict)
    _due_since_ms: int | None = None

    @classmethod
    def listen(
        cls,
        context: zmq.Context[zmq.Socket[bytes]],
        kind: SocketKind,
        host: str,
        ports: int | tuple[int, int],
        window_rows: int,
        accept: Accept,
        trusted: bool = True,
        advertised_host: str | None = None,
        resume: Resume | None = None,
        clock: Callable[[], int] | None = None,
    ) -> LinkServer:
        """Open a server on `host`, on one port or the first free one of a range.

        Raises:
            PortInUseError: When no port is free.
        """
        # No limit in ZeroMQ, which would drop or block silently: the window of unacknowledged rows limits what is in
        # flight.
        socket = listening_socket(context, kind, host, MAXIMUM_DATA_BYTES, high_water_mark=0)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # sending to a lost peer fails instead of being ignored
        try:
            if isinstance(ports, tuple):
                port = bind_in_range(socket, host, ports)
            else:
                bind(socket, host, ports, "events")
                port = ports
        except PortInUseError:
            socket.close()
            raise
        return cls(socket, Endpoint(advertised_host or host, port), window_rows, accept, trusted, resume, clock)

    @classmethod
    def share(
        cls,
        listener: SharedListener,
        channel: str,
        window_rows: int,
        accept: Accept,
        resume: Resume | None = None,
        clock: Callable[[], int] | None = None,
    ) -> LinkServer:
        """Open a server at a channel of the process's listener."""
        socket = listener.channel(channel)
        return cls(socket, socket.endpoint, window_rows, accept, resume=resume, clock=clock)

    def unread(self, now_ms: int) -> bool:
        """Return whether messages wait to be received."""
        return self.socket.unread(now_ms) if isinstance(self.socket, Channel) else readable(self.socket)

    def heard_ms(self, link: IncomingLink) -> int:
        """Return when the sender of the link was heard last."""
        if isinstance(self.socket, Channel):
            return max(link.heard_ms, self.socket.heard_ms(link.peer))
        return link.heard_ms

    def receive(self, now_ms: int, limit: int = 64) -> Iterator[LinkEvent]:
        """Yield the events of at most `limit` received messages.

        Messages from outside raise nothing here: invalid frames are answered.
        """
        for _ in range(limit):
            user, parts = self._receive()
            if parts is None:
                return
            peer, *frames = parts
            link = self.links.get(peer)
            if link is not None and link.user != user:  # another peer with its routing id
                self._refuse(peer, "not-authorised", "the link has another key")
                continue
            try:
                envelope = decode(frames)
            except DecodeError as error:
                yield from self._break(peer, link, error.code, str(error))
            else:
                if link is not None:
                    link.heard_ms = now_ms
                yield from self._take(peer, user, link, envelope.message, envelope.bodies, now_ms)
            if peer not in self.links:  # the listener registers a link with each message, but this peer has none
                self._forget(peer)

    def done(self, link: IncomingLink, sequence: int) -> None:
        """Record that all frames of `link` up to `sequence` were passed on; `flush` notifies the sender."""
        link.inbox.done(sequence)
        self._note_due(link)

    def flush(self, now_ms: int | None = None) -> int | None:
        """Send the acknowledgements that are due, one for each link.

        With a time, acknowledgements that are not urgent may wait for others. A single event's acknowledgement then
        does not delay its result, and many events share one.

        Returns:
            The time at which to call again, None when nothing waits.
        """
        if not self._due:
            return None
        if now_ms is not None:
            if self._due_since_ms is None:
                self._due_since_ms = now_ms
            if now_ms < self._due_since_ms + ACKNOWLEDGE_WITHIN_MS:
                for link in [link for link in self._due.values() if link.inbox.is_urgent()]:
                    self._acknowledge(self._due.pop(link.peer))
                return self._due_since_ms + ACKNOWLEDGE_WITHIN_MS if self._due else None
        for link in self._due.values():
            self._acknowledge(link)
        self._due.clear()
        self._due_since_ms = None
        return None

    def _acknowledge(self, link: IncomingLink) -> None:
        sequence = link.inbox.due_acknowledgement()
        if sequence is not None:
            self._send(link.peer, Acknowledge(sequence=sequence))

    def secure(self, link: IncomingLink, position: int, unneeded: int | None = None) -> None:
        """Report to the sender that a checkpoint holds its log up to `position`, if the link is still open.

        The sender need not keep its log up to `unneeded` (None: up to `position`).
        """
        if self.links.get(link.peer) is link:
            self._send(link.peer, Secured(position, position if unneeded is None else unneeded))

    def settle(self, link: IncomingLink, sequences: Iterable[int]) -> None:
        """Report these bundles to the sender as settled."""
        self._send(link.peer, SettleBundles(sequences=tuple(sequences)))

    def refuse_frame(self, link: IncomingLink, code: str, reason: str) -> None:
        """Report to the sender that one frame was refused, with `frame-<code>`. The link continues."""
        self._refuse(link.peer, f"frame-{code}", reason)

    def drop(self, link: IncomingLink, code: str, reason: str) -> None:
        """End a link from this side."""
        self._forget(link.peer)
        self._refuse(link.peer, code, reason)

    def expire(self, now_ms: int) -> list[LinkGone]:
        """Remove links whose sender has been silent for too long; none while messages wait to be received."""
        # Checking for messages costs a system call, and a worker has a server for each of a thousand plans.
        if not any(now_ms - self.heard_ms(link) > LINK_LEASE_MS for link in self.links.values()):
            return []
        # A busy receiver reads heartbeats late: they may still be in the socket's queue, so silence counts only once it
        # is empty.
        if self.unread(now_ms):
            return []
        gone = [link for link in self.links.values() if self._is_gone(link, now_ms - self.heard_ms(link))]
        for link in gone:
            self.drop(link, "link-expired", f"silent for {now_ms - self.heard_ms(link)} ms")
        return [LinkGone(link, "silent") for link in gone]

    def _is_gone(self, link: IncomingLink, silent_ms: int) -> bool:
        if silent_ms <= LINK_LEASE_MS:
            return False
        # Repeating an acknowledgement is harmless and shows whether ZeroMQ still has a connection to the peer.
        return silent_ms > HUNG_MS or not self._send(link.peer, Acknowledge(sequence=link.inbox.acknowledged))

    def close(self) -> None:
        self.socket.close(linger=0)

    def _receive(self) -> tuple[str, list[bytes] | None]:
        """Return the sender (if the server has a `permit`) and the next message; None without a message."""
        if self.permit is None or isinstance(self.socket, Channel):
            return "", receive_now(self.socket)
        return receive_from(self.socket) or ("", None)

    def _take(
        self, peer: bytes, user: str, link: IncomingLink | None, message: Message, bodies: tuple[Any, ...], now_ms: int
    ) -> Iterator[LinkEvent]:
        if isinstance(message, OpenLink):
            # The sender has lost its state or the server's answer: what is unacknowledged on the old link will be sent
            # again on the new one.
            if link is not None:
                self._forget(peer)
                yield LinkGone(link, "reopened")
            yield from self._open(peer, user, message, now_ms)
        elif link is None:
            self._refuse(peer, "link-unknown", "open a link first")
        elif isinstance(message, BeatLink):
            self._send(peer, Acknowledge(sequence=link.inbox.acknowledged))
        elif isinstance(message, CloseLink):
            self._forget(peer)
            yield LinkGone(link, CLOSED)
        else:
            yield from self._frame(link, message, bodies)

    def _open(self, peer: bytes, user: str, opening: OpenLink, now_ms: int) -> Iterator[LinkEvent]:
        try:
            schemas = {stream.stream: arrow_schema(stream) for stream in opening.streams}
        except KeyError as error:
            self._refuse(peer, "unknown-type", f"no such attribute type: {error.args[0]}")
            return
        # No link exists yet, so a refused sender costs nothing and can ask the manager for another endpoint.
        refusal = (self.permit(user, opening) if self.permit is not None else None) or self.accept(opening)
        if refusal is not None:
            self._send(peer, refusal)
            return
        link = IncomingLink(peer, opening, Inbox(self.window_rows), schemas, now_ms, user)
        self.links[peer] = link
        # After the link is registered and before the answer: the sender continues its log behind this position.
        position, goes_back = (0, False) if self.resume is None else self.resume(opening)
        now_of_day_ms = 0 if self.clock is None else self.clock()
        opened = LinkOpened(
            self.window_rows, position, self.resume is not None, now_of_day_ms, goes_back, self.cleared, self.doubtful
        )
        self._send(peer, opened)
        yield LinkArrived(link)

    def _frame(self, link: IncomingLink, message: Message, bodies: tuple[Any, ...]) -> Iterator[LinkEvent]:
        sequence = getattr(message, "sequence", None)
        if sequence is None or isinstance(message, Acknowledge):
            self._refuse(link.peer, "frame-unexpected", f"a {message.TYPE} is not expected here")
            return
        try:
            # Before the batch is decoded: a gap or an exceeded window violates the protocol, whatever the frame
            # contains.
            link.inbox.arrived(sequence, _rows(message))
        except InputError as error:
            yield from self._break(link.peer, link, error.reason_code, str(error))
            return
        batch = None
        if isinstance(message, Data):
            try:
                batch = self._batch(link, message, bodies)
            except (DecodeError, InputError) as error:
                code = error.reason_code if isinstance(error, InputError) else error.code
                self.refuse_frame(link, code, str(error))
                # Acknowledged like any other frame: the link continues, and the refused frame must not be sent again.
                link.inbox.refused(sequence)
                self._note_due(link)
                return
        yield FrameArrived(link, message, sequence, batch, bodies)

    def _batch(self, link: IncomingLink, message: Data, bodies: tuple[Any, ...]) -> pa.RecordBatch:
        schema = link.schemas.get(message.stream)
        if schema is None:
            raise InputError("unknown-stream", f"the link was not opened for stream {message.stream}")
        # A stage that outlived its epoch must not feed the one that has replaced it.
        if message.epoch != link.opening.epoch:
            raise InputError("stale-epoch", f"a frame of epoch {message.epoch} on a link of {link.opening.epoch}")
        if len(bodies) != 1:
            raise DecodeError(f"a data message with {len(bodies)} bodies")
        return decode_batch(bodies[0], schema, message.rows, self.trusted)

    def _break(self, peer: bytes, link: IncomingLink | None, code: str, reason: str) -> Iterator[LinkEvent]:
        """Refuse a peer that violates the protocol, and end its link if it has one."""
        if link is None:
            self._refuse(peer, code, reason)
        else:
            self.drop(link, code, reason)
            yield LinkGone(link, reason)

    def _forget(self, peer: bytes) -> None:
        self.links.pop(peer, None)
        self._due.pop(peer, None)
        if isinstance(self.socket, Channel):
            self.socket.forget(peer)

    def _note_due(self, link: IncomingLink) -> None:
        if self.links.get(link.peer) is link:
            self._due[link.peer] = link

    def _refuse(self, peer: bytes, code: str, reason: str) -> None:
        paced_logger.problem(code, "refused a peer: code=%s reason=%s", code, reason, level=logging.INFO)
        self._send(peer, Rejected(code=code, reason=reason))

    def _send(self, peer: bytes, message: Message) -> bool:
        """Send the message, and return False when the peer is no longer connected."""
        try:
            self.socket.send_multipart([peer, *encode(message)])
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return False
        return True
