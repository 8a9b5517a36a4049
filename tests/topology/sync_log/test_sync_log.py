"""The log of shared state in a topic: its order alone decides, and each run reads what it has written itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pyarrow as pa
import pytest
from log_topics import MemoryTopics, ReadInMemory, WrittenInMemory

from cep_common.ids import PlanKey
from topology.acks import Ack
from topology.errors import TopologyError
from topology.events.bundle import Bundle
from topology.sync_log.reader import DAMAGED, FOREIGN, LOST, SyncLogReader
from topology.sync_log.records import PART_BYTES, VERSION, LogSchemas, SyncLogRecord, encode
from topology.sync_log.settings import LONGEST_TOPIC, SyncLogSettings
from topology.sync_log.writer import MOST_BUNDLES, SyncLogWriter

RUN, OLD_RUN = (3, 1), (3, 0)
SCHEMA = pa.schema([("_timestamp", pa.int64()), ("_kind", pa.int8()), ("temp", pa.int64()), ("_origin", pa.int32())])
SCHEMAS = LogSchemas({"g.log.T": SCHEMA}, {"g.log.T": SCHEMA.append(pa.field("`clock`", pa.int64()))})


def rows(*temps: int) -> pa.RecordBatch:
    columns = [temps, [0] * len(temps), temps, [0] * len(temps)]
    return pa.record_batch([pa.array(one, kind) for one, kind in zip(columns, SCHEMA.types, strict=True)], SCHEMA)


def bundle(ticket: int, *temps: int, **more: object) -> Bundle:
    batches = (("g.log.T", rows(*temps)),) if temps else ()
    return replace(Bundle("g.log#0", "g.log#0", ticket, "g.log#0", ("g.log.T",), 5, batches=batches), **more)


def both(got: list[tuple[int, ...]]) -> dict[str, list[tuple[int, ...]]]:
    return dict.fromkeys(("g#0", "g#1"), got)


class Instances:
    """What two instances of a task have got."""

    def __init__(self, topics: MemoryTopics, run: tuple[int, int] = RUN, number: int = 5) -> None:
        settings = SyncLogSettings(kafka={"bootstrap.servers": "127.0.0.1:1"})
        opened = topics.topics()
        self.noted: list[str] = []
        topic = opened.read("t", settings, lambda: None)
        assert isinstance(topic, ReadInMemory)
        self.reader = SyncLogReader(topic, run, ("g#0", "g#1"), SCHEMAS, lambda code, _: self.noted.append(code))
        self.topic = opened.written("t", settings, lambda: None)
        assert isinstance(self.topic, WrittenInMemory)
        self.writer = SyncLogWriter(self.topic, run, self._emit, number)
        self.got: dict[str, list[tuple[int, ...]]] = {"g#0": [], "g#1": []}
        self.order: list[str] = []

    def _emit(self, one: Bundle) -> None:
        assert not one.batches
        for name in self.got:
            self.reader.push(name, one)

    def settle(self, turns: int = 20) -> None:
        for _ in range(turns):
            self.writer.pump()
            for name, one in self.reader.ready():
                temps = tuple(temp for _, batch in one.batches for temp in batch.column("temp").to_pylist())
                self.got[name].append((-one.checkpoint,) if one.checkpoint else temps)


@pytest.fixture
def topics() -> MemoryTopics:
    return MemoryTopics(delay=2)


def test_every_instance_gets_rows_and_markers_in_the_order_of_the_topic(topics: MemoryTopics) -> None:
    instances = Instances(topics)
    instances.writer.write(bundle(0, 1, 2))
    instances.writer.write(Bundle.marker("g.log#0", 7))
    instances.writer.write(bundle(1))
    instances.writer.write(bundle(2, 3))
    assert not instances.writer.is_drained()
    assert instances.writer.rows == 3
    instances.settle()
    assert instances.got == both([(1, 2), (-7,), (), (3,)])
    assert instances.writer.is_drained()
    assert instances.reader.is_drained()
    assert instances.writer.rows == 0


def test_time_and_processing_times_come_back_from_the_topic(topics: MemoryTopics) -> None:
    instances = Instances(topics)
    clocked = rows(4).append_column("`clock`", pa.array([9], pa.int64()))
    instances.writer.write(bundle(0, watermark_ms=77, idle=True, clock_ms=78, batches=(("g.log.T", clocked),)))
    for _ in range(3):
        instances.writer.pump()
    found: list[Bundle] = []
    while not found:
        found = [one for _, one in instances.reader.ready()]
    assert [(one.watermark_ms, one.idle, one.clock_ms) for one in found] == [(77, True, 78)] * 2
    assert found[0].batches[0][1].column("`clock`").to_pylist() == [9]


def test_a_bundle_counts_as_done_only_when_every_instance_has_it(topics: MemoryTopics) -> None:
    done: list[int] = []
    instances = Instances(topics)
    receipt = Ack(lambda: done.append(1))
    one = bundle(0, 1, receipt=receipt)
    instances.writer.write(one)
    one.settle()
    assert not done, "the brokers do not have it yet"
    instances.settle()
    assert done, "it was passed on; whoever takes it holds it from there"


def test_records_of_a_fenced_run_and_of_strangers_are_skipped(topics: MemoryTopics) -> None:
    """An older run writes on between the records of the present one, and somebody else writes there by mistake."""
    old = iter(range(100))

    def others(records: list[bytes | None]) -> None:
        records += encode(OLD_RUN, bundle(next(old), 666))
        records.append(b"not a record")
        records.append(msgspec.msgpack.encode(SyncLogRecord(VERSION + 1, RUN, 0, 0, 1, b"")))

    topics.before_each = others
    instances = Instances(topics)
    for ticket in range(3):
        instances.writer.write(bundle(ticket, ticket))
    instances.settle()
    assert instances.got == both([(0,), (1,), (2,)])
    assert set(instances.noted) == {FOREIGN}
    assert len(instances.noted) == 4, "once for each message that was read: what comes before the first offset is not"


def test_two_systems_whose_runs_have_the_same_numbers_do_not_read_each_other(topics: MemoryTopics) -> None:
    """A second system has been set up with the same brokers and the same `topic_prefix`."""
    one, other = Instances(topics), Instances(topics, number=6)
    for ticket in range(3):
        other.writer.write(bundle(ticket, 20 + ticket))
        one.writer.write(bundle(ticket, 10 + ticket))
    other.writer.write(bundle(3, 23))
    one.writer.write(bundle(3, 13))
    one.settle()
    other.settle()
    assert one.got == both([(10,), (11,), (12,), (13,)])
    assert other.got == both([(20,), (21,), (22,), (23,)])


def test_a_log_whose_first_record_is_another_one_now_ends_the_run(topics: MemoryTopics) -> None:
    instances = Instances(topics)
    instances.writer.write(bundle(0, 0))
    topics.records["t"][0] = encode(OLD_RUN, bundle(0, 666))[0]
    with pytest.raises(TopologyError, match="offset 0 of the log") as caught:
        instances.settle()
    assert caught.value.reason_code == LOST


def test_a_new_run_begins_behind_what_the_former_one_left(topics: MemoryTopics) -> None:
    former = Instances(topics, OLD_RUN)
    for ticket in range(4):
        former.writer.write(bundle(ticket, 10 + ticket))
    present = Instances(topics)
    present.writer.write(bundle(0, 20))
    former.writer.write(bundle(4, 14))
    present.writer.write(bundle(1, 21))
    present.settle()
    assert present.got == both([(20,), (21,)])


def test_a_large_bundle_is_cut_into_messages_that_brokers_take(topics: MemoryTopics) -> None:
    instances = Instances(topics)
    many = range(PART_BYTES // 8)
    instances.writer.write(bundle(0, *many))
    instances.writer.write(bundle(1, 5))
    assert len(topics.records["t"]) > 3
    assert max(len(one) for one in topics.records["t"] if one) < PART_BYTES + 100
    instances.settle()
    assert instances.got == both([tuple(many), (5,)])


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda records: records.__delitem__(1), LOST),
        (lambda records: records.insert(1, records[2]), LOST),
        (lambda records: records.__setitem__(1, _damaged(records[1])), DAMAGED),
    ],
    ids=["lost", "reordered", "damaged"],
)
def test_a_log_that_lacks_records_ends_the_run(
    spoil: Callable[[list[bytes]], None], code: str, topics: MemoryTopics
) -> None:
    instances = Instances(topics)
    for ticket in range(3):
        instances.writer.write(bundle(ticket, ticket))
    spoil(topics.records["t"])  # type: ignore[arg-type]
    with pytest.raises(TopologyError) as caught:
        instances.settle()
    assert caught.value.reason_code == code


def _damaged(record: bytes) -> bytes:
    read = msgspec.msgpack.decode(record, type=SyncLogRecord)
    return msgspec.msgpack.encode(msgspec.structs.replace(read, body=read.body[:-4]))


def test_what_is_read_twice_counts_once(topics: MemoryTopics) -> None:
    instances = Instances(topics)
    for ticket in range(3):
        instances.writer.write(bundle(ticket, ticket))
    topics.records["t"].insert(2, topics.records["t"][0])
    instances.settle()
    assert instances.got["g#1"] == [(0,), (1,), (2,)]


def test_a_complete_checkpoint_deletes_what_it_holds_and_nothing_else(topics: MemoryTopics) -> None:
    instances = Instances(topics)
    for ticket, checkpoint in ((0, 1), (1, 2), (2, 3)):
        instances.writer.write(bundle(ticket, ticket))
        instances.writer.write(Bundle.marker("g.log#0", checkpoint))
    instances.writer.write(bundle(3, 3))
    instances.settle()
    instances.writer.complete(1)
    assert [one is None for one in topics.records["t"]] == [True, False, False, False]
    instances.writer.abandon(2)
    instances.writer.complete(2)
    assert [one is None for one in topics.records["t"]] == [True, False, False, False]
    instances.writer.complete(3)
    assert [one is None for one in topics.records["t"]] == [True, True, True, False]
    instances.writer.write(bundle(4, 4))
    instances.settle()
    assert instances.got["g#0"][-2:] == [(3,), (4,)]


def test_the_topic_is_named_after_the_plan_whatever_characters_that_has() -> None:
    settings = SyncLogSettings()
    assert settings.topic(PlanKey(-1234, "Rise"), "g.log") == "cep-sync.-1234.Rise.g.log"
    odd = {settings.topic(PlanKey(1, name), "g.log") for name in ("Hitze/1", "Hitze 1", "x" * 300, "x" * 301)}
    assert len(odd) == 4
    assert all(len(name) <= LONGEST_TOPIC and name.isascii() for name in odd)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kafka": {"bootstrap.servers": "a:1", "sasl.password": "secret"}}, "name that in password.file"),
        (
            {"kafka": {"bootstrap.servers": "a:1", "optional.configuration": "sasl.password:secret"}},
            r"^kafka: sasl\.password",
        ),
        (
            {"kafka": {"bootstrap.servers": "a:1", "optional.configuration": "client.rack:1, sasl.jaas.config:x"}},
            r"sasl\.jaas\.config would be sent",
        ),
        ({"kafka": {"bootstrap.server": "a:1"}}, "bootstrap.servers"),
        ({"kafka": {"bootstrap.servers": "a:b:c"}}, "bootstrap.servers"),
        ({"topic_prefix": "a/b"}, "topic_prefix"),
    ],
)
def test_wrong_settings_are_refused_with_their_names(given: dict[str, object], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert(given, SyncLogSettings)


def test_bundles_that_only_pass_time_on_are_bounded_while_brokers_are_away() -> None:
    instances = Instances(MemoryTopics(delay=10**9))
    for ticket in range(MOST_BUNDLES):
        instances.writer.write(bundle(ticket))
    assert not instances.writer.is_full(100)
    instances.writer.write(bundle(MOST_BUNDLES))
    assert instances.writer.rows == 0
    assert instances.writer.is_full(100)
