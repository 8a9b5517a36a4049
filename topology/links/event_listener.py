"""A client that takes events from a worker's egress (see `cep_worker/outflows/egress.py`).

It belongs to one thread and owns its sockets. Waiting is polling: nothing sleeps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import pyarrow as pa
import zmq
from zmq.utils.monitor import recv_monitor_message

from cep_common.errors import PeerError
from cep_common.ids import SUPER_TENANT, Endpoint
from cep_common.protocol.codec import MAXIMUM_DATA_BYTES, decode, encode
from cep_common.protocol.links import Acknowledge, BeatLink, CloseLink, Data, StreamSchema, Subscribe, Subscribed
from cep_common.protocol.registry import Rejected
from cep_common.security.config import SecurityConfig
from cep_common.security.context import about_silence, open_context
from cep_common.security.roles import Role, SocketKind
from cep_common.sockets.transport import connecting_socket, readable, receive_now, send_now
from topology.events.frames import arrow_schema, decode_batch
from topology.links.refusals import refusal_error
from topology.links.server import ACKNOWLEDGE_WITHIN_MS

STEP_MS = 100
"""How often a waiting call checks the link's health."""

NO_KEYS = SecurityConfig()
"""The settings of a client of a worker without keys."""


class EventListener:
    """A subscription to an exported event stream.

    It belongs to the thread that created it; there is no background thread. The worker keeps only a limited number of
    events for a slow listener and then ends the subscription.

    Attributes:
        schema: The stream's schema.
        arrow_schema: The schema of the batches: `_timestamp` (int64 ms), `_kind` (int8), then the attributes in order.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        event_stream: str,
        tenant: int = SUPER_TENANT,
        timeout_ms: int = 5_000,
        security: SecurityConfig = NO_KEYS,
        role: Role = Role.CLIENT,
    ) -> None:
        """Subscribe and wait for the worker's answer.

        Args:
            endpoint: The worker's egress.
            event_stream: Name of the event stream.
            tenant: Owner of the stream.
            timeout_ms: How long to wait for the answer, in ms.
            security: The keys, which a worker with keys requires.
            role: The role for which the keys were made.

        Raises:
            InputError: the worker refuses the subscription.
            PeerError: no worker answers within `timeout_ms`.
        """
        self._where = f"{endpoint.host}:{endpoint.port}"
        self._context = open_context(security, role)
        self._socket = connecting_socket(self._context, SocketKind.EGRESS, MAXIMUM_DATA_BYTES, high_water_mark=0)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)
        self._socket.connect(endpoint.url())
        self._unacknowledged: int | None = None
        self._acknowledged_ms = 0
        try:
            self.schema = self._subscribe(Subscribe(event_stream, tenant), timeout_ms)
        except BaseException:
            self.close()
            raise
        self.arrow_schema = arrow_schema(self.schema)

    def receive(self, timeout_ms: int | None = None) -> pa.RecordBatch | None:
        """Return the next batch, and acknowledge the one before it.

        Args:
            timeout_ms: How long to wait; None waits until a batch arrives.

        Returns:
            The batch, or None if none came in time.

        Raises:
            InputError: the worker ended the subscription, for instance since this listener is too slow.
            PeerError: the worker is gone or shuts down; subscribe again.
        """
        now_ms = _now_ms()
        worked_off = self._unacknowledged
        if now_ms - self._acknowledged_ms >= ACKNOWLEDGE_WITHIN_MS:
            self.acknowledge()
        deadline_ms = None if timeout_ms is None else now_ms + timeout_ms
        while True:
            while (frames := receive_now(self._socket)) is not None:
                batch = self._take(frames)
                if batch is not None:
                    return batch
            self._notice_loss()
            left_ms = STEP_MS if deadline_ms is None else min(STEP_MS, deadline_ms - _now_ms())
            if left_ms <= 0:
                self.acknowledge()
                return None
            waits = worked_off is not None and worked_off == self._unacknowledged
            if not self._poller.poll(min(left_ms, ACKNOWLEDGE_WITHIN_MS) if waits else left_ms) and waits:
                self.acknowledge()

    def batches(self, timeout_ms: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield batches as they arrive, until none has arrived for `timeout_ms` (None: forever). Raises as `receive`.

        Args:
            timeout_ms: How long to wait for the next batch, in ms; None waits forever.
        """
        while (batch := self.receive(timeout_ms)) is not None:
            yield batch

    def acknowledge(self) -> None:
        """Acknowledge the last batch, so that the worker may send more. `receive` does this, too."""
        if self._unacknowledged is not None:
            if send_now(self._socket, encode(Acknowledge(sequence=self._unacknowledged))):
                self._unacknowledged = None
            self._acknowledged_ms = _now_ms()

    def close(self) -> None:
        """End the subscription; repeated calls do nothing."""
        if not self._socket.closed:
            send_now(self._socket, encode(CloseLink()))
            self._socket.disable_monitor()
            self._monitor.close(linger=0)
        self._context.destroy(linger=200)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _subscribe(self, wanted: Subscribe, timeout_ms: int) -> StreamSchema:
        send_now(self._socket, encode(wanted))
        if not self._socket.poll(timeout_ms):
            hint = about_silence(self._context)
            raise PeerError(f"no worker answers at {self._where} (waited {timeout_ms} ms); {hint}")
        answer = decode(self._socket.recv_multipart()).message
        if isinstance(answer, Rejected):
            raise refusal_error(answer, self._where)
        if not isinstance(answer, Subscribed):
            raise PeerError(f"the process at {self._where} is not a worker's egress: it responded with {answer.TYPE}")
        return answer.schema

    def _take(self, frames: list[bytes]) -> pa.RecordBatch | None:
        envelope = decode(frames)
        match envelope.message:
            case Data(sequence=sequence, rows=rows):
                self._unacknowledged = sequence
                return decode_batch(envelope.bodies[0], self.arrow_schema, rows)
            case Rejected() as refusal:
                raise refusal_error(refusal, self._where)
            case BeatLink():
                return None
            case message:
                raise PeerError(f"the worker at {self._where} sent an unexpected {message.TYPE}")

    def _notice_loss(self) -> None:
        while readable(self._monitor):
            recv_monitor_message(self._monitor)
            raise PeerError(f"the connection to the worker at {self._where} was lost; subscribe again")


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
