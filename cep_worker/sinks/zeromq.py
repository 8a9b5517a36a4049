"""Sink `zeromq`: sends Arrow batches over a link."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.ids import Endpoint, parse_endpoint
from cep_common.protocol.links import OpenLink, StreamSchema
from cep_common.reach.connecting import ReachError, allowed_addresses
from cep_common.reach.guard import Guard
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.sinks.base import EventSink, SinkContext
from cep_worker.sinks.delivery_link import DeliveryLink
from query_plan.connectors.options import read_options
from query_plan.connectors.sinks import ZeromqSinkOptions

logger = logging.getLogger(__name__)


class ZeromqSink:
    """Sends batches over one link for those outside groups, and one for the groups of each log.

    Positions in the log tell the server which batches it has.
    """

    passes_on = True

    def __init__(self, context: SinkContext, options: ZeromqSinkOptions) -> None:
        self._context = context
        self._endpoint = parse_endpoint(options.endpoint.removeprefix("tcp://"))
        guard = None if "endpoint" in context.given else context.guard
        self._allowed = partial(_refuse, guard, self._endpoint)
        self._schema = StreamSchema(options.stream or context.event_stream, context.schema.attributes)
        self._links: dict[str, DeliveryLink] = {}
        self._closed = False
        self._successor: EventSink | None = None
        self.dropped_events = 0
        self._link("")

    def has_room(self) -> bool:
        return self.waiting_events() < self._context.waiting_rows

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None = None) -> None:
        if self._closed:
            self._pass_on(batch, body, receipt, frame is not None)
        elif frame is None:
            self._link("").offer(batch, body, receipt)
        else:
            self._link(frame.group.log).offer(batch, body, receipt, frame.number)

    @property
    def delivered_events(self) -> int:
        """Return the number of events that servers have acknowledged."""
        return sum(link.delivered_rows for link in self._links.values())

    def commit(self, group: GroupId, receipt: DeliveryReceipt) -> None:
        """Settle at once: each frame is independent; its position shows whether it was sent before."""
        receipt.settle()

    def tick(self, now_ms: int) -> None:
        for link in self._links.values():
            link.tick(now_ms)

    def drained(self) -> bool:
        return not any(link.rows for link in self._links.values())

    def waiting_events(self) -> int:
        return sum(link.rows for link in self._links.values())

    def last_error(self) -> str:
        error = next((link.last_error for link in self._links.values() if link.last_error), "")
        return f"{self._context.where()}: {error}" if error else ""

    def close(self, successor: EventSink | None = None) -> None:
        self._closed, self._successor = True, successor
        for link in self._links.values():
            link.close(self._pass_on)

    def leave(self) -> None:
        self._closed = True
        for link in self._links.values():
            link.close(_leave_to_next_process)

    def _pass_on(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, grouped: bool) -> None:
        """Give undelivered batches to the successor, or back to the log that keeps their group."""
        if self._successor is not None and not grouped:
            self._successor.offer(batch, body, receipt)
        elif self._successor is None or not receipt.takes_back:
            self.dropped_events += batch.num_rows
            logger.error("sink dropped events: sink=%s events=%d reason=the sink has ended",
                         self._context.where(), batch.num_rows)  # fmt: skip
            receipt.settle(batch.num_rows)
        else:
            receipt.give_back()

    def _link(self, log: str) -> DeliveryLink:
        link = self._links.get(log)
        if link is None:
            context = self._context
            plan = context.key.identity
            sender = f"{plan}/{context.connector.stream}/{log}" if log else f"{context.worker}/{plan}"
            opening = OpenLink(
                sender=sender, streams=(self._schema,), tenant=context.key.tenant, log=sender if log else ""
            )
            link = DeliveryLink(
                context.event_loop, context.zmq_context, self._endpoint, opening, context.room, self._allowed
            )
            self._links[log] = link
        return link


def _leave_to_next_process(batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, grouped: bool) -> None:
    """Do nothing: what is not settled is sent again."""


def _refuse(guard: Guard | None, endpoint: Endpoint) -> str:
    """Return why the sink may not connect to the present address of `endpoint`; empty if it may."""
    if guard is None:
        return ""
    try:
        allowed_addresses(guard, "tcp", endpoint.host, endpoint.port)
    except ReachError as error:
        return error.message
    except OSError as error:
        return f"unknown host {endpoint.host}: {error.strerror}"
    return ""


def zeromq_sink(context: SinkContext) -> EventSink:
    """Return a sink that sends over ZeroMQ."""
    options = read_options(ZeromqSinkOptions, context.connector.options, context.where())
    if context.connector.mapper not in ("", "passThrough") or context.connector.mapper_options:
        raise ConfigError(f"{context.where()}: events are sent as Arrow batches; remove @map")
    try:
        return ZeromqSink(context, options)
    except ValueError as error:
        raise ConfigError(f"{context.where()}: endpoint: {error}") from error
