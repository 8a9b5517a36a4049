"""The log of shared state on a real broker: records keep their order, wait while it hangs, and go with checkpoints."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest
from kafka_broker import Broker

from topology.errors import TopologyError
from topology.sync_log.kafka_topic import KafkaReadTopic, KafkaWrittenTopic
from topology.sync_log.reader import LOST
from topology.sync_log.settings import SyncLogSettings

_names = (f"sync-log-{number}" for number in itertools.count())
WITHIN_S = 30.0


@pytest.fixture
def settings(kafka: Broker) -> SyncLogSettings:
    return SyncLogSettings(kafka={"bootstrap.servers": kafka.servers})


@pytest.fixture
def name() -> str:
    return next(_names)


@pytest.fixture
def written(name: str, settings: SyncLogSettings) -> Iterator[KafkaWrittenTopic]:
    topic = KafkaWrittenTopic(name, settings, lambda: None)
    yield topic
    topic.close()


@pytest.fixture
def read(name: str, settings: SyncLogSettings) -> Iterator[KafkaReadTopic]:
    topic = KafkaReadTopic(name, settings, lambda: None)
    yield topic
    topic.close()


def gathered(more: Callable[[], Iterator[tuple[int, object]]], count: int) -> list[tuple[int, object]]:
    """So many of what comes, in its order."""
    found: list[tuple[int, object]] = []
    deadline = time.monotonic() + WITHIN_S
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += more()
        time.sleep(0.005)
    return found


def test_records_have_offsets_in_the_order_in_which_they_were_written(
    written: KafkaWrittenTopic, read: KafkaReadTopic
) -> None:
    for ticket in range(20):
        written.append(ticket, [b"%d" % ticket, b"second part"] if ticket % 2 else [b"%d" % ticket])
    assert gathered(written.written, 20) == [(ticket, ticket + ticket // 2) for ticket in range(20)]
    read.start(15)
    texts = [body for _, body in gathered(read.came, 15)]
    assert texts[:4] == [b"10", b"11", b"second part", b"12"]


def test_what_a_broker_cannot_take_waits_and_keeps_its_order(
    written: KafkaWrittenTopic, read: KafkaReadTopic, kafka: Broker
) -> None:
    written.append(0, [b"0"])
    gathered(written.written, 1)
    read.start(0)
    with kafka.hung():
        for ticket in range(1, 50):
            written.append(ticket, [b"%d" % ticket])
        time.sleep(0.3)
        assert list(written.written()) == []
    assert [ticket for ticket, _ in gathered(written.written, 49)] == list(range(1, 50))
    assert [body for _, body in gathered(read.came, 50)] == [b"%d" % ticket for ticket in range(50)]


def test_deleted_records_are_gone_and_a_reader_that_needs_them_says_so(
    written: KafkaWrittenTopic, read: KafkaReadTopic, name: str, settings: SyncLogSettings
) -> None:
    for ticket in range(6):
        written.append(ticket, [b"%d" % ticket])
    gathered(written.written, 6)
    written.forget(4)

    def lows() -> Iterator[tuple[int, object]]:
        low = read._consumer.get_watermark_offsets(read._kafka.TopicPartition(name, 0), timeout=5)[0]
        yield from ([(low, None)] if low == 4 else [])

    gathered(lows, 1)
    read.start(2)
    with pytest.raises(TopologyError, match=r"retention\.ms") as caught:
        gathered(read.came, 1)
    assert caught.value.reason_code == LOST
