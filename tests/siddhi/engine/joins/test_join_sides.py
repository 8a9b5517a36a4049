"""Rows stored and emitted by the sides of joins, in cases that are easily wrong."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.column_names import TIMESTAMP
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse


def answers(query: str, *events: tuple[str, int, int]) -> list[tuple[Any, ...]]:
    """Return the output of `query`, given events (stream, timestamp, v), each a chunk of its own."""
    text = f"@app:playback define stream L (v int); define stream R (v int); {query}"
    runtime = AppRuntime(analyse(parse(text)))
    runtime.start(0)
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
    for stream, time, value in events:
        runtime.send(stream, pa.record_batch({TIMESTAMP: [time], "v": pa.array([value], pa.int32())}))
    return [tuple(value for name, value in row.items() if not name.startswith("_")) for row in rows]


@pytest.mark.parametrize(("events", "found"), [("", []), ("all events", [(1, 2), (1, 2)])])
def test_a_chunk_is_held_for_the_other_side_when_it_is_to_expire(events: str, found: list[tuple[int, int]]) -> None:
    query = f"from L join R#window.batch() select L.v as l, R.v as r insert {events} into O;"
    assert answers(query, ("R", 1, 2), ("L", 2, 1)) == found


@pytest.mark.parametrize(("events", "found"), [("current events", []), ("all events", [(1, 2)])])
def test_a_named_window_of_chunks_shows_them_when_they_are_to_expire(events: str, found: list[tuple[int, int]]) -> None:
    window = f"define window W (v int) batch() output {events}; from R insert into W;"
    query = "from L join W select L.v as l, W.v as r insert into O;"
    assert answers(f"{window} {query}", ("R", 1, 2), ("L", 2, 1)) == found


def test_a_batch_that_nobody_wants_to_see_expire_stays_in_sums_until_the_next() -> None:
    query = """
        from L#window.timeBatch(10) full outer join R#window.length(1) on L.v == R.v select count() as n insert into O;
    """
    assert answers(query, ("L", 1, 5), ("L", 2, 6), ("R", 25, 7), ("L", 31, 8)) == [(1,), (2,), (3,)]


def test_filters_on_a_named_window_in_a_join_are_not_looked_at() -> None:
    window = "define window W (v int) length(5); from R insert into W;"
    query = "from L#window.length(5) join W[v > 4] as w select L.v as l, w.v as r insert into O;"
    assert answers(f"{window} {query}", ("R", 1, 2), ("L", 2, 1), ("R", 3, 3)) == [(1, 2), (1, 3)]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("held", ["length(2)", "lengthBatch(1)", "time(5)"])
@pytest.mark.parametrize("sides", ["{r} join {m}", "{m} join {r}"])
def test_what_another_timer_sends_meets_what_leaves_at_that_time(sides: str, held: str, inside: bool) -> None:
    joined = sides.format(r="R#window.time(10) as r", m=f"#M#window.{held} as m")
    batches = "from L#window.timeBatch(10) select v insert into #M;"
    queries = f"{batches} from {joined} select r.v as r, m.v as m insert into O;"
    if inside:
        queries = f"partition with (v * 0 of L, v * 0 of R) begin {queries} end;"
    found = answers(queries if inside else queries.replace("#M", "M"), ("R", 1, 7), ("L", 1, 5), ("L", 40, 0))
    assert found == [(7, 5)]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("window", ["expression('sum(v) < 10')", "expressionBatch('v > 90')"])
def test_an_event_that_its_window_does_not_keep_joins_nothing(window: str, inside: bool) -> None:
    query = f"from L join R#window.{window} as r select L.v as l, r.v as r insert into O;"
    if inside:
        query = f"partition with (v * 0 of L, v * 0 of R) begin {query} end;"
    kept = 9 if "sum" in window else 99
    sent = ("R", 1, 50), ("L", 2, 1), ("R", 3, 60), ("L", 4, 2), ("R", 5, kept), ("L", 6, 3)
    assert answers(query, *sent) == [(3, kept)]


@pytest.mark.parametrize("inside", [False, True])
def test_rows_of_a_batch_by_expression_are_joined_while_it_is_open(inside: bool) -> None:
    query = "from L join R#window.expressionBatch('count() <= 2') as r select L.v as l, r.v as r insert into O;"
    if inside:
        query = f"partition with (v * 0 of L, v * 0 of R) begin {query} end;"
    sent = ("R", 1, 5), ("L", 2, 1), ("R", 3, 6), ("L", 4, 2), ("R", 5, 7), ("L", 6, 3)
    assert answers(query, *sent) == [(1, 5), (2, 5), (2, 6), (3, 7)]


def test_events_of_one_batch_meet_a_streaming_batch_that_ends_between_them() -> None:
    window = "define window W (v int) timeBatch(10, true); from R insert into W;"
    query = "from R as x join W as y on x.v == y.v select x.v as l, y.v as r insert into O;"
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream R (v int); {window} {query}")))
    runtime.start(0)
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
    runtime.send("R", pa.record_batch({TIMESTAMP: [1, 50], "v": pa.array([5, 6], pa.int32())}))
    assert [(row["l"], row["r"]) for row in rows] == [(5, 5), (6, 6)]
