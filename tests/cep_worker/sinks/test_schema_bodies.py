"""Sources and sinks whose bodies have a schema: they wait for the registry, and one bad event does not stop others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from worker_hook import Hook

from cep_common.ids import PlanKey
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector, StreamBinding
from cep_worker.formats.schemas.problems import SchemaUnavailableError
from cep_worker.formats.sink_mappers.registry import sink_mapper
from cep_worker.formats.source_mappers.registry import source_format
from cep_worker.http.refusals import STATUS
from cep_worker.kafka import pauses as kafka_pauses
from cep_worker.kafka import source as kafka_source
from cep_worker.kafka.alignment import PartitionAlignment
from cep_worker.kafka.client import library
from cep_worker.kafka.messages import KafkaMessage, MessageReader
from cep_worker.kafka.pauses import Pauses
from cep_worker.kafka.positions import Position
from cep_worker.kafka.readings import Reading
from cep_worker.kafka.sink import _KafkaWriter
from cep_worker.kafka.source import KafkaSource
from cep_worker.plans.streams import EventStream, PlanStream
from cep_worker.sinks import http, retries
from cep_worker.sinks.http import _HttpTargets, _HttpWriter
from cep_worker.sinks.threaded import WriteError
from query_plan.connectors.sinks import HttpSinkOptions
from topology.events.frames import arrow_schema

SCHEMA = StreamSchema("S", (("n", "int"), ("h", "string")))
BODY = StreamSchema("S", (("n", "int"),))
AVRO = '{"type":"record","name":"E","fields":[{"name":"n","type":"int"}]}'
OPTIONS = {"schema.def": AVRO}
KEY = PlanKey(-1234, "p")


@pytest.fixture
def hook() -> Iterator[Hook]:
    found = Hook()
    yield found
    found.close()


def batch(*numbers: int | None) -> pa.RecordBatch:
    columns = [[5] * len(numbers), [0] * len(numbers), list(numbers)]
    arrays = [pa.array(column, one.type) for column, one in zip(columns, arrow_schema(BODY), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(BODY))


def mapper(**options: str) -> Any:
    given = {name.replace("_", "."): text for name, text in options.items()} or OPTIONS
    return sink_mapper(Connector("S", "http", {}, "avro", given), BODY, "json")


class Messages:
    """Messages of one partition, with a header."""

    def __init__(self, *payloads: bytes) -> None:
        self._payloads = payloads

    def __len__(self) -> int:
        return len(self._payloads)

    def payloads(self) -> list[bytes]:
        return list(self._payloads)

    def message(self, index: int) -> KafkaMessage:
        payload = self._payloads[index]
        return KafkaMessage("t", 0, index, None, payload, 5_000, [("h", b"w")], payload)


class TwoPartitionConsumer:
    """Has two partitions and no messages."""

    def __init__(self) -> None:
        self.calls: list[tuple[str | int, ...]] = []

    def assignment(self) -> list[Any]:
        return [library().TopicPartition("t", number) for number in (0, 1)]

    def pause(self, partitions: list[Any]) -> None:
        self.calls.append(("pause", *(one.partition for one in partitions)))

    def resume(self, partitions: list[Any]) -> None:
        self.calls.append(("resume", *(one.partition for one in partitions)))

    def poll(self, _timeout_s: float) -> None:
        """Return None: nothing has arrived."""


def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """Return pauses of partitions that may be no row ahead of others."""
    monkeypatch.setattr(kafka_pauses, "PartitionAlignment", partial(PartitionAlignment, most_rows=0))
    return Pauses(library(), "S")


def reader(**options: str) -> MessageReader:
    given = {name.replace("_", "."): text for name, text in options.items()} or OPTIONS
    form = source_format(Connector("S", "kafka", {}, "avro", given), BODY, "@map")
    return MessageReader(form, SCHEMA, (("h", "h"),), None)


def test_binary_messages_are_read_together_and_bad_ones_put_aside() -> None:
    found, refused = reader().read(Messages(b"\x02", b"\x0a", b"\x5b"), 9)
    assert found is not None
    assert [(row["n"], row["h"]) for row in found.to_pylist()] == [(1, "w"), (5, "w"), (-46, "w")]
    assert refused == []
    found, refused = reader().read(Messages(b"\x02", b"", b"\x0a\x0a", b"\x0a"), 9)
    assert found is not None
    assert found.column("n").to_pylist() == [1, 5]
    assert [(one.message.offset, one.reason) for one in refused] == [
        (1, "the message has no value (a tombstone)"),
        (2, "the body is not Avro of its schema: 1 bytes are left over"),
    ]


def test_messages_wait_while_the_registry_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_source, "RETRY_S", 0.0)
    told: list[str] = []
    away = reader(schema_registry="http://127.0.0.1:9", use_avro_deserializer="true")
    there = SimpleNamespace(read=lambda _, now: reader().read(Messages(b"\x02"), now))
    tries = iter((away, away, there))
    consumer, ahead = TwoPartitionConsumer(), pauses(monkeypatch)
    ahead.took(("t", 0), batch(1), 0.0)
    ahead.align(consumer, {("t", 0): True, ("t", 1): True}, 0.0)
    source: Any = SimpleNamespace(
        _reader=SimpleNamespace(read=lambda *given: next(tries).read(*given)), _report_problem=told.append,
        _context=SimpleNamespace(now_ms=lambda: 9), _ending=threading.Event(), _pauses=ahead,
        _pause=lambda *given: KafkaSource._pause(source, *given),
    )  # fmt: skip
    framed = Messages(b"\x00\x00\x00\x00\x01\x02")
    found, refused = KafkaSource._read(source, consumer, None, framed)  # type: ignore[arg-type]
    assert (found is not None and found.num_rows, refused) == (1, [])
    assert consumer.calls == [("pause", 0), ("pause", 0, 1), ("pause", 0, 1), ("resume", 1)]
    assert [bool(one) for one in told] == [True, True, False]


@pytest.mark.parametrize("goes", [True, False])
def test_messages_of_a_partition_that_goes_meanwhile_are_left_to_its_next_reader(
    monkeypatch: pytest.MonkeyPatch, *, goes: bool
) -> None:
    reading = Reading(b"", Position(0, 0), None)
    held = {("t", 0): reading}
    taken: list[int] = []

    def read(_consumer: Any, _readings: Any, fetched: Any) -> tuple[pa.RecordBatch, list[Any]]:
        if goes:
            held.clear()
        return batch(*range(len(fetched))), []

    consumer, ahead = TwoPartitionConsumer(), pauses(monkeypatch)
    timed = EventStream(BODY, (PlanStream(KEY, StreamBinding("S", "S:1.0.0", BODY.attributes), event_time=True),))
    source = SimpleNamespace(
        _seen=None, _read=read, _keep_failed=lambda _: None, _name=lambda *_: (), delivered_events=0,
        _stream=timed, _pauses=ahead, _waited_s=0.0,
        _submit=lambda _consumer, _readings, _name, events, _origin: taken.append(events.num_rows),
    )  # fmt: skip
    readings = SimpleNamespace(reading=lambda *key: held.get(key), took=lambda *_: taken.append(0))
    message = SimpleNamespace(topic=lambda: "t", partition=lambda: 0, offset=lambda: 7, value=lambda: b"\x02")
    KafkaSource._take(source, consumer, readings, reading, [message])  # type: ignore[arg-type]
    assert taken == ([] if goes else [1, 0])
    ahead.align(consumer, {("t", 0): True, ("t", 1): True}, 0.0)
    assert consumer.calls == ([] if goes else [("pause", 0)])


def test_senders_over_http_are_asked_to_come_again() -> None:
    with pytest.raises(SchemaUnavailableError) as error:
        reader(schema_registry="http://127.0.0.1:9", use_avro_deserializer="true").read(Messages(b"\0\0\0\0\1\2"), 9)
    assert STATUS[error.value.reason_code] == 503


def test_one_event_of_kafka_that_does_not_fit_is_alone() -> None:
    writer = SimpleNamespace(_mapper=mapper())
    assert _KafkaWriter._encoded(writer, batch(1, None, 5)) == [  # type: ignore[arg-type]
        b"\x02", "n is null, and the schema's field may not be", b"\x0a",
    ]  # fmt: skip
    assert _KafkaWriter._encoded(writer, batch(None)) == ["n is null, and the schema's field may not be"]  # type: ignore[arg-type]


def writer(url: str, made: Any, **options: Any) -> _HttpWriter:
    given = HttpSinkOptions(publisher_url=url, **options)
    return _HttpWriter(given, _HttpTargets(given, BODY, "@sink"), made, None, "p")


def test_a_web_hook_gets_one_event_a_request(hook: Hook) -> None:
    sink = writer(hook.url, mapper())
    with pytest.raises(WriteError) as error:
        sink.write(batch(1, None, 5), None, threading.Event())
    assert hook.taken == [b"\x02", b"\x0a"]
    assert hook.headers[0]["Content-Type"] == "avro/binary"
    (failed,) = error.value.failed or ()
    assert (failed.events.column("n").to_pylist(), "may not be" in failed.reason) == ([None], True)
    sink.close()


def test_events_for_a_web_hook_wait_for_their_schema(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "WAITS_S", (0.0,))
    monkeypatch.setattr(http, "retry_policy", lambda _, count: retries.RetryPolicy((0.0,), count))
    away = mapper(schema_registry="http://127.0.0.1:9", schema_id="1")
    sink = writer(hook.url, away, on_error="LOG", retry_count=2)
    with pytest.raises(WriteError, match=r"dropped after 3 attempts: the schema registry does not respond"):
        sink.write(batch(1), None, threading.Event())
    assert hook.bodies == []
    sink.close()
