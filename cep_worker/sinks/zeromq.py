"""Sink `zeromq`: batches sent over a link to a `LinkServer`, in Arrow's form."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.ids import parse_endpoint
from cep_common.messages import OpenLink, StreamSchema
from cep_common.security.roles import Door
from cep_worker.options import read_options
from cep_worker.outgoing import Outgoing, OutgoingLimits
from cep_worker.sinks.base import Sink, SinkContext

RECONNECT_MS = 1_000


class ZeromqOptions(msgspec.Struct, frozen=True):
    """`endpoint` is `tcp://host:port` of a server of links; `stream` is the stream's name there."""

    endpoint: str
    stream: str = ""


class ZeromqSink:
    """Keeps a link to its endpoint, for ever; what was not acknowledged over a broken link is sent again."""

    def __init__(self, context: SinkContext, options: ZeromqOptions) -> None:
        self._endpoint = parse_endpoint(options.endpoint.removeprefix("tcp://"))
        schema = StreamSchema(options.stream or context.event_stream, context.schema.attributes)
        opening = OpenLink(sender=f"{context.worker}/{context.plan}", streams=(schema,))
        limits = OutgoingLimits(context.waiting_rows, batch_rows=4_096, frames_under_way=64, connect_ms=RECONNECT_MS)
        self._where = context.where()
        self._out = Outgoing(
            context.reactor, context.zmq_context, Door.INGRESS, opening, limits, lambda: None, context.room
        )
        self._tried_ms: int | None = None

    def has_room(self) -> bool:
        return self._out.has_room()

    def offer(self, batch: pa.RecordBatch, body: Any) -> None:
        self._out.offer(batch, body)

    def tick(self, now_ms: int) -> None:
        self._out.tick(now_ms)
        due = self._tried_ms is None or now_ms - self._tried_ms >= RECONNECT_MS
        if self._out.needs_endpoint and due:
            self._tried_ms = now_ms
            self._out.connect(self._endpoint, now_ms)

    def drained(self) -> bool:
        return self._out.drained()

    def last_error(self) -> str:
        return f"{self._where}: {self._out.last_error}" if self._out.last_error else ""

    def close(self) -> None:
        self._out.close()


def zeromq_sink(context: SinkContext) -> Sink:
    """A sink that sends over ZeroMQ."""
    options = read_options(ZeromqOptions, context.connector.options, context.where())
    if context.connector.mapper not in ("", "passThrough") or context.connector.mapper_options:
        raise ConfigError(f"{context.where()}: events travel as Arrow batches; leave @map out")
    try:
        return ZeromqSink(context, options)
    except ValueError as error:
        raise ConfigError(f"{context.where()}: endpoint: {error}") from error
