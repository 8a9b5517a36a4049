"""How events are written for sinks."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_formats import read
from worker_world import ALERTS, alerts

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector
from cep_worker.formats.sink_mappers.registry import sink_mapper
from cep_worker.formats.sink_mappers.template import SinkMapper, Template
from topology.events.frames import arrow_schema, event_rows

SCHEMA = StreamSchema("Alerts", ALERTS)
ONE = alerts((5, "UA", 3))
TWO = alerts((5, "UA", 3), (6, 'A"A', -4))
NULLS = pa.RecordBatch.from_pylist(
    [{"_timestamp": 5, "_kind": 0, "carrier": None, "late": None}], schema=arrow_schema(SCHEMA)
)
NIL = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"'


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
        ("csv", TWO, b'UA,3\n"A""A",-4\n'),
        ("csv", NULLS, b",\n"),
        (
            "xml",
            TWO,
            (
                b"<events><event><carrier>UA</carrier><late>3</late></event>"
                b'<event><carrier>A"A</carrier><late>-4</late></event></events>'
            ),
        ),
        ("xml", NULLS, f"<events><event><carrier {NIL}/><late {NIL}/></event></events>".encode()),
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


def test_csv_has_the_delimiter_the_columns_and_the_header_that_are_asked_for() -> None:
    csv = mapper("csv", **{"delimiter": "\\t", "header": "true", "payload.late": "0", "payload.carrier": "1"})
    assert csv.joined(TWO) == b'late\tcarrier\n3\tUA\n-4\t"A""A"\n'
    assert (csv.header, csv.events(ONE)) == (b"late\tcarrier", [b"3\tUA"])
    assert mapper("csv", **{"payload.late": "0", "event.grouping.enabled": "true"}).joined(TWO) == b"3\n-4\n"


def test_texts_of_csv_are_quoted_where_they_would_be_taken_for_something_else() -> None:
    texts = ["", "a;b", "a,b", "a\nb", "a\rb", "\ufeff", " a "]
    rows = alerts(*((5, text, 1) for text in texts))
    assert [line.decode() for line in mapper("csv", **{"payload.carrier": "0"}).events(rows)] == [
        '""', "a;b", '"a,b"', '"a\nb"', '"a\rb"', '"\ufeff"', " a ",
    ]  # fmt: skip
    assert mapper("csv", delimiter=";").events(rows)[1:3] == [b'"a;b";1', b"a,b;1"]


def test_texts_of_xml_are_escaped_and_what_xml_cannot_hold_is_replaced() -> None:
    rows = alerts((5, "<a & 'b'>\r\n\0\uffff", 1))
    assert (
        mapper("xml").joined(rows)
        == (
            "<events><event><carrier>&lt;a &amp; 'b'&gt;&#13;\n\ufffd\ufffd</carrier><late>1</late></event></events>"
        ).encode()
    )
    template = mapper("xml", payload="<a b='{{carrier}}'>{{late}}</a>")
    assert template.joined(rows) == "<a b='&lt;a &amp; &apos;b&apos;&gt;&#13;\n\ufffd\ufffd'>1</a>".encode()


@pytest.mark.parametrize("path", ["$.portfolio", "portfolio"])
def test_events_of_json_may_stand_within_an_element(path: str) -> None:
    options = {"enclosing.element": path, "validate.json": "true"}
    template = mapper("json", **options, payload='{"who":"{{carrier}}","n":{{late}}}')
    assert template.joined(TWO) == b'{"portfolio":[{"who":"UA","n":3},{"who":"A\\"A","n":-4}]}'
    assert template.events(ONE) == [template.joined(ONE)] == [b'{"portfolio":{"who":"UA","n":3}}']
    nested = mapper("json", **{"enclosing.element": "$.a.b"})
    assert nested.joined(ONE) == b'{"a":{"b":{"event":{"carrier":"UA","late":3}}}}'
    assert mapper("json", **{"enclosing.element": "$"}).joined(ONE) == mapper("json").joined(ONE)


def test_the_element_around_events_may_be_another_one() -> None:
    options = {"enclosing.element": "<p:all xmlns:p='urn:p'>", "validate.xml": "true"}
    assert mapper("xml", **options, payload="<p:late>{{late}}</p:late>").joined(TWO) == (
        b"<p:all xmlns:p='urn:p'><p:late>3</p:late><p:late>-4</p:late></p:all>"
    )
    assert mapper("xml", **{"enclosing.element": "<all>"}).events(ONE) == [
        b"<all><event><carrier>UA</carrier><late>3</late></event></all>"
    ]


def test_texts_are_parted_as_asked_for() -> None:
    options = {"event.grouping.enabled": "true", "delimiter": "---", "new.line.character": "\\r\\n"}
    assert mapper("text", **options, payload="{{late}}").joined(TWO) == b"3\r\n---\r\n-4"
    assert mapper("text", **options).joined(TWO) == b'carrier:"UA",\r\nlate:3\r\n---\r\ncarrier:"A"A",\r\nlate:-4'


@pytest.mark.parametrize(
    ("kind", "options", "text"),
    [
        ("csv", {}, b"77,k\n"),
        ("xml", {"payload": "<t>{{_timestamp}}</t>"}, b"<t>77</t>"),
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
        (
            "binary",
            {},
            "unknown type of mapper; known for sinks: avro, csv, json, jsonschema, ndjson, protobuf, text, xml",
        ),
        ("json", {"payload": "{{late}} {{nothing}}"}, "no such attribute: nothing"),
        ("json", {"enclosing.element": "$.a..b"}, "enclosing.element: must be a path such as $.all.events"),
        ("json", {"payload": '{"a": {{carrier}}}', "validate.json": "true"}, "the template does not produce JSON: "),
        ("ndjson", {"payload": "{{late}}"}, "payload: is not supported by ndjson"),
        ("ndjson", {"enclosing.element": "$.a"}, "unknown option enclosing.element"),
        (
            "csv",
            {"payload": "{{late}}"},
            "payload: csv has no templates; give each attribute a column number: carrier='0', …",
        ),
        ("csv", {"payload.late": "1"}, "payload: must assign an attribute to each column from 0 to 0"),
        ("csv", {"payload.nothing": "0"}, "payload: no such attribute: nothing"),
        ("csv", {"delimiter": "||"}, "delimiter: must be one ASCII character"),
        ("xml", {"enclosing.element": "events"}, "enclosing.element: must be a tag such as <events>, not 'events'"),
        ("xml", {"enclosing.element": "<p:a>"}, "enclosing.element: '<p:a>': the body is not XML"),
        ("xml", {"payload": "<a>{{late}}", "validate.xml": "true"}, "payload: the output of the template is not XML"),
        ("xml", {"payload": "{{nothing}}"}, "payload: no such attribute: nothing"),
        ("json", {"paylod": "x"}, "unknown option paylod; did you mean 'payload'?"),
    ],
)
def test_an_impossible_mapper_is_refused(kind: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        mapper(kind, **options)
    assert message in refused.value.message
    assert "of stream Alerts" in refused.value.message


def test_an_attribute_that_cannot_be_an_element_needs_a_template() -> None:
    schema = StreamSchema("Alerts", (("two words", "long"),))
    with pytest.raises(ConfigError, match="'two words' cannot be the name of an element; use a template"):
        sink_mapper(Connector("Alerts", "file", {}, "xml", {}), schema, default="json")


EVERYTHING = StreamSchema(
    "Everything",
    (("s", "string"), ("i", "int"), ("l", "long"), ("f", "float"), ("d", "double"), ("b", "bool"), ("o", "object")),
)
VALUES = (
    st.text(),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(width=32, allow_nan=False),
    st.floats(allow_nan=False),
    st.booleans(),
    st.sampled_from([b"[1,2]", b"null", b'{"a":"\xc3\xa9"}']),
)
ROWS = st.lists(st.tuples(*(st.none() | value for value in VALUES)), min_size=1, max_size=5)


def written_and_read(kind: str, rows: list[tuple[Any, ...]], options: dict[str, str]) -> list[tuple[Any, ...]]:
    """What a source takes of what a sink gives."""
    columns = [[5] * len(rows), [0] * len(rows), *map(list, zip(*rows, strict=True))]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow_schema(EVERYTHING), strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(EVERYTHING))
    body = sink_mapper(Connector("E", "http", {}, kind, {}), EVERYTHING, default="json").joined(batch)
    return [row[1:] for row in read(kind, body, options, schema=EVERYTHING)]


@settings(deadline=None)
@given(ROWS)
def test_csv_that_a_sink_writes_a_source_reads(rows: list[tuple[Any, ...]]) -> None:
    assert written_and_read("csv", rows, {}) == rows


@settings(deadline=None)
@given(ROWS)
def test_xml_that_a_sink_writes_a_source_reads(rows: list[tuple[Any, ...]]) -> None:
    prepared = [(None if row[0] is None else FORBIDDEN.sub("\ufffd", row[0]), *row[1:]) for row in rows]
    assert written_and_read("xml", rows, {}) == prepared


FORBIDDEN = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\ufffe\\uffff]")
"""What XML cannot hold."""


@settings(deadline=None)
@given(ROWS)
def test_text_that_a_sink_writes_a_source_reads_unless_lines_end_in_it(rows: list[tuple[Any, ...]]) -> None:
    plain = [(None if row[0] is None else row[0].replace("\n", " "), *row[1:]) for row in rows]
    assert written_and_read("text", plain, {"event.grouping.enabled": "true"}) == plain


EVERY_TYPE = StreamSchema(
    "Alerts",
    (
        ("te%xt", "string"), ("whole", "int"), ("long", "long"), ("single", "float"), ("real", "double"),
        ("flag", "bool"), ("object", "object"),
    ),
)  # fmt: skip
OF_EVERY_TYPE = st.tuples(
    st.none() | st.text(max_size=5) | st.sampled_from(['","', '"', "\\", "\\,", "%s", "\n\x00", "é\u2028"]),
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(width=32),
    st.none() | st.floats(),
    st.none() | st.booleans(),
    st.none() | st.sampled_from([b"{}", b'"a"', b"[1]"]),
)


@settings(deadline=None, max_examples=50)
@given(st.lists(OF_EVERY_TYPE, max_size=4))
def test_events_of_a_batch_are_written_as_each_of_them_is(rows: list[tuple[Any, ...]]) -> None:
    schema = arrow_schema(EVERY_TYPE)
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(list(schema)[2:])]
    own = [pa.array(range(len(rows)), pa.int64()), pa.array([0] * len(rows), pa.int8())]
    batch = pa.RecordBatch.from_arrays([*own, *columns], schema=schema)
    members = ",".join(f'"{name}":"{{{{{name}}}}}"' for name, _ in EVERY_TYPE.attributes)

    def written(kind: str, **options: str) -> list[bytes]:
        made = sink_mapper(Connector("Alerts", "file", {}, kind, options), EVERY_TYPE, default="json")
        return made.events(batch)

    events = event_rows(batch)
    bare = [{name: value for name, value in event.items() if name != "_timestamp"} for event in events]
    assert written("json") == [msgspec.json.encode({"event": event}) for event in bare]
    assert written("ndjson") == [msgspec.json.encode(event) for event in events]
    template = Template(members, EVERY_TYPE, "", _as_json)
    assert written("json", payload=members, **{"validate.json": "false"}) == [template.fill(one) for one in events]


def _as_json(_: str, value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text[1:-1] if isinstance(value, str | bytes) else text
