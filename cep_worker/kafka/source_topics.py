"""The topics of a source: whether they exist, at which cluster, and whether they are those that were read before.

Lives on the source's thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cep_worker.kafka.client import NO_CREATION, Errors, common_settings, explained, made
from cep_worker.kafka.topic_ids import TopicIds
from query_plan.connectors.kafka import KafkaSourceOptions
from query_plan.connectors.kafka_settings import CONSUMER

logger = logging.getLogger(__name__)

CALL_S = 5.0
"""How long the brokers may take to describe a topic."""
PROBE_S = 2.0


class BeginAgainError(Exception):
    """The consumer cannot be used any longer; the message says why."""


class SourceTopics:
    """The topics `names` of a source, of which the `listed` partitions are read, or all if there are none."""

    def __init__(
        self,
        kafka: Any,
        names: Sequence[str],
        listed: Collection[int],
        options: KafkaSourceOptions,
        *,
        folder: Path,
        stream: tuple[str, str],
        client_id: str,
        where: str,
        errors: Errors,
    ) -> None:
        """Read the ids that are known.

        Args:
            kafka: The client library.
            names: The names of the topics.
            listed: The partitions that the plan lists.
            options: Say how to connect.
            folder: Keeps the ids of topics.
            stream: The plan and stream that read, as files name them.
            client_id: The name that brokers see.
            where: The source, for messages to users.
            errors: Gets what clients report.
        """
        self.ids = TopicIds(folder, *stream)
        self.cluster: str | None = None
        """The id of the cluster that was read last, which positions and files belong to; empty where it has none."""
        self.admin: Any = None
        self._kafka = kafka
        self._names = names
        self._listed = listed
        self._options = options
        self._folder = folder
        self._stream = stream
        self._client_id = client_id
        self._where = where
        self._errors = errors

    def require(self, consumer: Any, ending: threading.Event) -> bool:
        """Check that the topics and listed partitions exist, and note their ids and their cluster.

        Returns:
            Whether the cluster is another one than before.

        Raises:
            BeginAgainError: one does not exist, or the brokers do not answer within CALL_S or before `ending`.
        """
        cluster = ""
        for topic in self._names:
            metadata = self._metadata(consumer, topic, ending)
            cluster, found = metadata.cluster_id or "", metadata.topics[topic]
            if found.error is not None:
                raise BeginAgainError(f"topic {topic}: {explained(found.error)}")
            if missing := sorted(set(self._listed) - set(found.partitions)):
                there = f"it has 0 to {len(found.partitions) - 1}"
                raise BeginAgainError(f"topic {topic} has no partition {missing[0]} (partition.no.list); {there}")
        is_other = cluster != self.cluster
        if is_other:
            self.ids = TopicIds(self._folder, *self._stream, cluster)
        for topic, topic_id in self._topic_ids().items():
            if self.ids.note(topic, topic_id):
                logger.warning("%s: topic %s was deleted and created again", self._where, topic)
        self.cluster = cluster
        self._errors.clear()
        return is_other

    def refuse_others(self) -> None:
        """Check that the topics are those that `require` noted. Raises BeginAgainError otherwise."""
        for topic, topic_id in self._topic_ids().items():
            if self.ids.differs(topic, topic_id):
                raise BeginAgainError(f"topic {topic} was deleted and created again")

    def _topic_ids(self) -> dict[str, str]:
        """Return the ids of the topics. Old brokers have none."""
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - an extra

        if self.admin is None:
            common = common_settings(self._options, self._client_id)
            own = {name: value for name, value in common.items() if name not in CONSUMER}
            self.admin = made(AdminClient, own | NO_CREATION | {"error_cb": self._errors.note}, self._where)
        found: dict[str, str] = {}
        asked = self.admin.describe_topics(self._kafka.TopicCollection(list(self._names)), request_timeout=PROBE_S)
        for topic, answer in asked.items():
            with suppress(self._kafka.KafkaException):
                found[topic] = str(answer.result().topic_id or "")
        return found

    def _metadata(self, consumer: Any, topic: str, ending: threading.Event) -> Any:
        """Return what the brokers know of themselves and the topic."""
        deadline = time.monotonic() + CALL_S
        while True:
            try:
                return consumer.list_topics(topic, timeout=PROBE_S / 2)
            except self._kafka.KafkaException as error:
                consumer.poll(0)  # says why
                if self._errors.text or ending.is_set() or time.monotonic() >= deadline:
                    raise BeginAgainError(self._errors.text or explained(error.args[0])) from None
