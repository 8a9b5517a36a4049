"""ZeroMQ without a network: ROUTER and DEALER sockets whose messages take virtual time, and whose connections break.

As in ZeroMQ: what is sent before a connection stands waits for it; a DEALER connects again by itself, and is another
peer to the ROUTER then; what was under way when a connection broke is lost; a message to a peer that has gone is
dropped without a word. Messages of one connection never overtake each other.
"""

from __future__ import annotations

import itertools
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import zmq
from virtual_world import VirtualWorld

from cep_common.ids import Endpoint

RECONNECT_MS = 100
HEARTBEAT_TIMEOUT_MS = 6_000
"""A connection over which nothing has come for so long is given up by both ends."""


class Network:
    """All sockets of a world; `slow` is the chance of a message to take long."""

    def __init__(self, world: VirtualWorld) -> None:
        self.world = world
        self.slow = 0.0
        self.listening: dict[Endpoint, FakeSocket] = {}
        self.connections: dict[FakeSocket, Connection] = {}
        """By their dealer."""
        self.peers = itertools.count(1)

    def delay_ms(self) -> int:
        """How long a message is on its way."""
        chance = self.world.chance
        return chance.choice((50, 300, 1_500)) if chance.random() < self.slow else chance.randrange(1, 4)

    def connect(self, dealer: FakeSocket) -> None:
        """The dealer is connected as soon as somebody listens."""
        if dealer.closed or dealer in self.connections or dealer.target is None:
            return
        router = self.listening.get(dealer.target)
        if router is None:
            dealer.tell_monitor(zmq.EVENT_CONNECT_RETRIED)
            self.world.later(RECONNECT_MS, lambda: self.connect(dealer))
            return
        connection = self.connections[dealer] = Connection(self, dealer, router, b"%d" % next(self.peers))
        router.peers[connection.peer] = connection
        waiting, dealer.outbox = dealer.outbox, []
        for frames in waiting:
            connection.send(router, [connection.peer, *frames])

    def break_connection(self, dealer: FakeSocket, delivers: bool = False) -> None:
        """The connection is gone; what was under way arrives only if it `delivers`."""
        connection = self.connections.pop(dealer, None)
        if connection is None:
            return
        connection.open, connection.delivers = False, delivers
        connection.router.peers.pop(connection.peer, None)
        if not dealer.closed:
            dealer.tell_monitor(zmq.EVENT_DISCONNECTED)
            self.world.later(RECONNECT_MS, lambda: self.connect(dealer))


@dataclass(slots=True, eq=False)
class Connection:
    """The way between a dealer and a router, both directions in order."""

    network: Network
    dealer: FakeSocket
    router: FakeSocket
    peer: bytes
    open: bool = True
    delivers: bool = False
    stalled_until_ms: int = 0
    _free_ms: dict[FakeSocket, int] = field(default_factory=dict)

    def send(self, target: FakeSocket, frames: list[Any]) -> None:
        """The message arrives at `target`, behind those before it, if the connection lasts so long."""
        world = self.network.world
        arrives_ms = max(world.now_ms + self.network.delay_ms(), self._free_ms.get(target, 0), self.stalled_until_ms)
        self._free_ms[target] = arrives_ms

        def arrive() -> None:
            if (self.open or self.delivers) and not target.closed:
                target.arrived(frames)

        world.later(arrives_ms - world.now_ms, arrive)

    def stall(self, for_ms: int) -> None:
        """Nothing gets through for a while; when that is too long, both ends notice and give the connection up."""
        world, now_ms = self.network.world, self.network.world.now_ms
        self.stalled_until_ms = now_ms + for_ms
        if for_ms >= HEARTBEAT_TIMEOUT_MS:
            world.later(HEARTBEAT_TIMEOUT_MS, self._give_up)

    def _give_up(self) -> None:
        if self.open:
            self.network.break_connection(self.dealer)


@dataclass(frozen=True, slots=True)
class FakeFrame:
    """A part of a message; `more`: another one follows."""

    buffer: memoryview
    more: bool

    @property
    def bytes(self) -> bytes:
        return self.buffer.tobytes()


class FakeSocket:
    """What the system uses of a `zmq.Socket`. `wake` is called when there is something to read."""

    def __init__(self, network: Network, kind: int, wake: Callable[[], None]) -> None:
        self._network = network
        self._kind = kind
        self._wake = wake
        self.closed = False
        self.inbox: deque[list[Any]] = deque()
        self.outbox: list[list[Any]] = []
        self._parts: deque[Any] = deque()
        """What is left of the message that is being read part by part."""
        self.peers: dict[bytes, Connection] = {}
        self.target: Endpoint | None = None
        self._monitor: FakeSocket | None = None
        self._monitored = 0

    def setsockopt(self, option: int, value: object) -> None:
        """Bounds and timing are the network's."""

    def getsockopt(self, option: int) -> int:
        if option == zmq.MAXMSGSIZE:
            return -1
        return zmq.POLLIN if self.inbox else 0

    def poll(self, timeout: int = 0) -> int:
        return zmq.POLLIN if self.inbox else 0

    def get_monitor_socket(self, events: int) -> FakeSocket:
        self._monitor, self._monitored = FakeSocket(self._network, zmq.PAIR, self._wake), events
        return self._monitor

    def disable_monitor(self) -> None:
        self._monitored = 0

    def tell_monitor(self, event: int) -> None:
        """The owner learns of what became of the connection, if it wants to."""
        if self._monitor is not None and event & self._monitored:
            self._monitor.arrived([struct.pack("=hi", event, 0), b""])

    def bind(self, address: str) -> None:
        endpoint = _endpoint(address)
        if endpoint in self._network.listening:
            raise zmq.ZMQError(zmq.EADDRINUSE)
        self.target = endpoint
        self._network.listening[endpoint] = self

    def connect(self, address: str) -> None:
        self.target = _endpoint(address)
        self._network.connect(self)

    def send_multipart(self, frames: list[Any], flags: int = 0, copy: bool = True) -> None:
        if self._kind == zmq.ROUTER:
            connection = self.peers.get(frames[0])
            if connection is not None:
                connection.send(connection.dealer, frames[1:])
            return
        connection = self._network.connections.get(self)
        if connection is None:
            self.outbox.append(frames)
        else:
            connection.send(connection.router, [connection.peer, *frames])

    def recv_multipart(self, flags: int = 0) -> list[Any]:
        if not self.inbox:
            raise zmq.Again
        return self.inbox.popleft()

    def recv(self, flags: int = 0, *, copy: bool = True) -> FakeFrame:
        if not self._parts:
            self._parts.extend(self.recv_multipart(flags))
        part = memoryview(self._parts.popleft())
        return FakeFrame(part, more=bool(self._parts))

    def arrived(self, frames: list[Any]) -> None:
        """A message can be read."""
        self.inbox.append(frames)
        self._wake()

    def close(self, linger: int | None = None) -> None:
        """What was sent still arrives, as far as the other end lives."""
        if self.closed:
            return
        self.closed = True
        if self._kind == zmq.ROUTER:
            if self.target is not None:
                self._network.listening.pop(self.target, None)
            for connection in list(self.peers.values()):
                self._network.break_connection(connection.dealer, delivers=True)
        elif self._kind == zmq.DEALER:
            self._network.break_connection(self, delivers=True)


class FakeContext:
    """The sockets of one process."""

    def __init__(self, network: Network, wake: Callable[[], None]) -> None:
        self._network = network
        self._wake = wake
        self._sockets: list[FakeSocket] = []

    def socket(self, kind: int) -> FakeSocket:
        made = FakeSocket(self._network, kind, self._wake)
        self._sockets.append(made)
        return made

    def dealers(self) -> list[FakeSocket]:
        """Those that are connected now."""
        return [one for one in self._sockets if one in self._network.connections]

    def kill(self) -> None:
        """The process is gone: so are its connections."""
        for socket in self._sockets:
            socket.close()


def _endpoint(address: str) -> Endpoint:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return Endpoint(host, int(port))
