"""Topics of a real broker, as tests fill and read them."""

from __future__ import annotations

import itertools
from typing import Any, Self

import msgspec
from kafka_broker import Broker
from worker_world import PLAN, until

from cep_common.protocol.registry import Connector, DeployedPlan

_numbers = itertools.count(1)


class Topic:
    """A new topic of the broker."""

    def __init__(self, broker: Broker, partitions: int = 1, name: str = "", **settings: str) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415 - an extra
        from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415

        self.name = name or f"topic-{next(_numbers)}"
        self.group = f"{self.name}.group"
        self.servers = broker.servers
        self._admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 0})
        sending = {"linger.ms": 0, "enable.idempotence": True, "log_level": 0}  # retries keep the order
        self._producer = Producer({"bootstrap.servers": broker.servers, **sending})
        new = NewTopic(self.name, num_partitions=partitions, replication_factor=1, config=settings)
        self._admin.create_topics([new])[self.name].result(10)

    def send(self, *values: bytes | str | None, partition: int = 0, **more: Any) -> None:
        """The messages are in the topic."""
        for value in values:
            self._producer.produce(self.name, value, partition=partition, **more)
        assert self._producer.flush(10) == 0

    def events(self, first: int, count: int, partition: int = 0) -> None:
        """Events with the times `first` and on are in the topic."""
        numbers = range(first, first + count)
        self.send(*(f'{{"carrier": "UA", "dep_delay": {n}, "price": 1.5}}' for n in numbers), partition=partition)

    def messages(self, count: int, within_s: float = 10.0) -> list[Any]:
        """The first `count` messages of the topic, by partition and offset."""
        from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "reader", "log_level": 0})
        partitions = consumer.list_topics(self.name, timeout=10).topics[self.name].partitions
        consumer.assign([TopicPartition(self.name, one, 0) for one in partitions])
        found = consumer.consume(count, timeout=within_s)
        consumer.close()
        return sorted(found, key=lambda one: (one.partition(), one.offset()))

    def committed_messages(self) -> list[Any]:
        """What a reader of committed messages finds in the topic now, by partition and offset."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition  # noqa: PLC0415

        settings = {"isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 0}
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "ledger", **settings})
        partitions = consumer.list_topics(self.name, timeout=10).topics[self.name].partitions
        consumer.assign([TopicPartition(self.name, one, 0) for one in partitions])
        found: list[Any] = []
        ends = 0
        while ends < len(partitions):
            for one in consumer.consume(1_000, timeout=0.1):
                if one.error() is None:
                    found.append(one)
                elif one.error().code() == KafkaError._PARTITION_EOF:
                    ends += 1
        consumer.close()
        return sorted(found, key=lambda one: (one.partition(), one.offset()))

    def committed(self, group: str, partition: int = 0) -> int:
        """The offset that is committed under the group."""
        from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group, "log_level": 0})
        offset = consumer.committed([TopicPartition(self.name, partition)], timeout=10)[0].offset
        consumer.close()
        return int(offset)

    def commit(self, group: str, offset: int, partition: int = 0) -> None:
        """Somebody else commits under the group."""
        from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group, "log_level": 0})
        consumer.commit(offsets=[TopicPartition(self.name, partition, offset)], asynchronous=False)
        consumer.close()

    def stranger(self) -> Stranger:
        """Somebody else who reads the topic under the plan's group."""
        return Stranger(self)

    def delete_before(self, offset: int, partition: int = 0) -> None:
        """Messages before the offset are gone, as after retention."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        place = TopicPartition(self.name, partition, offset)
        self._admin.delete_records([place])[place].result(10)

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result(10)

    def add_partitions(self, count: int) -> None:
        """It has so many from now on."""
        from confluent_kafka.admin import NewPartitions  # noqa: PLC0415

        self._admin.create_partitions([NewPartitions(self.name, count)])[self.name].result(10)
        until(lambda: len(self._producer.list_topics(self.name, timeout=10).topics[self.name].partitions) == count)

    def source(self, mapper: str = "json", mapped: dict[str, str] | None = None, **options: str) -> DeployedPlan:
        """A plan with a source of the topic; options are written with `_` for `.`."""
        given = {
            "bootstrap.servers": self.servers,
            "topic.list": self.name,
            "group.id": self.group,
            **{name.replace("_", "."): text for name, text in options.items()},
        }
        connector = Connector("Departures", "kafka", given, mapper, mapped or {})
        return msgspec.structs.replace(PLAN, sources=(connector,))

    def sink(self, mapper: str = "json", mapped: dict[str, str] | None = None, **options: str) -> DeployedPlan:
        """A plan with a sink into the topic."""
        given = {
            "bootstrap.servers": self.servers,
            "topic": self.name,
            **{name.replace("_", "."): text for name, text in options.items()},
        }
        return msgspec.structs.replace(PLAN, sinks=(Connector("Alerts", "kafka", given, mapper, mapped or {}),))


class Stranger:
    """A consumer that is not a worker: it takes what it gets of the group's partitions and commits it."""

    def __init__(self, topic: Topic) -> None:
        from confluent_kafka import Consumer  # noqa: PLC0415 - an extra

        settings = {"bootstrap.servers": topic.servers, "group.id": topic.group, "log_level": 0}
        self._consumer = Consumer({**settings, "heartbeat.interval.ms": 200, "auto.offset.reset": "latest"})
        self._consumer.subscribe([topic.name])
        self.taken = 0

    def pump(self) -> None:
        message = self._consumer.poll(0.05)
        if message is not None and message.error() is None:
            self._consumer.commit(message, asynchronous=False)
            self.taken += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
