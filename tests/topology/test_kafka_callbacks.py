"""Errors in callbacks of Kafka's client library, with the brokers that the library itself imitates."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from topology.kafka_client import callback

confluent_kafka = pytest.importorskip("confluent_kafka", reason="pip install 'cep-on-spark[kafka]'")

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
WITHIN_S = 30.0


def polled(on_assign: Callable[..., None]) -> None:
    """Poll until the callback has been called with partitions, and its errors have come out."""
    consumer = confluent_kafka.Consumer({**NOWHERE, "group.id": "group", "test.mock.num.brokers": 1})
    try:
        brokers = consumer.list_topics(timeout=WITHIN_S).brokers.values()
        servers = ",".join(f"{one.host}:{one.port}" for one in brokers)
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "log_level": 0})
        producer.produce("topic", b"message")
        assert producer.flush(WITHIN_S) == 0
        consumer.subscribe(["topic"], on_assign=on_assign)
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            consumer.poll(0.1)
    finally:
        consumer.close()


def test_an_error_of_the_library_in_a_callback_is_an_exception_for_who_polls() -> None:
    unreachable = confluent_kafka.Producer(NOWHERE)

    def assigned(_consumer: Any, _partitions: Any) -> None:
        unreachable.list_topics("topic", timeout=0.05)

    with pytest.raises(confluent_kafka.KafkaException) as raised:
        polled(callback(assigned))
    assert raised.value.args[0].name() == "_TRANSPORT"
