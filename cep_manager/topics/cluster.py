"""What the manager asks of Kafka: which topics there are, to create and delete them, and what is unread in one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from cep_manager.config import KafkaConfig
from cep_manager.errors import KafkaUnavailableError
from cep_manager.topics.brokers import admin_settings
from topology.kafka_client import group_reader

CALL_S = 8.0
"""The time-out of requests to brokers."""
EXTRA = "pip install 'cep-on-spark[kafka]'"


class KafkaCluster:
    """A client of the brokers in the manager's configuration. Every call raises KafkaUnavailableError."""

    def __init__(self, config: KafkaConfig) -> None:
        """Prepare the client; it connects with the first call."""
        self._config = config
        self._made: Any = None

    def partitions(self) -> Mapping[str, int]:
        """Return the number of partitions of each topic that there is."""
        found = self._ask("list topics", lambda admin: admin.list_topics(timeout=CALL_S))
        return {name: len(one.partitions) for name, one in found.topics.items() if one.error is None}

    def create(self, topics: Mapping[str, int]) -> Collection[str]:
        """Create topics with this number of partitions; return those that already exist, which stay unchanged."""
        from confluent_kafka.admin import NewTopic  # noqa: PLC0415 - an extra

        replication = self._config.replication or -1  # -1: as the brokers are configured
        wanted = [NewTopic(name, count, replication) for name, count in topics.items()]
        return self._each(
            "create topic",
            lambda admin: admin.create_topics(wanted, operation_timeout=CALL_S, request_timeout=CALL_S),
            "ALREADY_EXISTS",
        )

    def widen(self, topics: Mapping[str, int]) -> None:
        """Set the number of partitions of topics."""
        from confluent_kafka.admin import NewPartitions  # noqa: PLC0415

        wanted = [NewPartitions(name, count) for name, count in topics.items()]
        self._each("add partitions to topic", lambda admin: admin.create_partitions(wanted, request_timeout=CALL_S),
                   "INVALID_PARTITIONS")  # fmt: skip

    def delete(self, topic: str) -> None:
        """Delete a topic; one that no longer exists counts as deleted."""
        self._each(
            "delete topic",
            lambda admin: admin.delete_topics([topic], operation_timeout=CALL_S, request_timeout=CALL_S),
            "UNKNOWN_TOPIC",
        )

    def unread(self, topic: str, partitions: int, group: str) -> int:
        """Return how many messages of the topic the group has not committed, marks of transactions included."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415
        from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415

        parts = [TopicPartition(topic, number) for number in range(partitions)]
        low = self._offsets(dict.fromkeys(parts, OffsetSpec.earliest()))
        high = self._offsets(dict.fromkeys(parts, OffsetSpec.latest()))
        offsets = self._ask(f"read the offsets of group {group}", lambda _: self._committed(group, parts))
        committed = {one.partition: one.offset for one in offsets}
        return sum(max(0, high[part] - max(low[part], committed.get(part, -1))) for part in high)

    def _committed(self, group: str, parts: list[Any]) -> list[Any]:
        with group_reader(self._settings(), group, "read_uncommitted", "kafka.options") as client:
            offsets: list[Any] = client.committed(parts, timeout=CALL_S)
            return offsets

    def _settings(self) -> dict[str, Any]:
        # Asked for a topic that was just deleted, brokers may create it again.
        return admin_settings(self._config) | {"allow.auto.create.topics": False}

    def _offsets(self, wanted: Mapping[Any, Any]) -> dict[int, int]:
        asked = self._ask("list offsets", lambda admin: admin.list_offsets(wanted, request_timeout=CALL_S))
        return {part.partition: self._ask("list offsets", lambda _, one=one: one.result(2 * CALL_S).offset)
                for part, one in asked.items()}  # fmt: skip

    def _each(self, doing: str, ask: Any, fine: str) -> Collection[str]:
        """Wait for the answer of each topic; return those with an error whose name holds `fine`, which is none."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        found = []
        for name, answer in self._ask(doing, ask).items():
            try:
                answer.result(2 * CALL_S)
            except TimeoutError as error:
                raise KafkaUnavailableError(f"cannot {doing} {name}: the brokers do not answer") from error
            except KafkaException as error:
                if fine not in error.args[0].name():
                    raise KafkaUnavailableError(f"cannot {doing} {name}: {error.args[0].str()}") from error
                found.append(name)
        return found

    def _ask(self, doing: str, ask: Any) -> Any:
        try:
            from confluent_kafka import KafkaException  # noqa: PLC0415 - an extra
            from confluent_kafka.admin import AdminClient  # noqa: PLC0415
        except ImportError as error:
            missing = f"the manager needs the package confluent-kafka for Kafka as transport: {EXTRA} where it runs"
            raise KafkaUnavailableError(missing) from error
        try:
            if self._made is None:
                self._made = AdminClient(self._settings())
            return ask(self._made)
        except KafkaException as error:
            raise KafkaUnavailableError(
                f"cannot {doing}: {error.args[0].str()}; brokers: {self._config.servers} "
                "(kafka.servers in the manager's configuration)"
            ) from error
        except TimeoutError as error:
            raise KafkaUnavailableError(f"cannot {doing}: the brokers do not answer") from error
        except (TypeError, ValueError) as error:
            raise KafkaUnavailableError(f"kafka.options in the manager's configuration: {error}") from error
