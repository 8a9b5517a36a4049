"""Joins with named windows that change in the same step: whole batches give the same results as single events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.streams.graph import Graph
from siddhi.language.parser import parse

APP = """@app:playback define stream S (k string, v int, ts long);
define window W (k string, v int, ts long) {window} output all events;
{queries}"""
WINDOWS = (
    "length(2)",
    "length(0)",
    "time(3)",
    "externalTime(ts, 3)",
    "timeLength(3, 2)",
    "timeLength(3, 0)",
    "lengthBatch(2)",
    "lengthBatch(2, true)",
    "timeBatch(4)",
    "timeBatch(4, true)",
    "externalTimeBatch(ts, 4)",
    "batch()",
    "cron('* * * * * ?')",
    "session(2 millisec, k)",
    "sort(2, v)",
    "sort(3, k, 'desc', v, 'asc')",
    "unique:ever(k)",
    "unique:first(v)",
    "unique:length(k, 2)",
    "unique:time(k, 3)",
    "unique:lengthBatch(k, 2)",
    "unique:timeBatch(k, 4)",
    "frequent(2, k)",
    "lossyFrequent(0.3, 0.2, k)",
    "delay(2 millisec)",
    "expression('count() <= 2 and v < 4')",
    "expression('v < 3')",
    "expressionBatch('count() <= 2')",
)
FEEDS = ("from S select k, v, ts insert into W;", "from S[v > 2] select k, v, ts insert into W;")
JOINS = (
    "from S unidirectional join W on S.k == W.k select S.v as a, W.v as b insert into Out;",
    "from S join W on S.k == W.k and S.v < W.v select S.v as a, W.v as b insert into Out;",
    "from W join S unidirectional on S.v <= W.v select S.v as a, W.v as b insert into Out;",
    "from S left outer join W on S.k == W.k select S.v as a, W.v as b insert into Out;",
    "from S[v > 1] as s full outer join W on s.v > W.v select s.v as a, W.v as b insert into Out;",
    "from S join W on S.k == W.k select S.v as a, max(W.v) as b group by S.k insert all events into Out;",
    "from S unidirectional join W on S.k == W.k select S.v as a, max(W.v) as b group by S.k insert into Out;",
    "from W select v as a, v as b insert into Out;",
    "partition with (k of S) begin from S join W on S.v <= W.v select S.v as a, W.v as b insert into Out; end;",
    """partition with (v < 3 as 'l' or v > 1 as 'h' of S) begin
       from S unidirectional join W on S.k == W.k select S.v as a, max(W.v) as b insert into Out; end;""",
    """partition with (k of S) begin
       from S left outer join W on S.k == W.k and S.v < W.v select S.v as a, W.v as b insert into Out; end;""",
)
events_drawn = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 4), st.integers(-3, 3)), min_size=1, max_size=20
)


def outcome(app: str, events: list[tuple[Any, ...]], cuts: list[int], saved_at: int = -1) -> list[str]:
    analysed = analyse(parse(app))
    told: list[str] = []

    def begin() -> AppRuntime:
        runtime = AppRuntime(analysed)
        runtime.add_stream_callback("Out", lambda rows: told.extend(map(repr, rows.to_pylist())))
        return runtime

    runtime = begin()
    runtime.start()
    times = 1_000 + np.cumsum([event[2] for event in events])
    names, values = [event[0] for event in events], [event[1] for event in events]
    rows = pa.record_batch(
        {
            "_timestamp": pa.array(times, pa.int64()),
            "_kind": pa.array(np.zeros(len(events), np.int8)),
            "k": pa.array(names, pa.utf8()),
            "v": pa.array(values, pa.int32()),
            "ts": pa.array(times, pa.int64()),
        }
    )
    bounds = [0, *sorted(cuts), len(events)]
    for place, start in enumerate(bounds[:-1]):
        if place == saved_at:
            saved, runtime = runtime.snapshot(), begin()
            runtime.restore(saved)
        if bounds[place + 1] > start:
            runtime.send("S", rows.slice(start, bounds[place + 1] - start))
    runtime.advance_time(2_000)
    return told


@pytest.mark.thorough
@settings(max_examples=examples(80), deadline=None)
@given(
    window=st.sampled_from(WINDOWS),
    queries=st.lists(st.sampled_from(FEEDS + JOINS), min_size=1, max_size=3),
    events=events_drawn,
    cuts=st.lists(st.integers(0, 20), max_size=3),
    saved_at=st.integers(-1, 2),
)
def test_a_window_is_seen_as_it_is_at_each_event(
    window: str, queries: list[str], events: list[tuple[Any, ...]], cuts: list[int], saved_at: int
) -> None:
    text = " ".join([*queries, FEEDS[0], JOINS[0]])
    app = APP.format(window=window, queries=text)
    cuts = [min(cut, len(events)) for cut in cuts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Graph, "columnar", lambda *_, **_alone: None)
        wanted = outcome(app, events, list(range(1, len(events))))
    assert outcome(app, events, cuts, saved_at) == wanted


def warnings_of(window: str, queries: str) -> list[str]:
    explained = AppRuntime(analyse(parse(APP.format(window=window, queries=queries)))).explain()
    return [warning for query in explained.queries for warning in query.warnings]


def test_a_join_with_a_window_that_its_own_events_feed_goes_in_whole_batches() -> None:
    for join in JOINS:
        full = "full outer" in join  # rows of the window that meet nothing go out, too
        assert bool(warnings_of("time(3)", f"{FEEDS[0]} {join}")) == full


@pytest.mark.parametrize("window", WINDOWS)
def test_windows_that_say_what_they_show_are_followed(window: str) -> None:
    never = window.startswith(("frequent", "lossyFrequent", "delay", "expressionBatch", "lengthBatch(2, true)"))
    assert bool(warnings_of(window, f"{FEEDS[0]} {JOINS[1]}")) == never
    times_seen = window.startswith(("lengthBatch", "timeBatch", "batch"))  # rows expire with other times once seen
    for shown in ("W select v as a, v as b insert all events", "W#log('row') select v as a, v as b insert"):
        assert bool(warnings_of(window, f"{FEEDS[0]} {JOINS[1]} from {shown} into Out;")) == (never or times_seen)
