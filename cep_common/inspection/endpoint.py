"""The endpoint at which managers ask a process for its log, its configuration and its state."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import zmq

from cep_common.errors import DecodeError, PortInUseError
from cep_common.ids import Endpoint, InspectionAddress
from cep_common.inspection.config import LogConfig
from cep_common.inspection.log_buffer import LogBuffer
from cep_common.protocol.codec import MAXIMUM_CONTROL_BYTES, Envelope, decode, encode
from cep_common.protocol.inspection import ConfigurationRead, QueryRunningState, ReadConfiguration, ReadLog, Setting
from cep_common.protocol.registry import Message, Rejected
from cep_common.security.roles import INSPECTION_SOCKETS, Role
from cep_common.sockets.transport import bind_in_range, listening_socket, receive
from cep_common.sockets.wakeup import Wakeup

logger = logging.getLogger(__name__)

WAITING_ANSWERS = 16
"""The maximum number of waiting requests; further ones get no answer."""


class Inspection(msgspec.Struct, frozen=True):
    """The data for inspection: the newest log records and the settings of the process."""

    ring: LogBuffer
    settings: tuple[Setting, ...] = ()


class InspectionEndpoint(threading.Thread):
    """Answer requests of managers only, until `close`.

    `address` is for the process's registration. A request must name the process's `run`, so that another process that
    got the port later is not mistaken for this one.
    """

    def __init__(
        self,
        context: zmq.Context[Any],
        role: Role,
        host: str,
        config: LogConfig,
        insight: Inspection,
        advertised_host: str = "",
    ) -> None:
        """Listen at `host` and a port of `config`'s range.

        Others connect to `advertised_host` (empty: `host`). Raises PortInUseError.
        """
        super().__init__(name="insight", daemon=True)
        self._insight = insight
        self.answers_queries: Callable[[QueryRunningState], Message] | None = None
        """The handler of queries about the process's state, once it has one; called by the endpoint's thread."""
        self._closing = False
        self._wakeup = Wakeup()
        self._socket = listening_socket(context, INSPECTION_SOCKETS[role], host, MAXIMUM_CONTROL_BYTES, WAITING_ANSWERS)
        try:
            port = bind_in_range(self._socket, host, (config.first_port, config.last_port))
        except BaseException:
            self._socket.close()
            self._wakeup.close()
            raise
        self.address = InspectionAddress(Endpoint(advertised_host or host, port), uuid.uuid4().hex)

    def close(self) -> None:
        """Stop answering requests."""
        self._closing = True
        self._wakeup.ring()
        if self.ident is not None:
            self.join()
        self._socket.close()
        self._wakeup.close()

    def run(self) -> None:
        """Answer requests until the endpoint is closed."""
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._wakeup.handle, zmq.POLLIN)
        try:
            while not self._closing:
                if self._socket in dict(poller.poll()):
                    self._answer(receive(self._socket))
        except zmq.ContextTerminated:
            return

    def _answer(self, frames: list[bytes]) -> None:
        peer, *request = frames
        try:
            envelope = decode(request)
        except DecodeError as error:
            self._socket.send_multipart([peer, *encode(Rejected(error.code, str(error)))])
            return
        self._socket.send_multipart([peer, *self._answered(envelope)])

    def _answered(self, envelope: Envelope) -> list[Any]:
        """Return the frames of the answer. An error in one answer does not end the endpoint."""
        message, run = envelope.message, self.address.run
        try:
            if isinstance(message, QueryRunningState) and message.run == run and self.answers_queries is not None:
                return encode(self.answers_queries(message), envelope.correlation)
            return encode(answer_to(message, run, self._insight), envelope.correlation)
        except Exception as error:
            logger.exception("a manager's request could not be answered: request=%s", message.TYPE)
            reason = f"{type(error).__name__}; see this process's log, and please report it"
            return encode(Rejected("internal", reason), envelope.correlation)


def answer_to(message: Message, run: str, insight: Inspection) -> Message:
    """Return the answer of the process that runs as `run` to `message`."""
    match message:
        case ReadLog() if message.run == run:
            return insight.ring.read(message)
        case ReadConfiguration() if message.run == run:
            return ConfigurationRead(insight.settings)
        case ReadLog() | ReadConfiguration() | QueryRunningState() if message.run != run:
            return Rejected("other-run", "the process that was asked has ended, and another one is here now")
        case _:
            return Rejected("unexpected-message", f"{message.TYPE} is not answered here")


def open_inspection(
    context: zmq.Context[Any],
    role: Role,
    host: str,
    config: LogConfig,
    insight: Inspection | None,
    advertised_host: str = "",
) -> InspectionEndpoint | None:
    """Open an endpoint, or return None.

    None means that the process offers no inspection, or that no port is free, which is logged.
    """
    if insight is None:
        return None
    try:
        endpoint = InspectionEndpoint(context, role, host, config, insight, advertised_host)
    except PortInUseError as error:
        logger.warning("managers cannot read this process's log: reason=%s", error)
        return None
    endpoint.start()
    return endpoint
