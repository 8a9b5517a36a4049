"""Sink `inMemory`: events go to the sources `inMemory` of the same topic, of any plan of the tenant."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa

from cep_common.link_messages import StreamSchema
from cep_worker.consumers import FrameId, GroupId
from cep_worker.in_memory import topic_of
from cep_worker.mappers import key_values
from cep_worker.mappers.key_values import Picking
from cep_worker.receipts import Receipt
from cep_worker.sinks.base import Sink, SinkContext
from cep_worker.topics import Publisher, Topics
from topology.frames import arrow_schema

logger = logging.getLogger(__name__)


class InMemorySink:
    """A publisher of a topic."""

    passes_on = False

    def __init__(
        self, topics: Topics, publisher: Publisher, schema: StreamSchema, picking: Picking | None, where: str
    ) -> None:
        self._topics = topics
        self._publisher = publisher
        self._picking = picking
        self._where = where
        self._schema = arrow_schema(schema)
        self._closed = False
        self._given_up = 0
        self._offered = 0
        self.dropped_events = 0
        self.delivered_events = 0

    def has_room(self) -> bool:
        return self._closed or self._publisher.has_room()

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: Receipt, frame: FrameId | None = None) -> None:
        if not self._closed and batch.schema.equals(self._schema):
            if self._picking is not None:
                batch, body = self._picking.batch(batch), None  # it is written anew
            self._offered += batch.num_rows
            self._publisher.offer(batch, body, receipt, frame)
            return
        why = "their sink has ended" if self._closed else "the attributes of their stream have changed"
        logger.error("events lost, %s: %s events=%d", why, self._where, batch.num_rows)
        self._given_up += batch.num_rows
        receipt.settle()

    def commit(self, group: GroupId, receipt: Receipt) -> None:
        self._publisher.commit(group, receipt)

    def tick(self, now_ms: int) -> None:
        self.dropped_events = self._publisher.dropped_events + self._given_up
        open_events = self._publisher.waiting_events() + self._publisher.dropped_events
        self.delivered_events = max(self.delivered_events, self._offered - open_events)

    def drained(self) -> bool:
        return not self._publisher.waiting_events()

    def waiting_events(self) -> int:
        return self._publisher.waiting_events()

    def last_error(self) -> str:
        return self._publisher.stall

    def close(self, successor: Sink | None = None) -> None:
        self._closed = True
        self._topics.end_publisher(self._publisher)


def in_memory_sink(context: SinkContext) -> Sink:
    """A sink that publishes to a topic. ConfigError for options that cannot be used."""
    topic = topic_of(context.connector, context.tenant, context.where())
    picking = None
    if context.connector.mapper == key_values.NAME:
        where = f"@map of {context.where()}"
        picking = key_values.published(context.connector.mapper_options, context.schema, where)
    form = repr(sorted(context.connector.mapper_options.items()))
    publisher = context.topics.publish(topic, context.schema if picking is None else picking.schema, form=form)
    return InMemorySink(context.topics, publisher, context.schema, picking, context.where())
