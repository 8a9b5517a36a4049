"""Few events that plain queries alone take go the short cut: with the same results as on the long way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.arrow_c.copy_kernel import LESS
from siddhi.engine.fast_path.plain_route import PlainRoute
from siddhi.engine.operators.selection.plain_query import lines_of, plain_query
from siddhi.engine.tuning import MAX_PLAIN_ROUTE_ROWS
from siddhi.errors import SiddhiRuntimeError
from siddhi.language.parser import parse

STREAM = "define stream S (s string, i int, l long, f float, d double, b bool);"
SCHEMA = pa.schema(
    [
        pa.field("b", pa.bool_()),
        pa.field("d", pa.float64()),
        pa.field("_timestamp", pa.int64()),
        pa.field("s", pa.utf8()),
        pa.field("i", pa.int32()),
        pa.field("l", pa.int64()),
        pa.field("f", pa.float32()),
    ]
)
TEXTS = ["", "a", "b", "ab", "é", "longer than a word of eight bytes"]
WHOLES = [0, 1, -1, 7, 2**31 - 1, -(2**31)]
LONGS = [*WHOLES, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.5, -1.0, 0.1, 2.0**53, float("inf"), float("nan")]
BOUNDS = ["0", "1", "-1", "7L", "9007199254740993L", "1.5", "0.1", "0.1f", "1.5f", "9007199254740992.0", "1e40f"]

VALUES = {
    "b": st.booleans(),
    "d": st.sampled_from(FLOATS),
    "s": st.sampled_from(TEXTS),
    "i": st.sampled_from(WHOLES),
    "l": st.sampled_from(LONGS),
    "f": st.sampled_from(FLOATS),
}


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """A comparison with a constant, on either side, or some of them."""
    sign = draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
    if draw(st.booleans()):
        name, bound = draw(st.sampled_from("ilfd")), draw(st.sampled_from(BOUNDS))
    else:
        name, bound = "s", repr(draw(st.sampled_from(TEXTS)))
        sign = draw(st.sampled_from(["==", "!="]))
    sides = (name, bound) if draw(st.booleans()) else (bound, name)
    one = f"{sides[0]} {sign} {sides[1]}"
    return f"{one} and {draw(conditions())}" if draw(st.integers(0, 3)) == 0 else one


@st.composite
def plain_queries(draw: st.DrawFn, target: str) -> str:
    filters = "".join(f"[{condition}]" for condition in draw(st.lists(conditions(), max_size=2)))
    names = draw(st.lists(st.sampled_from("silfdb"), min_size=1, unique=True))
    selected = ", ".join(f"{name} as {name}{target}" for name in names)
    return f"from S{filters} select {draw(st.sampled_from(['*', selected]))} insert into {target};"


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Events as they may come: with nulls or none, cut out of others, times that go back."""
    rows = draw(st.integers(1, 12))
    columns: dict[str, list[Any]] = {"_timestamp": draw(st.lists(st.integers(1, 40), min_size=rows, max_size=rows))}
    for name, items in VALUES.items():
        drawn = st.none() | items if draw(st.booleans()) else items
        columns[name] = draw(st.lists(drawn, min_size=rows, max_size=rows))
    batch = pa.record_batch([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)
    first = draw(st.integers(0, rows - 1))
    return batch.slice(first, draw(st.integers(1, rows - first)))


def answers(text: str, sent: Sequence[pa.RecordBatch], targets: str, *, the_long_way: bool) -> list[object]:
    """What comes out of each target, batch by batch, and what the app reports about itself in the end."""
    runtime = AppRuntime(analyse(parse(text)))
    runtime.start()
    if the_long_way:
        runtime.add_stream_callback("S", lambda _: None)  # the callback has to get S
    told: list[object] = []
    for target in targets:
        runtime.add_stream_callback(
            target, lambda records, to=target: told.append((to, written(records), runtime.saved().clock))
        )
    for records in sent:
        runtime.send("S", records, 50)
        told.append("sent")
    events = dict(runtime.statistics().events)
    return [*told, events, runtime.saved().clock]


def written(records: pa.RecordBatch) -> tuple[object, ...]:
    """The batch with its schema, so that NaN is NaN and 0.0 is not -0.0."""
    records.validate(full=True)
    return records.schema, repr(records.to_pylist())


@pytest.mark.thorough
@settings(deadline=None, max_examples=examples(300))
@given(plain_queries("A"), plain_queries("B"), st.lists(batches(), min_size=1, max_size=4), st.booleans())
def test_the_fast_path_answers_as_the_general_path(
    first: str, second: str, sent: list[pa.RecordBatch], own: bool
) -> None:
    text = f"{'@app:playback ' if own else ''}{STREAM} {first} {second}"
    short = answers(text, sent, "AB", the_long_way=False)
    assert short == answers(text, sent, "AB", the_long_way=True)


def shortcut_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches that go the short cut from now on."""
    calls: list[int] = []
    run = PlainRoute.run

    def counted(loop: PlainRoute, records: pa.RecordBatch, rows: int, *given: Any, **named: Any) -> Any:
        calls.append(rows)
        return run(loop, records, rows, *given, **named)

    monkeypatch.setattr(PlainRoute, "run", counted)
    return calls


def events(rows: int, **changed: Any) -> pa.RecordBatch:
    columns = {
        "_timestamp": pa.array(range(1, rows + 1), pa.int64()),
        "s": pa.array(["a"] * rows),
        "i": pa.array(range(rows), pa.int32()),
        "l": pa.array(range(rows), pa.int64()),
        "f": pa.array([1.5] * rows, pa.float32()),
        "d": pa.array([0.5] * rows),
        "b": pa.array([True] * rows),
    }
    return pa.record_batch({**columns, **changed})


PLAIN = "from S[i > 2] select s, i insert into A;"


@pytest.mark.parametrize(
    ("text", "goes"),
    [
        (PLAIN, True),
        ("from S select * insert into A;", True),
        ("from S[2 < i and s == 'a'][b is null] select i insert into A;", False),
        ("from S[i > 2] select i + 1 as j insert into A;", False),
        ("from S[i > 2] select i order by i insert into A;", False),
        ("from S[i > 2] select i limit 1 insert into A;", False),
        ("from S#window.length(1) select i insert into A;", False),
        (f"{PLAIN} from A select i insert into B;", True),
        (f"{PLAIN} from S select count() as n insert into B;", False),
        (f"{PLAIN} from S[b == true] select s, i insert into A;", False),
        ("define table T (i int); from S select i insert into T; from S select i insert into A;", False),
        ("from S[i > 2] select i output every 2 events insert into A;", False),
        ("from S[i > 2] select i insert expired events into A;", False),
        ("from S[l > 0.1f] select i insert into A;", False),
        ("define trigger Beat at every 1 sec; from S select i insert into A;", False),
        ("define stream T (i int); from S select i insert into A; from T select i insert into A;", False),
    ],
)
def test_only_plain_queries_alone_make_a_fast_path(text: str, goes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = shortcut_calls(monkeypatch)
    runtime = AppRuntime(analyse(parse(f"@app:playback {STREAM} {text}")))
    runtime.start()
    runtime.add_stream_callback("A", lambda _: None)
    for _ in range(2):  # the first batch sets the clock
        runtime.send("S", events(5))
    assert calls == ([5] if goes else [])


def test_many_rows_and_whoever_listens_on_the_way_take_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = shortcut_calls(monkeypatch)
    runtime = AppRuntime(analyse(parse(f"@app:playback {STREAM} @info(name='q') {PLAIN}")))
    runtime.start(1)
    runtime.send("S", events(MAX_PLAIN_ROUTE_ROWS))
    runtime.send("S", events(MAX_PLAIN_ROUTE_ROWS + 1))
    assert calls == [MAX_PLAIN_ROUTE_ROWS]
    runtime.send("S", events(3), as_chunk=True)
    assert calls == [MAX_PLAIN_ROUTE_ROWS]
    told: list[int] = []
    runtime.add_query_callback("q", lambda records: told.append(records.num_rows))
    runtime.send("S", events(5))
    assert (calls, told) == ([MAX_PLAIN_ROUTE_ROWS], [2])


def test_many_values_and_many_columns_for_many_queries_take_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = shortcut_calls(monkeypatch)
    queries = " ".join(f"from S select i insert into A{number};" for number in range(40))
    for text in ("from S select * insert into A;", queries):
        runtime = AppRuntime(analyse(parse(f"@app:playback {STREAM} {text}")))
        runtime.start(1)
        runtime.send("S", events(2_049) if text != queries else events(1))
    assert calls == []


def test_results_for_nobody_are_counted_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = shortcut_calls(monkeypatch)
    runtime = AppRuntime(analyse(parse(f"@app:playback {STREAM} {PLAIN}")))
    runtime.start(1)
    runtime.send("S", events(5))
    assert (calls, runtime.statistics().events) == ([5], {"S": 5, "A": 2})


def test_the_clock_stands_at_the_batch_though_a_listener_fails() -> None:
    runtime = AppRuntime(analyse(parse(f"@app:playback {STREAM} {PLAIN}")))
    runtime.start(1)

    def fail(records: pa.RecordBatch) -> None:
        raise ValueError(records.num_rows)

    runtime.add_stream_callback("A", fail)
    with pytest.raises(ValueError, match="2"):
        runtime.send("S", events(5))
    clock = runtime.saved().clock
    assert clock is not None
    assert (clock.shown, runtime.statistics().events) == (5, {"S": 5, "A": 2})


def test_batches_of_another_schema_are_laid_out_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = shortcut_calls(monkeypatch)
    runtime = AppRuntime(analyse(parse(f"@app:playback {STREAM} {PLAIN}")))
    runtime.start(1)
    told: list[object] = []
    runtime.add_stream_callback("A", lambda records: told.append(records.column("i").to_pylist()))
    turned = events(4).select(["b", "i", "_timestamp", "l", "d", "f", "s"])
    cast = events(4, s=pa.array(["a"] * 4).dictionary_encode())
    for records in (events(4), turned, cast, events(4)):
        runtime.send("S", records)
    assert told == [[3]] * 4
    assert calls == [4, 4, 4]  # what has to be cast goes the long way


def test_a_null_time_is_refused_as_ever_and_nothing_has_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = shortcut_calls(monkeypatch)
    runtime = AppRuntime(analyse(parse(f"@app:playback {STREAM} {PLAIN}")))
    runtime.start(1)
    times = pa.array([1, None, 3, 4], pa.int64())
    with pytest.raises(SiddhiRuntimeError) as refused:
        runtime.send("S", events(4, _timestamp=times))
    assert refused.value.problems[0].code == "null-timestamp"
    assert (calls, runtime.statistics().events["S"]) == ([4], 0)
    runtime.send("S", events(4))
    assert runtime.statistics().events["A"] == 1


def test_a_watch_is_told_of_each_query(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = shortcut_calls(monkeypatch)
    told: list[tuple[str, int, int]] = []

    class Ticking:
        def __init__(self) -> None:
            self.now = 0

        def now_ns(self) -> int:
            self.now += 7
            return self.now

        def worked(self, name: str, events: int, length_ns: int) -> None:
            told.append((name, events, length_ns))

    text = "@info(name='one') from S select i insert into A; @info(name='two') from S[i > 2] select i insert into B;"
    runtime = AppRuntime(analyse(parse(f"@app:playback {STREAM} {text}")))
    runtime.start(1)
    runtime.watch_queries(Ticking())
    runtime.send("S", events(4))
    assert (calls, told) == ([4, 4], [("one", 4, 7), ("two", 4, 7)])


def test_a_test_is_told_as_the_loop_wants_it() -> None:
    query = analyse(parse(f"{STREAM} from S['b' != s and 3 > d] select i insert into A;")).elements[0]
    plain = plain_query(query)  # type: ignore[arg-type] # it is a query
    assert plain is not None
    lines, texts = lines_of(plain.tests)
    assert texts == b"b"
    assert [test.operator for test in plain.tests] == ["!=", "<"]
    assert lines[1].tolist()[3] == LESS
    assert lines[1].view(np.float64)[5] == 3.0
