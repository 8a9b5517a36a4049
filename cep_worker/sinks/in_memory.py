"""Sink `inMemory`: publishes events to `inMemory` sources with the same topic, in any plan of the tenant."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from cep_common.protocol.links import StreamSchema
from cep_worker.formats import key_values
from cep_worker.formats.key_values import KeyValueReader
from cep_worker.formats.sink_mappers.template import Template, parts_by_text
from cep_worker.formats.value_texts import value_text
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.plan_links.in_memory import topic_of
from cep_worker.plan_links.subscriptions import Topic
from cep_worker.plan_links.topic_registry import TopicPublisher, TopicRegistry
from cep_worker.plans.streams import lasting_name
from cep_worker.sinks.base import EventSink, SinkContext
from query_plan.connectors.templates import attributes_in
from topology.events.frames import arrow_schema

logger = logging.getLogger(__name__)


class InMemorySink:
    """A publisher to a topic, or to several topics if the topic is a `template`."""

    passes_on = False

    def __init__(
        self,
        topics: TopicRegistry,
        publish: Callable[[str], TopicPublisher],
        topic: Topic,
        template: Template | None,
        schema: StreamSchema,
        picking: KeyValueReader | None,
        where: str,
    ) -> None:
        self._topics = topics
        self._publish = publish
        self._topic = topic
        self._template = template
        self._publishers: dict[str, TopicPublisher] = {} if template is not None else {topic.name: publish(topic.name)}
        self._picking = picking
        self._where = where
        self._schema = arrow_schema(schema)
        self._closed = False
        self._given_up = 0
        self._offered = 0
        self.dropped_events = 0
        self.delivered_events = 0

    def has_room(self) -> bool:
        return self._closed or all(publisher.has_room() for publisher in self._publishers.values())

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None = None) -> None:
        if self._closed or not batch.schema.equals(self._schema):
            why = "their sink has ended" if self._closed else "the attributes of their stream have changed"
            logger.error("events lost, %s: %s events=%d", why, self._where, batch.num_rows)
            self._given_up += batch.num_rows
            receipt.settle()
            return
        parts = {self._topic.name: batch} if self._template is None else self._by_topic(batch, self._template)
        if not parts:
            receipt.settle()
            return
        shared = DeliveryReceipt(len(parts), receipt.settle)
        for topic, part in parts.items():
            whole = part is batch and self._picking is None
            picked = part if self._picking is None else self._picking.batch(part)
            self._offered += part.num_rows
            self._publishers[topic].offer(picked, body if whole else None, shared, frame)

    def commit(self, group: GroupId, receipt: DeliveryReceipt) -> None:
        """Settle at once: each frame is independent."""
        receipt.settle()

    def tick(self, now_ms: int) -> None:
        dropped = sum(publisher.dropped_events for publisher in self._publishers.values())
        self.dropped_events = dropped + self._given_up
        open_events = self.waiting_events() + dropped
        self.delivered_events = max(self.delivered_events, self._offered - open_events)

    def drained(self) -> bool:
        return not self.waiting_events()

    def waiting_events(self) -> int:
        return sum(publisher.waiting_events() for publisher in self._publishers.values())

    def last_error(self) -> str:
        return next((publisher.stall for publisher in self._publishers.values() if publisher.stall), "")

    def close(self, successor: EventSink | None = None) -> None:
        self._closed = True
        for publisher in self._publishers.values():
            self._topics.end_publisher(publisher)

    def leave(self) -> None:
        self.close()

    def _by_topic(self, batch: pa.RecordBatch, template: Template) -> dict[str, pa.RecordBatch]:
        """Return the events by topic, without topics that have no subscriber."""
        parts = {
            topic: part
            for topic, part in parts_by_text(batch, template).items()
            if topic in self._publishers or self._topics.has_subscribers(Topic("topic", self._topic.tenant, topic))
        }
        if added := [topic for topic in parts if topic not in self._publishers]:
            self._publishers |= {topic: self._publish(topic) for topic in added}
            self._topics.reroute(self._topics.monotonic_ms())
        return parts


def in_memory_sink(context: SinkContext) -> EventSink:
    """Return a sink that publishes to a topic.

    Raises:
        ConfigError: options that cannot be used.
    """
    topic = topic_of(context.connector, context.key.tenant)
    picking = None
    if context.connector.mapper == key_values.NAME:
        where = f"@map of {context.where()}"
        picking = key_values.published(context.connector.mapper_options, context.schema, where)
    form = repr(sorted(context.connector.mapper_options.items()))
    schema = context.schema if picking is None else picking.schema

    def publish(name: str) -> TopicPublisher:
        topic, lasting = Topic("topic", context.key.tenant, name), lasting_name(schema.stream, context.key)
        return context.topics.publish(topic, schema, form=form, lasting=lasting)

    template = None
    if attributes_in(topic.name):
        template = Template(topic.name, context.schema, context.where(), value_text, "topic")
    return InMemorySink(context.topics, publish, topic, template, context.schema, picking, context.where())
