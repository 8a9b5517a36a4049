"""ZeroMQ sockets of the control plane: a client that finds the leading manager, and the server.

Sockets belong to the thread that created them. Their message sizes and queues are bounded, and they close with linger
0.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import math
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

import zmq

from cep_common.errors import DecodeError, PeerError, PortInUseError, RequestRejectedError, UnauthorisedError
from cep_common.ids import Endpoint
from cep_common.monitoring.paced_log import PacedLog
from cep_common.protocol.codec import MAXIMUM_CONTROL_BYTES, Envelope, decode, encode
from cep_common.protocol.drivers import DriverRegistered
from cep_common.protocol.registry import Message, Rejected, WorkerRegistered
from cep_common.protocol.tasks import TaskRegistered, TasksRefreshed
from cep_common.security.context import about_silence, guard_connecting, guard_listening
from cep_common.security.roles import Role, SocketKind, may_send
from cep_common.sockets.shared_socket import SharedSocket

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

MOST_FRAMES = 4_096
MOST_BYTES_IN_ALL = 4
"""The maximum number of frames of a message, and of its bytes as a multiple of the maximum of one frame."""


HEARTBEAT_MS = 2_000
"""The interval of ZMTP heartbeats."""


def listening_socket(
    context: zmq.Context[zmq.Socket[bytes]],
    kind: SocketKind,
    host: str,
    maximum_bytes: int,
    high_water_mark: int = 1000,
    heartbeat_ms: int = HEARTBEAT_MS,
) -> zmq.Socket[bytes]:
    """Return a ROUTER of this kind, to be bound to `host`: bounded, and with CURVE when the context has keys.

    It sends a ZMTP heartbeat to each peer every `heartbeat_ms`.

    Raises:
        ConfigError: When it has none and `host` is beyond loopback.
    """
    socket = context.socket(zmq.ROUTER)
    try:
        _configure(socket, maximum_bytes, high_water_mark, heartbeat_ms)
        guard_listening(socket, context, kind, host)
    except BaseException:
        socket.close()
        raise
    return socket


def connecting_socket(
    context: zmq.Context[zmq.Socket[bytes]],
    kind: SocketKind,
    maximum_bytes: int,
    high_water_mark: int = 1000,
    heartbeat_ms: int = HEARTBEAT_MS,
) -> zmq.Socket[bytes]:
    """Return a DEALER, to be connected to such a socket: bounded, and with CURVE when the context has keys.

    It sends a ZMTP heartbeat every `heartbeat_ms`.

    Raises:
        ConfigError: When these do not hold the public key of the socket's owner.
    """
    socket = context.socket(zmq.DEALER)
    try:
        _configure(socket, maximum_bytes, high_water_mark, heartbeat_ms)
        guard_connecting(socket, context, kind)
    except BaseException:
        socket.close()
        raise
    return socket


def _configure(socket: zmq.Socket[bytes], maximum_bytes: int, high_water_mark: int, heartbeat_ms: int) -> None:
    """Limit message size and queue lengths, close without lingering, and detect dead peers by ZMTP heartbeats."""
    socket.setsockopt(zmq.MAXMSGSIZE, maximum_bytes)
    socket.setsockopt(zmq.SNDHWM, high_water_mark)
    socket.setsockopt(zmq.RCVHWM, high_water_mark)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.HANDSHAKE_IVL, 10_000)  # disconnect peers that connect and send nothing
    socket.setsockopt(zmq.HEARTBEAT_IVL, heartbeat_ms)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 6_000)


def readable(socket: zmq.Socket[bytes] | SharedSocket) -> bool:
    """Return whether a message can be received without waiting."""
    if isinstance(socket, SharedSocket):
        return socket.has_input
    return bool(int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)


def receive_now(socket: zmq.Socket[bytes] | SharedSocket) -> list[bytes] | None:
    """Return the next message, or None if there is none."""
    if isinstance(socket, SharedSocket):
        return socket.next_message()
    try:
        return [bytes(frame.buffer) for frame in receive_frames(socket, zmq.NOBLOCK)]
    except zmq.Again:
        return None


def receive(socket: zmq.Socket[bytes]) -> list[bytes]:
    """Return the next message of a listening socket.

    Of a message with too many frames or bytes only the first frame is returned, so that it is refused as invalid.
    """
    return [bytes(frame.buffer) for frame in receive_frames(socket)]


def receive_from(socket: zmq.Socket[bytes]) -> tuple[str, list[bytes]] | None:
    """Return the sender of the next message of a listening socket, and the message; None if there is none.

    The sender is identified by its key (`Keyring.user_of`); empty without keys.
    """
    try:
        frames = receive_frames(socket, zmq.NOBLOCK)
    except zmq.Again:
        return None
    user = ""
    if socket.getsockopt(zmq.CURVE_SERVER):
        # a key that is revoked while its holder connects leaves a connection without a user
        with contextlib.suppress(zmq.ZMQError):
            user = str(frames[0].get("User-Id"))
    return user, [bytes(frame.buffer) for frame in frames]


def receive_frames(socket: zmq.Socket[bytes], flags: int = 0) -> list[zmq.Frame]:
    """Receive as `receive` does, without copying.

    ZeroMQ limits the size of each frame, but not the number of frames.
    """
    most_bytes = MOST_BYTES_IN_ALL * int(socket.getsockopt(zmq.MAXMSGSIZE))
    frames = [socket.recv(flags, copy=False)]
    size = 0
    beyond = False
    while frames[-1].more:
        frame = socket.recv(copy=False)
        size += len(frame.buffer)
        beyond |= len(frames) >= MOST_FRAMES or (most_bytes > 0 and size > most_bytes)
        if beyond:
            frames[1:] = [frame]
        else:
            frames.append(frame)
    if beyond:
        paced_logger.problem("frames", "a message with too many frames was dropped: bytes=%d", size)
        return frames[:1]
    return frames


def send_now(socket: zmq.Socket[bytes] | SharedSocket, frames: Sequence[Any], copy: bool = True) -> bool:
    """Send the message, and return whether it was queued.

    ZeroMQ does not reconnect after the peer refused the handshake, so a blocking send would never return.
    """
    try:
        socket.send_multipart(frames, flags=zmq.NOBLOCK, copy=copy)
    except zmq.Again:
        return False
    return True


def bind_in_range(socket: zmq.Socket[bytes], host: str, ports: tuple[int, int]) -> int:
    """Bind the socket to one of `ports` (first, last; both included), and return the port.

    The search starts at a random port, so that processes of one host do not all try the same ports.
    """
    first, last = ports
    count = last - first + 1
    start = random.randrange(count)  # noqa: S311 - spreads the search, nothing secret
    for step in range(count):
        port = first + (start + step) % count
        try:
            socket.bind(f"tcp://{host}:{port}")
        except zmq.ZMQError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise PortInUseError(f"cannot listen on {host}:{port}: {error}") from error
        else:
            return port
    raise PortInUseError(f"no free port on {host} in {first}-{last}; widen the range in the configuration")


def bind(socket: zmq.Socket[bytes], host: str, port: int, purpose: str) -> None:
    """Listen on exactly `host:port`. Raise PortInUseError, with the `purpose`, when it is in use."""
    try:
        socket.bind(f"tcp://{host}:{port}")
    except zmq.ZMQError as error:
        raise PortInUseError(f"cannot listen on {host}:{port} for {purpose}: {error.strerror}") from error


NOT_LEADER = "not-leader"
"""The refusal of a manager that does not lead."""
NO_LEADER_KNOWN = "no manager leads at the moment; try again"
"""The reason of the refusal if no manager leads and none gives a reason."""

PUSHED_AT_ONCE = 256
"""The maximum number of pushed messages that are returned at once: a manager may submit a thousand plans."""

QUICK_TRY_MS, PATIENT_EACH = 250, 4
"""The time-out of a manager that did not answer recently, if there are others. Every fourth time it gets the full
time-out, since it may lead and be slow."""


class ControlClient:
    """Sends requests to the leader: when a manager does not answer in time or does not lead, the next one is tried.

    Belongs to one thread. `pushed` returns messages that the peer sends without a request.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        managers: Sequence[Endpoint],
        timeout_ms: int,
        kind: SocketKind = SocketKind.CONTROL,
    ) -> None:
        """Create a client; it connects with the first request.

        Args:
            context: Makes the sockets.
            managers: The managers to ask, in order, until one leads.
            timeout_ms: How long a request may take, in ms.
            kind: The kind of connection, which decides security and limits.

        Raises:
            ValueError: There are no managers.
        """
        if not managers:
            raise ValueError("a control client needs at least one manager")
        self._context = context
        self._kind = kind
        self._configured = tuple(managers)
        self._managers = tuple(dict.fromkeys(managers))
        self._timeout_ms = timeout_ms
        self._manager = self._managers[0]
        self._silences: dict[Endpoint, int] = {}
        self._correlations = (number.to_bytes(8, "big") for number in itertools.count(1))
        self._socket: zmq.Socket[bytes] | None = None
        self._pushed: list[Message] = []

    def manager(self) -> Endpoint:
        """Return the manager that the next request goes to."""
        return self._manager

    def managers(self) -> tuple[Endpoint, ...]:
        """Return all known managers: the configured ones, and those that the leader named."""
        return self._managers

    def request(self, message: Message) -> Message:
        """Return the leader's answer to `message`.

        Raises:
            RequestRejectedError: On a refusal.
            PeerError: When no manager answers or none leads.
        """
        asked: list[Endpoint] = []
        standing_by: list[Endpoint] = []
        causes: dict[str, None] = {}
        following: Endpoint | None = self._manager
        while following is not None:
            self._turn_to(following)
            asked.append(following)
            answer = self._ask(message)
            named = None
            if answer is None:
                self._silences[following] = self._silences.get(following, 0) + 1
                self.close()
            elif isinstance(answer, Rejected) and answer.code == NOT_LEADER:
                self._silences.pop(following, None)
                standing_by.append(following)
                named = answer.leader
                if named is None and answer.reason != NO_LEADER_KNOWN:
                    causes[answer.reason] = None
            else:
                self._silences.pop(following, None)
                return self._accepted(answer)
            following = self._next(asked, named)
        # a manager that answered may become the leader, one that did not costs a time-out
        self._turn_to(standing_by[-1] if standing_by else self._after(self._manager))
        names = ", ".join(f"{manager.host}:{manager.port}" for manager in asked)
        if standing_by:
            raise PeerError("; ".join([f"no manager leads at the moment, of {names}", *causes]))
        hint = about_silence(self._context)
        raise PeerError(f"no manager answers at {names} (waited {self._timeout_ms} ms each); {hint}")

    def leave(self) -> None:
        """Try the present manager after all others next time."""
        self._turn_to(self._after(self._manager))

    def pushed(self, timeout_ms: int, *also: zmq.Socket[bytes] | int) -> Iterator[Message]:
        """Return messages that were sent without a request; wait up to `timeout_ms` for the first.

        Input on the sockets or file descriptors in `also` ends the wait, too.
        """
        socket = self._connected()
        if not self._pushed:
            poller = zmq.Poller()
            for source in (socket, *also):
                poller.register(source, zmq.POLLIN)
            poller.poll(timeout_ms)
        for _ in range(PUSHED_AT_ONCE):
            if not socket.poll(0):
                break
            self._receive(socket, b"")
        while self._pushed:
            yield self._pushed.pop(0)

    def close(self) -> None:
        """Close the socket; the client may be used again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> zmq.Socket[bytes]:
        if self._socket is None:
            self._socket = connecting_socket(self._context, self._kind, MAXIMUM_CONTROL_BYTES)
            self._socket.connect(self._manager.url())
        return self._socket

    def _ask(self, message: Message) -> Message | None:
        socket = self._connected()
        correlation = next(self._correlations)
        try:
            socket.send_multipart(encode(message, correlation), flags=zmq.NOBLOCK)
        except zmq.Again:
            return None
        quick = len(self._managers) > 1 and self._silences.get(self._manager, 0) % PATIENT_EACH != 0
        timeout_ms = min(self._timeout_ms, QUICK_TRY_MS) if quick else self._timeout_ms
        deadline = time.monotonic() + timeout_ms / 1000
        while (left_s := deadline - time.monotonic()) > 0:
            if socket.poll(math.ceil(left_s * 1000)):
                answer = self._receive(socket, correlation)
                if answer is not None:
                    return answer
        return None

    def _receive(self, socket: zmq.Socket[bytes], correlation: bytes) -> Message | None:
        """Return the answer with `correlation` if it is the next message.

        Pushed messages are kept, late answers are dropped.
        """
        try:
            envelope = decode(socket.recv_multipart())
        except DecodeError:
            return None
        if envelope.correlation == correlation and correlation:
            return envelope.message
        if not envelope.correlation:
            self._pushed.append(envelope.message)
        return None

    def _accepted(self, answer: Message) -> Message:
        """Return the leader's answer, and store the managers that it names."""
        if isinstance(answer, Rejected):
            raise RequestRejectedError(answer.code, answer.reason)
        if (
            isinstance(answer, WorkerRegistered | DriverRegistered | TaskRegistered | TasksRefreshed)
            and answer.managers
        ):
            self._managers = tuple(dict.fromkeys((*answer.managers, *self._configured)))
        return answer

    def _next(self, asked: Sequence[Endpoint], named: Endpoint | None) -> Endpoint | None:
        """Return the manager to try next: the one that was named as the leader, else one that answered before."""
        left = [manager for manager in self._managers if manager not in asked]
        if named is not None and named not in asked:
            return named
        return min(left, key=lambda manager: manager in self._silences, default=None)

    def _after(self, manager: Endpoint) -> Endpoint:
        place = self._managers.index(manager) if manager in self._managers else -1
        return self._managers[(place + 1) % len(self._managers)]

    def _turn_to(self, manager: Endpoint) -> None:
        if manager != self._manager:
            self.close()
            self._manager = manager


class ControlServer:
    """The server of the control plane.

    It returns (peer, envelope) pairs, and answers or pushes to a peer by its routing id. From a peer with a known key
    it accepts only messages that the key's role may send.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], host: str, port: int, kind: SocketKind = SocketKind.CONTROL
    ) -> None:
        """Bind the socket.

        Args:
            context: Makes the socket.
            host: The address to listen on.
            port: The port to listen on.
            kind: The kind of connection, which decides security and limits.

        Raises:
            PortInUseError: Another process listens there.
        """
        self._kind = kind
        self.socket = listening_socket(context, kind, host, MAXIMUM_CONTROL_BYTES)
        self.socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        try:
            bind(self.socket, host, port, kind.value)
        except PortInUseError:
            self.socket.close()
            raise

    def receive(self) -> tuple[bytes, Envelope]:
        """Return the next message.

        The peer of an invalid message is answered with `rejected`.

        Raises:
            DecodeError: The frames are not a message.
            UnauthorisedError: The peer's role may not send the message.
        """
        received = receive_frames(self.socket)
        peer, *frames = (frame.bytes for frame in received)
        correlation = b""
        try:
            envelope = decode(frames)
            correlation = envelope.correlation
            if self._kind is SocketKind.CONTROL and self.socket.getsockopt(zmq.CURVE_SERVER):
                _authorise(Role(str(received[0].get("User-Id"))), envelope.message)
        except (DecodeError, UnauthorisedError) as error:
            self.send(peer, Rejected(code=error.code, reason=str(error)), correlation)
            raise
        return peer, envelope

    def send(self, peer: bytes, message: Message, correlation: bytes = b"") -> None:
        """Send `message`, or drop it when the peer is gone."""
        self.socket.send_multipart([peer, *encode(message, correlation)])

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


def _authorise(role: Role, message: Message) -> None:
    if not may_send(role, message):
        raise UnauthorisedError(f"a {role.value} may not send {message.TYPE}; its key is one of a {role.value}")
