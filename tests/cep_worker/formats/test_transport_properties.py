"""Attributes that come beside a body: which options are for them, and what their values become."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector
from cep_worker.formats.rejections import EventsRejectedError
from cep_worker.formats.transport_properties import split_attributes, with_properties
from topology.events.frames import arrow_schema

SCHEMA = StreamSchema("Stocks", (("symbol", "string"), ("sender", "string"), ("price", "double"), ("hops", "int")))
BODY = StreamSchema("Stocks", (("symbol", "string"), ("price", "double")))
PROPERTIES = (("sender", "X-Sender"), ("hops", "X-Hops"))


def mapped(**paths: str) -> Connector:
    options = {"enclosing.element": "$.all"} | {f"attributes.{name}": path for name, path in paths.items()}
    return Connector("Stocks", "http", {}, "json", options)


@pytest.mark.parametrize(
    "connector",
    [
        mapped(sender="trp:X-Sender", price="p", symbol="s", hops=" TRP: X-Hops "),
        mapped(**{"0": "s", "1": "trp:X-Sender", "2": "p", "3": "trp:X-Hops"}),
    ],
    ids=["by name", "in order"],
)
def test_the_mapper_gets_the_attributes_that_stand_in_the_body(connector: Connector) -> None:
    split = split_attributes(connector, SCHEMA, "here")
    assert split.body == BODY
    assert dict(split.properties) == dict(PROPERTIES)
    options = {"enclosing.element": "$.all", "attributes.symbol": "s", "attributes.price": "p"}
    assert split.connector == Connector("Stocks", "http", {}, "json", options)


def test_without_properties_nothing_changes() -> None:
    for connector in (mapped(symbol="s", unknown="x"), Connector("Stocks", "http", {}, "", {})):
        split = split_attributes(connector, SCHEMA, "here")
        assert (split.connector, split.body, split.properties) == (connector, SCHEMA, ())


@pytest.mark.parametrize(
    ("paths", "problem"),
    [
        ({"symbol": "s", "sender": "trp:Authorization", "price": "p", "hops": "h"}, "contains credentials"),
        ({"symbol": "s", "sender": "trp:cookie", "price": "p", "hops": "h"}, "contains credentials"),
        ({"symbol": "s", "sender": "trp: ", "price": "p", "hops": "h"}, "sender: trp: names no property"),
        ({"symbol": "s", "sender": "trp:a"}, "no path for price, hops"),
        (
            dict.fromkeys(("symbol", "sender", "price", "hops"), "trp:a"),
            "at least one attribute must come from the bod",
        ),
    ],
)
def test_what_no_plan_may_have_is_refused(paths: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        split_attributes(mapped(**paths), SCHEMA, "here")


def body_of(rows: int) -> pa.RecordBatch:
    columns = [[1] * rows, [0] * rows, ["a"] * rows, [1.5] * rows]
    return pa.record_batch(columns, schema=arrow_schema(BODY))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_each_event_of_a_body_has_them(rows: int) -> None:
    found = with_properties(body_of(rows), SCHEMA, PROPERTIES, {"X-Sender": "ann", "X-Hops": " 4"}.get)
    assert found.schema == arrow_schema(SCHEMA)
    row = {"_timestamp": 1, "_kind": 0, "symbol": "a", "sender": "ann", "price": 1.5, "hops": 4}
    assert found.to_pylist() == [row] * rows


def test_what_is_not_there_is_null() -> None:
    (row,) = with_properties(body_of(1), SCHEMA, PROPERTIES, {}.get).to_pylist()
    assert (row["sender"], row["hops"], row["symbol"]) == (None, None, "a")


def test_what_does_not_fit_is_told_with_its_name() -> None:
    with pytest.raises(EventsRejectedError) as refused:
        with_properties(body_of(2), SCHEMA, PROPERTIES, {"X-Hops": "many"}.get)
    assert [(one.index, one.attribute, one.problem) for one in refused.value.details] == [
        (0, "hops", "(trp:X-Hops) must be int, not 'many'")
    ]
