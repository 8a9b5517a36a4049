"""Sink `inMemory`: events go to the sources `inMemory` of the same topic, of any plan of the tenant."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cep_worker.consumers import FrameId, GroupId
from cep_worker.in_memory import topic_of
from cep_worker.receipts import Receipt
from cep_worker.sinks.base import Sink, SinkContext
from cep_worker.topics import Publisher, Topics


class InMemorySink:
    """A publisher of a topic."""

    def __init__(self, topics: Topics, publisher: Publisher) -> None:
        self._topics = topics
        self._publisher = publisher
        self._closed = False
        self.dropped_events = 0

    def has_room(self) -> bool:
        return self._closed or self._publisher.has_room()

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: Receipt, frame: FrameId | None = None) -> None:
        self._publisher.offer(batch, body, receipt, frame)

    def commit(self, group: GroupId, receipt: Receipt) -> None:
        self._publisher.commit(group, receipt)

    def tick(self, now_ms: int) -> None:
        self.dropped_events = self._publisher.dropped_events

    def drained(self) -> bool:
        return not self._publisher.waiting_events()

    def waiting_events(self) -> int:
        return self._publisher.waiting_events()

    def last_error(self) -> str:
        return next((feed.problem for feed in self._publisher.feeds if feed.problem), "")

    def close(self) -> None:
        self._closed = True
        self._topics.end_publisher(self._publisher)


def in_memory_sink(context: SinkContext) -> Sink:
    """A sink that publishes to a topic. ConfigError for options that cannot be used."""
    topic = topic_of(context.connector, context.tenant, context.where())
    return InMemorySink(context.topics, context.topics.publish(topic, context.schema))
