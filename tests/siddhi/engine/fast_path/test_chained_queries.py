"""Small batches through queries that read each other's results: with the same results and state as on the general
path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.fast_path.path import FastPath
from siddhi.language.parser import parse

STREAMS = "define stream S (s string, l long, d double); define stream A (s string, l long, d double);"
SCHEMA = pa.schema([("_timestamp", pa.int64()), ("s", pa.utf8()), ("l", pa.int64()), ("d", pa.float64())])
VALUES = {
    "s": st.sampled_from(["", "a", "b", "longer than a word of eight bytes"]),
    "l": st.sampled_from([0, 1, -1, 7, 2**53 + 1]),
    "d": st.sampled_from([0.0, -0.0, 1.5, -1.0, float("nan")]),
}
FIRST = [
    "from S select s, l, d insert into A;",
    "from S[l > 0] select s, l, d insert into A;",
    "from S select s, l + 1 as l, d * 2.0 as d insert into A;",
    "from S[l % 2 == 1] select s, l, ifThenElse(d > 0.0, d, 0.5) as d insert into A;",
    "from S select s, l, d having l > 0 insert into A;",
    "from S#window.length(3) select s, sum(l) as l, avg(d) as d group by s insert into A;",
    "from S[d > 0.0]#window.time(6) select s, count() as l, max(d) as d insert into A;",
    "from S#window.length(2) select s, sum(l) as l, d group by s having l > 0 insert into A;",
    "from S#window.lengthBatch(2) select s, sum(l) as l, max(d) as d group by s insert into A;",
    "from every e=S[l == 1] -> f=S[l != 1] select f.s as s, e.l as l, f.d as d insert into A;",
    "from S as x join S#window.length(2) as y on x.l == y.l select x.s as s, y.l as l, x.d as d insert into A;",
    "partition with (s of S) begin from S[l > 0] select s, l, d insert into A; end;",
    "partition with (s of S) begin from S select s, l, d insert into #I; from #I select s, l, d insert into A; end;",
    "partition with (s of S) begin from S#window.length(2) select s, sum(l) as l, d insert into A; end;",
]
SECOND = [
    "from A select s, l insert into B;",
    "from A[d > 0.0] select s, d insert into B;",
    "from A select l / (l - 1L) as r, cast(s, 'string') as s insert into B;",
    "from A select sum(l) as l, count() as n insert into B;",
    "from A select s, sum(l) as l group by s insert into B;",
    "from A#window.length(2) select s, sum(l) as l insert all events into B;",
    "from A#window.time(5) select s, count() as n group by s insert into B;",
    "from A#window.lengthBatch(2) select s, sum(l) as l insert into B;",
    "from A#window.timeBatch(5) select s, sum(l) as l insert into B;",
    "from A select s, l output last every 2 events insert into B;",
    "from A select s, l output all every 5 milliseconds insert into B;",
    "from every e=A -> f=A[l == e.l] select e.s as s, f.s as t insert into B;",
    "from every e=A -> not A for 4 milliseconds select e.s as s insert into B;",
    "from A as x join S#window.length(2) as y on x.l == y.l select x.s as s, y.d as d insert into B;",
    "partition with (s of A) begin from A#window.length(2) select s, sum(l) as l insert into B; end;",
    "from A select s, l insert into T; from A[l in T] select s, l insert into B;",
    "from A select s, l insert into W; from W select s, sum(l) as l insert into B;",
    "from A select s, l insert into C; from A select s, l + 1 as l insert into C; from C select s, l insert into B;",
    "from A select s, l insert into C; from C[l > 0] select s, l * 2 as l insert into B;",
    "from S select s, l insert into C; from A select s, l insert into C; from C select s, l insert into B;",
]
COMPUTED = "from A[l > 1] select l + 1 as l insert into B;"
THIRD = "from A select s insert into C;"
REST = "define table T (s string, l long); define window W (s string, l long) length(2);"


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """A batch with or without nulls, with times that rise or also go back."""
    rows = draw(st.integers(1, 6))
    times = draw(st.lists(st.integers(1, 30), min_size=rows, max_size=rows))
    columns: dict[str, list[Any]] = {"_timestamp": sorted(times) if draw(st.booleans()) else times}
    for name, items in VALUES.items():
        drawn = st.none() | items if draw(st.integers(0, 3)) == 0 else items
        columns[name] = draw(st.lists(drawn, min_size=rows, max_size=rows))
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def outcome(text: str, sent: Sequence[pa.RecordBatch], heard: str, *, general: bool) -> list[object]:
    """Return the results on `heard`, and the events, the clock and the state in the end."""
    app, results = analyse(parse(text)), list[object]()

    def built() -> AppRuntime:
        runtime = AppRuntime(app)
        if general:
            runtime.add_stream_callback("S", lambda _: None)
        for stream in heard:
            runtime.add_stream_callback(
                stream, lambda records, of=stream: results.append((of, records.schema, repr(records.to_pylist())))
            )
        return runtime

    runtime = built()
    runtime.start()
    runtime.send("S", sent[0].slice(0, 1), 20)  # the first event sets the clock
    for number, records in enumerate(sent):
        runtime.send("S", records, 20)
        results.append(("sent", runtime.saved().clock))
        if number == 1:
            snapshot, runtime = runtime.snapshot(), built()
            runtime.restore(snapshot)
    statistics = runtime.statistics()
    runtime.advance_time(60)
    held = [(part.name, part.size.rows, part.size.groups) for part in statistics.state]
    return [*results, statistics.events, statistics.failures, held]


@pytest.mark.thorough
@settings(deadline=None, max_examples=examples(200))
@given(
    st.sampled_from(FIRST),
    st.sampled_from(SECOND),
    st.lists(batches(), min_size=1, max_size=5),
    st.sampled_from(["B", "B", "AB"]),
    st.booleans(),
)
def test_chained_queries_answer_as_on_the_general_path(
    first: str, second: str, sent: list[pa.RecordBatch], heard: str, playback: bool
) -> None:
    text = f"{'@app:playback ' if playback else ''}{STREAMS} {REST} {first} {second}"
    short = outcome(text, sent, heard, general=False)
    assert short == outcome(text, sent, heard, general=True)


def entered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives the rows of each batch that a fast path takes from now on."""
    rows: list[int] = []
    run = FastPath.run

    def counted(path: FastPath, records: pa.RecordBatch, count: int, *given: Any) -> Any:
        passed = run(path, records, count, *given)
        if passed is not None:
            rows.append(count)
        return passed

    monkeypatch.setattr(FastPath, "run", counted)
    return rows


@pytest.mark.parametrize(
    ("queries", "hops"),
    [
        (FIRST[1] + COMPUTED + "from B select l insert into C;", [4, 3, 2]),
        (FIRST[5] + SECOND[0], [4, 4]),
        (FIRST[1] + SECOND[3], [4, 3]),
        (FIRST[1] + SECOND[9], [4]),
        (FIRST[8] + SECOND[0], []),
        (FIRST[9] + SECOND[0], []),
        (FIRST[1] + "from S select s insert into B; " + THIRD, []),
        ("define trigger Beat at every 1 sec; " + FIRST[1] + SECOND[0], []),
        (FIRST[1] + SECOND[8], []),
        (FIRST[11] + SECOND[0], [4, 3]),
        (FIRST[12] + SECOND[0], []),
        (FIRST[1] + "".join(f"from A[l == {number}] select s insert into B;" for number in range(20)), [4]),
    ],
)
def test_which_chains_take_the_fast_path(queries: str, hops: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = AppRuntime(analyse(parse(f"@app:playback {STREAMS} {REST} {queries}")))
    runtime.start(1)
    rows = entered(monkeypatch)
    columns = {"_timestamp": [1, 2, 3, 4], "s": ["a", "b", "a", "b"], "l": [0, 1, 2, 3], "d": [1.0] * 4}
    batch = pa.record_batch([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)
    runtime.send("S", batch)
    rows.clear()  # the first batch opens the instances of partitions
    runtime.send("S", batch.set_column(0, SCHEMA.field(0), pa.array([5, 6, 7, 8], pa.int64())))
    assert rows == hops


def test_the_clock_is_at_the_batch_though_a_listener_behind_a_chain_fails() -> None:
    runtime = AppRuntime(analyse(parse(f"@app:playback {STREAMS} {FIRST[1]} {SECOND[0]}")))
    runtime.start(1)

    def fail(records: pa.RecordBatch) -> None:
        raise ValueError(records.num_rows)

    runtime.add_stream_callback("B", fail)
    columns = {"_timestamp": [1, 2, 3], "s": ["a", "b", "a"], "l": [1, 2, 0], "d": [1.0] * 3}
    batch = pa.record_batch([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)
    with pytest.raises(ValueError, match="2"):
        runtime.send("S", batch)
    clock = runtime.saved().clock
    assert clock is not None
    assert (clock.shown, clock.events) == (3, 3)
