"""A window fused with its selection in a partition gives the same results as a copy of the two for each instance."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.fused_windows.keyed import KeyedSlidingSelection
from siddhi.engine.planner import query
from siddhi.language.parser import parse

STREAM = "@app:playback define stream S (k string, i int, l long, d double, b bool, ts long); "
PURGE = "@purge(enable='true', interval='1 sec', idle.period='2 sec') "
VALUE = "k of S"
RANGES = "i < 2 as 'few' or i >= 1 and i < 4 as 'some' or i > 2 as 'many' of S"
TOTALS = "sum(l) as sl, avg(d) as ad, count() as c, min(i) as mi, max(d) as xd, distinctCount(k) as dk, stdDev(d) as v"

FEW_OR_MANY = pytest.mark.parametrize("count", [120, pytest.param(300, marks=pytest.mark.cluster)])

Send = tuple[pa.RecordBatch, bool]
"""A batch, and whether it is sent as a chunk."""


def partition(keys: str, *queries: str, purge: str = "") -> str:
    return f"{purge}partition with ({keys}) begin {' '.join(queries)} end;"


QUERIES = {
    "length": partition(VALUE, f"from S#window.length(3) select k, i, {TOTALS} insert into O;"),
    "length 1": partition(VALUE, "from S#window.length(1) select k, sum(d) as s, distinctCount(i) as n insert into O;"),
    "groups": partition(VALUE, f"from S#window.length(4) select b, k, {TOTALS} group by b insert into O;"),
    "groups of strings": partition("i of S", f"from S#window.length(4) select i, {TOTALS} group by k insert into O;"),
    "having": partition(VALUE, "from S#window.length(3) select k, sum(l) as s group by i having s > 0 insert into O;"),
    "filtered": partition(VALUE, "from S[i > 1]#window.length(3) select k, avg(d) as a insert into O;"),
    "lasting": partition(VALUE, "from S#window.length(2) select k, maxForever(d) as m, sum(i) as s insert into O;"),
    "time": partition(VALUE, f"from S#window.time(1250) select k, {TOTALS} group by i insert into O;"),
    "time and length": partition(VALUE, "from S#window.timeLength(1250, 3) select k, sum(d) as s insert into O;"),
    "external time": partition(VALUE, "from S#window.externalTime(ts, 1000) select k, sum(d) as s insert into O;"),
    "ranges": partition(RANGES, "from S#window.length(5) select k, i, d, sum(d) as s, min(l) as m insert into O;"),
    "purged": partition(VALUE, f"from S#window.length(3) select k, i, {TOTALS} insert into O;", purge=PURGE),
    "purged groups": partition(
        VALUE,
        "from S#window.length(3) select k, maxForever(d) as m, sum(i) as s group by b insert into O;",
        purge=PURGE,
    ),
    "purged by time": partition(VALUE, "from S#window.time(3000) select k, sum(i) as s insert into O;", purge=PURGE),
    "inner streams": partition(
        RANGES,
        "from S#window.length(3) select k, i, d, sum(d) as s insert into #I;",
        "from S#window.timeBatch(750) select k, i, d, sum(d) as s group by k insert into #I;",
        "from #I#window.length(4) select k, i, d, s, avg(s) as a group by i insert into O;",
    ),
    "shared": "from S[i > 2] select k, i, d insert into U; "
    + partition(
        VALUE,
        "from S#window.length(2) select k, i, d, sum(d) as s insert into #I;",
        "from U#window.length(3) select k, i, d, sum(d) as s, count() as c insert into O;",
    ),
}


def events(count: int, seed: int) -> pa.RecordBatch:
    """Return events with nulls in every attribute, whose times sometimes repeat, jump, or (`ts`) go back."""
    draw = np.random.default_rng(seed)

    def thinned(values: Any) -> list[Any]:
        return [None if gone else value for gone, value in zip(draw.random(count) < 0.1, values, strict=True)]

    times = 1_000 + np.cumsum(draw.choice([0, 0, 50, 100, 150, 2_250], count))
    return pa.record_batch(
        {
            "_timestamp": pa.array(times, pa.int64()),
            "k": pa.array(
                thinned(draw.choice([*"aaaabbbccddefgh", "null", *(f"x{n}" for n in range(8))], count)), pa.utf8()
            ),
            "i": pa.array(thinned(draw.integers(0, 5, count).tolist()), pa.int32()),
            "l": pa.array(thinned(draw.integers(-3, 4, count).tolist()), pa.int64()),
            "d": pa.array(thinned((draw.integers(-9, 9, count) / 4).tolist()), pa.float64()),
            "b": pa.array(thinned((draw.random(count) < 0.5).tolist()), pa.bool_()),
            "ts": pa.array(times - draw.choice([0, 0, 0, 200], count), pa.int64()),
        }
    )


def cut(records: pa.RecordBatch, seed: int, *, chunks: bool = False) -> list[Send]:
    """Return `records` in batches of all sizes, with `chunks` every second of them as a chunk."""
    sizes = np.random.default_rng(seed).choice([1, 2, 3, 40], records.num_rows)
    edges = [0, *itertools.takewhile(lambda edge: edge < records.num_rows, np.cumsum(sizes).tolist()), records.num_rows]
    parts = [records.slice(start, stop - start) for start, stop in itertools.pairwise(edges)]
    return [(part, chunks and number % 2 == 1) for number, part in enumerate(parts)]


def answers(text: str, sends: list[Send], *, saved_every: int = 0) -> list[str]:
    """Return the results; before each `saved_every`-th batch strings are renumbered, and another runtime continues."""
    app = analyse(parse(STREAM + text))
    runtime = AppRuntime(app)
    rows: list[str] = []

    def listen(records: pa.RecordBatch) -> None:
        rows.extend(repr(tuple(row.values())) for row in records.to_pylist())  # as texts, of which NaN is like NaN

    runtime.add_stream_callback("O", listen)
    runtime.start(0)
    for number, (part, as_chunk) in enumerate(sends):
        if saved_every and number % saved_every == saved_every - 1:
            runtime.compact()
            state = runtime.snapshot()
            runtime = AppRuntime(app)
            runtime.add_stream_callback("O", listen)
            runtime.restore(state)
        runtime.send("S", part, as_chunk=as_chunk)
    runtime.advance_time(1_000_000)
    return rows


@pytest.fixture
def by_copies(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return `answers` with no query fused."""

    def run(text: str, sends: list[Send]) -> list[str]:
        with monkeypatch.context() as patched:
            patched.setattr(query, "fused_selection", lambda *_: None)
            return answers(text, sends)

    return run


def fused_ones(runtime: AppRuntime) -> list[KeyedSlidingSelection]:
    return [one.fused for one in runtime.state.queries if isinstance(one.fused, KeyedSlidingSelection)]


@pytest.mark.thorough
@FEW_OR_MANY
@pytest.mark.parametrize("name", QUERIES)
def test_one_operator_for_all_instances_answers_as_one_for_each_in_any_cut(
    name: str, count: int, by_copies: Any
) -> None:
    text, records = QUERIES[name], events(count, seed=len(name))
    assert fused_ones(AppRuntime(analyse(parse(STREAM + text)))), "no query is fused"
    expected = by_copies(text, [(records, False)])
    assert expected
    assert answers(text, [(records, False)]) == expected
    parts = cut(records, seed=3)
    assert answers(text, parts) == expected
    assert answers(text, parts, saved_every=4) == expected


@FEW_OR_MANY
@pytest.mark.parametrize("name", QUERIES)
def test_chunks_give_one_row_for_each_of_their_runs_and_groups(name: str, count: int, by_copies: Any) -> None:
    text, parts = QUERIES[name], cut(events(count, seed=5), seed=6, chunks=True)
    expected = by_copies(text, parts)
    assert expected
    assert answers(text, parts) == expected
    assert answers(text, parts, saved_every=5) == expected


def newcomers(first: int, count: int, time_ms: int) -> pa.RecordBatch:
    """Return events at one time, each with a key of its own."""
    times = pa.array([time_ms] * count, pa.int64())
    names = pa.array([f"key {number}" for number in range(first, first + count)])
    return events(count, seed=1).set_column(0, "_timestamp", times).set_column(1, "k", names)


def test_an_instance_takes_room_for_the_rows_that_it_has_and_gives_it_back() -> None:
    text = partition(VALUE, "from S#window.length(1000) select k, sum(i) as s insert into O;", purge=PURGE)
    runtime = AppRuntime(analyse(parse(STREAM + text)))
    runtime.start(0)
    (fused,) = fused_ones(runtime)
    for start in (0, 4_000):
        runtime.send("S", newcomers(start, 4_000, time_ms=1_000))
    assert fused.rows.capacity == 8_192
    assert fused.state_size().rows == 8_000
    runtime.advance_time(10_000_000)
    assert fused.state_size().rows == 0
    assert fused.rows.capacity == 64


@pytest.mark.parametrize("grouping", ["", "group by i"])
def test_rows_whose_time_is_over_make_room_though_nothing_comes_for_their_instances(grouping: str) -> None:
    text = partition(VALUE, f"from S#window.time(10) select k, i, sum(i) as s {grouping} insert into O;")
    runtime = AppRuntime(analyse(parse(STREAM + text)))
    sums: list[pa.RecordBatch] = []
    runtime.add_stream_callback("O", sums.append)
    runtime.start(0)
    (fused,) = fused_ones(runtime)
    runtime.send("S", newcomers(0, 500, time_ms=1_000))
    for start in range(500, 20_000, 50):
        runtime.send("S", newcomers(start, 50, time_ms=1_000 + start))
        assert len(fused.accumulators.cells) >= len(fused.queues.ends if not grouping else fused.groups.keys)
        assert len(fused.queues.ends) >= start + 50
    assert fused.rows.capacity <= 256
    assert fused.state_size().groups <= 256
    assert all(batch["s"].to_pylist() == batch["i"].to_pylist() for batch in sums)


def test_instances_are_seldom_looked_through_however_full_the_room_for_rows_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look costs as much as there are instances; with 1,000 rows in 1,024 places there is little to be found."""
    text = partition(VALUE, "from S#window.time(1000) select k, i, sum(i) as s insert into O;")
    runtime = AppRuntime(analyse(parse(STREAM + text)))
    runtime.start(0)
    (fused,) = fused_ones(runtime)
    looks = 0
    look = type(fused)._look

    def counted(self: KeyedSlidingSelection, step: Step) -> None:
        nonlocal looks
        looks += 1
        look(self, step)

    monkeypatch.setattr(type(fused), "_look", counted)
    times = pa.array(range(1_000, 5_000), pa.int64())
    rows = newcomers(0, 4_000, time_ms=0).set_column(0, "_timestamp", times)
    for row in range(4_000):
        runtime.send("S", rows.slice(row, 1))
    assert 0 < looks < 4_000 // 64
    assert fused.rows.capacity <= 4_096
