"""Multiplexing of many links over one connection: each link has a virtual socket of its own.

A thousand plans of a stage host exchange events with the same few workers. With a socket for each, even an idle plan
costs connections, heartbeats of ZeroMQ and of links, and a port. Here a process listens once for all of them
(`SharedListener`) and connects once to each of its peers (`SharedConnections`):

    link of plan A ─┐                                                   ┌─ channel of plan A
    link of plan B ─┼─ DEALER ── [number, channel] + message ──▶ ROUTER ─┼─ channel of plan B
    link of plan C ─┘      ◀── [number] + message                        └─ channel of plan C

A link is identified by its connection and the number that its sender assigned. The channel is part of the endpoint that
the manager assigns. Number 0 belongs to the connection itself: one heartbeat for all links.

Links have a window of unacknowledged rows, which bounds the queue of a link whose owner does not read. For peers that
exceed it, and for huge rows, there is also a limit in bytes: the message is dropped and the link lost, and
unacknowledged rows are sent again over the next link.

Everything belongs to one thread, except that any thread may open a channel.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from cep_common.ids import Endpoint
from cep_common.monitoring.paced_log import PacedLog
from cep_common.protocol.codec import MAXIMUM_DATA_BYTES, encode
from cep_common.protocol.links import Acknowledge, BeatLink, CloseLink
from cep_common.protocol.registry import Rejected
from cep_common.security.roles import SocketKind
from cep_common.sockets.shared_socket import SharedSocket
from cep_common.sockets.transport import (
    bind_in_range,
    connecting_socket,
    listening_socket,
    readable,
    receive_now,
    send_now,
)
from cep_common.sockets.turns import Turns

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

NUMBER_BYTES = 4
CONNECTION = bytes(NUMBER_BYTES)
"""The number of messages about the connection itself."""
CHANNEL_CLOSED = "channel-closed"
"""The refusal of a message to a channel that is not open or is full: its link is lost."""
BEAT_MS = 1_000
SILENT_MS = 1_000
"""How long a peer may leave a heartbeat unanswered until it is considered hung or disconnected."""
FORGOTTEN_MS = 60_000
"""How long a connection may be silent until it is forgotten."""
UNUSED_MS = 10_000
"""How long a connection without links stays open."""
MESSAGES_AT_ONCE = 256
CHANNEL_BYTES = 256 * 1024 * 1024
"""The limit of bytes that wait for one channel."""
PROCESS_BYTES = 1024 * 1024 * 1024
"""The limit of bytes that wait for all channels of a process together …"""
SHARE_BYTES = 1024 * 1024
"""… and for one channel even then, so that a plan that does not read does not block others."""
MESSAGE_BYTES = 512
"""The memory of a message in addition to its bytes."""


# ---- the listening side ---------------------------------------------------------------------------------------------


class Channel(SharedSocket):
    """The listening socket of one link server; the first frame of each message names the link it came from."""

    def __init__(self, listener: SharedListener, name: str) -> None:
        """Create a channel; `SharedListener` does so for each name that is asked for.

        Args:
            listener: The listener that owns the socket.
            name: The name by which links address the channel.
        """
        super().__init__()
        self._listener = listener
        self.name = name
        self.waiting_bytes = 0
        self.endpoint = Endpoint(listener.endpoint.host, listener.endpoint.port, name)

    def unread(self, now_ms: int) -> bool:
        """Return whether a message waits here, or may wait in the shared socket."""
        self._listener.pump(now_ms)  # messages for other channels are no reason to wait for this one
        return self.has_input or readable(self._listener.socket)

    def put(self, message: list[bytes]) -> None:
        """Queue a message that was received for the channel."""
        self._note(size_of(message))
        super().put(message)

    def next_message(self) -> list[bytes] | None:
        """Return the next message, None when none waits."""
        message = super().next_message()
        if message is not None:
            self._note(-size_of(message))
        return message

    def _note(self, size: int) -> None:
        self.waiting_bytes += size
        self._listener.waiting_bytes += size

    def heard_ms(self, link: bytes) -> int:
        """Return when the connection of the link was heard last; 0: never."""
        return self._listener.heard_ms(link)

    def forget(self, link: bytes) -> None:
        """Note that the link has ended."""
        self._listener.forget(link)

    def send_multipart(self, frames: Sequence[Any], flags: int = 0, copy: bool = True) -> None:
        """Send a message to the link that its first frame names."""
        link, *message = frames
        self._listener.send(link, message, copy)

    def close(self, linger: int | None = None) -> None:
        """Close the channel and drop its waiting messages; the socket stays open for others."""
        if not self.closed:
            self.closed = True
            self._waiting.clear()
            self._note(-self.waiting_bytes)
            self._listener.close_channel(self)


@dataclass(slots=True)
class _Peer:
    """A connection that was last heard at `heard_ms`, and the channels of its links by number."""

    heard_ms: int
    links: dict[bytes, str] = field(default_factory=dict)
    silent: bool = False


class SharedListener:
    """A port that the link servers of a process share. Each of them has a channel."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        kind: SocketKind,
        host: str,
        ports: tuple[int, int],
        advertised_host: str | None = None,
    ) -> None:
        """Listen on the first free one of `ports`.

        Raises:
            PortInUseError: When none is free.
        """
        self.socket = listening_socket(context, kind, host, MAXIMUM_DATA_BYTES, high_water_mark=0)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        try:
            port = bind_in_range(self.socket, host, ports)
        except BaseException:
            self.socket.close()
            raise
        self.endpoint = Endpoint(advertised_host or host, port)
        self._channels: dict[str, Channel] = {}
        self._peers: dict[bytes, _Peer] = {}
        self.waiting_bytes = 0
        """Bytes that wait for all channels."""

    def channel(self, name: str) -> Channel:
        """Open the channel `name`; called by any thread."""
        channel = self._channels[name] = Channel(self, name)
        return channel

    def pump(self, now_ms: int) -> None:
        """Distribute received messages to the channels."""
        for _ in range(MESSAGES_AT_ONCE):
            frames = receive_now(self.socket)
            if frames is None:
                return
            self._hand_out(frames, now_ms)

    def tick(self, now_ms: int, silent_ms: int) -> None:
        """Notify channels about links whose connection has been silent for `silent_ms` or is heard again."""
        for peer, known in list(self._peers.items()):
            silent = now_ms - known.heard_ms >= silent_ms
            if silent != known.silent:
                known.silent = silent
                for name in set(known.links.values()):
                    if name in self._channels:
                        self._channels[name].notify()
            if now_ms - known.heard_ms >= FORGOTTEN_MS:
                del self._peers[peer]

    def heard_ms(self, link: bytes) -> int:
        """Return when the connection of the link was heard last; 0: never."""
        known = self._peers.get(link[:-NUMBER_BYTES])
        return known.heard_ms if known is not None else 0

    def forget(self, link: bytes) -> None:
        """Note that the link has ended."""
        known = self._peers.get(link[:-NUMBER_BYTES])
        if known is not None:
            known.links.pop(link[-NUMBER_BYTES:], None)

    def send(self, link: bytes, message: Sequence[Any], copy: bool = True) -> None:
        """Send a message to the sender of the link. Raise ZMQError when its connection is gone."""
        self.socket.send_multipart([link[:-NUMBER_BYTES], link[-NUMBER_BYTES:], *message], copy=copy)

    def close_channel(self, channel: Channel) -> None:
        """Close the channel and notify the senders of its links; any thread may call it for a channel without links."""
        if self._channels.get(channel.name) is not channel:
            return
        del self._channels[channel.name]
        # A copy, since a stage that cannot be built closes its unpublished channel from its own thread.
        for peer, known in list(self._peers.items()):
            for number in [one for one, name in list(known.links.items()) if name == channel.name]:
                del known.links[number]
                self._refuse(peer, number, f"channel {channel.name} is not open")

    def close(self) -> None:
        """Close the port."""
        self.socket.close(linger=200)

    def _hand_out(self, frames: list[bytes], now_ms: int) -> None:
        peer, *rest = frames
        known = self._peers.get(peer)
        if known is None:
            known = self._peers[peer] = _Peer(now_ms)
        known.heard_ms = now_ms
        if not rest or len(rest[0]) < NUMBER_BYTES:
            paced_logger.problem("frames", "a message without the number of its link was dropped")
            return
        number, name = rest[0][:NUMBER_BYTES], rest[0][NUMBER_BYTES:].decode(errors="replace")
        if number == CONNECTION:
            self._answer(peer, [number, *encode(Acknowledge(sequence=0))])
            return
        channel = self._channels.get(name)
        if channel is None:
            self._refuse(peer, number, f"channel {name} is not open")
            return
        if self._is_full(channel):
            # the sender's message that closes the link may be lost, and the shared connection continues without the
            # link
            if known.links.pop(number, None) is not None:
                channel.put([peer + number, *encode(CloseLink())])
            self._refuse(peer, number, f"channel {name} is full: {channel.waiting_bytes} bytes wait there")
            paced_logger.problem(name, "a link was closed, its plan is too slow: channel=%s bytes=%d in_all=%d",
                                 name, channel.waiting_bytes, self.waiting_bytes)  # fmt: skip
            return
        known.links[number] = name
        channel.put([peer + number, *rest[1:]])

    def _is_full(self, channel: Channel) -> bool:
        return channel.waiting_bytes >= CHANNEL_BYTES or (
            self.waiting_bytes >= PROCESS_BYTES and channel.waiting_bytes >= SHARE_BYTES
        )

    def _refuse(self, peer: bytes, number: bytes, reason: str) -> None:
        self._answer(peer, [number, *encode(Rejected(CHANNEL_CLOSED, reason))])

    def _answer(self, peer: bytes, frames: list[Any]) -> None:
        try:
            self.socket.send_multipart([peer, *frames])
        except zmq.ZMQError as error:  # the peer is gone
            if error.errno != zmq.EHOSTUNREACH:
                raise


def size_of(message: Sequence[bytes]) -> int:
    """Return the approximate memory of a waiting message."""
    return MESSAGE_BYTES + sum(map(len, message))


# ---- the connecting side --------------------------------------------------------------------------------------------


class SharedLink(SharedSocket):
    """The sending socket of one link; `lost` once its connection is lost."""

    def __init__(self, connection: Connection, number: bytes, channel: str) -> None:
        """Create a link over a shared connection.

        Args:
            connection: The connection that owns the socket.
            number: The number of the link within the connection.
            channel: The name of the channel at the other end.
        """
        super().__init__()
        self.lost = False
        self._connection = connection
        self._head = number + channel.encode()
        self.number = number

    @property
    def silent(self) -> bool:
        """Return whether the peer leaves the heartbeats of the connection unanswered."""
        return self._connection.silent

    def send_multipart(self, frames: Sequence[Any], flags: int = 0, copy: bool = True) -> None:
        """Send a message to the channel of the link.

        Raises:
            zmq.Again: The link is closed or lost, or the socket is full.
        """
        if self.lost or self.closed:
            raise zmq.Again
        self._connection.socket.send_multipart([self._head, *frames], flags=zmq.NOBLOCK, copy=copy)

    def claim(self, now_ms: int) -> bool:
        """Return whether this link has the turn among all links over its connection."""
        return self._connection.turns.claim(self, now_ms, self.notify)

    def release(self) -> None:
        """Let other links have the turn."""
        self._connection.turns.release(self)

    def lose(self) -> None:
        """Note that the connection is gone."""
        self.lost = True
        self.notify()

    def close(self, linger: int | None = None) -> None:
        """Close the link and drop its waiting messages; the connection stays open for others."""
        if not self.closed:
            self.closed = True
            self._waiting.clear()
            self._connection.links.pop(self.number, None)
            self._connection.turns.release(self)


class Connection:
    """The connection to one process, shared by all links to it."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], kind: SocketKind, endpoint: Endpoint) -> None:
        """Create the connection; links are added as they are asked for.

        Args:
            context: Makes the socket.
            kind: The kind of connection, which decides security and limits.
            endpoint: Where to connect.
        """
        self.endpoint = endpoint
        self.links: dict[bytes, SharedLink] = {}
        self.turns = Turns()
        self.silent = False
        self.lost = False
        self.unused_ms: int | None = None
        self._numbers = itertools.count(1)
        self._beat_ms = 0
        self._unanswered_ms: int | None = None
        self.socket = connecting_socket(context, kind, MAXIMUM_DATA_BYTES, high_water_mark=0)
        self.monitor = self.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECT_RETRIED)
        self.socket.connect(endpoint.url())

    def open(self, channel: str) -> SharedLink:
        """Open a link to the channel."""
        number = (next(self._numbers) & 0xFFFFFFFF).to_bytes(NUMBER_BYTES, "big")
        link = self.links[number] = SharedLink(self, number, channel)
        return link

    def pump(self) -> None:
        """Distribute received messages; when the connection is broken, all its links are lost."""
        for _ in range(MESSAGES_AT_ONCE):
            frames = receive_now(self.socket)
            if frames is None:
                break
            self._unanswered_ms, self.silent = None, False
            link = self.links.get(frames[0])
            if link is not None:
                link.put(frames[1:])
        # after the messages, since those that the peer sent before the connection ended still count
        while readable(self.monitor):
            recv_monitor_message(self.monitor)
            self.lost = True

    def tick(self, now_ms: int) -> None:
        """Send a heartbeat when it is due, and detect unanswered ones."""
        silent = self._unanswered_ms is not None and now_ms - self._unanswered_ms >= SILENT_MS
        if silent and not self.silent:
            self.silent = True
            for link in self.links.values():  # their owners ask the manager for another peer
                link.notify()
        if now_ms - self._beat_ms < BEAT_MS:
            return
        self._beat_ms = now_ms
        # the time-out runs from the first unanswered heartbeat, later ones must not extend it
        if self._unanswered_ms is None:
            self._unanswered_ms = now_ms
        send_now(self.socket, [CONNECTION, *encode(BeatLink())])

    def close(self) -> None:
        """Close the connection; queued messages are still sent."""
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close(linger=500)


class SharedConnections:
    """The connections of a process to the listeners of others."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        kind: SocketKind,
        watch: Callable[[Connection], None],
        unwatch: Callable[[Connection], None],
    ) -> None:
        """Call `watch` with each new connection, and `unwatch` before it is closed."""
        self._context = context
        self._kind = kind
        self._watch = watch
        self._unwatch = unwatch
        self._connections: dict[Endpoint, Connection] = {}

    def open(self, endpoint: Endpoint) -> SharedLink:
        """Open a link to the channel of `endpoint`, over the connection to its process."""
        process = Endpoint(endpoint.host, endpoint.port)
        connection = self._connections.get(process)
        if connection is None:
            connection = self._connections[process] = Connection(self._context, self._kind, process)
            self._watch(connection)
        connection.unused_ms = None
        return connection.open(endpoint.channel)

    def pump(self, connection: Connection) -> None:
        """Distribute messages received over the connection."""
        connection.pump()
        if connection.lost:
            links = list(connection.links.values())
            self._drop(connection)  # before the links ask for another connection
            for link in links:
                link.lose()

    def pump_all(self) -> None:
        """Distribute messages received over any connection."""
        for connection in list(self._connections.values()):
            self.pump(connection)

    def tick(self, now_ms: int) -> None:
        """Send heartbeats that are due, and close connections that no link uses."""
        for connection in list(self._connections.values()):
            connection.tick(now_ms)
            if connection.links:
                connection.unused_ms = None
            elif connection.unused_ms is None:
                connection.unused_ms = now_ms
            elif now_ms - connection.unused_ms >= UNUSED_MS:
                self._drop(connection)

    def sockets(self) -> list[zmq.Socket[bytes]]:
        """Return the sockets of all connections."""
        return [connection.socket for connection in self._connections.values()]

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._connections.values()):
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        if self._connections.get(connection.endpoint) is connection:
            del self._connections[connection.endpoint]
            self._unwatch(connection)
            connection.close()
