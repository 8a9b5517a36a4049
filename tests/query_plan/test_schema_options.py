"""The options of mappers with schemas: invalid ones, and the allow-lists they are checked against."""

from __future__ import annotations

import pytest

from cep_common.protocol.registry import Connector
from cep_common.reach.guard import Guard, Reach
from query_plan.connectors.judging import connector_faults
from query_plan.connectors.reach import reach_faults
from query_plan.connectors.schemas import in_map
from query_plan.secrets import mask_plan

SOURCE = {"bootstrap.servers": "b1:9092", "topic.list": "t", "group.id": "g", "threading.option": "single.thread"}
SINK = {"bootstrap.servers": "b1:9092", "topic": "t", "is.binary.message": "true"}
AT = {"schema.registry": "http://registry:8081"}
OWN = {"schema.def": "{}"}


def faults(kind: str, mapper: str, options: dict[str, str], type_: str = "kafka") -> list[str]:
    given = {"kafka": SOURCE if kind == "source" else SINK, "http": {"publisher.url": "http://h/"}, "log": {}}[type_]
    connector = Connector("S", type_, given, mapper, options)
    return [one.fault.text() for one in connector_faults(kind, connector, ["a", "b"])]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "mapper", "options"),
    [
        ("source", "avro", OWN),
        ("source", "avro", AT | {"schema.id": "1"}),
        ("source", "avro", AT | {"use.avro.deserializer": "TRUE"}),
        ("source", "avro", AT | {"use.avro.deserializer": "true", "schema.id": "7"}),
        ("source", "avro", OWN | {"attributes.a": "$.x.y", "attributes.b": "trp:key"}),
        ("source", "protobuf", AT | {"basic.auth.username": "u", "basic.auth.password": "${secret:registry}"}),
        ("source", "jsonschema", {"schema.registry": "https://${secret:registry-host}"}),
        ("sink", "avro", AT | {"schema.id": "1", "use.avro.serializer": "true"}),
        ("sink", "protobuf", AT | {"schema.subject": "t-value", "message": "x.E"}),
        ("sink", "jsonschema", AT | {"schema.subject": "t-value", "schema.def": "{}"}),
    ],
)
def test_what_siddhi_and_registries_need_is_accepted(kind: str, mapper: str, options: dict[str, str]) -> None:
    assert faults(kind, mapper, options) == []


@pytest.mark.parametrize(
    ("kind", "mapper", "options", "problem"),
    [
        ("source", "avro", {}, "write either schema.def (or schema.file) or schema.registry and schema.id"),
        ("source", "avro", AT | {"schema.id": "1", "schema.def": "{}"}, "write either"),
        ("source", "avro", OWN | {"use.avro.deserializer": "true"}, "needs schema.registry"),
        ("source", "avro", AT | {"schema.id": "x"}, "schema.id: must be a number"),
        ("source", "avro", {"schema.registry": "ftp://x", "schema.id": "1"}, "must be an http:// or https:// URL"),
        ("source", "avro", {"schema.registry": "http://u:p@x", "schema.id": "1"}, "write the user as basic.auth"),
        ("source", "avro", AT | {"schema.id": "1", "basic.auth.username": "u"}, "go together"),
        ("source", "avro", OWN | {"ssl.truststore.path": "/x"}, "has an effect only with schema.registry"),
        ("source", "avro", AT | {"schema.id": "1", "ssl.keystore.password": "p"}, "PEM files without a password"),
        (
            "source",
            "avro",
            AT | {"schema.id": "1", "basic.auth.password": "${secret:a/b}"},
            "not a valid name of a secret",
        ),
        ("source", "protobuf", {"class": "org.Event", **AT}, "class: has no effect: there are no Java classes"),
        ("source", "protobuf", OWN | AT, "each body names its schema"),
        ("source", "jsonschema", {}, "no schema: write"),
        ("source", "avro", OWN | {"attributes.a": "$.x"}, "no path for b"),
        ("source", "avro", OWN | {"attributes.a": "$[", "attributes.b": "$"}, "attributes.a"),
        ("source", "avro", {"schema.deff": "{}"}, "did you mean 'schema.def'?"),
        ("sink", "avro", AT | {"use.avro.serializer": "true"}, "write schema.id='…' or schema.subject='…'"),
        ("sink", "protobuf", AT, "write schema.id='…' or schema.subject='…'"),
        ("sink", "jsonschema", OWN | {"schema.file": "/x"}, "write one of them"),
        ("sink", "jsonschema", AT | OWN | {"schema.id": "1"}, "write one of them"),
    ],
)
def test_what_is_wrong_is_said(kind: str, mapper: str, options: dict[str, str], problem: str) -> None:
    found = faults(kind, mapper, options)
    assert any(problem in one for one in found), found


def test_only_transports_of_single_bodies_carry_them() -> None:
    assert faults("sink", "avro", OWN, "http") == []
    (fault,) = faults("sink", "avro", OWN, "log")
    assert "avro is for http and kafka" in fault


def test_the_password_is_covered_where_plans_are_shown() -> None:
    assert "hidden1" not in mask_plan("@map(type='avro', basic.auth.password='hidden1')")


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_registries_and_files_must_be_listed(kind: str) -> None:
    def refused(reach: Reach, options: dict[str, str], *given: str) -> list[str]:
        own = {"bootstrap.servers", *map(in_map, given)}
        connector = Connector("S", "kafka", SOURCE if kind == "source" else SINK, "avro", options)
        return [one.text() for one in reach_faults(kind, connector, Guard(reach, here=False), own)]  # type: ignore[arg-type]

    urls = ("http://registry:8081",)
    open_ = Reach((), urls, ("/schemas",), urls, ("/keys",), "/")
    files = {"ssl.truststore.path": "/keys/ca.pem", "schema.file": "/schemas/a.avsc"}
    assert refused(open_, AT | files) == []
    (unlisted,) = refused(Reach(), AT)
    assert unlisted.startswith("schema.registry: http://registry:8081 may not be called; name it in ")
    assert f"{kind}s.urls" in unlisted
    assert refused(Reach(), AT, "schema.registry") == []  # the operator names it
    (lent,) = refused(open_, AT | {"basic.auth.password": "p"}, "basic.auth.password")
    assert "can only be sent to the destination that it configures" in lent
    found = refused(open_, AT | {"ssl.keystore.path": "/etc/passwd", "schema.file": "/etc/passwd"})
    assert [one.partition(":")[0] for one in found] == ["schema.file", "ssl.keystore.path"]
    metadata = {"schema.registry": "http://169.254.169.254"}
    assert len(refused(Reach(source_urls=("*",), sink_urls=("*",)), metadata)) == 1
