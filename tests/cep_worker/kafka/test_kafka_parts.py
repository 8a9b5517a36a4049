"""The parts of Kafka's connectors that need no broker: options, settings, positions, sequence headers."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import zmq
from confluent_kafka import TopicPartition
from worker_world import sink_context, until

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector
from cep_common.protocol.worker_reports import PartitionReport
from cep_common.reach.guard import Guard, Reach
from cep_worker.formats.source_mappers.json_path_mapper import JsonFormat
from cep_worker.kafka import sink
from cep_worker.kafka.client import library, pause
from cep_worker.kafka.fetched import Fetched
from cep_worker.kafka.messages import KafkaMessage, MessageReader, Refused, StoredMessages, failed_messages, stored
from cep_worker.kafka.positions import (
    KnownPosition,
    OutOfRangeError,
    Position,
    in_range,
    mark,
    marked_position,
    source_of,
    start,
)
from cep_worker.kafka.readings import Reader, Readings
from cep_worker.kafka.seen import Seen
from cep_worker.kafka.sequences import BLOCK, HeaderError, Numbers, with_header, without_header
from cep_worker.kafka.topic_ids import TopicIds
from cep_worker.runtime.event_loop import EventLoop
from query_plan.connectors.judging import connector_faults
from query_plan.connectors.kafka import KafkaSourceOptions
from query_plan.connectors.kafka_settings import client_settings
from query_plan.connectors.options import read_options
from query_plan.connectors.reach import reach_faults
from query_plan.secrets import mask_plan, secrets_of

SOURCE = {"bootstrap.servers": "b1:9092,b2", "topic.list": "t,u", "group.id": "g", "threading.option": "single.thread"}
SINK = {"bootstrap.servers": "b1:9092", "topic": "t", "is.binary.message": "false"}


def faults(kind: str, **options: str) -> list[str]:
    base = SOURCE if kind == "source" else SINK
    given = base | {name.replace("_", "."): text for name, text in options.items()}
    connector = Connector("S", "kafka", given, "json", {})
    return [one.fault.text() for one in connector_faults(kind, connector, ["a", "b"])]  # type: ignore[arg-type]


def test_apps_of_siddhi_are_accepted_as_they_are() -> None:
    assert faults("source") == faults("sink") == []
    known = {"partition_no_list": "0,1", "seq_enabled": "TRUE", "topic_offsets_map": "t=5,u=7",
             "enable_offsets_commit": "true", "enable_async_commit": "false", "is_binary_message": "true",
             "optional_configuration": "auto.offset.reset:latest,session.timeout.ms:9000"}  # fmt: skip
    assert faults("source", **known) == []
    assert faults("sink", topic="{{a}}", partition_no="{{b}}", key="{{a}}-x", sequence_id="s", is_synchronous="true",
                  headers="'x: {{b}}'", optional_configuration="batch.size:100000,linger.ms:50") == []  # fmt: skip


def test_positions_in_a_former_topic_of_the_name_do_not_count() -> None:
    known = KnownPosition(2, 900, own=Position(0, 300), marked=Position(0, 250), generation=1)
    found = start(known, "earliest")
    assert (found.position, found.lost) == (Position(1, 2), 0)
    assert "created again since it was read up to offset 300; it continues at 2" in found.note
    found = start(known, "latest")
    assert (found.position, found.lost) == (Position(1, 900), 898)
    with pytest.raises(OutOfRangeError, match="created again"):
        start(known, "none")
    read = KnownPosition(2, 900, own=Position(1, 300), marked=Position(0, 250), generation=1)
    assert start(read, "earliest").position == Position(1, 300)


def test_ids_of_topics_are_kept(tmp_path: Path) -> None:
    ids = TopicIds(tmp_path, "plan", "stream")
    assert not ids.note("flights", "a")
    ids.note_generation("flights", 2)
    ids = TopicIds(tmp_path, "plan", "stream")
    assert not ids.note("flights", "")
    assert (ids.differs("flights", "b"), ids.generation("flights")) == (True, 0)
    assert ids.note("flights", "b")
    assert TopicIds(tmp_path, "plan", "stream").generation("flights") == 3


def test_brokers_that_learn_of_ids_have_the_topic_of_before(tmp_path: Path) -> None:
    kafka = pytest.importorskip("confluent_kafka")
    ids = TopicIds(tmp_path, "plan", "stream")
    none = str(kafka.Uuid(0, 0))
    assert not ids.note("flights", none)
    assert not ids.note("flights", "a")
    assert not ids.differs("flights", none)
    assert (ids.note("flights", none), ids.generation("flights")) == (False, 0)


@pytest.mark.parametrize(
    ("kind", "options", "problem"),
    [
        ("source", {"topic_list": " "}, "topic.list: must name at least one topic"),
        ("source", {"topic_list": "a b"}, "topic.list: 'a b' is not a topic name"),
        ("source", {"group_id": ""}, "group.id: must not be empty"),
        ("source", {"bootstrap_servers": "b:0"}, "bootstrap.servers: 'b:0' is not host:port"),
        ("source", {"threading_option": "partition.wise"}, "threading.option: partition.wise needs partition.no.list"),
        ("source", {"partition_no_list": "0,x"}, "partition.no.list: 'x' is not a number of a partition"),
        ("source", {"topic_offsets_map": "v=1"}, "topic.offsets.map: v is not in topic.list"),
        ("source", {"optional_configuration": "auto.offset.reset:first"}, "auto.offset.reset must be earliest or"),
        ("source", {"sasl_username": "u"}, "sasl.username and sasl.password (or password.file) go together"),
        ("source", {"sasl_mechanism": "PLAIN"}, "security.protocol: must be SASL_SSL or SASL_PLAINTEXT"),
        ("source", {"ssl_ca_location": "/ca.pem"}, "security.protocol: must be SSL or SASL_SSL"),
        ("source", {"optional_configuration": "plugin.library.paths:/x.so"}, "unknown setting plugin.library.paths"),
        ("source", {"optional_configuration": "sasl.mechanism:GSSAPI"}, "sasl.mechanism must be PLAIN or SCRAM"),
        ("source", {"optional_configuration": "bootstrap.servers:x"}, "write the option bootstrap.servers"),
        ("source", {"optional_configuration": "ssl.keystore.location:/k"}, "write ssl.certificate.location"),
        ("source", {"optional_configuration": "fetch.min.byte:1"}, "did you mean 'fetch.min.bytes'?"),
        ("source", {"optional_configuration": "buffer.memory:1"}, "buffer.memory has no effect"),
        ("sink", {"optional_configuration": "auto.offset.reset:latest"}, "unknown setting auto.offset.reset"),
        ("sink", {"topic": "a b"}, "topic: 'a b' is not a topic name"),
        ("sink", {"partition_no": "x"}, "partition.no: 'x' is not a number of a partition"),
        ("sink", {"sequence_id": "a:b"}, "sequence.id: must be at most 100 characters"),
        ("sink", {"topic": "{{c}}"}, "topic: no such attribute: c"),
        ("sink", {"headers": "x"}, "headers: must be"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_options_is_said(kind: str, options: dict[str, str], problem: str) -> None:
    assert any(problem in fault for fault in faults(kind, **options)), faults(kind, **options)


def test_settings_have_the_names_of_the_library() -> None:
    jaas = "x.PlainLoginModule required username=\"u\" password='p';"
    text = f"max.request.size:5,sasl.mechanism:PLAIN,retries:3,sasl.jaas.config:{jaas}"
    assert client_settings(text, frozenset({"max.request.size"})) == {
        "message.max.bytes": "5", "sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": "p",
    }  # fmt: skip


def test_secrets_in_plans_are_covered() -> None:
    text = """@source(type='kafka', optional.configuration='sasl.username:u,sasl.password:top,secret',
    sasl.password='hidden1')
    define stream S (a int);"""
    shown = mask_plan(text)
    assert "top" not in shown
    assert ",secret" not in shown
    assert "hidden1" not in shown
    assert "sasl.username:u" in shown
    assert set(secrets_of(text)) == {"hidden1", "secret"}  # three letters are covered where they stand


def test_brokers_and_files_must_be_listed() -> None:
    def refused(reach: Reach, kind: str, given: frozenset[str] = frozenset(), **more: str) -> list[str]:
        options = (SOURCE if kind == "source" else SINK) | {name.replace("_", "."): text for name, text in more.items()}
        connector = Connector("S", "kafka", options, "", {})
        return [one.text() for one in reach_faults(kind, connector, Guard(reach, here=False), given)]  # type: ignore[arg-type]

    open_ = Reach(source_urls=("kafka://b1", "kafka://b2:9092"), sink_urls=("kafka://*:9092",), working_folder="/")
    assert refused(open_, "source") == refused(open_, "sink") == []
    assert refused(Reach(source_urls=("kafka://b1",)), "source") == [
        "bootstrap.servers: kafka://b2:9092 may not be called; name it in sources.urls of the worker's configuration"
    ]
    assert "sinks.urls" in refused(Reach(source_urls=("*",)), "sink")[0]
    assert "password_files.folders" in refused(open_, "source", password_file="/etc/shadow")[0]  # noqa: S106 - a path
    assert "password_files.folders" in refused(open_, "sink", optional_configuration="ssl.key.location:/etc/key")[0]
    lent = refused(open_, "source", frozenset({"sasl.password"}), sasl_password="x")  # noqa: S106
    assert "can only be sent to the destination that it configures" in lent[0]
    local = SINK | {"bootstrap.servers": "localhost:9092"}
    faults_ = list(reach_faults("sink", Connector("S", "kafka", local, "", {}), Guard(open_, here=False)))
    assert "it is this host" in faults_[0].text()


def test_a_position_is_what_the_log_has_and_what_our_mark_says() -> None:
    assert start(KnownPosition(0, 90), "earliest").position == (0, 0)
    assert start(KnownPosition(0, 90), "latest").position == (0, 90)
    assert start(KnownPosition(0, 90, own=Position(0, 40), unmarked=80), "latest").position == (0, 40)
    assert start(KnownPosition(0, 90, own=Position(0, 40), marked=Position(0, 60)), "latest").position == (0, 60)
    moved = start(KnownPosition(0, 90, unmarked=80), "earliest")
    assert (moved.position, "which another consumer of the group committed" in moved.note) == ((0, 80), True)
    assert start(KnownPosition(0, 90, unmarked=80, wanted=6), "earliest").position == (0, 6)
    with pytest.raises(OutOfRangeError, match="never read"):
        start(KnownPosition(0, 90), "none")


def test_a_position_that_is_gone_is_told() -> None:
    gone = in_range(Position(0, 3), 5, 9, "earliest")
    assert (gone.position, gone.lost) == ((0, 5), 2)
    assert "2 messages were deleted before they were read (retention)" in gone.note
    again = in_range(Position(0, 30), 0, 9, "earliest")
    assert again.position == Position(1, 0)
    assert again.position > Position(0, 30)
    with pytest.raises(OutOfRangeError, match=r"auto\.offset\.reset is none"):
        in_range(Position(0, 30), 0, 9, "none")


@pytest.mark.parametrize("position", [Position(0, 1), Position(0, 2**40), Position(3, 1), Position(3, 77)])
def test_numbers_of_origins_are_positions(position: Position) -> None:
    assert Position.behind(position.number()) == position


def test_numbers_of_a_later_generation_are_larger() -> None:
    assert Position(1, 1).number() > Position(0, 2**47).number()


def test_marks_are_of_a_plan_and_stream() -> None:
    written = mark("p", "s", 2)
    assert marked_position("p", "s", written, 7) == Position(2, 7)
    assert marked_position("p", "other", written, 7) is None
    assert marked_position("p", "s", None, 7) is None
    assert marked_position("p", "s", "kafka", 7) is None


@pytest.mark.parametrize("binary", [False, True])
def test_sequence_headers_go_on_and_off(*, binary: bool) -> None:
    message = with_header(b"pay~load", "seq", 12, binary=binary)
    assert without_header(message, binary=binary) == ("seq", 12, b"pay~load")
    assert binary or message == b"seq:12~pay~load"
    assert not binary or message == b"\0\0\0\x06seq:12pay~load"


@pytest.mark.parametrize("message", [b"", b"{}", b"a~b", b"a:x~b", b"\0\0\0\xff", b"\xff\xff\xff\xffabc"])
@pytest.mark.parametrize("binary", [False, True])
def test_messages_without_a_header_are_refused(message: bytes, *, binary: bool) -> None:
    with pytest.raises(HeaderError):
        without_header(message, binary=binary)


class _Message:
    def __init__(self, value: bytes) -> None:
        self._value = value

    def __getattr__(self, name: str) -> Any:
        found = {"topic": "t", "partition": 0, "timestamp": (0, 0), "headers": None, "value": self._value}
        return lambda: found.get(name)


def test_messages_count_as_seen_once_they_are_taken(tmp_path: Path) -> None:
    options = read_options(KafkaSourceOptions, {"bootstrap.servers": "b:9092", "topic.list": "t", "group.id": "g"}, "")
    seen = Seen(tmp_path, "plan", "stream", options)

    def payloads(*numbers: int) -> list[bytes]:
        found = Fetched([_Message(with_header(b"%d" % one, "s", one, binary=False)) for one in numbers])
        assert seen.take_off(found) == []
        return found.payloads()

    assert payloads(0, 1, 1) == [b"0", b"1"]
    seen.save()
    seen = Seen(tmp_path, "plan", "stream", options)
    assert payloads(0, 1) == [b"0", b"1"], "they were not taken, and have come again"
    assert payloads(0, 1) == [b"0", b"1"]
    seen.took()
    assert payloads(1, 2) == [b"2"]


def test_numbers_rise_whatever_becomes_of_the_process(tmp_path: Path) -> None:
    first = Numbers(tmp_path / "n")
    assert list(first.take(3)) == [0, 1, 2]
    assert list(first.take(1)) == [3]
    assert next(Numbers(tmp_path / "n").take(1)) == BLOCK + 3


class _Some:
    def __init__(self, *payloads: bytes) -> None:
        self._payloads = list(payloads)

    def __len__(self) -> int:
        return len(self._payloads)

    def payloads(self) -> list[bytes]:
        return self._payloads

    def message(self, index: int) -> KafkaMessage:
        payload = self._payloads[index]
        return KafkaMessage("t", 1, 10 + index, b"k", payload, 5_000 + index, [("h", b"v"), ("h", b"w")], payload)


SCHEMA = StreamSchema("S", (("a", "int"), ("h", "string"), ("ts", "long")))
BESIDE = (("h", "h"), ("ts", "record.timestamp"))


@pytest.mark.parametrize("payloads", [(b'{"a":1}', b'{"a":2}'), (b'[{"a":1},{"a":2}]',), (b'{"a":\n1}', b'{"a":2}')])
def test_messages_of_every_shape_have_their_properties_and_times(payloads: tuple[bytes, ...]) -> None:
    batch, refused = MessageReader(JsonFormat(), SCHEMA, BESIDE, "ts").read(_Some(*payloads), 9)
    assert refused == []
    assert batch is not None
    rows = batch.to_pylist()
    assert [(row["a"], row["h"]) for row in rows] == [(1, "w"), (2, "w")]
    assert [row["_timestamp"] for row in rows] == [row["ts"] for row in rows]
    assert rows[0]["ts"] == 5_000


def test_events_have_their_own_times_whatever_the_clocks_of_brokers_say() -> None:
    payloads = b'{"a":1,"ts":77}', b'{"a":2,"ts":9000000000000}'
    batch, refused = MessageReader(JsonFormat(), SCHEMA, (("h", "h"),), "ts").read(_Some(*payloads), 9)
    assert refused == []
    assert batch is not None
    assert [row["_timestamp"] for row in batch.to_pylist()] == [77, 9_000_000_000_000]


def test_one_wrong_message_does_not_take_others_with_it() -> None:
    batch, refused = MessageReader(JsonFormat(), SCHEMA, BESIDE, None).read(_Some(b'{"a":1}', b"x", b"", b'{"a":2}'), 9)
    assert isinstance(batch, pa.RecordBatch)
    assert batch.num_rows == 2
    assert [one.message.offset for one in refused] == [11, 12]
    kept = StoredMessages(stored(refused, 9))
    assert (len(kept), kept.payloads(), kept.message(0).headers) == (2, [b"x", b""], [("h", b"v"), ("h", b"w")])
    with pytest.raises(ValueError, match="no Kafka messages"):
        StoredMessages(batch)


def test_messages_that_are_wrong_in_one_way_are_one_entry() -> None:
    some = _Some(*[b"x"] * 250)
    refused = [Refused(some.message(index), "why") for index in range(250)]
    found = list(failed_messages([*refused, Refused(some.message(0), "else")], 9))
    assert [one.events.num_rows for one in found] == [100, 100, 50, 1]
    assert [one.reason for one in found][::3] == ["t[1] offset 10 to 109: why", "t[1] offset 10: else"]


def test_a_refused_message_names_its_place() -> None:
    assert Refused(_Some(b"x").message(0), "why").message.place() == "t[1] offset 10"


def test_the_package_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(
        ConfigError, match=r"type kafka needs the package confluent-kafka: pip install 'cep-on-spark\[kafka\]'"
    ):
        library()


def test_reports_are_messages() -> None:
    assert msgspec.to_builtins(PartitionReport("t", 0, 5))["end"] == -1
    assert (PartitionReport("t", 0, 5, 4, 9).lag, PartitionReport("t", 0, 5).lag) == (4, 0)


class _Consumer:
    """A consumer whose `poll` gives `found`; keeps what else it was asked for."""

    def __init__(self, found: object) -> None:
        self.found = found
        self.paused: list[str] = []
        self.sought: list[tuple[str, int, int]] = []

    def assignment(self) -> list[str]:
        return ["t[0]"]

    def pause(self, partitions: list[str]) -> None:
        self.paused += partitions

    def poll(self, _timeout: float) -> object:
        return self.found

    def seek(self, place: TopicPartition) -> None:
        self.sought.append((place.topic, place.partition, place.offset))


class _Placed:
    def __init__(self, error: str | None) -> None:
        self._error = error

    def error(self) -> str | None:
        return self._error

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return 7


class _Group:
    """A consumer that has the partition 0, with offsets to 60; `committed` is an offset and its metadata."""

    def __init__(self, committed: tuple[int, str] | None = None) -> None:
        self._committed = committed

    def committed(self, partitions: list[Any], timeout: float) -> list[Any]:
        if self._committed is None:
            return partitions
        return [TopicPartition(one.topic, one.partition, *self._committed) for one in partitions]

    def get_watermark_offsets(self, _partition: Any, timeout: float = 0, *, cached: bool = False) -> tuple[int, int]:
        return 0, 60

    def assign(self, partitions: list[Any]) -> None:
        self.at = partitions[0].offset

    def commit(self, **_: Any) -> None: ...


def _readings(reader: Reader, newest: dict[bytes, int], ids: TopicIds) -> Readings:
    """The partitions of a consumer; `newest` is what the log has, by origin."""
    return Readings(
        library(), reader, lambda asked: [newest.get(one) for one in asked], lambda *_: None, lambda *_: None, ids
    )


def _of_cluster(cluster: str, *, commits: bool = True) -> Reader:
    return Reader("P", "S", (), {}, "earliest", commits=commits, waits=False, safe_s=0, cluster=cluster)


def test_topics_of_one_name_at_two_clusters_have_positions_of_their_own(tmp_path: Path) -> None:
    newest = {source_of("P", "S", "t", 0, "first"): Position(0, 40).number()}
    ids = {name: TopicIds(tmp_path, "P", "S", name) for name in ("first", "second")}
    at = {}
    for name, known in ids.items():
        assert not known.note("t", f"topic of {name}"), "it is another topic, not one that was created again"
        group = _Group()
        _readings(_of_cluster(name), newest, known).assigned(group, [TopicPartition("t", 0)])
        at[name] = group.at
    assert at == {"first": 40, "second": 0}
    assert [TopicIds(tmp_path, "P", "S", name).differs("t", f"topic of {name}") for name in ids] == [False, False]


@pytest.mark.parametrize(
    ("kept", "has_mark", "commits", "place"),
    [
        ("a", False, True, 40),
        ("b", False, True, 0),
        ("b", True, True, 7),
        ("", False, True, 0),
        ("", True, True, 40),
        ("", False, False, 40),
    ],
)
def test_a_position_without_a_cluster_counts_where_it_comes_from(
    tmp_path: Path, kept: str, has_mark: bool, commits: bool, place: int
) -> None:
    """`kept` is the id of the topic that was read; where there is none, a mark at the cluster shows who read."""
    before = TopicIds(tmp_path, "P", "S")
    before.note("t", kept)
    before.note_generation("t", 2)
    ids = TopicIds(tmp_path, "P", "S", "cluster")
    assert not ids.note("t", "a")
    newest = {source_of("P", "S", "t", 0): Position(0, 40).number()}
    group = _Group((7, mark("P", "S", 0)) if has_mark else None)
    _readings(_of_cluster("cluster", commits=commits), newest, ids).assigned(group, [TopicPartition("t", 0)])
    assert group.at == place
    assert ids.note("t", "c")
    assert ids.generation("t") == (3 if kept == "a" else 1), "positions of the topic before do not count"

    newest[source_of("P", "S", "t", 0, "cluster")] = Position(3, 12).number()
    _readings(_of_cluster("cluster"), newest, ids).assigned(group, [TopicPartition("t", 0)])
    assert group.at == 12


def test_numbers_that_were_seen_belong_to_a_cluster(tmp_path: Path) -> None:
    options = read_options(KafkaSourceOptions, {"bootstrap.servers": "b:9092", "topic.list": "t", "group.id": "g"}, "")

    def new(seen: Seen) -> bool:
        """Whether the first message of the sequence is one that was not seen."""
        found = Fetched([_Message(with_header(b"0", "s", 0, binary=False))])
        seen.take_off(found)
        seen.took()
        seen.save()
        return bool(found.payloads())

    assert new(Seen(tmp_path, "plan", "stream", options)), "numbers without a cluster have their own file"
    assert new(Seen(tmp_path, "plan", "stream", options, "first", lambda topic: topic != "t"))
    assert not new(Seen(tmp_path, "plan", "stream", options, "second", lambda topic: topic == "t"))
    assert not new(Seen(tmp_path, "plan", "stream", options, "first", lambda topic: topic == "t"))


def test_the_end_of_a_partition_counts_only_for_whom_it_was_read(tmp_path: Path) -> None:
    reader = Reader("P", "S", (), {}, "earliest", commits=True, waits=False, safe_s=0)
    newest: dict[bytes, int] = {}
    readings = _readings(reader, newest, TopicIds(tmp_path, "P", "S"))
    group = _Group()
    readings.assigned(group, [TopicPartition("t", 0)])
    assert group.at == 0
    first = readings.reading("t", 0)
    assert first is not None
    readings.reached_end("t", 0, first, Position(0, 50))
    assert first.position == Position(0, 50)
    readings.reached_end("t", 0, first, Position(1, 60))
    assert first.position == Position(0, 50), "that end is one of another topic of the name"

    newest[source_of("P", "S", "t", 0)] = Position(0, 55).number() - 1
    readings.lost(group, [])
    readings.assigned(group, [TopicPartition("t", 0)])
    second = readings.reading("t", 0)
    assert second is not None
    before = second.position
    readings.reached_end("t", 0, first, Position(0, 60))
    assert second.position == before, "messages before that end may not have been taken"


def test_a_paused_consumer_loses_neither_errors_nor_messages() -> None:
    nothing, failed, message = _Consumer(None), _Consumer(_Placed("out of range")), _Consumer(_Placed(None))
    assert [pause(library(), one) for one in (nothing, failed, message)] == [None, failed.found, None]
    assert [one.paused for one in (nothing, failed, message)] == [["t[0]"]] * 3
    assert [one.sought for one in (nothing, failed, message)] == [[], [], [("t", 1, 7)]]


@pytest.mark.parametrize("carries", [True, False])
def test_sinks_between_groups_let_no_broker_create_their_topic(
    context: zmq.Context[Any], monkeypatch: pytest.MonkeyPatch, carries: bool
) -> None:
    """The manager deletes such a topic while results of a discarded plan may still wait for it."""
    pytest.importorskip("confluent_kafka", reason="pip install 'cep-on-spark[kafka]'")
    made: list[dict[str, Any]] = []

    class Producer:
        purge = poll = staticmethod(lambda *_: None)

        def __init__(self, settings: dict[str, Any]) -> None:
            made.append(settings)

    monkeypatch.setattr(sink, "made", lambda _kind, settings, _where: Producer(settings))
    options = {"bootstrap.servers": "b:1", "topic": "App.Alerts"}
    connector = Connector("Alerts", "kafka", options, "json", {}, carries=carries)
    running = sink.kafka_sink(sink_context(connector, EventLoop(), context))
    running.close()
    until(running.drained)
    assert [one.get("allow.auto.create.topics", True) for one in made] == [not carries]


def test_every_bad_day_has_its_test_and_its_message() -> None:
    """The page names tests that there are, and quotes messages that there are."""
    root = Path(__file__).parents[3]
    page = (root / "docs/testing/faults.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and ".py`: `test_" in line]
    assert len(rows) >= 13
    folders = ("cep_worker/kafka", "cep_worker/formats/schemas", "topology/kafka_client.py")
    files = [file for folder in folders for file in (*(root / folder).rglob("*.py"), root / folder) if file.is_file()]
    sources = " ".join(re.sub(r'"\s*\n\s*f?"', "", file.read_text(encoding="utf-8")) for file in files)
    for row in rows:
        _, _, tested, seen, _ = row.split("|")
        for part in tested.split("; "):
            file, *tests = re.findall(r"`([^`]+)`", part)
            if file.startswith("benchmarks/"):
                assert (root / file).exists(), row
                continue
            text = (root / "tests/cep_worker" / file).read_text(encoding="utf-8")
            assert not [name for name in tests if f"def {name}(" not in text], row
        quoted = [one for one in re.findall(r"`([^`]+)`", seen) if not one.startswith("cep ")]
        assert not [one for one in quoted if one not in sources], row
        assert seen.strip(), row
