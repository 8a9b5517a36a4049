"""Selections in cases where a rule of Siddhi is easily missed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.arrow_types import ARROW_TYPES
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.ast import AttributeType
from siddhi.language.parser import parse

Chunk = list[tuple[str | None, int | None]]


def selected(query: str, chunks: list[Chunk]) -> list[tuple[Any, ...]]:
    """Return the output of `query`, given chunks of rows of S at 1, 2, 3, …"""
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (k string, v int); {query}")))
    runtime.start(0)
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
    for clock, chunk in enumerate(chunks, start=1):
        keys, values = zip(*chunk, strict=True)
        columns = {"k": pa.array(keys, pa.utf8()), "v": pa.array(values, pa.int32())}
        runtime.send("S", pa.RecordBatch.from_pydict(columns), clock, as_chunk=True)
    return [tuple(value for name, value in row.items() if not name.startswith("_")) for row in rows]


def alone(*events: tuple[str | None, int | None]) -> list[Chunk]:
    """Return each event as a chunk of its own."""
    return [[event] for event in events]


@pytest.mark.parametrize(
    ("query", "events", "rows"),
    [
        (
            "from S select k, v group by k having sum(v) > 10 insert into O;",
            alone(("a", 5), ("b", 3), ("a", 7), ("c", 1)),
            [("a", 7), ("c", 1)],
        ),
        (
            "from S select k, count() as c group by k having count() > 2 insert into O;",
            alone(("a", 5), ("b", 3), ("a", 7), ("c", 1)),
            [("a", 2), ("c", 1)],
        ),
        (
            "partition with (k of S) begin from S select k, v group by v having count() > 1 insert into O; end;",
            alone(("a", 1), ("a", 2), ("b", 1), ("a", 1)),
            [("a", 1)],
        ),
    ],
)
def test_an_aggregate_in_having_runs_over_all_groups_outside_a_partition(
    query: str, events: list[Chunk], rows: list[tuple[Any, ...]]
) -> None:
    assert selected(query, events) == rows


@pytest.mark.parametrize("group", ["", "group by k"])
def test_no_reset_reaches_an_aggregate_in_having(group: str) -> None:
    query = f"from S#window.lengthBatch(2) select k, v {group} having sum(v) > 5 insert into O;"
    assert selected(query, alone(("a", 2), ("a", 3), ("a", 4), ("a", 1))) == [("a", 1)]


def test_max_in_having_falls_back_to_the_best_value_held() -> None:
    query = "from S#window.length(2) select v, max(v) as m having max(v) > 5 insert into O;"
    assert selected(query, alone(("a", 7), ("a", 10), ("a", 6), ("a", 1), ("a", 9))) == [
        (7, 7),
        (10, 10),
        (6, 10),
        (1, 6),
        (9, 9),
    ]


@pytest.mark.parametrize("events", ["", "all events"])
def test_an_aggregate_in_the_having_of_a_join_gives_back_the_pairs_that_leave_the_window(events: str) -> None:
    table = "define table T (v int); from S[v == 0] select v insert into T;"
    join = f"from S[v > 0]#window.length(1) as s join T as t select s.v as v having count() > 2 insert {events} into O;"
    chunks = alone(("a", 0), ("a", 1), ("a", 2), ("a", 3), ("a", 4))
    assert selected(table + join, chunks) == [], "there is one pair at a time"


@pytest.mark.parametrize(
    ("window", "chunks", "sums"),
    [
        ("batch()", [[("a", 6), ("a", 1)], [("a", 8)], [("a", 1), ("a", 9)], [("a", 7)]], [6, 8, 9, 16]),
        ("batch(2)", [[("a", 6), ("a", 1), ("a", 2), ("a", 7)], [("a", 8)]], [6, 7, 15]),
    ],
)
def test_a_filter_behind_a_window_of_chunks_may_keep_a_reset_out(
    window: str, chunks: list[Chunk], sums: list[int]
) -> None:
    query = f"from S#window.{window}[v > 5] select sum(v) as s insert into O;"
    assert selected(query, chunks) == [(total,) for total in sums]


def test_an_aggregate_behind_a_value_that_is_there_goes_on() -> None:
    query = "from S select coalesce(convert(v, 'long'), sum(v)) as x insert into O;"
    assert selected(query, alone(("a", 1), ("a", 2), ("a", None))) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("limit", ["limit 0", "limit 1 offset 1"])
def test_no_row_of_an_aggregate_over_all_passes_a_limit_of_none(limit: str) -> None:
    query = f"from S#window.length(1) select sum(v) as s {limit} insert expired events into O;"
    assert selected(query, alone(("a", 1), ("a", 2), ("a", 3))) == []


def test_groups_of_a_chunk_window_remember_what_left_after_a_reset() -> None:
    query = "from S#window.batch(1)[v > 5] select k, sum(v) as s group by k insert all events into O;"
    chunks: list[Chunk] = [[("a", 6), ("b", 1)], [("b", 2)], [("a", 7)]]
    assert selected(query, chunks) == [("a", 6), ("a", -6), ("a", 1)]


def test_pairs_are_sorted_by_attributes_that_are_not_selected() -> None:
    query = """
        define table T (k string, v int);
        from S[v > 0] insert into T;
        from S[v == 0] as s join T as t select t.k as v order by t.v desc insert into O;
    """
    assert selected(query, alone(("a", 1), ("b", 3), ("c", 2), ("z", 0))) == [("b",), ("c",), ("a",)]


@pytest.mark.parametrize(
    ("attributes", "total"),
    [
        ("sum(v) as t, v + s as x", 11),
        ("v + s as x, sum(v) as t", 9),
        ("sum(v) as t, and(convert(s, 'bool')) as x, v + s as y, count() as c", 11),
    ],
)
def test_what_comes_behind_a_failing_event_of_a_chunk_is_not_aggregated(attributes: str, total: int) -> None:
    query = f"from S select k as s, v insert into M; from M select {attributes} insert into O;"  # noqa: S608 - SiddhiQL
    chunks: list[Chunk] = [[(None, 1), ("x", 2), (None, 4)], [(None, 8)]]
    (row,) = selected(query, chunks)
    assert total in row


@pytest.mark.parametrize("type_", ["double", "float"])
@pytest.mark.parametrize("window", ["", "#window.length(8)", "#window.lengthBatch(8)"])
def test_nan_is_one_value_and_zeros_of_two_signs_are_two(type_: str, window: str) -> None:
    values_held = f"from S{window} select distinctCount(v) as c insert into D;"
    groups = f"from S{window} select v, count() as c group by v insert into G;"
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (v {type_}); {values_held} {groups}")))
    runtime.start(0)
    found: dict[str, list[int]] = {"D": [], "G": []}
    for stream, rows in found.items():
        runtime.add_stream_callback(stream, lambda batch, rows=rows: rows.extend(batch.column("c").to_pylist()))
    values = [0.0, -0.0, None, float("nan"), -float("nan"), -0.0, 0.0, None]
    runtime.send(
        "S", pa.record_batch({"_timestamp": range(1, 9), "v": pa.array(values, ARROW_TYPES[AttributeType(type_)])})
    )
    batch = "Batch" in window
    assert found["D"] == ([4] if batch else [1, 2, 3, 4, 4, 4, 4, 4])
    assert found["G"] == ([2, 2, 2, 2] if batch else [1, 1, 1, 1, 2, 2, 2, 2])


@pytest.mark.parametrize(
    "query", ["from S[not (S is null)] select S is null as n", "from S#window.length(2) select S is null as n"]
)
def test_the_event_of_a_query_over_one_stream_is_not_null(query: str) -> None:
    assert selected(f"{query} insert into O;", alone(("a", 1))) == [(False,)]


@pytest.mark.parametrize("type_", ["float", "double"])
@pytest.mark.parametrize(("order", "places"), [("asc", [2, 5, 1, 3, 0, 4]), ("desc", [0, 3, 1, 2, 5, 4])])
def test_minus_zero_stands_below_zero_and_nan_above_all(type_: str, order: str, places: list[int]) -> None:
    query = f"from N select n, v order by n {order} insert into O;"
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream N (n {type_}, v int); {query}")))
    runtime.start(0)
    found: list[int] = []
    runtime.add_stream_callback("O", lambda batch: found.extend(batch.column("v").to_pylist()))
    numbers = pa.array([float("nan"), 0.0, -0.0, 1.5, None, -0.0], ARROW_TYPES[AttributeType(type_)])
    columns = {"n": numbers, "v": pa.array(range(len(numbers)), pa.int32())}
    runtime.send("N", pa.RecordBatch.from_pydict(columns), 1, as_chunk=True)
    assert found == places
