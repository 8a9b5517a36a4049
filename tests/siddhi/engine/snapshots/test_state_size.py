"""The size of state in `AppRuntime.statistics`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.columnar.state_size import StateSize
from siddhi.engine.limits import MAX_PARTIAL_MATCHES
from siddhi.language.parser import parse

ROWS = 2000
KEYS = 50


def run(text: str, most: int = MAX_PARTIAL_MATCHES) -> AppRuntime:
    app = analyse(parse(f"@app:playback define stream S (k string, v int, p double); {text}"))
    runtime = AppRuntime(app, max_partial_matches=most)
    runtime.start(0)
    values = np.arange(ROWS)
    batch = pa.record_batch(
        {
            "_timestamp": pa.array(values + 1000),
            "_kind": pa.array(np.zeros(ROWS, dtype=np.int8)),
            "k": [f"key {value % KEYS}" for value in values],
            "v": pa.array(values.astype(np.int32)),
            "p": values / 2,
        }
    )
    runtime.send("S", batch)
    return runtime


def held(runtime: AppRuntime, kind: str = "query") -> StateSize:
    (size,) = (part.size for part in runtime.statistics().state if part.kind == kind)
    return size


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("from S#window.length(700) select k, p insert into O;", 700),
        ("from S#window.time(300) select k, p insert into O;", 300),
        ("from S#window.sort(40, p) select k, p insert into O;", 40),
        ("from S#window.lengthBatch(1500) select k, p insert into O;", 500),
        ("from S#window.length(70) as a join S#window.length(30) as b on a.v == b.v select a.k insert into O;", 100),
        ("from S select k, p output all every 1900 events insert into O;", 100),
        ("partition with (k of S) begin from S#window.length(3) select k, p insert into O; end;", 3 * KEYS),
        ("define window W (k string) length(60); from S select k insert into W;", 60),
        ("define table T (k string, p double); from S select k, p insert into T;", ROWS),
    ],
)
def test_rows_are_counted_where_they_are_held(query: str, rows: int) -> None:
    found = [part.size.rows for part in run(query).statistics().state if part.size.rows]
    assert found == [rows]


def test_groups_and_values_told_apart_are_counted() -> None:
    size = held(run("from S#window.length(100) select k, distinctCount(v) as d group by k insert into O;"))
    assert (size.rows, size.groups, size.distinct_values) == (100, KEYS, 100)


@pytest.mark.parametrize("count", ["", "<1:1>"])
def test_partial_matches_are_counted(count: str) -> None:
    query = f"from every e1=S[v < 300]{count} -> e2=S[p < 0] select e1.k as k, e2.k as l insert into O;"
    assert held(run(query)).partial_matches in (300, 301)


def test_live_partition_instances_are_counted() -> None:
    query = "partition with (k of S) begin from S select k, sum(v) as s insert into O; end;"
    runtime = run(query)
    assert held(runtime, "partition").instances == KEYS
    assert held(runtime).groups == KEYS


@pytest.mark.parametrize(
    "query",
    [
        "from S#window.length(2000) select k, v, p insert into O;",
        "from S#window.sort(2000, p) select k, v, p insert into O;",
        "define table T (k string, v int, p double); from S insert into T;",
        "from every e1=S -> e2=S[p < 0] select e1.k as k, e1.v as v, e1.p as p insert into O;",
    ],
)
def test_bytes_are_at_least_those_of_the_columns_and_not_many_times_as_many(query: str) -> None:
    columns = ROWS * (8 + 4 + 8)
    found = sum(part.size.bytes for part in run(query).statistics().state)
    assert columns <= found < 20 * columns


@pytest.mark.parametrize("form", ["e1=S -> e2", "e1=S<1:1> -> e2", "e1=S -> e2=S[v == e1.v] -> e3"])
@pytest.mark.parametrize("partition", [False, True])
def test_a_pattern_that_holds_too_many_partial_matches_drops_the_oldest_and_counts_them(
    form: str, partition: bool
) -> None:
    query = f"from every {form}=S[v == -1] select {'e1[0]' if '<' in form else 'e1'}.v as v insert into O;"
    runtime = run(f"partition with (k of S) begin {query} end;" if partition else query, most=100)
    rows: list[int] = []
    runtime.add_stream_callback("O", lambda batch: rows.extend(batch.column("v").to_pylist()))
    size = held(runtime)
    waiting = (KEYS if partition else 1) if "<" in form else 0  # empty ones, for the first event
    assert size.partial_matches - waiting == 90
    assert size.dropped_partial_matches == ROWS - 90
    if "e3" not in form:
        end = pa.record_batch(
            {"_timestamp": [9000], "k": [f"key {(ROWS - 1) % KEYS}"], "v": pa.array([-1], pa.int32()), "p": [0.0]}
        )
        runtime.send("S", end)
        newest = [value for value in range(ROWS) if not partition or value % KEYS == (ROWS - 1) % KEYS]
        assert rows == newest[-len(rows) :]
