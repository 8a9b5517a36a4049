"""Tables that several queries write and read in one step.

Whole batches give the same results as single events, and as the general algorithms for writes and lookups.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.operators.tables.writer import TableWriter
from siddhi.language.parser import parse

STREAM = "@app:playback define stream S (k string, v int, w double, n long);"
DEFINITIONS = (
    "define table K (k string, v int, w double, n long);",
    "@PrimaryKey('k') define table K (k string, v int, w double, n long);",
    "@Index('k') define table K (k string, v int, w double, n long);",
    "@PrimaryKey('n') @Index('k') define table K (k string, v int, w double, n long);",
)
WRITES = (
    "from S select k, v, w, n insert into K;",
    "from S[v > 2] select k, v, w, n insert into K;",
    "from S select k, v, w, n update or insert into K set K.v = v, K.w = w on K.k == k;",
    "from S select k, v, w, n update or insert into K set K.v = K.v + v, K.w = K.v / w on K.k == k;",
    "from S select k, v, w, n update or insert into K set K.w = K.w - v on K.k == k and K.v < v;",
    "from S select k, v, w, n update or insert into K set K.v = v on K.v > v;",
    "from S select k, v, w update K set K.v = v, K.w = K.w * 2.0 + K.v on K.k == k;",
    "from S select k, v, w update K set K.v = K.v % v, K.w = w on K.v > v or K.w is null;",
    "from S select k, v, n update K set K.v = K.v - 1, K.w = v on not (K.n >= n);",
    "from S[v > 4] select k, n delete K on K.k == k;",
    "from S[v > 4] select k, v, n delete K on K.v == v and K.n < n + 3;",
    "from S#window.lengthBatch(3) select k, max(v) as v, w, sum(n) as n update or insert into K on K.k == k;",
)
LOOKS = (
    "from S[K.k == k in K] select k, v insert into Out;",
    "from S[not (K.v > v in K)] select k, v insert into Out;",
    "from S join K on S.k == K.k select S.k as k, K.v as v insert into Out;",
    "from S left outer join K on S.v < K.v select S.k as k, K.v as v insert into Out;",
    "from S#window.length(2) as s join K on s.k == K.k and K.w > s.w select s.k as k, K.v as v insert into Out;",
    "from S#window.timeBatch(3) as s join K on s.n == K.n select s.k as k, K.v as v insert into Out;",
)
CIRCLES = (
    "from S[not (K.k == k in K)] select k, v, w, n insert into K;",
    "from S[(K.k == k and K.v < v) in K] select k, v, w, n update or insert into K set K.v = v, K.w = w on K.k == k;",
    "from S[not (K.v > v in K)] select k, v, w, n update or insert into K set K.v = v on K.k == k;",
    """from S[not (K.n == n in K)] select k, v, w, n insert into M; from M select k, v, w, n insert into K;
    from M select k, v insert into Out;""",
    """from S left outer join K on S.k == K.k select S.k as k, S.v as v, S.w as w, S.n as n, K.v as o insert into J;
    from J[o is null or o < v] select k, v, w, n update or insert into K set K.v = v on K.k == k;
    from J select k, o as v insert into Out;""",
    """from S join K on S.k == K.k select S.k as k, K.v + S.v as v, K.w as w, K.n + 1L as n insert into L;
    from L select k, v, w, n update K set K.v = v, K.n = n on K.k == k;""",
    "from S[(K.k == k and K.v < v) in K] select k delete K on K.k == k;",
)
"""Queries that write the table by what they find in it."""
PARTITIONED = "partition with (k of S) begin {} end;"

keys = st.sampled_from(["a", "b", None])
events_drawn = st.lists(
    st.tuples(
        keys,
        st.one_of(st.none(), st.integers(0, 6)),
        st.one_of(st.none(), st.sampled_from([0.0, 1.5, -2.5])),
        st.integers(0, 4),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=24,
)


def records(events: list[tuple[Any, ...]]) -> pa.RecordBatch:
    times = 1_000 + np.cumsum([event[4] for event in events])
    columns = list(zip(*events, strict=True))
    return pa.record_batch(
        {
            "_timestamp": pa.array(times, pa.int64()),
            "_kind": pa.array(np.zeros(len(events), np.int8)),
            "k": pa.array(columns[0], pa.utf8()),
            "v": pa.array(columns[1], pa.int32()),
            "w": pa.array(columns[2], pa.float64()),
            "n": pa.array(columns[3], pa.int64()),
        }
    )


def outcome(app: str, events: pa.RecordBatch, cuts: list[int], *, saved_at: int = -1) -> list[Any]:
    """Return the output and the refusals of the app, and the final rows of the table."""
    analysed = analyse(parse(app))
    told: list[Any] = []

    def listen(runtime: AppRuntime) -> AppRuntime:
        runtime.add_stream_callback("Out", lambda rows: told.extend(rows.to_pylist()))
        return runtime

    runtime = listen(AppRuntime(analysed))
    runtime.start()
    bounds = [0, *sorted(cuts), events.num_rows]
    for place, (start, stop) in enumerate(pairwise(bounds)):
        if place == saved_at:
            saved, runtime = runtime.snapshot(), listen(AppRuntime(analysed))
            runtime.restore(saved)
        if stop > start:
            runtime.send("S", events.slice(start, stop - start))
    runtime.advance_time(10_000)
    table = runtime._environment.tables["K"]
    rows = {name: column.to_list() for name, column in table.columns(table.places()).items()}
    return [list(map(repr, told)), repr(rows), len(table)]


def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the general algorithm for writes, and steps chunk by chunk if several queries use a table."""
    plan = cached_property(lambda _writer: None)
    plan.__set_name__(TableWriter, "plan")
    monkeypatch.setattr(TableWriter, "plan", plan)


@pytest.mark.thorough
@pytest.mark.parametrize("partitioned", [False, True])
@settings(max_examples=examples(40), deadline=None)
@given(
    definition=st.sampled_from(DEFINITIONS),
    queries=st.lists(st.sampled_from(WRITES + LOOKS + CIRCLES), min_size=1, max_size=3),
    events=events_drawn,
    cuts=st.lists(st.integers(0, 24), max_size=3),
    saved_at=st.integers(-1, 3),
)
def test_batches_give_what_single_events_give(
    partitioned: bool,
    definition: str,
    queries: list[str],
    events: list[tuple[Any, ...]],
    cuts: list[int],
    saved_at: int,
) -> None:
    text = " ".join(queries)
    text = PARTITIONED.format(text) if partitioned else text
    app = f"{STREAM} {definition} {text}"
    if "Out" not in text:
        app += " from S select k, v insert into Out;"
    rows = records(events)
    cuts = [min(cut, rows.num_rows) for cut in cuts]
    with pytest.MonkeyPatch.context() as patch:
        plainly(patch)
        wanted = outcome(app, rows, list(range(1, rows.num_rows)))
    assert outcome(app, rows, cuts, saved_at=saved_at) == wanted


IN_TURNS = """
@PrimaryKey('v') define table K (v int); @PrimaryKey('v') define table L (v int);
from S[v == 0 or (L.v == v - 1 in L)] select v insert into K;
from S[K.v == v in K] select v insert into L;
from S[L.v == v in L] select v insert into Out;
"""
"""Each query writes the table at which the other one looks, so that an event passes if the one before it did."""


def passed(app: str, count: int) -> tuple[list[Any], list[Any]]:
    """Return the results for events in order: sent one by one, as one batch, and by the general algorithm."""
    events = records([("a", number, None, 0, 1) for number in range(count)])
    with pytest.MonkeyPatch.context() as patch:
        plainly(patch)
        wanted = outcome(app, events, [])
    return outcome(app, events, []), wanted


def test_queries_that_look_at_a_table_write_their_own() -> None:
    found, wanted = passed(STREAM + IN_TURNS, 2)
    assert len(wanted[0]) == 2
    assert found == wanted


def test_rounds_go_on_until_what_depends_on_each_other_through_tables_is_known() -> None:
    more = "@PrimaryKey('v') define table A (v int); @PrimaryKey('v') define table B (v int);"
    middle = """from S[K.v == v in K] select v insert into A; from S[A.v == v in A] select v insert into B;
    from S[B.v == v in B] select v insert into L;"""
    for app in (IN_TURNS, more + IN_TURNS.replace("from S[K.v == v in K] select v insert into L;", middle)):
        for count in (1, 5):
            found, wanted = passed(STREAM + app, count)
            assert len(wanted[0]) == count
            assert found == wanted


def test_a_division_by_zero_writes_null_where_no_null_came_before() -> None:
    key, table = "@PrimaryKey('k')", "define table K (k string, v int, w double, n long);"
    query = "from S select k, v, w, n update or insert into K set K.w = K.v / w on K.k == k;"
    events = records([("b", 5, 1.5, 0, 1), ("b", 0, 0.0, 4, 1)])
    found = outcome(f"{STREAM} {key} {table} {query} from S select k insert into Out;", events, [])
    assert "'w': [None]" in found[1]
