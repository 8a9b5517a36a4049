"""Avro, Protobuf and JSON Schema with and without a registry: there and back, evolution, a registry that is away."""

from __future__ import annotations

import base64
import io
import json
import struct
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from certificates import certificate_for_loopback
from free_ports import free_port
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples
from schema_registry import FakeRegistry, schema_registry
from worker_world import values

from cep_common.errors import ConfigError, InputError
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector
from cep_common.reach.guard import Guard, Reach
from cep_worker.formats.rejections import EventsRejectedError
from cep_worker.formats.schemas import registry as client
from cep_worker.formats.schemas.avro import avro_decoder
from cep_worker.formats.schemas.framing import indexes_header, read_indexes
from cep_worker.formats.schemas.kept import KeptBySize
from cep_worker.formats.schemas.problems import BodyError, SchemaError, SchemaUnavailableError
from cep_worker.formats.schemas.proto_files import proto_file
from cep_worker.formats.schemas.registry import AVRO, RegisteredSchema, RegistryAddress, SchemaRegistry
from cep_worker.formats.sink_mappers.registry import sink_mapper
from cep_worker.formats.sink_mappers.template import SinkMapper, UnfitEventsError
from cep_worker.formats.source_mappers.registry import BodiesReader, source_format
from topology.events.frames import arrow_schema

STOCKS = StreamSchema("Stocks", (("symbol", "string"), ("price", "double"), ("volume", "long")))
EVERYTHING = StreamSchema(
    "Everything",
    (("s", "string"), ("i", "int"), ("l", "long"), ("f", "float"), ("d", "double"), ("b", "bool"), ("o", "object")),
)
ROWS = [("ä", 1, 2**40, 0.5, 1e300, True, b'{"k":[1,null]}'), (None, -1, -1, -0.5, 0.1, False, None)]


def avro(*fields: tuple[str, Any], **more: Any) -> str:
    found = [{"name": name, "type": type_, **more.get(name, {})} for name, type_ in fields]
    return json.dumps({"type": "record", "name": "Stock", "namespace": "x", "fields": found})


OLD = avro(("symbol", "string"), ("price", "double"))
NEW = avro(("symbol", ["null", "string"]), ("price", "double"), ("volume", "long"), ("venue", "string"))
OBJECT = {"type": "record", "name": "O", "fields": [{"name": "k", "type": {"type": "array", "items": ["null", "int"]}}]}
SCHEMAS = {
    "avro": avro(("s", ["null", "string"]), ("i", "int"), ("l", "long"), ("f", "float"), ("d", "double"),
                 ("b", "boolean"), ("o", ["null", OBJECT])),
    "protobuf": 'syntax = "proto3"; message Event { optional string s = 1; int32 i = 2; sint64 l = 3; float f = 4; '
                "double d = 5; bool b = 6; O o = 7; } message O { repeated google.protobuf.Value k = 1; } "
                .replace('message Event', 'import "google/protobuf/struct.proto"; message Event', 1),
    "jsonschema": json.dumps({"type": "object", "required": ["i"], "properties": {
        "s": {"type": ["string", "null"]}, "i": {"type": "integer", "minimum": -5}}}),
}  # fmt: skip
TYPES = {"avro": "AVRO", "protobuf": "PROTOBUF", "jsonschema": "JSON"}
FRAMED = {"avro": {"use.avro.deserializer": "true"}, "protobuf": {}, "jsonschema": {}}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with schema_registry() as found:
        yield found


def reader(kind: str, options: dict[str, str], schema: StreamSchema = STOCKS, guard: Guard | None = None) -> Any:
    form = source_format(Connector(schema.stream, "kafka", {}, kind, options), schema, "@map", guard)
    assert hash(form) == hash(form)
    assert "secret" not in repr(form)
    return form.reader(schema, None)


def mapper(kind: str, options: dict[str, str], schema: StreamSchema = STOCKS, guard: Guard | None = None) -> SinkMapper:
    return sink_mapper(Connector(schema.stream, "kafka", {}, kind, options), schema, "json", guard)


def batch(schema: StreamSchema, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    made = arrow_schema(schema)
    columns = [[5] * len(rows), [0] * len(rows), *map(list, zip(*rows, strict=True))]
    arrays = [pa.array(column, one.type) for column, one in zip(columns, made, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=made)


def body(schema: str, record: dict[str, Any], number: int | None = None) -> bytes:
    found = io.BytesIO()
    fastavro.schemaless_writer(found, fastavro.parse_schema(json.loads(schema)), record)
    return (b"" if number is None else struct.pack(">bI", 0, number)) + found.getvalue()


def rejected(source: Any, *bodies: bytes) -> str:
    with pytest.raises(EventsRejectedError) as error:
        source.read_bodies(list(bodies), 9)
    return "; ".join(f"{one.attribute} {one.problem}".strip() for one in error.value.details)


@pytest.mark.parametrize("kind", SCHEMAS)
def test_events_come_back_as_they_went(kind: str) -> None:
    options = {"schema.def": SCHEMAS[kind]}
    bodies = mapper(kind, options, EVERYTHING).events(batch(EVERYTHING, ROWS))
    source = reader(kind, options, EVERYTHING)
    assert isinstance(source, BodiesReader)
    found = values(source.read_bodies(bodies, 9))
    expected = [list(row) for row in ROWS]
    if kind == "protobuf":
        expected[0][-1] = b'{"k":[{"number_value":1.0},{"null_value":"NULL_VALUE"}]}'
        found = [(*row[:-1], row[-1] and _present(row[-1])) for row in found]
    assert [list(row[1:]) for row in found] == expected


def _present(text: bytes) -> bytes:
    """A value of Google's has many fields, of which one is there."""
    shown = {"k": [{name: one for name, one in value.items() if one is not None} for value in json.loads(text)["k"]]}
    return json.dumps(shown, separators=(",", ":")).encode()


@pytest.mark.parametrize("kind", SCHEMAS)
def test_schemas_come_from_the_registry_once(kind: str, registry: FakeRegistry) -> None:
    number = registry.add(SCHEMAS[kind], TYPES[kind], "flights-value")
    serializer = {"use.avro.serializer": "true"} if kind == "avro" else {}
    by_subject = {"schema.registry": f"{registry.url}/", "schema.subject": "flights-value", **serializer}
    sink = mapper(kind, by_subject, EVERYTHING)
    assert sink.problem() == ""
    bodies = sink.events(batch(EVERYTHING, ROWS)) + sink.events(batch(EVERYTHING, ROWS))
    assert all(one[:5] == struct.pack(">bI", 0, number) for one in bodies)
    by_id = {"schema.registry": registry.url, "schema.id": str(number), **serializer}
    assert mapper(kind, by_id, EVERYTHING).events(batch(EVERYTHING, ROWS)) == bodies[:2]
    source = reader(kind, {"schema.registry": registry.url, **FRAMED[kind]}, EVERYTHING)
    assert [row[1:6] for row in values(source.read_bodies(bodies, 9))] == [row[:5] for row in ROWS] * 2
    assert registry.asked.count(f"GET /schemas/ids/{number}") == 2  # the sink by id, and the source


def test_a_field_more_a_field_less_and_a_union_with_null(registry: FakeRegistry) -> None:
    old, new = registry.add(OLD), registry.add(NEW)
    options = {"schema.registry": registry.url, "use.avro.deserializer": "true"}
    bodies = [
        body(OLD, {"symbol": "a", "price": 1.0}, old),
        body(NEW, {"symbol": None, "price": 2.0, "volume": 3, "venue": "x"}, new),
    ]
    lenient = reader("avro", options | {"fail.on.missing.attribute": "false"})
    assert values(lenient.read_bodies(bodies, 9)) == [(9, "a", 1.0, None), (9, None, 2.0, 3)]
    strict = reader("avro", options)
    assert rejected(strict, *bodies) == "volume is missing (long)"
    assert values(strict.read(bodies[1], 9)) == [(9, None, 2.0, 3)]
    own = avro(("symbol", ["null", "string"]), ("price", "double"), ("volume", "long"), volume={"default": -1})
    with_default = reader("avro", options | {"schema.def": own})
    assert values(with_default.read_bodies(bodies, 9)) == [(9, "a", 1.0, -1), (9, None, 2.0, 3)]
    incompatible = reader("avro", options | {"schema.def": avro(("symbol", "string"), ("price", "int"))})
    assert "not Avro of its schema" in rejected(incompatible, bodies[0])


def test_protobuf_evolves_by_the_numbers_of_fields(registry: FakeRegistry) -> None:
    old = registry.add('syntax = "proto3"; message A { string symbol = 1; double price = 2; }', "PROTOBUF")
    new = registry.add('syntax = "proto3"; message Z {} message A { message In { optional string symbol = 1; '
                       "double price = 2; sint64 volume = 3; repeated string more = 4; } }", "PROTOBUF")  # fmt: skip
    sink = mapper("protobuf", {"schema.registry": registry.url, "schema.id": str(new), "message": "A.In"})
    (written,) = sink.events(batch(STOCKS, [(None, 2.0, -3)]))
    assert written[:8] == struct.pack(">bI", 0, new) + b"\x04\x02\x00"
    first = struct.pack(">bI", 0, old) + b"\x00" + b"\x0a\x01a" + b"\x11" + struct.pack("<d", 1.0)
    source = reader("protobuf", {"schema.registry": registry.url, "fail.on.missing.attribute": "false"})
    assert values(source.read_bodies([first, written], 9)) == [(9, "a", 1.0, None), (9, None, 2.0, -3)]
    assert "names a message that its schema does not have" in rejected(source, first[:5] + b"\x02\x08")
    assert "ends within the path" in rejected(source, first[:5] + b"\x80")
    assert "not Protobuf of its schema" in rejected(source, first[:-3])


def test_schemas_refer_to_others(registry: FakeRegistry) -> None:
    registry.add(json.dumps({"type": "enum", "name": "x.Side", "symbols": ["BUY", "SELL"]}), subject="side")
    reference = [{"name": "x.Side", "subject": "side", "version": 1}]
    number = registry.add(avro(("symbol", "x.Side"), ("price", "double"), ("volume", "long")), references=reference)
    sink = mapper("avro", {"schema.registry": registry.url, "schema.id": str(number), "use.avro.serializer": "true"})
    bodies = sink.events(batch(STOCKS, [("SELL", 1.0, 1)]))
    source = reader("avro", {"schema.registry": registry.url, "use.avro.deserializer": "true"})
    assert values(source.read_bodies(bodies, 9)) == [(9, "SELL", 1.0, 1)]
    with pytest.raises(UnfitEventsError) as error:
        sink.events(batch(STOCKS, [("BUY", 1.0, 1), ("HOLD", 1.0, 1), (None, 1.0, 1)]))
    assert list(error.value.reasons) == [1, 2]
    assert error.value.reasons[2] == "symbol is null, and the schema's field may not be"
    registry.add('syntax = "proto3"; package p; message Side { string name = 1; }', "PROTOBUF", "p")
    registry.add(json.dumps({"type": "number", "minimum": 0}), "JSON", "price")
    proto = registry.add('syntax = "proto3"; import "p/side.proto"; message E { p.Side symbol = 1; }', "PROTOBUF",
                         references=[{"name": "p/side.proto", "subject": "p", "version": 1}])  # fmt: skip
    rules = registry.add(json.dumps({"properties": {"price": {"$ref": "price.json"}}}), "JSON",
                         references=[{"name": "price.json", "subject": "price", "version": 1}])  # fmt: skip
    of = reader("protobuf", {"schema.registry": registry.url, "attributes.name": "$.symbol.name"},
                StreamSchema("N", (("name", "string"),)))  # fmt: skip
    assert values(of.read(struct.pack(">bI", 0, proto) + b"\x00\x0a\x03\x0a\x01b", 9)) == [(9, "b")]
    checked = reader("jsonschema", {"schema.registry": registry.url})
    wrong = struct.pack(">bI", 0, rules) + b'{"symbol":"a","price":-1.0,"volume":1}'
    assert "does not fit the schema at /price: -1.0 is less than the minimum of 0" in rejected(checked, wrong)


def test_a_plans_own_schema_is_registered(registry: FakeRegistry) -> None:
    own = avro(("symbol", "string"), ("price", "double"), ("volume", ["null", "long"]))
    options = {
        "schema.registry": registry.url,
        "schema.def": own,
        "schema.subject": "a/b",
        "use.avro.serializer": "true",
    }
    sink = mapper("avro", options)
    assert sink.problem() == ""
    assert registry.subjects == {"a/b": [1]}
    assert sink.events(batch(STOCKS, [("a", 1.0, None)]))[0][:5] == b"\x00\x00\x00\x00\x01"
    registry.incompatible = True
    assert "refuses subject a/b: Schema being registered is incompatible" in mapper("avro", options).problem()


def test_events_wait_while_the_registry_is_away(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAUSE_S", 0.0)
    number = registry.add(OLD)
    source = reader("avro", {"schema.registry": registry.url, "use.avro.deserializer": "true",
                             "fail.on.missing.attribute": "false"})  # fmt: skip
    sink = mapper("avro", {"schema.registry": registry.url, "schema.id": str(number)},
                  StreamSchema("S", (("symbol", "string"), ("price", "double"))))  # fmt: skip
    event = body(OLD, {"symbol": "a", "price": 1.0}, number)
    for answer, said in (
        ((503, b"<html>"), "responded with status 503; check schema.registry"),
        ((404, b"<html>"), "responded with status 404; check schema.registry"),
        ((401, b"{}"), "refuses the user (status 401): check basic.auth.username"),
        ((200, b"[]"), "this is not a response of a schema registry"),
        ((200, b"x" * 3_000_000), "it answered more than 2,048 KiB"),
        ((302, b""), "responded with status 302"),
    ):
        registry.answer = answer
        with pytest.raises(SchemaUnavailableError) as error:
            source.read(event, 9)
        assert said in error.value.message
        assert not isinstance(error.value, EventsRejectedError)  # the event is not to blame
        assert said in sink.problem()
    registry.answer = None
    assert values(source.read(event, 9)) == [(9, "a", 1.0, None)]
    assert sink.problem() == ""
    registry.answer = (503, b"")
    assert values(source.read(event, 9)) == [(9, "a", 1.0, None)]  # what is known needs no registry


def test_a_registry_that_is_away_is_not_asked_for_every_event() -> None:
    now = [0.0]
    with schema_registry() as registry:
        registry.answer = (500, b"")
        asking = SchemaRegistry(RegistryAddress(registry.url), lambda: now[0])
        for _ in range(5):
            with pytest.raises(SchemaUnavailableError):
                asking.by_id(1)
        assert len(registry.asked) == 1
        registry.answer, now[0] = None, 1.5
        for number in (1, 1, 2, 1):
            with pytest.raises(SchemaError, match=r"refuses schema .: Schema not found"):
                asking.by_id(number)
        assert len(registry.asked) == 3
        registry.add(OLD)
        now[0] = 40.0
        assert asking.by_id(1).text == OLD
    with pytest.raises(SchemaUnavailableError, match=r"does not respond \(ConnectionError\); check schema\.registry"):
        SchemaRegistry(RegistryAddress(f"http://127.0.0.1:{free_port()}")).by_id(7)


def test_who_asks_shows_it(registry: FakeRegistry) -> None:
    registry.user = "me:secret"
    number = registry.add(OLD)
    options = {"schema.registry": registry.url, "use.avro.deserializer": "true", "fail.on.missing.attribute": "false"}
    event = body(OLD, {"symbol": "a", "price": 1.0}, number)
    with_password = options | {"basic.auth.username": "me", "basic.auth.password": "secret"}
    assert values(reader("avro", with_password).read(event, 9))
    with pytest.raises(InputError) as error:
        reader("avro", options | {"basic.auth.username": "me", "basic.auth.password": "wrong"}).read(event, 9)
    assert (error.value.reason_code, "wrong" in error.value.message) == ("registry-unavailable", False)


def test_the_address_is_judged_when_it_is_connected_to(registry: FakeRegistry) -> None:
    number = registry.add(OLD)
    options = {"schema.registry": registry.url, "use.avro.deserializer": "true", "fail.on.missing.attribute": "false"}
    event = body(OLD, {"symbol": "a", "price": 1.0}, number)
    allowed = Guard(Reach(source_urls=("http://127.0.0.1:*",)))
    assert values(reader("avro", options, guard=allowed).read(event, 9))
    registry.asked.clear()
    with pytest.raises(SchemaUnavailableError, match=r"name it in sources\.urls"):
        reader("avro", options, guard=Guard(Reach(sink_urls=("*", "http://localhost")))).read(event, 9)
    sink = mapper("avro", {"schema.registry": registry.url, "schema.id": "1"}, guard=Guard(Reach()))
    assert "name it in sinks.urls" in sink.problem()
    assert registry.asked == []


def test_bodies_that_are_none_are_rejected(registry: FakeRegistry) -> None:
    number = registry.add(OLD)
    source = reader("avro", {"schema.registry": registry.url, "use.avro.deserializer": "true"})
    assert "does not begin with the number of a schema" in rejected(source, b"\x01\x00\x00\x00\x01x")
    assert "does not begin with the number of a schema" in rejected(source, b"\x00")
    assert rejected(source, b"\x00\x00\x00\x00\x63x").startswith("schema 99 of the body: the schema registry refuses")
    event = body(OLD, {"symbol": "a", "price": 1.0}, number)
    assert "bytes are left over" in rejected(source, event + b"x")
    assert "not Avro of its schema" in rejected(source, event[:-1])
    assert "not Avro of its schema" in rejected(source, event[:5] + b"\xfe\xff\xff\xff\x0f")
    other = registry.add("{}", "JSON")
    assert "it is of the type JSON, not AVRO" in rejected(source, event[:4] + bytes([other]) + event[5:])


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ([("n", ["null", "x.Stock"])], "type x.Stock contains itself"),
        ([("n", {"type": "array", "items": "null"})], "few bytes of its array may encode very many values"),
        ([("n", {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}})], "few bytes of its array"),
        ([("n", {"type": "map", "values": {"type": "record", "name": "R", "fields": [
            {"name": f"f{i}", "type": "null"} for i in range(100)]}})], "few bytes of its map may encode very many"),
        ([("n", {"type": "array", "items": "nothing"})], "it is not an Avro schema"),
    ],
)  # fmt: skip
def test_schemas_that_could_overwhelm_the_worker_are_not_used(fields: list[Any], problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        avro_decoder(RegisteredSchema(AVRO, avro(*fields)), None)


def test_types_that_double_at_each_level_are_counted_and_deep_ones_refused() -> None:
    inner: Any = "null"
    for level in range(20):
        inner = {"type": "record", "name": f"R{level}", "fields": [
            {"name": "a", "type": inner}, {"name": "b", "type": f"R{level - 1}" if level else "null"}]}  # fmt: skip
    with pytest.raises(SchemaError, match="made of more than 10,000 types"):
        avro_decoder(RegisteredSchema(AVRO, json.dumps(inner)), None)
    deep: Any = "int"
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    with pytest.raises(SchemaError, match="nested lists and maps"):
        avro_decoder(RegisteredSchema(AVRO, avro(("a", deep))), None)


@pytest.mark.parametrize(
    ("kind", "definition", "problem"),
    [
        ("avro", avro(("symbol", "string"), ("price", "double")), "the schema has no field volume"),
        ("avro", NEW, "the stream has no attribute venue"),
        (
            "avro",
            avro(("symbol", "int"), ("price", "double"), ("volume", "long")),
            "field symbol is int, and cannot hold",
        ),
        ("avro", avro(("symbol", "string"), ("price", "float"), ("volume", "long")), "field price is float"),
        ("avro", '"string"', "it is not a record"),
        ("avro", "nonsense", "it is not an Avro schema: not JSON"),
        ("protobuf", "message {", "it is not a Protobuf schema: line 1"),
        ("protobuf", 'syntax = "proto3"; import "a.proto"; message E {}', "it is not a Protobuf schema"),
        ("protobuf", 'syntax = "proto3"; message E { string symbol = 1; }', "message E has no field price"),
        ("protobuf", 'syntax = "proto3"; enum E { A = 0; }', "it has no message"),
        ("jsonschema", '{"type": "objekt"}', "it cannot be used as JSON Schema"),
        ("jsonschema", '{"$ref": "http://127.0.0.1:1/x.json"}', "not among the schema's references"),
        ("jsonschema", '{"$ref": "file:///etc/passwd"}', "not among the schema's references"),
    ],
)
def test_a_schema_that_does_not_fit_is_an_error_of_the_plan(kind: str, definition: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        mapper(kind, {"schema.def": definition})
    assert problem in error.value.message
    assert "schema.def: " in error.value.message


def test_decimals_enums_and_times_are_values(tmp_path: Any) -> None:
    schema = avro(
        ("symbol", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        ("volume", {"type": "long", "logicalType": "timestamp-millis"}),
    )
    file = tmp_path / "stock.avsc"
    file.write_text(schema)
    options = {"schema.file": f"file:{file}"}
    bodies = mapper("avro", options).events(batch(STOCKS, [("B", 1.25, 1_700_000_000_000)]))
    assert values(reader("avro", options).read_bodies(bodies, 9)) == [(9, "B", 1.25, 1_700_000_000_000)]
    with pytest.raises(ConfigError, match="cannot be read"):
        reader("avro", {"schema.file": str(tmp_path / "missing")})


def test_json_without_a_registry_is_validated() -> None:
    source = reader("jsonschema", {"schema.def": SCHEMAS["jsonschema"]}, StreamSchema("S", (("i", "int"),)))
    assert values(source.read(b'{"i": 3, "other": [1]}', 9)) == [(9, 3)]
    assert "at /i: -6 is less than the minimum of -5" in rejected(source, b'{"i": -6}')
    assert "does not fit the schema" in rejected(source, b'{"s": "x"}')
    assert "nested lists and maps" in rejected(source, b'{"i": 1, "o": ' + b"[" * 100 + b"]" * 100 + b"}")
    sink = mapper("jsonschema", {"schema.def": SCHEMAS["jsonschema"]}, StreamSchema("S", (("i", "int"),)))
    assert sink.events(batch(StreamSchema("S", (("i", "int"),)), [(1,)])) == [b'{"i":1}']
    with pytest.raises(UnfitEventsError, match="minimum"):
        sink.events(batch(StreamSchema("S", (("i", "int"),)), [(-6,)]))


@pytest.mark.parametrize("kind", SCHEMAS)
def test_an_object_that_is_no_json_is_refused_alone(kind: str) -> None:
    sink = mapper(kind, {"schema.def": SCHEMAS[kind]}, EVERYTHING)
    whole = ("a", 1, 2, 0.5, 0.5, True)
    with pytest.raises(UnfitEventsError) as error:
        sink.events(batch(EVERYTHING, [(*whole, None), (*whole, b"\xff\x00"), (*whole, b"{")]))
    assert [*error.value.reasons] == [1, 2]


def test_the_path_to_a_message() -> None:
    for path in ((0,), (1,), (0, 0), (200, 3)):
        assert read_indexes(indexes_header(path) + b"rest") == (path, b"rest")
    assert indexes_header((0,)) == b"\x00"
    with pytest.raises(BodyError, match="has 50 steps"):
        read_indexes(indexes_header((0,) * 50))


def test_times_come_from_the_usual_field() -> None:
    schema = avro(("symbol", "string"), ("_timestamp", "long"))
    source = reader("avro", {"schema.def": schema}, StreamSchema("S", (("symbol", "string"),)))
    assert values(source.read(body(schema, {"symbol": "a", "_timestamp": 77}), 9)) == [(77, "a")]


def test_descriptors_do_as_well_as_texts(registry: FakeRegistry, tmp_path: Path) -> None:
    schema = RegisteredSchema(
        "PROTOBUF", 'syntax = "proto3"; message E { string symbol = 1; double price = 2; uint64 volume = 3; }'
    )
    file = descriptor_pb2.FileDescriptorProto()
    proto_file(schema).CopyToProto(file)
    (tmp_path / "e.desc").write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    number = registry.add(base64.b64encode(file.SerializeToString()).decode(), "PROTOBUF")
    rows = [("a", 1.0, 7)]
    sink = mapper("protobuf", {"schema.registry": registry.url, "schema.id": str(number)})
    framed = sink.events(batch(STOCKS, rows))
    bare = mapper("protobuf", {"schema.file": str(tmp_path / "e.desc")}).events(batch(STOCKS, rows))
    assert framed == [struct.pack(">bI", 0, number) + b"\x00" + bare[0]]
    source = reader("protobuf", {"schema.registry": registry.url})
    assert values(source.read_bodies(framed, 9)) == [(9, *rows[0])]
    with pytest.raises(UnfitEventsError, match="volume does not fit the schema"):
        sink.events(batch(STOCKS, [("a", 1.0, -7)]))
    own = {"schema.registry": registry.url, "schema.subject": "s", "schema.file": str(tmp_path / "e.desc")}
    assert "a set of descriptors cannot be registered" in mapper("protobuf", own).problem()


def test_a_registry_behind_tls(tmp_path: Path) -> None:
    certificate, key = certificate_for_loopback(tmp_path)
    with schema_registry((certificate, key)) as registry:
        number = registry.add(OLD)
        event = body(OLD, {"symbol": "a", "price": 1.0}, number)
        options = {
            "schema.registry": registry.url,
            "use.avro.deserializer": "true",
            "fail.on.missing.attribute": "false",
        }
        with pytest.raises(SchemaUnavailableError, match=r"does not respond \(SSLError\)"):
            reader("avro", options).read(event, 9)
        trusting = reader("avro", options | {"ssl.truststore.path": f"file:{certificate}"})
        assert values(trusting.read(event, 9)) == [(9, "a", 1.0, None)]
        with pytest.raises(SchemaUnavailableError, match=r"does not respond \(OSError\)"):
            reader("avro", options | {"ssl.truststore.path": str(tmp_path / "missing.pem")}).read(event, 9)


def test_without_the_libraries_the_plan_is_told_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(
        ConfigError, match=r"@map\(type='avro'\) needs the package fastavro: pip install 'cep-on-spark\[s"
    ):
        reader("avro", {"schema.def": OLD})


@pytest.mark.parametrize("kind", SCHEMAS)
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_any_bytes_give_an_event_or_a_refusal(kind: str, data: st.DataObject) -> None:
    source, bodies = _source_and_bodies(kind)
    chosen = bytearray(data.draw(st.sampled_from(bodies)))
    place = data.draw(st.integers(0, len(chosen)))
    chosen[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    with suppress(EventsRejectedError):
        assert source.read(bytes(chosen), 9).num_rows == 1


@cache
def _source_and_bodies(kind: str) -> tuple[Any, list[bytes]]:
    options = {"schema.def": SCHEMAS[kind]}
    return reader(kind, options, EVERYTHING), mapper(kind, options, EVERYTHING).events(batch(EVERYTHING, ROWS))


def test_what_is_kept_of_a_registry_is_bounded() -> None:
    kept = KeptBySize[str](3, 100)
    for number in (1, 2, 3):
        kept.put(number, str(number), 10)
    assert kept.get(1) == "1"
    kept.put(4, "4", 10)
    assert [kept.get(number) for number in (1, 2, 3, 4)] == ["1", None, "3", "4"]
    kept.put(5, "5", 500)
    assert [kept.get(number) for number in (1, 3, 4, 5)] == [None, None, None, "5"]
    kept.put(5, "6", 10)
    kept.put(6, "7", 90)
    assert (kept.get(5), kept.get(6), len(kept)) == ("6", "7", 2)


def test_what_a_schema_refers_to_is_bounded(registry: FakeRegistry) -> None:
    asking = SchemaRegistry(RegistryAddress(registry.url))
    registry.add(json.dumps({"type": "fixed", "name": "F", "size": 1, "doc": "x" * 900_000}), subject="large")
    many = [{"name": f"r{number}", "subject": "large", "version": 1} for number in range(80)]
    with pytest.raises(SchemaError, match=r"is longer than 4,194,304 bytes"):
        asking.by_id(registry.add(OLD, references=many))
    registry.add("1", "JSON", "small")
    small = [{"name": f"r{number}", "subject": "small", "version": 1} for number in range(80)]
    with pytest.raises(SchemaError, match="it refers to more than 64 other schemas"):
        asking.by_id(registry.add("{}", "JSON", references=small))
    circle = [{"name": "r", "subject": "circle", "version": 1}]
    with pytest.raises(SchemaError, match="its references form a cycle: r"):
        asking.by_id(registry.add("[]", "JSON", "circle", references=circle))
    registry.add(json.dumps({"doc": "x" * 1_100_000}), subject="too-large")
    with pytest.raises(SchemaError, match="is longer than 1,048,576 bytes"):
        asking.by_subject("too-large", "latest")


def test_a_lookup_with_its_references_ends_in_time(registry: FakeRegistry) -> None:
    asking = SchemaRegistry(RegistryAddress(registry.url), lambda: 4.0 * len(registry.asked))
    registry.add("1", "JSON", "small")
    many = [{"name": f"r{number}", "subject": "small", "version": 1} for number in range(60)]
    with pytest.raises(SchemaUnavailableError, match="the schema registry is slow: version 1 of subject small"):
        asking.by_id(registry.add(OLD, references=many))
    assert len(registry.asked) == 4


def test_what_is_known_does_not_wait_for_what_is_asked(registry: FakeRegistry) -> None:
    asking = SchemaRegistry(RegistryAddress(registry.url))
    known = registry.add(OLD)
    asking.by_id(known)
    registry.held = threading.Event()
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(asking.by_id, 99)
        assert registry.holding.wait(10)
        assert asking.by_id(known).text == OLD
        assert not waiting.done()
        registry.held.set()
        with pytest.raises(SchemaError, match="Schema not found"):
            waiting.result()
