"""JSON events into record batches: what fits, and what is said about what does not."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worker_world import values

from cep_common.errors import InputError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.object_values import WRONG_OBJECT
from cep_worker.formats.rejections import EventsRejectedError, InvalidEvent
from cep_worker.formats.source_mappers.json_mapper import JsonEvents

SCHEMA = StreamSchema(
    "Everything",
    (("s", "string"), ("i", "int"), ("l", "long"), ("f", "float"), ("d", "double"), ("b", "bool"), ("o", "object")),
)
FULL = b'{"s":"x","i":1,"l":2,"f":0.5,"d":2,"b":true,"o":"Ingi"}'
NULLS = b'{"s":null,"i":null,"l":null,"f":null,"d":null,"b":null,"o":null}'
FULL_ROW = (9, "x", 1, 2, 0.5, 2.0, True, b'"x"')
NULL_ROW = (9, *[None] * 7)
SMALL = StreamSchema("Small", (("n", "int"), ("t", "long")))


def read(body: bytes, schema: StreamSchema = SCHEMA, **options: Any) -> list[tuple[Any, ...]]:
    return values(JsonEvents(schema, **options).read(body, now_ms=9))


def refused(body: bytes, schema: StreamSchema = SMALL, **options: Any) -> EventsRejectedError:
    with pytest.raises(EventsRejectedError) as error:
        read(body, schema, **options)
    return error.value


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (FULL, [FULL_ROW]),
        (NULLS, [NULL_ROW]),
        (b'{"event":' + FULL + b"}", [FULL_ROW]),
        (b" [ " + FULL + b"," + NULLS + b"]", [FULL_ROW, NULL_ROW]),
        (b'[{"event":' + FULL + b'},{"event":' + NULLS + b"}]", [FULL_ROW, NULL_ROW]),
        (b'[{"event":' + FULL + b"}," + NULLS + b"]", [FULL_ROW, NULL_ROW]),
        (b"[" + FULL + b',{"event":' + NULLS + b"}]", [FULL_ROW, NULL_ROW]),
        (b"[]", []),
    ],
)
def test_one_event_or_a_list_enveloped_or_bare(body: bytes, rows: list[tuple[Any, ...]]) -> None:
    assert read(body) == rows


@pytest.mark.parametrize(
    ("body", "key", "times"),
    [
        (b'[{"n":1,"t":2},{"_timestamp":5,"n":1,"t":2}]', None, [9, 5]),
        (b'[{"n":1,"t":2},{"n":1,"t":3}]', "t", [2, 3]),
        (b'[{"n":7,"t":2}]', "n", [7]),
        (b'[{"ts":-4,"n":1,"t":2}]', "ts", [-4]),
    ],
)
def test_the_time_comes_from_the_event_or_from_now(body: bytes, key: str | None, times: list[int]) -> None:
    assert [row[0] for row in read(body, SMALL, timestamp_key=key)] == times


@pytest.mark.parametrize(
    ("kind", "key", "value", "row"),
    [
        ("long", None, b"5", (5, 5)),
        ("long", None, b"null", (9, None)),
        ("long", "_timestamp", b"5", (5, 5)),
        ("int", None, b"5", (9, 5)),
        ("int", "_timestamp", b"5", (5, 5)),
        ("string", None, b'"5"', (9, "5")),
    ],
)
def test_a_long_attribute_called_timestamp_is_also_the_time(
    kind: str, key: str | None, value: bytes, row: tuple[Any, ...]
) -> None:
    schema = StreamSchema("Stamped", (("_timestamp", kind),))
    assert read(b'{"_timestamp":' + value + b"}", schema, timestamp_key=key) == [row]
    assert refused(b"{}", schema, timestamp_key=key).details == (InvalidEvent(0, "_timestamp", f"is missing ({kind})"),)
    assert read(b"{}", schema, lenient=True, timestamp_key=key)[0] == (9, None)


@pytest.mark.parametrize(
    ("body", "misfit"),
    [
        (b'{"n":1}', InvalidEvent(0, "t", "is missing (long)")),
        (b'{"n":1,"t":2,"z":3}', InvalidEvent(0, "z", "is not an attribute of the stream")),
        (b'{"n":"1","t":2}', InvalidEvent(0, "n", "must be int, not text")),
        (b'{"n":true,"t":2}', InvalidEvent(0, "n", "must be int, not true or false")),
        (b'{"n":1.5,"t":2}', InvalidEvent(0, "n", "must be int, not a number with a fraction")),
        (b'{"n":2147483648,"t":2}', InvalidEvent(0, "n", "is out of range for int")),
        (b'{"n":1,"t":9223372036854775808}', InvalidEvent(0, "t", "is out of range for long")),
        (b'{"n":[],"t":2}', InvalidEvent(0, "n", "must be int, not a list")),
        (b'{"n":{},"t":2}', InvalidEvent(0, "n", "must be int, not an object")),
        (b"[1]", InvalidEvent(0, "", "must be an object, not a number")),
        (b'"x"', InvalidEvent(0, "", "must be an object, not text")),
        (b"null", InvalidEvent(0, "", "must be an object, not null")),
        (b'{"n":1,"t":2,"_timestamp":"x"}', InvalidEvent(0, "_timestamp", "must be long, not text")),
        (
            b'{"n":1,"t":2,"_timestamp":null}',
            InvalidEvent(0, "_timestamp", "is the event's timestamp and may not be null"),
        ),
        (b'[{"n":1,"t":2},{"n":null,"t":"2"}]', InvalidEvent(1, "t", "must be long, not text")),
        (b'{"event":{"n":1}}', InvalidEvent(0, "t", "is missing (long)")),
    ],
)
def test_a_misfit_is_named_by_event_and_attribute(body: bytes, misfit: InvalidEvent) -> None:
    error = refused(body)
    assert error.reason_code == "bad-events"
    assert error.details == (misfit,)
    assert "none was accepted" in error.message


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        (b'{"s":1}', "1"),
        (b'{"s":1.5}', "1.5"),
        (b'{"s":{"a":[1]}}', '{"a":[1]}'),
        (b'{"event":{"s":true}}', "true"),
        (b'{"o":5}', b"5"),
        (b'[{"o":{"a":[1,"x"]}}]', b'{"a":[1,"x"]}'),
        (b'\xef\xbb\xbf{"s":"x"}', "x"),
    ],
)
def test_any_value_is_taken_for_a_string_and_for_an_object(value: bytes, taken: object) -> None:
    (row,) = read(value, lenient=True)
    assert taken in row
    (batch,) = (JsonEvents(SCHEMA, lenient=True).read_lines(value.strip(b"[]"), now_ms=9),)
    assert taken in values(batch)[0]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b'{"f":1e39}', "is out of range for float"),
        (b'{"f":"1"}', "must be float, not text"),
        (b'{"d":true}', "must be double, not true or false"),
        (b'{"b":1}', "must be bool, not a number"),
        (b'{"b":"true"}', "must be bool, not text"),
        (b'{"o":"?"}', WRONG_OBJECT),
        (b'{"o":"YQ=="}', WRONG_OBJECT),
        (b'{"o":"/w=="}', WRONG_OBJECT),
        (b'{"o":"%s"}' % base64.b64encode(b"[" * 65 + b"]" * 65), WRONG_OBJECT),
    ],
)
def test_every_type_refuses_what_is_not_of_it(value: bytes, problem: str) -> None:
    assert [misfit.problem for misfit in refused(value, SCHEMA, lenient=True).details] == [problem]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1,", b"nonsense", b'{"n":"\xff"}', b"[" * 100_000, b'{"n":1e999,"t":1}']
)
def test_what_is_no_json_is_refused_as_such(body: bytes) -> None:
    assert refused(body).reason_code == "broken-json"


def test_all_misfits_are_listed_up_to_a_hundred() -> None:
    error = refused(b"[" + b",".join([b'{"n":"x","z":1}'] * 200) + b"]")
    assert len(error.details) == 100
    assert {misfit.attribute for misfit in error.details} == {"n", "t", "z"}


def test_a_timestamp_key_must_be_there_and_be_a_number() -> None:
    assert refused(b'{"n":1,"t":2}', timestamp_key="ts").details == (
        InvalidEvent(0, "ts", "is missing (milliseconds)"),
    )
    null = refused(b'[{"n":1,"t":2},{"n":1,"t":null}]', timestamp_key="t")
    assert null.details == (InvalidEvent(1, "t", "is the event's timestamp and may not be null"),)
    with pytest.raises(InputError, match="s is string"):
        JsonEvents(SCHEMA, "s")


def test_a_lenient_reader_takes_missing_attributes_for_null() -> None:
    assert read(b'[{"n":1},{}]', SMALL, lenient=True) == [(9, 1, None), (9, None, None)]


def test_ndjson_is_read_line_by_line_and_problems_are_numbered() -> None:
    reader = JsonEvents(SMALL)
    batch = reader.read_lines(b'{"n":1,"t":2}\r\n\n  {"event":{"n":3,"t":4}}\n', 9)
    assert values(batch) == [(9, 1, 2), (9, 3, 4)]
    with pytest.raises(EventsRejectedError) as wrong:
        reader.read_lines(b'{"n":1,"t":2}\n{"n":1}\n', 9, first_index=10)
    assert wrong.value.details == (InvalidEvent(11, "t", "is missing (long)"),)
    with pytest.raises(EventsRejectedError) as broken:
        reader.read_lines(b'{"n":1,"t":2}\n{"n":', 9)
    assert (broken.value.reason_code, broken.value.details[0].index) == ("broken-json", 1)


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**31), 2**31 - 1),
        st.none() | st.integers(-(2**63), 2**63 - 1),
    ),
    min_size=1,
    max_size=20,
)


@settings(deadline=None)
@given(ROWS, st.booleans())
def test_what_json_says_is_what_the_batch_holds(rows: list[tuple[int | None, int | None]], enveloped: bool) -> None:
    events: list[Any] = [{"n": n, "t": t} for n, t in rows]
    body = msgspec.json.encode([{"event": event} for event in events] if enveloped else events)
    assert [row[1:] for row in read(body, SMALL)] == rows
    lines = b"\n".join(map(msgspec.json.encode, events))
    assert [row[1:] for row in values(JsonEvents(SMALL).read_lines(lines, 9))] == rows


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_give_events_or_a_refusal(body: bytes) -> None:
    for method in (JsonEvents(SMALL).read, JsonEvents(SMALL).read_lines):
        with suppress(EventsRejectedError):
            method(body, 9)
