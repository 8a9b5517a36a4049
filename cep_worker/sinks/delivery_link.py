"""Deliver batches over a link, which is reconnected when it breaks."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import zmq

from cep_common.ids import Endpoint
from cep_common.monitoring.paced_log import PacedLog
from cep_common.protocol.links import Data, OpenLink
from cep_common.security.roles import SocketKind
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.runtime.event_loop import EventLoop
from topology.events.frames import concatenate, encode_batch
from topology.events.watermarks import NO_WATERMARK
from topology.links.sender import LinkSender, LinkState

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

RECONNECT_MS = 1_000
BATCH_ROWS = 4_096
"""The rows up to which small waiting batches without positions are joined."""


@dataclass(frozen=True, slots=True)
class _WaitingDelivery:
    """A batch, or several that were joined and encoded, at `position` of the log."""

    batch: pa.RecordBatch
    body: Any
    receipts: tuple[DeliveryReceipt, ...]
    position: int


class DeliveryLink:
    """Sends batches of one stream to `endpoint`, in order, and keeps reconnecting.

    Unacknowledged frames are sent again. With a log (`opening.log`) batches have positions, and servers report which of
    them they have. Belongs to the data thread. `room` is called when batches were delivered.
    """

    def __init__(
        self,
        event_loop: EventLoop,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: Endpoint,
        opening: OpenLink,
        room: Callable[[], None],
        refuse: Callable[[], str] = str,
    ) -> None:
        """Create the link; before each connection `refuse` returns why it is forbidden (empty: it is not)."""
        self._refuse = refuse
        self._event_loop = event_loop
        self._context = context
        self._endpoint = endpoint
        self._opening = opening
        self._room = room
        self._link: LinkSender | None = None
        self._tried_ms: int | None = None
        self._waiting: deque[_WaitingDelivery] = deque()
        self._sent: deque[tuple[int, _WaitingDelivery]] = deque()
        self._reported_open = False
        self.rows = 0
        """The number of rows that were offered and are not delivered."""
        self.delivered_rows = 0
        self.last_error = ""

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, position: int = 0) -> None:
        """Queue `batch`; `receipt` is settled when the server has acknowledged it."""
        self.rows += batch.num_rows
        self._waiting.append(_WaitingDelivery(batch, body, (receipt,), position))
        self._event_loop.defer(self._pump)

    def tick(self, now_ms: int) -> None:
        """Send due heartbeats, and connect if there is no link."""
        link = self._link
        if link is not None:
            link.tick(now_ms)
            self._look(link)
        elif self._tried_ms is None or now_ms - self._tried_ms >= RECONNECT_MS:
            self._tried_ms = now_ms
            if reason := self._refuse():
                self.last_error = reason
                paced_logger.problem(self._endpoint.url(), "sink is not connected: reason=%s", reason)
                return
            self._link = link = LinkSender(self._context, SocketKind.INGRESS, self._endpoint, self._opening, now_ms)
            for socket in link.sockets:
                self._event_loop.watch(socket, self._handle)

    def close(self, pass_on: Callable[[pa.RecordBatch, Any, DeliveryReceipt, bool], None]) -> None:
        """Close the link.

        `pass_on` is called with each undelivered batch, its body, its receipt, and whether it has a position.
        """
        self._leave()
        while self._waiting:
            waiting = self._waiting.popleft()
            self.rows -= waiting.batch.num_rows
            receipt = waiting.receipts[0]
            if len(waiting.receipts) > 1:
                receipt = DeliveryReceipt(1, partial(_settle_all, waiting.receipts))
            pass_on(waiting.batch, waiting.body, receipt, bool(waiting.position))
        self._room()

    def _handle(self, now_ms: int) -> None:
        link = self._link
        if link is None:
            return
        link.handle()
        self._look(link)
        self._event_loop.defer(self._pump)

    def _look(self, link: LinkSender) -> None:
        """Settle acknowledged frames, handle refusals, and leave a broken link."""
        if link.state is LinkState.OPEN and not self._reported_open:
            self._reported_open = True
            self.last_error = ""
            logger.info("sink is connected: stream=%s peer=%s", self._opening.streams[0].stream, self._endpoint.url())
            self._settle([self._waiting.popleft() for _ in range(self._known(link.position))])
        self._settle([self._sent.popleft()[1] for _ in range(self._taken_over(link))])
        for refusal in link.refusals:
            self.last_error = f"{self._endpoint.host}:{self._endpoint.port}: {refusal.code}: {refusal.reason}"
            paced_logger.problem(self._endpoint.url(), "sink is refused: stream=%s peer=%s code=%s reason=%s",
                          self._opening.streams[0].stream, self._endpoint.url(), refusal.code, refusal.reason,
                          level=logging.ERROR)  # fmt: skip
        link.refusals.clear()
        if link.state.has_failed:
            self._leave()

    def _pump(self, now_ms: int) -> None:
        """Send waiting batches while the server has room."""
        link = self._link
        while link is not None and self._waiting and link.has_room():
            waiting = self._next()
            stream = self._opening.streams[0].stream
            sequence = link.outbox.next_sequence
            message = Data(stream, sequence, waiting.batch.num_rows, NO_WATERMARK, position=waiting.position)
            link.send_frame(message, sequence, waiting.batch.num_rows, (waiting.body,))
            self._sent.append((sequence, waiting))

    def _next(self) -> _WaitingDelivery:
        """Return the next frame: small batches without positions are joined."""
        first = self._waiting.popleft()
        joined, rows = [first], first.batch.num_rows
        while (
            not first.position
            and self._waiting
            and not self._waiting[0].position
            and rows + self._waiting[0].batch.num_rows <= BATCH_ROWS
        ):
            joined.append(self._waiting.popleft())
            rows += joined[-1].batch.num_rows
        if len(joined) == 1 and first.body is not None:
            return first
        batch = concatenate([one.batch for one in joined])
        receipts = tuple(receipt for one in joined for receipt in one.receipts)
        return _WaitingDelivery(batch, encode_batch(batch), receipts, first.position)

    def _known(self, position: int) -> int:
        """Return how many of the oldest waiting batches the server already has."""
        known = 0
        while known < len(self._waiting) and 0 < self._waiting[known].position <= position:
            known += 1
        return known

    def _taken_over(self, link: LinkSender) -> int:
        """Return how many of the oldest frames need not be sent again.

        They are acknowledged, and secured where the server says what it has secured.
        """
        first_open = link.outbox.first_unacknowledged
        taken = 0
        while taken < len(self._sent):
            sequence, waiting = self._sent[taken]
            if sequence >= first_open or (link.secures and waiting.position > link.secured):
                break
            taken += 1
        return taken

    def _settle(self, delivered: list[_WaitingDelivery]) -> None:
        if not delivered:
            return
        rows = sum(waiting.batch.num_rows for waiting in delivered)
        self.rows -= rows
        self.delivered_rows += rows
        for waiting in delivered:
            for receipt in waiting.receipts:
                receipt.settle()
        self._room()

    def _leave(self) -> None:
        """Close the link; undelivered batches will be sent again."""
        link = self._link
        if link is None:
            return
        self._link = None
        self._reported_open = False
        self._waiting.extendleft(waiting for _, waiting in reversed(self._sent))
        self._sent.clear()
        for socket in link.sockets:
            self._event_loop.unwatch(socket)
        link.close()


def _settle_all(receipts: tuple[DeliveryReceipt, ...]) -> None:
    for receipt in receipts:
        receipt.settle()
