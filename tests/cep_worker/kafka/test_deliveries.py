"""Refused messages belong to rows: reports name none."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from cep_worker.kafka.deliveries import REPORTS, Deliveries
from cep_worker.kafka.targets import Target

ANY = -1


@dataclass(frozen=True)
class Report:
    """A message as the client gives it to `on_delivery`."""

    of_topic: str
    of_partition: int
    of_key: bytes | None
    of_value: bytes | None

    def topic(self) -> str:
        return self.of_topic

    def partition(self) -> int:
        return self.of_partition

    def key(self) -> bytes | None:
        return self.of_key

    def value(self) -> bytes | None:
        return self.of_value


def test_a_refused_message_is_found_by_its_topic_partition_key_and_payload() -> None:
    targets = [
        Target("a", ANY, None), Target("b", ANY, None), Target("a", 1, None), Target("a", ANY, b"k"),
        Target("a", ANY, None),
    ]  # fmt: skip
    reports = [
        Report("a", 3, None, b"1"), Report("b", 3, None, b"1"), Report("a", 1, None, b"1"), Report("a", 0, b"k", b"1"),
        Report("a", 2, None, b""),
    ]  # fmt: skip
    for refused in range(len(targets)):
        deliveries = Deliveries(targets, [b"1", b"1", b"1", b"1", b""])
        for row in range(len(targets)):
            deliveries.sent(row)
        deliveries.refused(None, reports[refused])
        assert deliveries.failed() == {}, "it was delivered"
        deliveries.refused("too large", reports[refused])
        assert deliveries.failed() == {refused: "too large"}
        assert deliveries.failed() == {refused: "too large"}, "asked again"


def test_of_equal_messages_as_many_rows_fail_as_were_refused() -> None:
    deliveries = Deliveries([Target("a", ANY, None)] * 4, [b"1"] * 4)
    for row in (0, 1, 3):
        deliveries.sent(row)
    for error in ("first", "second"):
        deliveries.refused(error, Report("a", 0, None, b"1"))
    assert deliveries.failed() == {0: "first", 1: "second"}


def test_messages_with_headers_are_known_by_their_row() -> None:
    """They may differ in nothing but a header, such as the identity of a result."""
    deliveries = Deliveries([Target("a", ANY, None)] * 2, [b"1"] * 2)
    reports = [deliveries.of_row(row) for row in range(2)]
    reports[0](None, Report("a", 0, None, b"1"))
    reports[1]("refused", Report("a", 0, None, b"1"))
    assert deliveries.failed() == {1: "refused"}


def test_the_client_reports_messages_as_expected() -> None:
    """The payload, key, topic and partition of a refused message, and none that was delivered."""
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="pip install 'cep-on-spark[kafka]'")
    producer = confluent_kafka.Producer(
        {"test.mock.num.brokers": 1, "message.max.bytes": 2_000, "log_level": 0} | REPORTS
    )
    targets = [Target("a", ANY, None), Target("a", 1, b"k"), Target("a", 99, None), Target("a", 98, b"")]
    deliveries = Deliveries(targets, [b"1", b"2", b"3", b""])
    for row, (target, payload) in enumerate(zip(targets, [b"1", b"2", b"3", b""], strict=True)):
        producer.produce(target.topic, payload, target.key, target.partition, on_delivery=deliveries.refused)
        deliveries.sent(row)
    while len(producer):
        producer.poll(0.1)
    assert {row: error.name() for row, error in deliveries.failed().items()} == {
        2: "_UNKNOWN_PARTITION", 3: "_UNKNOWN_PARTITION",
    }  # fmt: skip
