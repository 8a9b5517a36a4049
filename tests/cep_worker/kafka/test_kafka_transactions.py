"""Sinks of type kafka in plans that deliver exactly once: a transaction for each group of results."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import requests
from kafka_broker import Broker
from kafka_topics import Topic
from worker_world import KEY, World, alerts, until

from cep_common.protocol.registry import CheckpointSpan, DeployedPlan, PlanCheckpoints
from cep_common.protocol.worker_reports import TransactionReport
from cep_worker.kafka.targets import Target
from cep_worker.kafka.transactions import Headers, NotNowError, Refusals, Transactions
from cep_worker.outflows.consumers import FrameId, GroupId

pytestmark = pytest.mark.cluster
ALERTS = alerts((1, "UA", 1), (2, "UA", 2), (3, "UA", 3))
_names = itertools.count(1)


def once(plan: DeployedPlan) -> DeployedPlan:
    return msgspec.structs.replace(plan, delivery="exactly-once")


def complete(world: World, *spans: tuple[int, int, int]) -> None:
    world.manager.checkpoints = (PlanCheckpoints(KEY, tuple(CheckpointSpan(*span) for span in spans)),)


def transactions(world: World) -> list[Any]:
    assert world.worker is not None
    return [one.transactions for one in world.worker._data.parts().connectors if one.direction == "sink"]


def numbers(topic: Topic) -> list[int]:
    return [json.loads(one.value())["event"]["late"] for one in topic.committed_messages()]


def group(checkpoint: int, log: str = "log") -> GroupId:
    return GroupId(KEY, "publisher#0", 7, 0, checkpoint, log)


def messages(topic: Topic) -> Any:
    def made(batch: pa.RecordBatch, _frame: FrameId) -> Iterator[tuple[Target, bytes, Headers] | str]:
        for late in batch.column("late").to_pylist():
            yield Target(topic.name, -1, None), str(late).encode(), []

    return made


class Sink:
    """The transactions of a sink, without the sink."""

    def __init__(self, topic: Topic, name: str) -> None:
        import confluent_kafka  # noqa: PLC0415 - an extra

        from cep_worker.kafka.client import Errors  # noqa: PLC0415

        common = {"bootstrap.servers": topic.servers, "log_level": 0}
        settings = common | {"linger.ms": 5}
        self.topic, self.never = topic, threading.Event()
        self.transactions = Transactions(confluent_kafka, name, settings, common, Errors(), "sink")

    def deliver(self, checkpoint: int, log: str = "log", fails: bool = False) -> bool:
        """Deliver a group of three events. Return whether the brokers had it before."""
        if self.transactions.has(group(checkpoint, log), self.never):
            return True
        frames = [(FrameId(group(checkpoint, log), checkpoint), ALERTS)]
        made = messages(self.topic)
        if fails:
            frames, whole = frames * 2, made

            def made(batch: pa.RecordBatch, frame: FrameId) -> Iterator[tuple[Target, bytes, Headers] | str]:
                yield from whole(batch, frame)
                self.transactions.producer.flush(10)
                raise KeyboardInterrupt

        self.transactions.deliver(group(checkpoint, log), iter(frames), made, lambda _: "", Refusals(), self.never)
        return False


def test_results_are_in_the_topic_when_their_checkpoint_is_complete(world: World, kafka: Broker) -> None:
    topic = Topic(kafka)
    plan = once(topic.sink())
    world.start(plan)
    publisher = world.publisher(plan).open()
    publisher.send("Alerts", alerts((1, "UA", 1), (2, "UA", 2)))
    publisher.mark(1)
    publisher.send("Alerts", alerts((3, "UA", 3)))
    until(lambda: not publisher.link.unacknowledged(), publisher)
    complete(world, (7, 0, 1))
    until(lambda: numbers(topic) == [1, 2], publisher)
    publisher.mark(2)
    complete(world, (7, 0, 2))
    until(lambda: numbers(topic) == [1, 2, 3], publisher)
    until(lambda: transactions(world) == [TransactionReport(2, 0, 2)], publisher)
    text = requests.get(world.url("/metrics"), timeout=5).text
    labels = 'plan="KnockOnDelays",stream="Alerts",tenant="-1234"'
    assert f'cep_kafka_sink_messages_total{{{labels},topic="{topic.name}"}} 3.0' in text
    assert f'cep_kafka_sink_transactions_total{{outcome="committed",{labels}}} 2.0' in text
    assert f'cep_kafka_sink_transactions_total{{outcome="aborted",{labels}}} 0.0' in text
    found = topic.committed_messages()
    assert [dict(one.headers())["cep-id"] for one in found] == [
        f"-1234/KnockOnDelays/publisher%230/7.0/{end}".encode() for end in ("1/1.0", "1/1.1", "2/2.0")
    ]


def test_what_brokers_refuse_of_a_group_is_kept_and_the_others_are_committed(world: World, kafka: Broker) -> None:
    topic = Topic(kafka, **{"max.message.bytes": "2000"})
    plan = once(topic.sink(on_error="STORE"))
    world.start(plan)
    publisher = world.publisher(plan).open()
    rows = [(n, "b" * 3_000 if n in (2, 5, 6) else "a", n) for n in range(1, 9)]
    publisher.send("Alerts", alerts(*rows))
    publisher.mark(1)
    complete(world, (7, 0, 1))
    until(lambda: numbers(topic) == [1, 3, 4, 7, 8], publisher)
    found = requests.get(world.url("/errors"), {"plan": "KnockOnDelays"}, timeout=5).json()
    assert [event["late"] for entry in found["entries"] for event in entry["events"]] == [2, 5, 6]
    assert "the message is larger than" in found["entries"][0]["reason"]
    until(lambda: world.health()["plans"][0]["prepared"]["events"] == 0, publisher)


def test_a_group_that_comes_again_is_known_whoever_delivers_it(kafka: Broker) -> None:
    topic, name = Topic(kafka, partitions=2), f"cep/test/{next(_names)}"
    first = Sink(topic, name)
    assert not first.deliver(1)
    assert first.deliver(1)
    again = Sink(topic, name)
    assert again.deliver(1)
    assert not again.deliver(1, log="another")
    assert not again.deliver(2)
    with pytest.raises(NotNowError, match="another producer has taken over"):
        first.deliver(3)
    assert first.deliver(2), "it reads the marks again"
    assert len(topic.committed_messages()) == 9


def test_a_transaction_that_nobody_ended_is_undone(kafka: Broker) -> None:
    topic, name = Topic(kafka), f"cep/test/{next(_names)}"
    first = Sink(topic, name)
    with pytest.raises(KeyboardInterrupt):
        first.deliver(1, fails=True)
    assert topic.committed_messages() == []
    again = Sink(topic, name)
    assert not again.deliver(1)
    assert len(topic.committed_messages()) == 3


def test_a_plan_may_do_without_transactions(world: World, kafka: Broker) -> None:
    topic = Topic(kafka)
    plan = once(topic.sink(transactions="false"))
    world.start(plan)
    publisher = world.publisher(plan).open()
    publisher.send("Alerts", ALERTS)
    publisher.mark(1)
    complete(world, (7, 0, 1))
    until(lambda: numbers(topic) == [1, 2, 3], publisher)
