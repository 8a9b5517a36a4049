"""Sources and sinks of type kafka in front of a real worker and a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
from click.testing import CliRunner
from kafka_broker import PASSWORD, USER, Broker, kafka_broker
from kafka_topics import Topic
from schema_registry import schema_registry
from worker_world import World, alerts, until, values

from cep_cli.doctor.commands import doctor_command
from cep_common.protocol.links import Data
from cep_common.protocol.registry import DeployedPlan
from cep_worker.config import FileSourcesConfig, InflowConfig, SinkConfig, SourcesConfig
from cep_worker.kafka import pauses
from cep_worker.kafka.alignment import PartitionAlignment

pytestmark = pytest.mark.cluster

EVENT = '{"event": {"carrier": "UA", "dep_delay": 5, "price": 1.5}}'
ROW = ("UA", 5, 1.5)


def delays(receiver: Any) -> list[Any]:
    return [row[2] for row in receiver.rows()]


def error(world: World) -> str:
    return str(world.reports()[0].last_error) if world.reports() else ""


def partitions(world: World) -> list[Any]:
    assert world.worker is not None
    return [each for one in world.worker._data.parts().connectors for each in one.partitions]


def restarted(world: World, plan: DeployedPlan) -> None:
    """The worker leaves and starts again."""
    assert world.worker is not None
    world.worker.stop()
    world.worker = None
    world.manager.stop()
    world.start(plan)


def test_a_source_reads_what_there_is_and_what_comes_and_tells_the_lag(world: World, kafka: Broker) -> None:
    topic = Topic(kafka)
    topic.send(EVENT, f"[{EVENT}, {EVENT}]", '{"carrier": null,\n "dep_delay": 6, "price": 2}')
    world.start(topic.source())
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 4, receiver)
    assert [row[1:] for row in receiver.rows()] == [ROW, ROW, ROW, (None, 6, 2.0)]
    topic.events(7, 3)
    until(lambda: len(receiver.rows()) == 7, receiver)
    until(lambda: topic.committed(topic.group) == 6, receiver)
    until(lambda: [(one.position, one.committed, one.end) for one in partitions(world)] == [(6, 6, 6)], receiver)
    assert partitions(world)[0].lag == 0
    text = requests.get(world.url("/metrics"), timeout=5).text
    labels = f'partition="0",plan="KnockOnDelays",stream="Departures",tenant="-1234",topic="{topic.name}"'
    assert f"cep_kafka_source_position{{{labels}}} 6.0" in text
    assert f"cep_kafka_source_lag{{{labels}}} 0.0" in text


def test_a_restarted_worker_goes_on_where_its_log_ends_whatever_is_committed(world: World, kafka: Broker) -> None:
    topic = Topic(kafka)
    topic.events(1, 5)
    plan = topic.source()
    world.start(plan)
    receiver = world.connected_receiver()
    until(lambda: delays(receiver) == [1, 2, 3, 4, 5], receiver)
    assert world.worker is not None
    world.worker.stop()
    world.worker = None
    world.manager.stop()
    topic.events(6, 5)
    topic.commit(topic.group, 10)  # somebody else took the group's messages
    world.start(plan)
    until(lambda: delays(receiver) == list(range(1, 11)), receiver)
    until(lambda: topic.committed(topic.group) == 10, receiver)


def test_messages_that_are_none_are_failed_events_and_can_be_replayed(world: World, kafka: Broker) -> None:
    topic = Topic(kafka)
    topic.events(1, 1)
    topic.send('{"carrier": "UA", "dep_delay": 2}', key="k", headers={"h": b"v"})
    topic.send(b"\xff", None)
    topic.events(3, 1)
    world.start(topic.source())
    receiver = world.connected_receiver()
    until(lambda: delays(receiver) == [1, 3], receiver)
    found = requests.get(world.url("/errors"), {"plan": "KnockOnDelays"}, timeout=5).json()
    assert [(one["kind"], one["sink"], one["stream"]) for one in found["entries"]] == [
        ("source", "kafka", "Departures")
    ] * 3
    first = found["entries"][0]
    assert first["reason"] == f"{topic.name}[0] offset 1: price is missing (double)"
    event = first["events"][0]
    assert (event["topic"], event["partition"], event["offset"]) == (topic.name, 0, 1)
    assert event["payload"] == {"carrier": "UA", "dep_delay": 2}
    assert "no value (a tombstone)" in found["entries"][2]["reason"]
    until(lambda: f"{topic.name}[0] offset 3" in error(world))
    again = requests.post(world.url("/errors/replay"), json={"plan": "KnockOnDelays", "ids": [first["id"]]}, timeout=9)
    assert [one["code"] for one in again.json()["refused"]] == ["failed-again"]
    lenient = topic.source(mapped={"fail.on.missing.attribute": "false"})
    world.manager.deploy(msgspec.structs.replace(lenient, epoch=8))
    until(lambda: world.reports()[0].epoch == 8)
    again = requests.post(world.url("/errors/replay"), json={"plan": "KnockOnDelays", "ids": [first["id"]]}, timeout=9)
    assert again.json()["replayed"] == 1, again.json()
    until(lambda: delays(receiver) == [1, 3, 2], receiver)


def test_what_comes_beside_a_message_are_attributes(world: World, kafka: Broker) -> None:
    topic = Topic(kafka, partitions=3)
    paths = {"attributes.carrier": "trp:key", "attributes.dep_delay": "$.d", "attributes.price": "trp:offset"}
    topic.send('{"d": 1}', '{"d": 2}', partition=2, key="UA")
    world.start(topic.source(mapped=paths))
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 2, receiver)
    assert [row[1:] for row in receiver.rows()] == [("UA", 1, 0.0), ("UA", 2, 1.0)]
    paths |= {"attributes.carrier": "trp:who", "attributes.price": "trp:partition"}
    world.manager.deploy(msgspec.structs.replace(topic.source(mapped=paths), epoch=8))
    until(lambda: world.reports()[0].epoch == 8)
    topic.send('{"d": 3}', partition=1, headers={"who": b"DL"})
    receiver = world.connected_receiver()
    until(receiver.rows, receiver)
    assert receiver.rows()[-1][1:] == ("DL", 3, 1.0)


@pytest.mark.parametrize(("mapper", "value"), [("csv", "UA,5,1.5"), ("text", 'carrier:"UA",\ndep_delay:5,\nprice:1.5')])
def test_any_mapper_reads_messages(world: World, kafka: Broker, mapper: str, value: str) -> None:
    topic = Topic(kafka)
    topic.send(value, value)
    world.start(topic.source(mapper))
    receiver = world.connected_receiver()
    until(lambda: [row[1:] for row in receiver.rows()] == [ROW, ROW], receiver)


def test_listed_partitions_and_offsets_alone_are_read(world: World, kafka: Broker) -> None:
    topic = Topic(kafka, partitions=3)
    for partition in range(3):
        topic.events(10 * partition, 4, partition)
    options = {"partition_no_list": "0,2", "threading_option": "partition.wise"}
    world.start(topic.source(**options, topic_offsets_map=f"{topic.name}=1"))
    receiver = world.connected_receiver()
    until(lambda: sorted(delays(receiver)) == [2, 3, 22, 23], receiver)  # as Siddhi: behind the offset
    until(lambda: sorted(one.partition for one in partitions(world)) == [0, 2], receiver)


def test_deleted_messages_are_told_and_a_topic_made_again_is_read_from_its_beginning(
    world: World, kafka: Broker
) -> None:
    topic = Topic(kafka)
    topic.events(1, 3)
    plan = topic.source()
    world.start(plan)
    receiver = world.connected_receiver()
    until(lambda: delays(receiver) == [1, 2, 3], receiver)
    assert world.worker is not None
    world.worker.stop()
    world.worker = None
    world.manager.stop()
    topic.events(4, 4)
    topic.delete_before(5)
    world.start(plan)
    until(lambda: delays(receiver) == [1, 2, 3, 6, 7], receiver)
    until(lambda: "2 messages were deleted before they were read (retention)" in error(world), receiver)
    topic.delete()
    again = Topic(kafka, name=topic.name)
    again.events(50, 2)
    until(lambda: delays(receiver)[5:] == [50, 51], receiver, deadline_ms=30_000)


def test_a_topic_that_was_created_again_meanwhile_is_read_whole(world: World, kafka: Broker) -> None:
    """It has more messages than the worker had read of the former one: offsets alone do not tell."""
    topic = Topic(kafka)
    topic.events(1, 3)
    plan = topic.source()
    world.start(plan)
    receiver = world.connected_receiver()
    until(lambda: delays(receiver) == [1, 2, 3], receiver)
    assert world.worker is not None
    world.worker.stop()
    world.worker = None
    world.manager.stop()
    topic.delete()
    again = Topic(kafka, name=topic.name)
    again.events(50, 6)
    world.start(plan)
    until(lambda: delays(receiver)[3:] == list(range(50, 56)), receiver, deadline_ms=30_000)
    told = "the topic was deleted and created again since it was read up to offset 3; it continues at 0"
    until(lambda: told in error(world), receiver)
    restarted(world, plan)
    again.events(60, 1)
    until(lambda: delays(receiver)[9:] == [60], receiver, deadline_ms=30_000)


def test_topics_of_one_name_at_two_clusters_are_different_topics(
    make_world: Callable[..., World], kafka: Broker, tmp_path: Path
) -> None:
    with kafka_broker(cluster="b3RoZXItY2x1c3Rlci1pZA") as second:
        one = Topic(kafka)
        two = Topic(second, name=one.name)
        one.events(1, 5)
        two.events(101, 3)
        world = make_world(file_sources=FileSourcesConfig(positions=str(tmp_path)))
        plan = msgspec.structs.replace(one.source(), sources=(*one.source().sources, *two.source().sources))
        world.start(plan)
        receiver = world.connected_receiver()
        read = [*range(1, 6), *range(101, 104)]
        until(lambda: sorted(delays(receiver)) == read, receiver, deadline_ms=30_000)
        restarted(world, plan)
        one.events(6, 1)
        two.events(104, 4)
        until(lambda: sorted(delays(receiver)) == sorted([*read, 6, *range(104, 108)]), receiver, deadline_ms=30_000)
        assert "created again" not in error(world)
        assert world.worker is not None
        world.worker.stop()  # while both answer: a client that leaves a group waits for its brokers
        world.worker = None


def test_partitions_that_are_added_while_an_exactly_once_worker_is_away_are_read(
    make_world: Callable[..., World], kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a static member that finds its own partitions again, without a rebalance."""
    monkeypatch.setattr("cep_worker.kafka.unassigned.CHECK_S", 1.0)
    topic = Topic(kafka)
    topic.events(1, 2)
    plan = msgspec.structs.replace(topic.source(), delivery="exactly-once")
    world = make_world()
    world.start(plan)
    receiver = world.connected_receiver()
    until(lambda: delays(receiver) == [1, 2], receiver)
    assert world.worker is not None
    world.worker.stop()
    world.worker = None
    world.manager.stop()
    topic.add_partitions(2)
    topic.events(11, 2, partition=1)
    world.start(plan)
    until(lambda: sorted(delays(receiver)) == [1, 2, 11, 12], receiver, deadline_ms=40_000)


def test_wrong_brokers_and_topics_are_told_and_tried_again(world: World, kafka: Broker) -> None:
    topic = Topic(kafka)
    missing = topic.source(topic_list="not-there")
    world.start(missing)
    until(lambda: "topic not-there: the topic or partition does not exist: create it" in error(world))
    other = Topic(kafka, name="not-there")
    other.events(1, 1)
    receiver = world.connected_receiver()
    until(lambda: delays(receiver) == [1], receiver)
    until(lambda: not error(world), receiver)
    world.manager.deploy(msgspec.structs.replace(topic.source(partition_no_list="4"), epoch=8))
    until(lambda: f"topic {topic.name} has no partition 4" in error(world))
    world.manager.deploy(msgspec.structs.replace(topic.source(bootstrap_servers="127.0.0.1:1"), epoch=9))
    until(lambda: "no connection to a broker" in error(world) or "no broker answers" in error(world))


def test_sasl_and_tls_protect_connections_and_their_errors_say_what_to_check(
    make_world: Callable[..., World], kafka: Broker, tls_files: tuple[str, str], tmp_path: Path
) -> None:
    topic = Topic(kafka)
    kept = tmp_path / "secrets" / "-1234" / "KAFKA"
    kept.parent.mkdir(parents=True)
    kept.touch(mode=0o600)
    kept.write_text(PASSWORD)
    world = make_world(secrets=str(tmp_path / "secrets"))
    topic.events(1, 1)
    sasl = {"bootstrap_servers": kafka.sasl, "security_protocol": "SASL_PLAINTEXT", "sasl_username": USER}
    world.start(topic.source(**sasl, sasl_password="wrong"))  # noqa: S106 - that is the test
    until(lambda: "authentication failed: check sasl.mechanism" in error(world))
    tls = {"bootstrap_servers": kafka.tls, "security_protocol": "SSL"}
    world.manager.deploy(msgspec.structs.replace(topic.source(**tls), epoch=8))
    until(lambda: "TLS failed: check security.protocol, ssl.ca.location" in error(world))
    plan = topic.source(**sasl, sasl_password="${secret:KAFKA}")  # noqa: S106 - a reference
    sink = topic.sink(**tls, ssl_ca_location=tls_files[0]).sinks
    world.manager.deploy(msgspec.structs.replace(plan, epoch=9, sinks=sink))
    until(lambda: world.reports()[0].epoch == 9)
    receiver = world.connected_receiver()
    until(lambda: delays(receiver) == [1], receiver)
    publisher = world.publisher(msgspec.structs.replace(plan, epoch=9)).open()
    publisher.send("Alerts", alerts((1, "UA", 5)))
    until(lambda: not publisher.link.outbox.pending, publisher)
    assert topic.messages(2)[1].value() == b'{"event":{"carrier":"UA","late":5}}'


def test_a_sink_writes_messages_where_their_events_say(world: World, kafka: Broker) -> None:
    one, two = Topic(kafka, partitions=3), Topic(kafka)
    parts = {"topic": "{{carrier}}", "partition_no": "{{late}}", "key": "k-{{late}}", "headers": "'who:{{carrier}}'"}
    plan = one.sink(**parts, on_error="STORE")
    world.start(plan)
    publisher = world.publisher(plan).open()
    rows = [(1, one.name, 2), (2, two.name, 0), (3, one.name, 2), (4, "no topic", 0), (5, one.name, -1)]
    publisher.send("Alerts", alerts(*rows))
    until(lambda: not publisher.link.outbox.pending, publisher)
    found = one.messages(2)
    assert [(each.partition(), each.key(), each.headers()) for each in found] == [
        (2, b"k-2", [("who", one.name.encode())])
    ] * 2
    assert two.messages(1)[0].value() == b'{"event":{"carrier":"%s","late":0}}' % two.name.encode()
    kept = requests.get(world.url("/errors"), {"plan": "KnockOnDelays"}, timeout=5).json()["entries"]
    assert ["is not a valid name of a topic" in kept[0]["reason"], "is not a partition" in kept[1]["reason"]] == [
        True,
        True,
    ]


def test_a_message_that_is_too_large_is_kept_and_the_others_go_on(world: World, kafka: Broker) -> None:
    topic = Topic(kafka, **{"max.message.bytes": "2000"})
    plan = topic.sink(on_error="STORE")
    world.start(plan)
    publisher = world.publisher(plan).open()
    publisher.send("Alerts", alerts((1, "a", 1), (2, "b" * 3_000, 2), (3, "c", 3)))
    until(lambda: not publisher.link.outbox.pending, publisher)
    assert len(topic.messages(2)) == 2
    kept = requests.get(world.url("/errors"), {"plan": "KnockOnDelays"}, timeout=5).json()["entries"]
    assert len(kept) == 1
    assert "the message is larger than the topic's max.message.bytes" in kept[0]["reason"]


def test_numbered_messages_count_once(make_world: Callable[..., World], kafka: Broker, tmp_path: Path) -> None:
    topic = Topic(kafka)
    world = make_world(file_sources=FileSourcesConfig(positions=str(tmp_path)))
    both = msgspec.structs.replace(
        topic.sink("csv", sequence_id="s", partition_no="0"),
        sources=topic.source("text", {"regex.A": "(.*)"}, seq_enabled="true").sources,
    )
    plan = msgspec.structs.replace(both, sources=())
    world.start(plan)
    publisher = world.publisher(plan).open()
    publisher.send("Alerts", alerts((1, "a", 1), (2, "b", 2)))
    until(lambda: not publisher.link.outbox.pending, publisher)
    values = [one.value() for one in topic.messages(2)]
    assert values == [b"s:0~a,1", b"s:1~b,2"]
    ours = Topic(kafka)
    ours.send("s:0~UA,1,1", "s:1~UA,2,1", "s:1~UA,2,1", "s:0~UA,1,1", "s:2~UA,3,1", "UA,4,1")
    world.manager.deploy(msgspec.structs.replace(ours.source("csv", seq_enabled="true"), epoch=8))
    until(lambda: world.reports()[0].epoch == 8)
    receiver = world.connected_receiver()
    until(lambda: delays(receiver) == [1, 2, 3], receiver)
    until(lambda: "has no header with a sequence number" in error(world), receiver)
    restarted(world, msgspec.structs.replace(ours.source("csv", seq_enabled="true"), epoch=8))
    ours.send("s:2~UA,3,1", "s:3~UA,4,1")
    until(lambda: delays(receiver) == [1, 2, 3, 4], receiver)


def test_two_workers_share_partitions_and_hand_them_over(make_world: Callable[..., World], kafka: Broker) -> None:
    topic = Topic(kafka, partitions=2)
    plan = topic.source(optional_configuration="heartbeat.interval.ms:200")
    one, two = make_world(), make_world(name="worker-2")
    one.start(plan)
    first = one.connected_receiver()
    until(lambda: len(partitions(one)) == 2, first)
    topic.events(1, 2, 0)
    topic.events(11, 2, 1)
    until(lambda: sorted(delays(first)) == [1, 2, 11, 12], first)
    two.start(plan)
    second = two.connected_receiver()
    until(lambda: len(partitions(one)) == len(partitions(two)) == 1, first, second, deadline_ms=20_000)
    topic.events(3, 2, 0)
    topic.events(13, 2, 1)
    until(lambda: len(first.rows()) + len(second.rows()) == 8, first, second)
    assert one.worker is not None
    one.worker.stop()
    one.worker = None
    topic.events(5, 1, 0)
    topic.events(15, 1, 1)
    until(lambda: len(partitions(two)) == 2, second, deadline_ms=20_000)
    until(lambda: len(first.rows()) + len(second.rows()) == 10, first, second)
    assert sorted(delays(first) + delays(second)) == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]


def test_nothing_is_lost_to_a_stranger_in_the_group(world: World, kafka: Broker) -> None:
    topic = Topic(kafka, partitions=2)
    world.start(topic.source(optional_configuration="heartbeat.interval.ms:200"))
    receiver = world.connected_receiver()
    for partition in range(2):
        topic.events(10 * partition, 1, partition)
    until(lambda: sorted(delays(receiver)) == [0, 10], receiver)
    with topic.stranger() as stranger:
        until(lambda: len(partitions(world)) == 1, stranger, receiver, deadline_ms=20_000)
        for partition in range(2):
            topic.events(10 * partition + 1, 1, partition)
        until(lambda: stranger.taken == 1, stranger, receiver)
        until(lambda: len(receiver.rows()) == 3, receiver, stranger)
    until(lambda: sorted(delays(receiver)) == [0, 1, 10, 11], receiver, deadline_ms=20_000)


def test_what_a_stranger_commits_moves_no_position_of_another_worker(
    make_world: Callable[..., World], kafka: Broker
) -> None:
    topic = Topic(kafka)
    plan = topic.source()
    topic.events(1, 3)
    one, two = make_world(), make_world(name="worker-2")
    one.start(plan)
    first = one.connected_receiver()
    until(lambda: delays(first) == [1, 2, 3], first)
    until(lambda: topic.committed(topic.group) == 3, first)
    assert one.worker is not None
    one.worker.stop()
    one.worker = None
    topic.events(4, 3)
    topic.commit(topic.group, 6)
    two.start(plan)
    second = two.connected_receiver()
    until(lambda: delays(second) == [4, 5, 6], second)


def test_no_stranger_takes_partitions_of_an_exactly_once_plan_and_a_worker_finds_its_own_again(
    make_world: Callable[..., World], kafka: Broker
) -> None:
    topic = Topic(kafka, partitions=2)
    plan = topic.source(optional_configuration="heartbeat.interval.ms:200")
    plan = msgspec.structs.replace(plan, delivery="exactly-once")
    one, two = make_world(), make_world(name="worker-2")
    one.start(plan)
    two.start(plan)
    receivers = one.connected_receiver(), two.connected_receiver()
    until(lambda: len(partitions(one)) == len(partitions(two)) == 1, *receivers, deadline_ms=20_000)
    own = partitions(one)[0].partition
    with topic.stranger() as stranger:
        for number in range(2):
            topic.events(10 * number, 2, number)
        until(lambda: stranger.taken >= 1, stranger, *receivers, deadline_ms=20_000)
        until(lambda: sum(len(each.rows()) for each in receivers) == 4, *receivers, stranger)
        assert len(partitions(one)) == len(partitions(two)) == 1
    restarted(one, plan)
    again = one.connected_receiver()
    until(lambda: len(partitions(one)) == 1, *receivers, again)
    assert (partitions(one)[0].partition, len(partitions(two))) == (own, 1)
    topic.events(10 * own + 2, 1, own)
    until(lambda: 10 * own + 2 in delays(again), *receivers, again)
    until(lambda: topic.committed(topic.group, own) == 3, *receivers, again)


def test_a_plan_without_logs_goes_on_where_it_committed(world: World, kafka: Broker) -> None:
    topic = Topic(kafka)
    plan = msgspec.structs.replace(topic.source(), delivery="at-most-once")
    topic.events(1, 2)
    world.start(plan)
    receiver = world.connected_receiver()
    until(lambda: delays(receiver) == [1, 2], receiver)
    restarted(world, plan)
    topic.events(3, 2)
    until(lambda: delays(receiver) == [1, 2, 3, 4], receiver)


def test_event_time_waits_for_each_partition_and_new_ones_are_read(
    make_world: Callable[..., World], kafka: Broker
) -> None:
    topic = Topic(kafka, partitions=2)
    for partition, times in enumerate((range(1, 400), range(1_000, 1_400))):
        topic.send(*(f'{{"carrier": "UA", "dep_delay": {n}, "price": 1.5}}' for n in times), partition=partition)
    world = make_world(inflow=InflowConfig(idle_ms=60_000))
    options = {
        "timestamp": "dep_delay",
        "optional_configuration": "topic.metadata.refresh.interval.ms:500,max.poll.records:50",
    }
    world.start(msgspec.structs.replace(topic.source(**options), playback=True))
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 799, receiver)

    def is_held() -> bool:
        messages = [frame.message for frame in receiver.frames]
        return all(isinstance(one, Data) and one.watermark_ms <= 399 for one in messages)

    assert is_held(), "events of partition 0 may come yet"
    topic.add_partitions(3)
    topic.events(5_000, 1, partition=2)
    until(lambda: len(receiver.rows()) == 800, receiver, deadline_ms=20_000)
    assert is_held(), "also while the partitions are shared out again"


def test_partitions_that_are_far_ahead_are_read_later_and_no_event_is_late(
    make_world: Callable[..., World], kafka: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Time waits for a partition with unread messages, even if it is paused for longer than `inflow.idle_ms`."""
    caplog.set_level("INFO", "cep_worker.kafka.pauses")
    most, batch = 200, 50
    monkeypatch.setattr(pauses, "PartitionAlignment", partial(PartitionAlignment, most))
    topic = Topic(kafka, partitions=2)
    for partition, times in enumerate((range(5_000, 7_000), range(0, 10_000, 2))):
        events = (f'{{"carrier": "p{partition}", "dep_delay": {n}, "price": 1.5}}' for n in times)
        topic.send(*events, partition=partition)
    world = make_world(inflow=InflowConfig(idle_ms=50))
    options = {"timestamp": "dep_delay", "optional_configuration": f"max.poll.records:{batch}"}
    world.start(msgspec.structs.replace(topic.source(**options), playback=True))
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 7_000, receiver, deadline_ms=30_000)
    waiting: list[int] = []
    behind_ms = watermark_ms = -1
    for frame in receiver.frames:
        if frame.batch is None or not isinstance(frame.message, Data):
            continue
        rows = values(frame.batch)
        late = [row[:2] for row in rows if row[0] < watermark_ms]
        assert not late, f"behind {watermark_ms}"
        watermark_ms = max(watermark_ms, frame.message.watermark_ms)
        behind_ms = max([behind_ms, *(row[0] for row in rows if row[1] == "p1")])
        waiting = [n for n in [*waiting, *(row[0] for row in rows if row[1] == "p0")] if n > behind_ms]
        assert len(waiting) <= most + 2 * batch
    assert any("partitions are paused, they are far ahead of others" in one for one in caplog.messages)
    assert any(f"partitions are read again: {topic.name}[0]" in one for one in caplog.messages)


def test_a_sink_waits_for_a_topic_and_goes_on(world: World, kafka: Broker) -> None:
    plan = Topic(kafka).sink(topic="comes-later")
    world.start(plan)
    publisher = world.publisher(plan).open()
    publisher.send("Alerts", alerts((1, "UA", 5)))
    until(lambda: "topic comes-later: the topic or partition does not exist: create it" in error(world), publisher)
    topic = Topic(kafka, name="comes-later")
    until(lambda: not publisher.link.outbox.pending, publisher, deadline_ms=20_000)
    assert len(topic.messages(1)) == 1
    until(lambda: not error(world), publisher)


def test_plans_reach_listed_brokers_alone(make_world: Callable[..., World], kafka: Broker) -> None:
    topic = Topic(kafka)
    world = make_world(sinks=SinkConfig(), sources=SourcesConfig())
    plan = msgspec.structs.replace(topic.source(), sinks=topic.sink().sinks)
    world.start(plan)
    refused = f"bootstrap.servers: kafka://{kafka.servers} may not be called; name it in "
    until(lambda: f"{refused}sources.urls of the worker's configuration" in error(world))
    world.manager.deploy(msgspec.structs.replace(plan, sources=(), epoch=8))
    until(lambda: f"{refused}sinks.urls of the worker's configuration" in error(world))


def test_the_doctor_says_what_is_there_and_what_is_wrong(kafka: Broker, tmp_path: Path) -> None:
    topic = Topic(kafka, partitions=2)
    topic.send("x")
    password = tmp_path / "password"
    password.write_text(PASSWORD + "\n")
    kafka.add_scram_user("scram", PASSWORD)
    scram = "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=SCRAM-SHA-256", "sasl.username=scram"
    asked = ["kafka", "--servers", kafka.sasl, "--password-file", str(password)]
    told = CliRunner().invoke(doctor_command, [*asked, *(word for one in scram for word in ("--set", one))])
    assert (told.exit_code, "ok        brokers: 1 answer" in told.output) == (0, True), told.output
    asked = ["kafka", "--servers", kafka.servers, "--topic", topic.name, "--group", "g", "--json"]
    told = CliRunner().invoke(doctor_command, asked)
    assert told.exit_code == 0, told.output
    said = {one["what"]: (one["weight"], one["text"]) for one in json.loads(told.output)}
    assert said[f"topic {topic.name}"] == ("ok", "2 partitions, some 1 messages")
    assert said["group g"] == ("ok", f"may be used; 0 of 2 partitions of {topic.name} have offsets")
    assert "1 answer for cluster" in said["brokers"][1]
    for asked, problem in (
        (
            ["--servers", kafka.servers, "--topic", "nowhere"],
            "critical  topic nowhere: the topic or partition does not",
        ),
        (["--servers", kafka.tls, "--set", "security.protocol=SSL"], "critical  brokers: TLS failed: check"),
        (["--servers", "127.0.0.1:1"], "critical  brokers: no connection to a broker"),
    ):
        told = CliRunner().invoke(doctor_command, ["kafka", *asked])
        assert (told.exit_code, problem in told.output) == (1, True), told.output
    with schema_registry() as registry:
        number = registry.add('"string"', subject="flights-value")
        asked = ["kafka", "--servers", kafka.servers, "--transactions", "--registry", registry.url]
        told = CliRunner().invoke(doctor_command, [*asked, "--subject", "flights-value"])
        assert told.exit_code == 0, told.output
        assert "ok        transactions: transactional ids and groups that begin with cep/ may be used" in told.output
        assert f"ok        subject flights-value: its latest version is schema {number} (AVRO)" in told.output
        registry.user = "u:p"
        (tmp_path / "registry").write_text("p\n")
        user = ["--registry-user", "u", "--registry-password-file", str(tmp_path / "registry")]
        told = CliRunner().invoke(doctor_command, [*asked, *user, "--subject", "nothing"])
        assert "critical  subject nothing: the schema registry refuses" in told.output, told.output
        told = CliRunner().invoke(doctor_command, asked)
    assert (told.exit_code, "critical  registry: the schema registry refuses the user" in told.output) == (1, True)
    told = CliRunner().invoke(doctor_command, asked)
    assert (told.exit_code, "critical  registry: " in told.output) == (1, True), told.output
    wrong = CliRunner().invoke(doctor_command, ["kafka", "--servers", kafka.servers, "--set", "sasl.username=u"])
    assert "sasl.username and sasl.password (or password.file) go together" in wrong.output


def test_a_broker_that_dies_is_waited_for(world: World, kafka: Broker) -> None:
    topic, results = Topic(kafka), Topic(kafka)
    topic.events(1, 2)
    plan = msgspec.structs.replace(topic.source(), sinks=results.sink().sinks)
    world.start(plan)
    receiver, publisher = world.connected_receiver(), world.publisher(plan).open()
    until(lambda: delays(receiver) == [1, 2], receiver)
    publisher.send("Alerts", alerts((1, "UA", 1)))
    until(lambda: not publisher.link.outbox.pending, publisher)
    kafka.kill()
    publisher.send("Alerts", alerts((2, "UA", 2)))
    until(lambda: "broker" in error(world) and "bootstrap.servers" in error(world), receiver, publisher)
    kafka.start()
    topic.events(3, 2)
    until(lambda: delays(receiver) == [1, 2, 3, 4], receiver, publisher, deadline_ms=20_000)
    until(lambda: not publisher.link.outbox.pending, receiver, publisher, deadline_ms=20_000)
    assert [one.value() for one in results.messages(2)] == [
        b'{"event":{"carrier":"UA","late":1}}',
        b'{"event":{"carrier":"UA","late":2}}',
    ]
    until(lambda: not error(world), receiver, publisher)


def test_marks_of_transactions_and_what_was_aborted_are_no_lag(world: World, kafka: Broker) -> None:
    from confluent_kafka import Producer  # noqa: PLC0415 - an extra

    topic = Topic(kafka)
    producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": topic.name, "log_level": 0})
    producer.init_transactions(10)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic.name, EVENT)
        producer.flush(10)
        end(10)
    world.start(topic.source())
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 1, receiver)
    until(lambda: [(one.position, one.end, one.lag) for one in partitions(world)] == [(4, 4, 0)], receiver)
    until(lambda: topic.committed(topic.group) == 4, receiver)
    topic.events(7, 1)
    until(lambda: delays(receiver) == [5, 7], receiver)
