"""Source `inMemory`: accepts events of `inMemory` sinks with the same topic, in any plan of the tenant."""

from __future__ import annotations

from cep_worker.formats import key_values
from cep_worker.plan_links.in_memory import BY_POSITION, topic_of
from cep_worker.plan_links.subscriptions import Subscription
from cep_worker.plan_links.topic_registry import TopicRegistry
from cep_worker.plans.connectors import DeclaredConnector
from cep_worker.sources.base import SourceContext, UncountedSource


class InMemorySource(UncountedSource):
    """A subscription to a topic."""

    error = ""

    def __init__(self, topics: TopicRegistry, subscription: Subscription) -> None:
        self._topics = topics
        self._subscription = subscription

    def retry(self, now_ms: int) -> None:
        """Do nothing: the topic registry retries for all."""

    def reroute(self, declared: DeclaredConnector, now_ms: int) -> None:
        self._subscription.stream = declared.stream

    def tick(self, now_ms: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        self._topics.end_subscription(self._subscription)


def in_memory_source(context: SourceContext) -> InMemorySource:
    """Return a source that subscribes to a topic.

    Raises:
        ConfigError: options that cannot be used.
    """
    declared = context.declared
    connector = declared.connector
    topic = topic_of(connector, declared.tenant())
    keys = None
    if connector.mapper == key_values.NAME:
        where = f"@map of {context.where()}"
        keys = key_values.source_keys(connector.mapper_options, declared.stream.schema, where)
    by_position = connector.mapper in BY_POSITION
    subscription = context.topics.subscribe(topic, declared.stream, by_position=by_position, keys=keys)
    return InMemorySource(context.topics, subscription)
