"""How events are written for sinks."""

from __future__ import annotations

import pyarrow as pa
import pytest
from worker_world import ALERTS, alerts

from cep_common.errors import ConfigError
from cep_common.link_messages import StreamSchema
from cep_common.messages import Connector
from cep_worker.mappers.sinks import SinkMapper, sink_mapper
from topology.frames import arrow_schema

SCHEMA = StreamSchema("Alerts", ALERTS)
ONE = alerts((5, "UA", 3))
TWO = alerts((5, "UA", 3), (6, 'A"A', -4))
NULLS = pa.RecordBatch.from_pylist(
    [{"_timestamp": 5, "_kind": 0, "carrier": None, "late": None}], schema=arrow_schema(SCHEMA)
)


def mapper(kind: str, **options: str) -> SinkMapper:
    return sink_mapper(Connector("Alerts", "file", {}, kind, options), SCHEMA, default="json")


@pytest.mark.parametrize(
    ("kind", "batch", "text"),
    [
        ("json", ONE, b'{"event":{"carrier":"UA","late":3}}'),
        ("json", TWO, b'[{"event":{"carrier":"UA","late":3}},{"event":{"carrier":"A\\"A","late":-4}}]'),
        ("json", NULLS, b'{"event":{"carrier":null,"late":null}}'),
        ("ndjson", ONE, b'{"_timestamp":5,"carrier":"UA","late":3}\n'),
        ("text", TWO, b'carrier:"UA",\nlate:3\n~~~~~~~~~~\ncarrier:"A"A",\nlate:-4'),
        ("text", NULLS, b"carrier:null,\nlate:null"),
        ("", ONE, b'{"event":{"carrier":"UA","late":3}}'),
        ("passThrough", ONE, b'{"event":{"carrier":"UA","late":3}}'),
    ],
)
def test_events_are_written_in_the_form_asked_for(kind: str, batch: pa.RecordBatch, text: bytes) -> None:
    assert mapper(kind).joined(batch) == text


def test_a_payload_is_filled_for_each_event() -> None:
    text = mapper("text", payload="{{carrier}} is {{ late }} late at {{_timestamp}}")
    assert text.joined(TWO) == b'UA is 3 late at 5\nA"A is -4 late at 6\n'
    json = mapper("json", payload='{"who":"{{carrier}}","n":{{late}}}')
    assert json.events(TWO) == [b'{"who":"UA","n":3}', b'{"who":"A\\"A","n":-4}']
    assert json.joined(TWO) == b'[{"who":"UA","n":3},{"who":"A\\"A","n":-4}]'


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        ("json", {}, b'{"event":{"_timestamp":77,"_kind":"k"}}'),
        ("ndjson", {}, b'{"_timestamp":77,"_kind":"k"}\n'),
        ("text", {}, b'_timestamp:77,\n_kind:"k"'),
        ("text", {"payload": "{{_kind}} at {{_timestamp}}"}, b"k at 77\n"),
    ],
)
def test_an_attribute_called_as_the_events_time_is_written_in_its_place(
    kind: str, options: dict[str, str], text: bytes
) -> None:
    schema = StreamSchema("Alerts", (("_timestamp", "long"), ("_kind", "string")))
    columns = {"_timestamp": 5, "_kind": 0, "`_timestamp`": 77, "`_kind`": "k"}
    batch = pa.RecordBatch.from_pylist([columns], schema=arrow_schema(schema))
    connector = Connector("Alerts", "file", {}, kind, options)
    assert sink_mapper(connector, schema, default="json").joined(batch) == text


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("avro", {}, "unknown type of mapper; known for sinks: json, ndjson, text"),
        ("json", {"payload": "{{late}} {{nothing}}"}, "no such attribute: nothing"),
        ("ndjson", {"payload": "{{late}}"}, "payload does not go with ndjson"),
        ("json", {"paylod": "x"}, "unknown option paylod; did you mean payload?"),
    ],
)
def test_an_impossible_mapper_is_refused(kind: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        mapper(kind, **options)
    assert message in refused.value.message
    assert "of stream Alerts" in refused.value.message
