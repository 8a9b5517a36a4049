"""Streams with attributes called `_timestamp` and `_kind`: on the whole way through a real worker, in and out."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import requests
import sqlalchemy
from worker_world import PLAN, FakeReceiver, World, until

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector, StreamBinding
from cep_worker.formats.files.event_files import read_events
from cep_worker.ingest.event_sender import fetch_schema
from topology.events.frames import arrow_schema

ATTRIBUTES = (("_timestamp", "long"), ("_kind", "string"), ("a", "int"))
EVENTS: list[dict[str, Any]] = [
    {"_timestamp": 5, "_kind": "x", "a": 1},
    {"_timestamp": 6, "_kind": None, "a": 2},
]
IN = [(5, 5, "x", 1), (6, 6, None, 2)]
RESULTS = pa.RecordBatch.from_pylist(
    [
        {"_timestamp": 70, "_kind": 0, "`_timestamp`": 5, "`_kind`": "x", "a": 1},
        {"_timestamp": 71, "_kind": 0, "`_timestamp`": None, "`_kind`": None, "a": 2},
    ],
    schema=arrow_schema(StreamSchema("O", ATTRIBUTES)),
)
OUT = [{"_timestamp": 5, "_kind": "x", "a": 1}, {"_timestamp": None, "_kind": None, "a": 2}]
STAMPED = msgspec.structs.replace(
    PLAN,
    imported=(StreamBinding("S", "S:1.0.0", ATTRIBUTES),),
    exported=(StreamBinding("O", "O:1.0.0", ATTRIBUTES),),
)


def arrived(receiver: FakeReceiver) -> list[tuple[Any, ...]]:
    until(lambda: len(receiver.rows()) >= len(IN), receiver)
    return receiver.rows()


def with_sink(kind: str, options: dict[str, str], mapper: str = "") -> Any:
    return msgspec.structs.replace(STAMPED, sinks=(Connector("O", kind, options, mapper, {}),))


def test_events_by_http_are_of_the_time_in_their_attribute(world: World) -> None:
    world.start(STAMPED)
    receiver = world.connected_receiver("S")
    assert requests.post(world.url("/events/S"), json=EVENTS, timeout=10).status_code == 202
    assert arrived(receiver) == IN


def test_events_by_ndjson_may_have_their_time_elsewhere(world: World) -> None:
    world.start(STAMPED)
    receiver = world.connected_receiver("S")
    lines = "\n".join(json.dumps({**event, "at": 70 + event["a"]}) for event in EVENTS)
    headers = {"Content-Type": "application/x-ndjson"}
    assert requests.post(world.url("/events/S?timestamp=at"), lines, headers=headers, timeout=10).status_code == 202
    assert [row[0] for row in arrived(receiver)] == [71, 72]


def test_a_file_comes_in_over_zeromq_as_it_was(world: World, tmp_path: Path) -> None:
    file = tmp_path / "s.csv"
    file.write_text("a,_kind,_timestamp\n1,x,5\n2,,6\n")
    world.start(STAMPED)
    receiver = world.connected_receiver("S")
    schema = fetch_schema(world.url(""), "S")
    sender = world.sender("S", schema.attributes)
    for batch in read_events(str(file), schema, lambda: 9):
        sender.send(batch)
    assert arrived(receiver) == IN


def test_plans_may_name_such_attributes_in_another_order(world: World) -> None:
    other = msgspec.structs.replace(
        STAMPED,
        key=PlanKey(-1234, "Other"),
        imported=(StreamBinding("Other", "S:1.0.0", ATTRIBUTES[::-1]),),
        exported=(),
    )
    world.start(STAMPED, other)
    receivers = [world.connected_receiver("S"), world.connected_receiver("Other")]
    assert requests.post(world.url("/events/S:1.0.0"), json=EVENTS, timeout=10).status_code == 202
    assert arrived(receivers[0]) == IN
    assert arrived(receivers[1]) == [(time, a, kind, own) for time, own, kind, a in IN]


def test_a_listener_gets_both_columns(world: World) -> None:
    world.start(STAMPED)
    listener = world.listener("O")
    world.publisher(STAMPED).open().send("O", RESULTS)
    batch = listener.receive(5_000)
    assert batch is not None
    assert batch.to_pylist() == RESULTS.to_pylist()


def test_a_file_gets_the_attributes(world: World, tmp_path: Path) -> None:
    file = tmp_path / "o.ndjson"
    world.start(with_sink("file", {"file.uri": f"file:{file}"}))
    world.publisher(STAMPED).open().send("O", RESULTS)
    until(lambda: file.exists() and len(file.read_text().splitlines()) == len(OUT))
    assert [json.loads(line) for line in file.read_text().splitlines()] == OUT


def test_the_log_gets_the_attributes(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.start(with_sink("log", {"priority": "WARN"}, "json"))
    world.publisher(STAMPED).open().send("O", RESULTS)
    name = logging.getLogger("cep_worker.sinks.log").name
    until(lambda: len([record for record in caplog.records if record.name == name]) == len(OUT))
    said = [record.getMessage().split(" : ")[2] for record in caplog.records if record.name == name]
    assert [json.loads(text) for text in said] == [{"event": row} for row in OUT]


def test_a_table_gets_a_column_for_each_attribute_and_one_for_the_time_if_asked(world: World, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'o.db'}"
    options = {"url": url, "table.name": "o", "create": "true", "timestamp.column": "at"}
    world.start(with_sink("rdbms", options))
    world.publisher(STAMPED).open().send("O", RESULTS)
    engine = sqlalchemy.create_engine(url)

    def rows() -> list[tuple[Any, ...]]:
        with engine.begin() as connection:
            if not sqlalchemy.inspect(connection).has_table("o"):
                return []
            return [tuple(row) for row in connection.execute(sqlalchemy.text("select at, _timestamp, _kind, a from o"))]

    until(lambda: len(rows()) == len(OUT))
    assert rows() == [(70, 5, "x", 1), (71, None, None, 2)]
    engine.dispose()


def test_a_sink_feeds_the_same_stream_of_another_worker(world: World) -> None:
    ingress = Endpoint("127.0.0.1", world.config.ingress.port)
    options = {"endpoint": f"tcp://{ingress.host}:{ingress.port}", "stream": "S:1.0.0"}
    world.start(with_sink("zeromq", options))
    receiver = world.connected_receiver("S")
    publisher = world.publisher(STAMPED).open()
    publisher.send("O", RESULTS)
    until(lambda: len(receiver.rows()) >= len(IN), receiver, publisher)
    assert receiver.rows() == [(70, 5, "x", 1), (71, None, None, 2)]


def test_a_plan_feeds_another_one_with_the_time_and_the_attribute(world: World) -> None:
    fed = (StreamBinding("Fed", "O:1.0.0", ATTRIBUTES[::-1]),)
    world.start(STAMPED, msgspec.structs.replace(STAMPED, key=PlanKey(-1234, "Other"), imported=fed, exported=()))
    receiver = world.connected_receiver("Fed")
    publisher = world.publisher(STAMPED).open()
    publisher.send("O", RESULTS)
    until(lambda: len(receiver.rows()) >= len(IN), receiver, publisher)
    assert receiver.rows() == [(70, 1, "x", 5), (71, 2, None, None)]
