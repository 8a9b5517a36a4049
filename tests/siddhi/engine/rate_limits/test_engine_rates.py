"""Results of output rates in cases that are easily wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.operators.selection import selector
from siddhi.language.parser import parse

Chunk = tuple[int, list[tuple[str, int]]]


def let_out(query: str, chunks: list[Chunk], end: int) -> list[tuple[Any, ...]]:
    """Return the output of `query`, given chunks (clock, rows of S) and the clock at `end`."""
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (k string, v int); {query}")))
    runtime.start(0)
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.to_pylist()))
    for clock, events in chunks:
        keys, values = zip(*events, strict=True)
        columns = {"k": pa.array(keys), "v": pa.array(values, pa.int32())}
        runtime.send("S", pa.RecordBatch.from_pydict(columns), clock, as_chunk=True)
    runtime.advance_time(end)
    return [tuple(value for name, value in row.items() if not name.startswith("_")) for row in rows]


def test_the_first_chunk_of_a_batch_window_begins_with_an_event() -> None:
    query = "from S#window.batch() select k, v output first every 3 events insert into O;"
    chunks = [(1, [("a", 1), ("a", 2)]), (2, [("a", 3)]), (3, [("a", 4)])]
    assert let_out(query, chunks, 5) == [("a", 1), ("a", 3)]


def test_a_row_that_having_kept_out_of_a_snapshot_changes_nothing_as_it_leaves() -> None:
    query = """
        from S#window.length(2) select k, min(v) as low having low > 2 output snapshot every 10 milliseconds
        insert into O;
    """
    chunks = [(1, [("a", 1)]), (2, [("b", 5)]), (3, [("c", 6)]), (4, [("d", 9)])]
    assert let_out(query, chunks, 12) == [("c", 6), ("d", 6)]


def test_a_row_leaves_a_snapshot_by_its_values_whatever_its_group() -> None:
    query = """
        from S#window.sort(1, v) select 'x' as x, v group by k output snapshot every 10 milliseconds insert into O;
    """
    assert let_out(query, [(1, [("a", 5)]), (2, [("b", 5)]), (3, [("c", 4)])], 12) == [("x", 4)]


def test_a_function_of_an_aggregate_is_a_plain_value_to_a_snapshot() -> None:
    query = """
        from S#window.length(2) select k, sum(v) + 0 as s output snapshot every 10 milliseconds insert into O;
    """
    chunks = [(1, [("a", 1)]), (2, [("b", 2)]), (3, [("c", 3)]), (4, [("d", 4)])]
    assert let_out(query, chunks, 12) == [("a", 1), ("c", 5), ("d", 7)]


@pytest.mark.parametrize(
    ("attributes", "rows"),
    [
        ("sum(v) as s, count() as n, k", [(7, 2, "b"), (7, 2, "c"), (7, 2, "d")]),
        ("k, sum(v) as s, count() as n", [("c", 7, 2), ("d", 7, 2)]),
        ("k, 0 as z, sum(v) as s, count() as n", [("c", 0, 7, 2), ("d", 0, 7, 2)]),
    ],
)
def test_aggregates_in_front_tell_rows_of_a_snapshot_apart(attributes: str, rows: list[tuple[Any, ...]]) -> None:
    query = f"from S#window.length(2) select {attributes} output snapshot every 10 milliseconds insert into O;"
    chunks = [(1, [("a", 1)]), (2, [("b", 2)]), (3, [("c", 3)]), (4, [("d", 4)])]
    assert let_out(query, chunks, 12) == rows


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("from S#window.lengthBatch(2) select k, v group by k order by v desc", [("a", 5), ("b", 3)]),
        ("from S#window.lengthBatch(2) select k, v group by k order by v", [("a", 5), ("b", 3)]),
        ("from S#window.lengthBatch(2) select k, v group by k offset 1", [("a", 5), ("b", 3)]),
        ("from S#window.lengthBatch(2) select k, v group by k limit 1", [("a", 5)]),
        ("from S#window.sort(1, v) select k, v group by k limit 1", [("a", 5), ("b", 3)]),
        ("from S#window.lengthBatch(2) select k, v order by v limit 1", [("b", 3)]),
    ],
)
def test_rows_of_groups_are_limited_in_a_snapshot_but_neither_sorted_nor_skipped(
    query: str, rows: list[tuple[Any, ...]]
) -> None:
    chunks = [(1, [("a", 5)]), (2, [("b", 3)])]
    assert let_out(f"{query} output snapshot every 10 milliseconds insert into O;", chunks, 12) == rows


def test_the_groups_of_a_snapshot_keep_their_places_from_batch_to_batch() -> None:
    query = """
        from S#window.lengthBatch(2) select sum(v) as total group by k output snapshot every 10 milliseconds
        insert into O;
    """
    chunks = [(1, [("a", 1)]), (2, [("b", 2)]), (3, [("b", 3)]), (4, [("a", 4)])]
    assert let_out(query, chunks, 12) == [(4,), (3,)]


SELECTED = ["k, v, sum(v) as s group by k", "sum(v) as s group by k", "k, v group by k", "'x' as x, v group by k"]
FORGETFUL = [
    f"from S{window} select {selected} output {rate} insert into O;"
    for windows, selections, rates in (
        (
            ("length(4)", "lengthBatch(3)", "timeBatch(20)", "time(30)", "sort(3, v)", "batch()"),
            (*SELECTED, "k, max(v) as m group by k having m > 3"),
            ("snapshot every 20 milliseconds",),
        ),
        (
            ("length(4)", "timeBatch(20)", ""),
            SELECTED[1:3],
            (f"{kind} every {often}" for kind in ("first", "last", "all") for often in ("3 events", "20 milliseconds")),
        ),
    )
    for rate in rates
    for window in (f"#window.{name}" if name else "" for name in windows)
    for selected in selections
]
"""Queries whose groups come and go, and whose limiters remember some of them."""


@pytest.mark.thorough
@pytest.mark.parametrize("query", FORGETFUL)
def test_what_is_let_out_is_the_same_whether_empty_groups_are_forgotten(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(3)
    chunks: list[Chunk] = []
    clock = 1000
    for number in range(60):
        clock += int(draw.integers(0, 12))
        names = [f"key{number // 6 + int(draw.integers(0, 3))}" for _ in range(int(draw.integers(1, 4)))]
        chunks.append((clock, [(name, int(draw.integers(0, 8))) for name in names]))
    whole = let_out(query, chunks, clock + 200)
    monkeypatch.setattr(selector, "MIN_FORGOTTEN_GROUPS", 1)
    assert let_out(query, chunks, clock + 200) == whole
    assert whole


@pytest.mark.parametrize("window", ["timeBatch(1 sec)", "time(1 sec)"])
def test_what_a_snapshot_remembers_of_groups_that_are_gone_does_not_grow(window: str) -> None:
    query = f"from S#window.{window} select k, sum(v) as s group by k output snapshot every 1 sec insert into O;"
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (k string, v int); {query}")))
    runtime.start(0)
    sizes = []
    for number in range(12):
        keys = [f"key{number:02}x{place:03}" for place in range(500)]
        columns = {"k": pa.array(keys), "v": pa.array([1] * 500, pa.int32())}
        runtime.send("S", pa.RecordBatch.from_pydict(columns), 1000 + 3000 * number)
        runtime.advance_time(3900 + 3000 * number)
        runtime.compact()
        sizes.append(len(runtime.snapshot()))
    assert max(sizes[6:]) < 1.1 * max(sizes[:6])


@pytest.mark.parametrize("aggregate", ["", ", sum(v) as n"])
@pytest.mark.parametrize(
    ("window", "prices", "values", "shown"),
    [
        ("length(1)", [math.nan, 1.0, math.nan], [1, 2, 3], ["nan"]),
        ("sort(2, v)", [0.0, -0.0, 5.0], [1, 2, 0], ["0.0", "5.0"]),
    ],
)
def test_a_row_leaves_a_snapshot_with_nan_and_by_the_sign_of_zero(
    window: str, prices: list[float], values: list[int], shown: list[str], aggregate: str
) -> None:
    query = f"from S#window.{window} select p{aggregate} output snapshot every 10 milliseconds insert into O;"
    runtime = AppRuntime(analyse(parse(f"@app:playback define stream S (p double, v int); {query}")))
    runtime.start(0)
    rows: list[str] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(str(row["p"]) for row in batch.to_pylist()))
    batch = pa.RecordBatch.from_pydict({"p": pa.array(prices), "v": pa.array(values, pa.int32())})
    for place in range(len(prices)):
        runtime.send("S", batch.slice(place, 1), 1 + place)
    runtime.advance_time(10)
    assert rows == shown


@pytest.mark.parametrize("selection", ["k, v", "k, sum(v) as s group by k", "k, v group by k", "sum(v) as s"])
@pytest.mark.parametrize(("window", "ticks"), [("time(10)", "ab"), ("timeBatch(10)", "aab")])
def test_what_expires_at_the_time_of_a_tick_is_still_in_its_snapshot(window: str, ticks: str, selection: str) -> None:
    query = f"from S#window.{window} select {selection} output snapshot every 10 milliseconds insert into O;"
    shown = {"a": ("a", 1), "b": ("b", 2)} if selection.startswith("k") else {"a": (1,), "b": (2,)}
    assert let_out(query, [(10, [("a", 1)]), (20, [("b", 2)])], 59) == [shown[tick] for tick in ticks]


def test_what_another_query_inserts_at_the_time_of_a_tick_is_in_the_next_snapshot() -> None:
    query = """
        from S#window.time(10) select k, v insert expired events into M;
        from M select k, v output snapshot every 10 milliseconds insert into O;
    """
    assert let_out(query, [(10, [("a", 1)]), (12, [("b", 2)])], 39) == [("b", 2)]
