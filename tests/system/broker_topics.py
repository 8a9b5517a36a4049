"""Fill and read topics of a broker that connects groups of plans."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

from kafka_broker import Broker

ANSWERED_S, TOPICS_S = 60.0, 60.0


def create(broker: Broker, names: Iterable[str]) -> None:
    """The topics are there, with one partition each."""
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415 - an extra

    wanted = [NewTopic(name, 1, 1) for name in names]
    admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 0})
    for made in (admin.create_topics(wanted) if wanted else {}).values():
        made.result(TOPICS_S)


def send(broker: Broker, topic: str, events: list[dict[str, Any]], key: str) -> None:
    """The events are in the topic, those with one key in order."""
    from confluent_kafka import Producer  # noqa: PLC0415 - an extra

    settings = {"linger.ms": 5, "enable.idempotence": True, "log_level": 0}  # retries keep the order
    producer = Producer({"bootstrap.servers": broker.servers, **settings})
    for event in events:
        producer.produce(topic, json.dumps({"event": event}), str(event[key]))
    assert producer.flush(ANSWERED_S) == 0


def answers(broker: Broker, topic: str, count: int) -> list[dict[str, Any]]:
    """The first `count` events of the topic; fewer when they do not come."""
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "reader", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, timeout=ANSWERED_S)
    consumer.close()
    return [json.loads(one.value())["event"] for one in found]


def topics(broker: Broker, plan: str = "") -> dict[str, int]:
    """Its topics, or those of the plan, with the number of their partitions."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    found = AdminClient({"bootstrap.servers": broker.servers, "log_level": 0}).list_topics(timeout=10)
    return {name: len(one.partitions) for name, one in found.topics.items()
            if name.startswith(plan) and not name.startswith("__")}  # fmt: skip


def until_topics(broker: Broker, wanted: dict[str, int], plan: str = "") -> None:
    """The broker has exactly these topics (of the plan), with so many partitions."""
    deadline = time.monotonic() + TOPICS_S
    while (found := topics(broker, plan)) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def committed_in(broker: Broker, topic: str) -> int:
    """How many events of the topic the plan has committed: there are no transactions, so offsets count events."""
    from confluent_kafka import Consumer  # noqa: PLC0415

    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": f"cep.{topic}", "log_level": 0})
    count = sum(_committed(consumer, topic, number) for number in range(topics(broker)[topic]))
    consumer.close()
    return count


def _committed(consumer: Any, topic: str, partition: int) -> int:
    from confluent_kafka import TopicPartition  # noqa: PLC0415

    return max(0, int(consumer.committed([TopicPartition(topic, partition)], timeout=10)[0].offset))


def all_in(broker: Broker, topic: str, committed: bool = False) -> list[dict[str, Any]]:
    """All events of the topic, or those up to the offsets that the plan has committed; each partition's in order."""
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": f"cep.{topic}", "log_level": 0})
    found: list[Any] = []
    for number in range(topics(broker)[topic]):
        place = TopicPartition(topic, number, 0)
        end = consumer.get_watermark_offsets(place, timeout=10)[1]
        if committed:
            end = _committed(consumer, topic, number)
        consumer.assign([TopicPartition(topic, number, 0)])
        found += consumer.consume(end, timeout=ANSWERED_S) if end else []
    consumer.close()
    return [json.loads(one.value())["event"] for one in found]
