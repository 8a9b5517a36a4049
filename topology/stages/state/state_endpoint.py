"""Transfer of the state of component instances from one topology to its successor.

An endpoint serves it, and the new topology fetches it there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

import msgspec
import zmq

from cep_common.errors import DecodeError, PeerError, RequestRejectedError
from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.codec import MAXIMUM_DATA_BYTES, decode, encode
from cep_common.protocol.registry import Message, Rejected
from cep_common.protocol.tasks import FetchState, StateFetched
from cep_common.security.roles import SocketKind
from cep_common.sockets.transport import bind_in_range, connecting_socket, listening_socket, receive, send_now
from topology.stages.contract import Parts

logger = logging.getLogger(__name__)

PIECE_BYTES = 32 * 1024 * 1024
FETCH_TIMEOUT_MS = 20_000
LOOK_MS = 50
"""How often the thread checks whether to close."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(dict[str, bytes])


class StateEndpoint(threading.Thread):
    """Serves `states`, by instance, of the plan's topology of `epoch` until `close`."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        host: str,
        ports: tuple[int, int],
        key: PlanKey,
        epoch: int,
        states: Mapping[str, Parts],
    ) -> None:
        """Open the endpoint. Raise PortInUseError when no port is free."""
        super().__init__(name="state endpoint", daemon=True)
        self._key = key
        self._epoch = epoch
        self._states = states
        self._socket = listening_socket(context, SocketKind.STATE, host, MAXIMUM_DATA_BYTES)
        try:
            self.endpoint = Endpoint(host, bind_in_range(self._socket, host, ports))
        except BaseException:
            self._socket.close()
            raise
        self._closing = threading.Event()

    def close(self) -> None:
        """Stop serving state."""
        self._closing.set()
        self.join()

    def run(self) -> None:
        while not self._closing.is_set():
            if self._socket.poll(LOOK_MS):
                self._answer(receive(self._socket))
        self._socket.close()

    def _answer(self, frames: list[bytes]) -> None:
        peer, *request = frames
        try:
            envelope = decode(request)
        except DecodeError as error:
            self._socket.send_multipart([peer, *encode(Rejected(error.code, str(error)))])
            return
        answer: Message = Rejected("no-state", f"{self._key.topology()} of epoch {self._epoch} has no such state here")
        pieces: list[memoryview] = []
        match envelope.message:
            case FetchState(self._key, self._epoch, instance) if instance in self._states:
                answer, state = StateFetched(instance), memoryview(_ENCODER.encode(self._states[instance]))
                pieces = [state[start : start + PIECE_BYTES] for start in range(0, len(state), PIECE_BYTES)]
        self._socket.send_multipart([peer, *encode(answer, envelope.correlation, pieces)], copy=False)


def fetch_state(
    context: zmq.Context[zmq.Socket[bytes]],
    endpoint: Endpoint,
    key: PlanKey,
    epoch: int,
    instance: str,
) -> Parts:
    """Fetch the state of `instance` from `endpoint`.

    Raises PeerError when it does not answer in time, RequestRejectedError when it has no such state, DecodeError when
    the answer is invalid.
    """
    socket = connecting_socket(context, SocketKind.STATE, MAXIMUM_DATA_BYTES)
    try:
        socket.connect(endpoint.url())
        send_now(socket, encode(FetchState(key, epoch, instance)))
        if not socket.poll(FETCH_TIMEOUT_MS):
            raise PeerError(
                f"the state of {instance} did not arrive from {endpoint.url()} within {FETCH_TIMEOUT_MS} ms"
            )
        envelope = decode(socket.recv_multipart())
    finally:
        socket.close()
    match envelope.message:
        case StateFetched():
            return _decoded(b"".join(envelope.bodies))
        case Rejected(code=code, reason=reason):
            raise RequestRejectedError(code, reason)
        case message:
            raise RequestRejectedError("unexpected-message", f"{endpoint.url()} answered with {message.TYPE}")


def _decoded(state: bytes) -> Parts:
    try:
        return _DECODER.decode(state)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"a state that cannot be read: {error}") from error
