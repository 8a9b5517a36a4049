"""Sink `zeromq`: batches sent over a link to a server of links, in Arrow's form."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.ids import parse_endpoint
from cep_common.link_messages import OpenLink, StreamSchema
from cep_worker.consumers import FrameId, GroupId
from cep_worker.options import read_options
from cep_worker.receipts import Receipt
from cep_worker.sinks.base import Sink, SinkContext
from cep_worker.sinks.delivery_link import DeliveryLink


class ZeromqOptions(msgspec.Struct, frozen=True):
    """`endpoint` is `tcp://host:port` of a server of links; `stream` is the stream's name there."""

    endpoint: str
    stream: str = ""


class ZeromqSink:
    """A link for batches that come once, and one for the groups of each log, by whose positions the server knows what
    it has."""

    def __init__(self, context: SinkContext, options: ZeromqOptions) -> None:
        self._context = context
        self._endpoint = parse_endpoint(options.endpoint.removeprefix("tcp://"))
        self._schema = StreamSchema(options.stream or context.event_stream, context.schema.attributes)
        self._links: dict[str, DeliveryLink] = {}
        self._closed = False
        self.dropped_events = 0
        self._link("")

    def has_room(self) -> bool:
        return self.waiting_events() < self._context.waiting_rows

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: Receipt, frame: FrameId | None = None) -> None:
        if self._closed:
            receipt.settle()
        elif frame is None:
            self._link("").offer(batch, body, receipt)
        else:
            self._link(frame.group.log).offer(batch, body, receipt, frame.number)

    def commit(self, group: GroupId, receipt: Receipt) -> None:
        """Each frame stands by itself; its position tells whether it came before."""
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

    def close(self) -> None:
        self._closed = True
        for link in self._links.values():
            link.close()

    def _link(self, log: str) -> DeliveryLink:
        link = self._links.get(log)
        if link is None:
            context = self._context
            sender = f"{context.plan}/{context.connector.stream}/{log}" if log else f"{context.worker}/{context.plan}"
            opening = OpenLink(sender=sender, streams=(self._schema,), log=sender if log else "")
            link = DeliveryLink(context.reactor, context.zmq_context, self._endpoint, opening, context.room)
            self._links[log] = link
        return link


def zeromq_sink(context: SinkContext) -> Sink:
    """A sink that sends over ZeroMQ."""
    options = read_options(ZeromqOptions, context.connector.options, context.where())
    if context.connector.mapper not in ("", "passThrough") or context.connector.mapper_options:
        raise ConfigError(f"{context.where()}: events travel as Arrow batches; leave @map out")
    try:
        return ZeromqSink(context, options)
    except ValueError as error:
        raise ConfigError(f"{context.where()}: endpoint: {error}") from error
