"""Events that stand at paths in JSON of other shapes."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from worker_world import values

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.rejections import EventsRejectedError
from cep_worker.formats.source_mappers.json_path_mapper import JsonMapping, JsonPathEvents, json_mapping
from query_plan.connectors.attribute_paths import split_paths

STOCKS = StreamSchema("Stocks", (("symbol", "string"), ("price", "float"), ("volume", "long")))
PATHS = (("symbol", "stock.company.symbol"), ("price", "$.stock.price"), ("volume", "stock.volume"))
LIST = b"""{"portfolio": [
    {"stock": {"volume": 100, "company": {"symbol": "wso2"}, "price": 56.5}},
    {"stock": {"volume": "200", "company": {"symbol": 7}, "price": "57.5"}}
]}"""
ONE = b'{"stock": {"volume": 100, "company": {"symbol": "wso2"}, "price": 56.5}}'


def reader(
    enclosing: str = "$", paths: tuple[tuple[str, str], ...] = PATHS, schema: StreamSchema = STOCKS, **options: Any
) -> JsonPathEvents:
    settings: dict[str, Any] = {"timestamp_key": None, "lenient": False, **options}
    return JsonPathEvents(JsonMapping(enclosing, paths), schema, **settings)


def read(body: bytes, *args: Any, **options: Any) -> list[tuple[Any, ...]]:
    return values(reader(*args, **options).read(body, now_ms=9))


def test_events_stand_below_an_element_and_their_values_at_paths() -> None:
    assert read(LIST, "$.portfolio") == [(9, "wso2", 56.5, 100), (9, "7", 57.5, 200)]
    assert read(ONE) == [(9, "wso2", 56.5, 100)]
    assert read(b"[" + ONE + b"," + ONE + b"]") == [(9, "wso2", 56.5, 100)] * 2
    assert read(b'{"portfolio": []}', "$.portfolio") == []


def test_without_paths_attributes_are_found_by_name_below_the_element() -> None:
    body = b'{"all": [{"symbol": "a", "price": 1, "volume": 2}, {"event": {"symbol": "b", "price": 3, "volume": 4}}]}'
    assert read(body, "$.all", ()) == [(9, "a", 1.0, 2), (9, "b", 3.0, 4)]


def test_lines_are_a_body_each() -> None:
    lines = ONE + b"\n\n" + LIST.replace(b"\n", b"") + b"\n"
    nested = reader("$..stock", (("symbol", "company.symbol"), ("price", "price"), ("volume", "volume")))
    assert [row[1] for row in values(nested.read_lines(lines, now_ms=9))] == ["wso2", "wso2", "7"]
    with pytest.raises(EventsRejectedError) as error:
        reader().read_lines(ONE + b"\n{", now_ms=9, first_index=5)
    assert error.value.details[0].index == 6
    with pytest.raises(EventsRejectedError) as error:
        reader("$.stock", ()).read_lines(b'{"stock": []}\n{}', now_ms=9, first_index=5)
    assert (error.value.details[0].index, error.value.details[0].problem) == (5, "has nothing at $.stock")


def test_any_value_is_a_string_or_an_object_and_texts_are_what_they_read_as() -> None:
    schema = StreamSchema("All", (("s", "string"), ("o", "object"), ("b", "bool"), ("i", "int"), ("d", "double")))
    paths = (("s", "x"), ("o", "x"), ("b", "b"), ("i", "i"), ("d", "d"))
    body = b'{"x": {"y": [1, null]}, "b": "true", "i": "-3", "d": "1e3"}'
    assert read(body, "$", paths, schema) == [(9, '{"y":[1,null]}', b'{"y":[1,null]}', True, -3, 1000.0)]
    nulls = b'{"x": null, "b": null, "i": null, "d": null}'
    assert read(nulls, "$", paths, schema) == [(9, None, None, None, None, None)]


def test_an_attribute_called_timestamp_is_also_the_time() -> None:
    schema = StreamSchema("S", (("_timestamp", "long"), ("_kind", "string")))
    paths = (("_timestamp", "at"), ("_kind", "what"))
    assert read(b'{"at": "5", "what": "x"}', "$", paths, schema) == [(5, 5, "x")]


def test_the_time_may_stand_in_an_attribute() -> None:
    assert read(ONE, timestamp_key="volume") == [(100, "wso2", 56.5, 100)]


@pytest.mark.parametrize(
    ("body", "enclosing", "problem"),
    [
        (b'{"stock": {"volume": 1, "company": {}, "price": 1}}', "$", "symbol is missing (string)"),
        (b'{"stock": {"volume": "x", "company": {"symbol": "a"}, "price": 1}}', "$", "volume must be long, not text"),
        (b'{"stock": {"volume": 1.5, "company": {"symbol": "a"}, "price": 1}}', "$", "not a number with a fraction"),
        (b'{"other": 1}', "$.portfolio", "the body has nothing at $.portfolio"),
        (b"{", "$", "the body is not JSON"),
        (b"[" * 300 + b"]" * 300, "$", "more than 64 nested lists and maps"),
    ],
)
def test_a_body_with_an_event_that_does_not_fit_is_refused_as_a_whole(
    body: bytes, enclosing: str, problem: str
) -> None:
    with pytest.raises(EventsRejectedError) as error:
        read(body, enclosing)
    told = [error.value.message, *(f"{one.attribute} {one.problem}" for one in error.value.details)]
    assert problem in " ".join(told)


def test_with_leniency_what_no_path_leads_to_is_null() -> None:
    assert read(b'{"stock": {"volume": 1}}', lenient=True) == [(9, None, None, 1)]
    for body in (b"3", b'"x"', b"[{}, null]", b"[true]"):
        with pytest.raises(EventsRejectedError) as error:
            read(body, lenient=True)
        assert error.value.details[0].problem.startswith("must be an object")


def mapping_of(options: dict[str, str], schema: StreamSchema = STOCKS, enclosing: str = "$") -> JsonMapping | None:
    paths, others = split_paths({**options, "more": "1"})
    assert others == {"more": "1"}
    return json_mapping(paths, enclosing, schema, "here")


ORDERED = JsonMapping("x", (("symbol", "a"), ("price", "b"), ("volume", "c")))


def test_paths_are_given_by_attribute_or_in_the_order_of_the_attributes() -> None:
    by_name = {"attributes.volume": "c", "attributes.symbol": "a", "attributes.price": "b"}
    assert mapping_of(by_name, enclosing="x") == ORDERED
    in_order = {"attributes.0": "a", "attributes.1": "b", "attributes.2": "c"}
    assert mapping_of(in_order, enclosing="x") == ORDERED
    one = StreamSchema("One", (("a", "int"),))
    assert mapping_of({"attributes": "$.x"}, one) == JsonMapping("$", (("a", "$.x"),))
    assert mapping_of({}, enclosing="$.all") == JsonMapping("$.all", ())
    assert mapping_of({}) is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"attributes.symbol": "a", "attributes.cost": "b"}, "here: @attributes: no such attribute: cost"),
        ({"attributes.symbol": "a"}, "here: @attributes: no path for price, volume"),
        ({"attributes.0": "a", "attributes.1": "b"}, "here: @attributes has 2 paths, the stream 3 attributes"),
        ({"attributes.0": "a", "attributes.1": "$[", "attributes.2": "c"}, "here: price: '$[' is not a JSON path"),
        ({"attributes.0": "trp:id", "attributes.1": "b", "attributes.2": "c"}, "have transport properties (trp:id)"),
    ],
)
def test_paths_that_cannot_be_used_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        mapping_of(options)
    assert problem in error.value.message
    with pytest.raises(ConfigError, match=r"here: enclosing.element: '\$\[' is not a JSON path"):
        mapping_of({}, enclosing="$[")


def test_an_object_is_kept_as_it_stands() -> None:
    schema = StreamSchema("One", (("o", "object"),))
    text = base64.b64encode(b"1").decode()
    assert read(b'{"x": "' + text.encode() + b'"}', "$", (("o", "x"),), schema) == [(9, f'"{text}"'.encode())]
