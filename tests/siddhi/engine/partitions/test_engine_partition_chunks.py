"""Chunks that hold events of several partition keys."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.column_names import TIMESTAMP
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.streams.graph import Graph
from siddhi.language.parser import parse

Event = tuple[str, int]


def answers(query: str, *chunks: tuple[str, list[Event]]) -> list[tuple[Any, ...]]:
    """Return the output of `query`, in a partition by `k`, given chunks (stream, events)."""
    streams = "define stream S (k string, v int); define stream R (k string, v int);"
    runtime = AppRuntime(analyse(parse(f"@app:playback {streams} partition with (k of S, k of R) begin {query} end;")))
    runtime.start(0)
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
    for time, (stream, events) in enumerate(chunks, 1):
        keys, values = zip(*events, strict=True)
        columns = {TIMESTAMP: [time] * len(events), "k": list(keys), "v": pa.array(values, pa.int32())}
        runtime.send(stream, pa.record_batch(columns), as_chunk=True)
    return [tuple(value for name, value in row.items() if not name.startswith("_")) for row in rows]


def test_rates_let_keys_out_in_the_order_in_which_their_events_stand_in_a_chunk() -> None:
    query = "from S select k, v output every 2 events insert into O;"
    chunks = [("S", [("a", 1), ("b", 2)]), ("S", [("b", 3), ("a", 4), ("b", 5)])]
    assert answers(query, *chunks) == [("b", 2), ("b", 3), ("a", 1), ("a", 4)]


def test_joins_take_the_events_of_a_chunk_in_their_order() -> None:
    query = (
        "from S#window.length(2) as s join R#window.length(2) as r select s.k as k, s.v as v, r.v as r insert into O;"
    )
    chunks = [("R", [("a", 1), ("b", 2)]), ("S", [("b", 3), ("a", 4), ("b", 5)])]
    assert answers(query, *chunks) == [("b", 3, 2), ("a", 4, 1), ("b", 5, 2)]


@pytest.mark.parametrize("window", ["length(3)", "time(100)", "sort(3, v)", "expression('count() <= 5')"])
def test_windows_behind_inner_streams_take_events_of_several_keys_in_their_order(window: str) -> None:
    query = f"from S select k, v insert into #M; from #M#window.{window} select k, v insert into O;"  # noqa: S608
    # No two neighbours have one key: each row of the inner stream is a chunk of its own.
    assert answers(query, ("S", [("a", 1), ("b", 2), ("a", 3)])) == [("a", 1), ("b", 2), ("a", 3)]


ONE_BY_ONE = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5), ("a", 6), ("a", 7)]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("window", "rows"),
    [
        ("expression('count() <= 3')", "a1 b2 a3 -c4 c4 -b2 b5 -a1 a6 -a3 a7"),
        ("expression('sum(v) <= 7')", "a1 b2 a3 -c4 c4 -b2 -b5 b5 -a1 -a3 a6 -a6 a7"),
        ("expressionBatch('count() <= 3')", "-c4 c4 a1 a3 a6"),
        ("expression('last.v - first.v <= 2')", "a1 b2 a3 c4 -b2 b5 -a1 -a3 a6 a7"),
    ],
)
def test_aggregates_in_the_expression_of_a_window_run_over_the_events_of_all_keys(
    window: str, rows: str, together: bool
) -> None:
    query = f"from S#window.{window} select k, v insert all events into O;"
    chunks = [("S", ONE_BY_ONE)] if together else [("S", [event]) for event in ONE_BY_ONE]
    told = [(row[-2], int(row[-1])) for row in rows.split()]
    assert answers(query, *chunks) == told


def test_a_new_text_of_a_window_counts_anew_for_all_keys_and_is_tried_on_what_the_key_that_brings_it_holds() -> None:
    query = "from S select k, v, ifThenElse(v < 5, 'count() <= 3', 'count() <= 2') as e insert into #M; "
    query += "from #M#window.expression(e) select k, v insert all events into O;"
    told = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("c", 4), ("b", 5), ("a", 1), ("a", 6)]
    assert answers(query, *(("S", [event]) for event in ONE_BY_ONE[:6])) == told


def test_an_event_that_fails_in_a_chunk_of_several_keys_is_told() -> None:
    text = """define stream S (k string, e string);
        partition with (k of S) begin from S#window.expression(e) select k insert into O; end;"""
    runtime = AppRuntime(analyse(parse(text)))
    runtime.start(0)
    reasons: list[str] = []
    runtime.add_failure_listener(lambda failed: reasons.append(failed.message))
    events = pa.record_batch({"k": ["a", "b"], "e": ["count() < 3", "nothing > 1"]})
    runtime.send("S", events, as_chunk=True)
    assert len(reasons) == 1
    assert "'nothing > 1' is not an expression" in reasons[0]


@pytest.mark.parametrize("columnar", [True, False])
@pytest.mark.parametrize(
    "query",
    [
        "from S#window.expression('count() < 9')[cast(o, 'int') > 1] select k insert into O;",
        "from S#window.expression(e) select k insert into O;",
        "from S#window.lengthBatch(1) select k, sum(cast(o, 'int')) as v insert into O;",
    ],
)
def test_what_comes_behind_a_key_of_a_chunk_in_which_an_event_fails_does_nothing(
    query: str, columnar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not columnar:
        monkeypatch.setattr(Graph, "columnar", lambda *_, **_alone: None)
    text = f"define stream S (k string, e string, o object); partition with (k of S) begin {query} end;"
    runtime = AppRuntime(analyse(parse(text)))
    runtime.start(0)
    failed, found = list[int](), list[str]()
    runtime.add_failure_listener(lambda told: failed.append(told.events))
    runtime.add_stream_callback("O", lambda batch: found.extend(batch.column("k").to_pylist()))
    for keys in ("abcc", "ccaa"):
        texts = ["nothing > 1" if key == "b" else "count() < 9" for key in keys]
        objects = [b'"no number"' if key == "b" else b"7" for key in keys]
        runtime.send("S", pa.record_batch({"k": list(keys), "e": texts, "o": objects}), as_chunk=True)
    assert (failed, found) == ([4], list("accaa"))


@pytest.mark.parametrize(
    ("window", "events", "counts"),
    [
        ("batch()", "current", "a1 b1 a3 a4 b2"),
        ("batch(1)", "current", "a1 b1 a2 a1 a2 b2"),
        ("batch()", "all", "a1 b1 a2 a1 b1"),
        ("lengthBatch(1)", "current", "a1 b1 a1 a1 a1 b1"),
    ],
)
def test_a_window_of_chunks_forgets_them_where_nobody_wants_expired_events_so_that_aggregates_go_on(
    window: str, events: str, counts: str
) -> None:
    query = f"from S#window.{window} select k, count() as c insert {events} events into O;"
    chunks = [("S", [("a", 1), ("b", 2), ("a", 3), ("a", 4)]), ("S", [("a", 5), ("b", 6)])]
    assert answers(query, *chunks) == [(count[0], int(count[1])) for count in counts.split()]
