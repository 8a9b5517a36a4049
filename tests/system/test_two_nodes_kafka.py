"""A Kafka source of two nodes: only the active node reads the topic, and the other one reads on when it takes over."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from free_ports import free_port
from kafka_broker import Broker

from cep_cli.node.demo import results
from cep_cli.node.pair import NodePair

TOPIC = "readings-of-two-nodes"
PLAN = """@app:name('FromTopic') @app:delivery('exactly-once')
@source(type='kafka', topic.list='{topic}', group.id='{topic}', bootstrap.servers='{servers}', @map(type='json'))
define stream Readings (number long);
@sink(type='file', file.uri='{sink}')
define stream Copies (number long);
from Readings select number insert into Copies;
"""
NAMES = ("control", "console", "http", "ingress", "egress", "guard", "sync")
PARTITIONS = 2
FIRST_S, RESULTS_S = 300.0, 60.0

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


def create_topic(broker: Broker) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415 - an extra

    client = AdminClient({"bootstrap.servers": broker.servers})
    client.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)


def members(broker: Broker) -> int:
    """The number of consumers in the source's group."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    client = AdminClient({"bootstrap.servers": broker.servers})
    return len(client.describe_consumer_groups([TOPIC])[TOPIC].result(30).members)


def produce(broker: Broker, numbers: range) -> None:
    from confluent_kafka import Producer  # noqa: PLC0415

    producer = Producer({"bootstrap.servers": broker.servers})
    for number in numbers:
        producer.produce(TOPIC, json.dumps({"event": {"number": number}}), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def copied(file: Path) -> Counter[int]:
    return Counter(one["number"] for one in results(file))


def test_only_the_active_node_reads_a_topic_and_the_other_one_reads_on_after_it_was_killed(
    tmp_path: Path, kafka: Broker
) -> None:
    create_topic(kafka)
    copies = tmp_path / "copies.ndjson"
    worker = {"sinks": {"folders": [str(tmp_path)]}, "sources": {"urls": [f"kafka://{kafka.servers}"]}}
    with NodePair(tmp_path, {name: free_port() for name in NAMES}, worker=worker) as pair:
        pair.start()
        active = pair.await_protected()
        active.client.deploy(PLAN.format(topic=TOPIC, servers=kafka.servers, sink=copies), replace=False)
        produce(kafka, range(200))
        pair.wait(lambda: copied(copies).keys() == set(range(200)), "copies of all readings", FIRST_S)
        consumers = members(kafka)
        pair.await_protected()

        active.kill()
        successor = pair.other(active)
        pair.wait(successor.is_active, "the other node is active")
        produce(kafka, range(200, 400))
        pair.wait(lambda: copied(copies).keys() == set(range(400)), "the other node reads the topic on", RESULTS_S)
    assert set(copied(copies).values()) == {1}
    assert consumers <= PARTITIONS
