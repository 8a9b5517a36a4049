"""Attributes may have the names of the columns that every batch has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.analysis.model import Schema
from siddhi.analysis.query.on_demand import analyse_on_demand_query
from siddhi.column_names import KIND, TIMESTAMP, attribute_name, column_name
from siddhi.engine.app_runtime import AppRuntime
from siddhi.errors import SiddhiRuntimeError
from siddhi.language.ast import AttributeType
from siddhi.language.parser import parse, parse_on_demand_query
from siddhi.testing import record_batch

NAMED = (("_timestamp", AttributeType.LONG), ("_kind", AttributeType.STRING), ("a", AttributeType.INT))
APP = """@app:playback
define stream S (_timestamp long, _kind string, a int);
define table T (_timestamp long, _kind string);
from S[a > 1] select _timestamp, _kind, a insert into Passed;
from S[_timestamp > 20 and _kind == 'y'] select _timestamp + 1 as _timestamp, eventTimestamp() as _kind
insert into Later;
from S#window.length(2) select max(_timestamp) as _timestamp, _kind, sum(a) as a group by _kind insert into Windowed;
from every e1=S -> e2=S[_timestamp > e1._timestamp] select e1._timestamp as first, e2._timestamp insert into Pairs;
partition with (_kind of S) begin from S select _timestamp, count() as n insert into Counted; end;
from S select _timestamp, _kind insert into T;
"""
OUTPUTS = ("Passed", "Later", "Windowed", "Pairs", "Counted")
EVENTS: list[tuple[int, list[Any]]] = [
    (1, [10, "x", 1]),
    (2, [21, "y", 2]),
    (3, [None, None, 3]),
    (4, [30, "y", 4]),
    (5, [25, "x", 5]),
]


def batch(events: list[tuple[int, list[Any]]]) -> pa.RecordBatch:
    return record_batch(Schema("S", NAMED), [{"timestamp": stamp, "data": data} for stamp, data in events])


def started(rows: dict[str, list[dict[str, Any]]], state: bytes | None = None) -> AppRuntime:
    runtime = AppRuntime(analyse(parse(APP)))
    for stream in OUTPUTS:
        kept = rows.setdefault(stream, [])

        def receive(found: pa.RecordBatch, kept: list[dict[str, Any]] = kept) -> None:
            kept.extend(found.to_pylist())

        runtime.add_stream_callback(stream, receive)
    if state is None:
        runtime.start(0)
    else:
        runtime.restore(state)
    return runtime


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What stands in the columns, without the kinds."""
    return [tuple(value for column, value in row.items() if column != KIND) for row in rows]


def test_a_column_is_called_as_its_attribute_unless_every_batch_has_one_of_that_name() -> None:
    names = [column_name(name) for name in ("a", TIMESTAMP, KIND, "timestamp")]
    assert names == ["a", "`_timestamp`", "`_kind`", "timestamp"]
    assert all(attribute_name(column_name(name)) == name for name in ("a", "_a", TIMESTAMP, KIND))


@pytest.mark.parametrize("alone", [False, True])
def test_the_values_of_such_attributes_are_neither_the_times_nor_the_kinds_of_events(alone: bool) -> None:
    rows: dict[str, list[dict[str, Any]]] = {}
    runtime = started(rows)
    for part in [[event] for event in EVENTS] if alone else [EVENTS]:
        runtime.send("S", batch(part))
    assert rows["Passed"][0] == {TIMESTAMP: 2, KIND: 0, "`_timestamp`": 21, "`_kind`": "y", "a": 2}
    assert told(rows["Passed"]) == [(2, 21, "y", 2), (3, None, None, 3), (4, 30, "y", 4), (5, 25, "x", 5)]
    assert told(rows["Later"]) == [(2, 22, 2), (4, 31, 4)]
    assert told(rows["Pairs"])[:2] == [(2, 10, 21), (4, 21, 30)]
    assert told(rows["Counted"]) == [(1, 10, 1), (2, 21, 1), (4, 30, 2), (5, 25, 2)]
    kept = runtime.query(analyse_on_demand_query(parse_on_demand_query("from T select *"), analyse(parse(APP))))
    assert kept is not None
    assert kept.column("`_timestamp`").to_pylist() == [10, 21, None, 30, 25]


def test_a_snapshot_in_between_changes_nothing() -> None:
    whole: dict[str, list[dict[str, Any]]] = {}
    started(whole).send("S", batch(EVENTS))
    halves: dict[str, list[dict[str, Any]]] = {}
    first = started(halves)
    first.send("S", batch(EVENTS[:3]))
    started(halves, first.snapshot()).send("S", batch(EVENTS[3:]))
    assert halves == whole


def test_a_batch_without_the_column_is_refused_with_its_name() -> None:
    runtime = started({})
    with pytest.raises(SiddhiRuntimeError) as refused:
        runtime.send("S", pa.record_batch({TIMESTAMP: [1], "a": pa.array([1], pa.int32())}))
    assert refused.value.problems[0].hint == "its column is called `_timestamp`"
