"""Sinks of type kafka with `@distribution`, behind a real worker and a real broker."""

from __future__ import annotations

import json

import msgspec
import pytest
from kafka_broker import Broker
from kafka_topics import Topic
from worker_world import KEY, PLAN, World, alerts, until

from cep_common.protocol.registry import CheckpointSpan, DeployedPlan, PlanCheckpoints
from cep_worker.sinks import distribution
from query_plan.connectors.reading import read_connectors
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse

pytestmark = pytest.mark.cluster


def with_sink(topic: Topic, strategy: str, *partitions: int) -> DeployedPlan:
    each = ", ".join(f"@destination(partition.no='{one}')" for one in partitions)
    app = parse(
        f"@sink(type='kafka', bootstrap.servers='{topic.servers}', topic='{topic.name}', @map(type='json'), "
        f"@distribution(strategy='{strategy}', {each})) define stream Alerts (carrier string, late long);"
        "from Alerts select * insert into X;"
    )
    return msgspec.structs.replace(PLAN, sinks=read_connectors(analyse(app), "sink"))


def found(topic: Topic) -> dict[int, list[int]]:
    lists: dict[int, list[int]] = {}
    for one in topic.committed_messages():
        lists.setdefault(one.partition(), []).append(json.loads(one.value())["event"]["late"])
    return lists


def test_each_destination_is_a_partition_and_has_transactions_of_its_own(world: World, kafka: Broker) -> None:
    topic = Topic(kafka, partitions=4)
    plans = [with_sink(topic, "partitioned', partitionKey='carrier", 0, 1), with_sink(topic, "roundRobin", 2, 3)]
    plan = msgspec.structs.replace(plans[0], sinks=(*plans[0].sinks, *plans[1].sinks), delivery="exactly-once")
    world.start(plan)
    publisher = world.publisher(plan).open()
    for number in range(1, 7):
        publisher.send("Alerts", alerts((number, ("UA", "UB")[number % 2], number)))
    publisher.mark(1)
    world.manager.checkpoints = (PlanCheckpoints(KEY, (CheckpointSpan(7, 0, 1),)),)
    until(lambda: sum(map(len, found(topic).values())) == 12, publisher)
    lists = found(topic)
    assert (lists[0], lists[1]) == ([2, 4, 6], [1, 3, 5])
    assert sorted((lists[2], lists[3])) == [[1, 3, 5], [2, 4, 6]]
    assert world.worker is not None
    done = [one.transactions for one in world.worker._data.parts().connectors if one.direction == "sink"]
    until(lambda: [one and one.committed for one in done] == [1, 1, 2], publisher)


def test_others_get_what_a_missing_partition_cannot(
    world: World, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "FAILING_MS", 200)
    topic = Topic(kafka, partitions=2)
    world.start(with_sink(topic, "roundRobin", 0, 1, 2))
    publisher = world.publisher().open()
    for number in range(9):
        publisher.send("Alerts", alerts((number, "UA", number)))
    until(lambda: sorted(one for some in found(topic).values() for one in some) == [*range(9)], publisher)
    until(lambda: not publisher.link.outbox.pending, publisher)
    problem = str(world.health()["plans"][0]["last_error"])
    assert "destination 3 of 3: " in problem
    assert f"topic {topic.name} has no partition 2" in problem
