"""A window fused with its selection gives the same results as the two one after the other."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.jit.kernels import state_kernel
from siddhi.engine.operators.fused_windows import sliding
from siddhi.engine.operators.fused_windows.group_table import GroupTable, give_back, group_of
from siddhi.engine.planner import query
from siddhi.language.parser import parse

STREAM = "@app:playback define stream S (k string, i int, l long, f float, d double, b bool, ts long); "

AGGREGATES = (
    "sum(i) as si, sum(l) as sl, sum(d) as sd, avg(i) as ai, avg(f) as af, count() as c, stdDev(d) as dev,"
    " min(i) as mi, max(l) as xl, min(d) as md, max(f) as xf, distinctCount(k) as dk, distinctCount(d) as dd,"
    " distinctCount(i) as di, sum(i * 2 + l) as e"
)
WINDOWS = (
    "",
    "#window.length(1)",
    "#window.length(7)",
    "#window.time(15)",
    "#window.externalTime(ts, 12)",
    "#window.timeLength(20, 5)",
    "#window.lengthBatch(6)",
    "#window.externalTimeBatch(ts, 20)",
    "#window.externalTimeBatch(ts, 20, 3)",
    "#window.timeBatch(20)",
    "#window.timeBatch(20, 3)",
)
SELECTIONS = (
    f"select k, b, {AGGREGATES} group by k",
    f"select d, {AGGREGATES}",
    f"select i, f, ts, {AGGREGATES} group by k, i",
    "select f, max(d) as x, maxForever(i) as xf, minForever(d) as mf group by f",
    "select k, b, sum(i) + 1 as s, avg(d) * count() as t, sum(i) is null as n, not (count() > 2) as few group by b",
)
FILTERED = (
    "from S[i > 2]#window.length(4) select k, sum(d) as s group by k insert into O;",
    "from S#window.length(6) select k, sum(i) as s, count() as c group by k having c < 4 and s > 8 insert into O;",
    "from S#window.time(18) select count() as c having c > 2 insert into O;",
)
QUERIES = (*(f"from S{w} {s} insert into O;" for w, s in itertools.product(WINDOWS, SELECTIONS)), *FILTERED)


def events(count: int, seed: int) -> pa.RecordBatch:
    """Return events with nulls in every attribute, whose times sometimes repeat, jump, or (`ts`) go back."""
    draw = np.random.default_rng(seed)

    def thinned(values: Any, share: float = 0.15) -> list[Any]:
        return [None if gone else value for gone, value in zip(draw.random(count) < share, values, strict=True)]

    times = 1_000 + np.cumsum(draw.choice([0, 0, 1, 2, 3, 30], count))
    return pa.record_batch(
        {
            "_timestamp": pa.array(times, pa.int64()),
            "k": pa.array(thinned(draw.choice(["a", "b", "null", "d" * 12], count)), pa.utf8()),
            "i": pa.array(thinned(draw.integers(0, 6, count).tolist()), pa.int32()),
            "l": pa.array(thinned(draw.integers(-3, 3, count).tolist()), pa.int64()),
            "f": pa.array(thinned((draw.integers(0, 9, count) / 4).tolist()), pa.float32()),
            "d": pa.array(thinned((draw.integers(-9, 9, count) / 4).tolist()), pa.float64()),
            "b": pa.array(thinned((draw.random(count) < 0.5).tolist()), pa.bool_()),
            "ts": pa.array(times - draw.choice([0, 0, 0, 4], count), pa.int64()),
        }
    )


def answers(text: str, parts: list[pa.RecordBatch], *, saved: int = -1, chunks: bool = False) -> list[tuple[Any, ...]]:
    """Return the results for `parts`, moved to another runtime by a snapshot before part `saved`."""
    app = analyse(parse(STREAM + text))
    runtime = AppRuntime(app)
    rows: list[tuple[Any, ...]] = []

    def listen(records: pa.RecordBatch) -> None:
        rows.extend(tuple(row.values()) for row in records.to_pylist())

    runtime.add_stream_callback("O", listen)
    runtime.start()
    for number, part in enumerate(parts):
        if number == saved:
            state = runtime.snapshot()
            runtime = AppRuntime(app)
            runtime.add_stream_callback("O", listen)
            runtime.restore(state)
        runtime.send("S", part, as_chunk=chunks)
    runtime.advance_time(100_000)
    return rows


def cut(records: pa.RecordBatch, seed: int) -> list[pa.RecordBatch]:
    sizes = np.random.default_rng(seed).choice([1, 2, 3, 40], records.num_rows)
    edges = [0, *itertools.takewhile(lambda edge: edge < records.num_rows, np.cumsum(sizes).tolist()), records.num_rows]
    return [records.slice(start, stop - start) for start, stop in itertools.pairwise(edges)]


@pytest.fixture
def one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a function with no query fused."""

    def run(*arguments: Any, **options: Any) -> list[tuple[Any, ...]]:
        with monkeypatch.context() as patched:
            patched.setattr(query, "fused_selection", lambda *_: None)
            return answers(*arguments, **options)

    return run


@pytest.mark.thorough
@pytest.mark.parametrize("text", QUERIES)
def test_fused_and_one_after_the_other_give_the_same_in_any_cut(text: str, one_after_the_other: Any) -> None:
    records = events(160, seed=len(text))
    assert AppRuntime(analyse(parse(STREAM + text)))._nodes[0].fused is not None, "the query is not fused"
    expected = one_after_the_other(text, [records])
    assert expected
    assert answers(text, [records]) == expected
    parts = cut(records, seed=3)
    assert answers(text, parts) == answers(text, [records])
    assert answers(text, parts, saved=len(parts) // 2) == answers(text, [records])


@pytest.mark.thorough
@pytest.mark.parametrize("moves", [2, 3, 7, None])
@pytest.mark.parametrize("grouping", ["", " group by k", " group by k, b"])
@pytest.mark.parametrize(
    "window",
    ["", "#window.length(1)", "#window.length(40)", "#window.time(15)", "#window.externalTime(ts, 90)",
     "#window.timeLength(20, 5)"],
)  # fmt: skip
def test_events_without_nulls_slide_alike_however_few_moves_are_planned_at_once(
    window: str, grouping: str, moves: int | None, one_after_the_other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = events(700, seed=11)
    known = {name: pc.fill_null(whole[name], "z" if name == "k" else 1) for name in ("k", "l", "d")}
    records = pa.record_batch({**known, **{name: whole[name] for name in ("_timestamp", "i", "f", "b", "ts")}})
    selected = "k, l, sum(d) as s, avg(l) as a, sum(l) as t, avg(d) as m"
    text = f"from S{window} select {selected}{grouping} insert into O;"
    expected = one_after_the_other(text, [records])
    if moves is not None:
        monkeypatch.setattr(sliding, "INITIAL_MOVES", moves)
        monkeypatch.setattr(sliding, "room_for_moves", lambda room, _: room)
    assert answers(text, [records]) == expected
    assert answers(text, cut(records, seed=5), saved=9) == expected


@pytest.mark.parametrize(
    "window",
    [
        "externalTimeBatch(ts, 5)",
        "externalTimeBatch(ts, 700)",
        "externalTimeBatch(ts, 700, 3)",
        "externalTimeBatch(ts, 700, l + 1900L)",
        "externalTimeBatch(ts, 10 min)",
        "timeBatch(700)",
        "lengthBatch(300)",
    ],
)
def test_many_events_at_one_go_are_cut_as_one_by_one(window: str, one_after_the_other: Any) -> None:
    records = events(1_500, seed=11)
    text = f"from S#window.{window} select k, i, sum(l) as s, avg(d) as a, max(f) as x group by k insert into O;"
    alone = [records.slice(row, 1) for row in range(records.num_rows)]
    assert answers(text, [records]) == answers(text, alone) == one_after_the_other(text, [records])
    assert bool(answers(text, [records])) == ("10 min" not in window)


@pytest.mark.parametrize("text", [text for text in QUERIES if "forever" not in text.lower()][::3])
def test_chunks_give_one_row_for_each_of_their_groups(text: str, one_after_the_other: Any) -> None:
    parts = cut(events(160, seed=5), seed=6)
    assert answers(text, parts, chunks=True) == one_after_the_other(text, parts, chunks=True)


@pytest.mark.parametrize(
    "query",
    [
        "from S#window.length(5) select k, sum(i) as s group by k insert into O;",
        "from S#window.length(5) select k, sum(i) as s group by k, i insert into O;",
        "from S#window.length(5) select k, avg(d) as s group by k insert all events into O;",
        "from S#window.lengthBatch(5) select k, stdDev(d) as s group by k insert all events into O;",
        "from S#window.sort(5, d) select k, distinctCount(i) as s group by k order by k insert into O;",
        "from S select k group by k insert into O;",
        "partition with (b of S) begin from S#window.length(5) select k, max(d) as s group by k insert into O; end;",
    ],
)
def test_groups_that_no_event_is_left_of_make_room_for_others(query: str) -> None:
    runtime = AppRuntime(analyse(parse(STREAM + query)))
    runtime.start()
    groups = []
    for start in range(0, 20_000, 500):
        numbers = range(start, start + 500)
        part = events(500, seed=start).set_column(1, "k", pa.array([f"key {number}" for number in numbers]))
        runtime.send("S", part)
        groups.append(sum(held.size.groups for held in runtime.statistics().state))
    assert max(groups) < 2_000


def test_an_id_is_given_out_again_only_when_nobody_holds_it() -> None:
    table = GroupTable([True])
    table.make_room(np.zeros(0, dtype=np.bool_), codes=100)
    assert table.count == 0
    capacity = table.capacity
    table.state[3] = 0  # all ids are in use, by the codes of the same number
    table.keys[:, 0] = np.arange(capacity)
    table.make_room(np.arange(capacity) == 4, codes=100)
    assert table.used().tolist() == [4]
    assert table.index[4] == 4
    assert table.index[5] == -1


@pytest.mark.parametrize("coded", [(True,), (False, True)])
def test_a_table_knows_its_groups_however_others_come_and_go(coded: tuple[bool, ...]) -> None:
    table = GroupTable(coded)
    draw = np.random.default_rng(11)
    held: dict[int, int] = {}
    for _ in range(500):
        key = int(draw.integers(0, 60))
        if key in held:
            drop(held.pop(key), table)
        else:
            held[key] = found = find(key, table)
            assert found not in [group for other, group in held.items() if other != key]
        assert table.count == len(held)
        assert all(find(key, table) == group for key, group in held.items())


def find(key: int, table: GroupTable) -> int:
    keys = np.full(len(table.coded), key, dtype=np.int64)
    while (group := find_in(keys, table.state, table.index, table.keys, table.unused)) < 0:
        held = np.zeros(table.capacity, dtype=np.bool_)
        held[table.used()] = True
        table.make_room(held, 60)
    return int(group)


def drop(group: int, table: GroupTable) -> None:
    give_back_in(group, table.state, table.index, table.keys, table.unused)


@state_kernel
def find_in(keys, state, index, group_keys, unused):  # type: ignore[no-untyped-def]
    return group_of(keys, 0, 1, state, index, group_keys, unused)


@state_kernel
def give_back_in(group, state, index, group_keys, unused):  # type: ignore[no-untyped-def]
    give_back(group, state, index, group_keys, unused)
