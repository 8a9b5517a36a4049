"""Windows, aggregates, joins and patterns give the same results and state on the fast path as on the general path."""

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
from siddhi.analysis.query.on_demand import analyse_on_demand_query
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.fast_path.path import FastPath
from siddhi.engine.tuning import MAX_SMALL_BATCH_ROWS, STRING_DEMAND_HOLD_ROWS, STRING_DEMAND_PROBE_ROWS
from siddhi.errors import SiddhiRuntimeError
from siddhi.language.parser import parse, parse_on_demand_query

STREAMS = "".join(
    f"define stream {stream} (s string, i int, l long, f float, d double, b bool, ts long);" for stream in "ST"
)
SCHEMA = pa.schema(
    [
        pa.field("b", pa.bool_()),
        pa.field("d", pa.float64()),
        pa.field("_timestamp", pa.int64()),
        pa.field("s", pa.utf8()),
        pa.field("i", pa.int32()),
        pa.field("l", pa.int64()),
        pa.field("f", pa.float32()),
        pa.field("ts", pa.int64()),
    ]
)
VALUES = {
    "b": st.booleans(),
    "d": st.sampled_from([0.0, -0.0, 1.5, -1.0, 0.1, float("nan")]),
    "s": st.sampled_from(["", "a", "b", "ab", "é", "longer than a word of eight bytes"]),
    "i": st.sampled_from([0, 1, -1, 7, 2**31 - 1]),
    "l": st.sampled_from([0, 1, -1, 7, 2**53 + 1, 2**63 - 1]),
    "f": st.sampled_from([0.0, 1.5, -1.0, 0.1]),
}
FILTERS = ["", "", "[i > 0]", "[s == 'a']", "[d <= 1.0 and l != 7]"]
SOURCES = [
    "S",
    "S#window.length(1)",
    "S#window.length(3)",
    "S#window.time(7)",
    "S#window.externalTime(ts, 5)",
    "S#window.timeLength(6, 2)",
    "S#window.lengthBatch(3)",
    "S#window.externalTimeBatch(ts, 5)",
    "S#window.externalTimeBatch(ts, 9, 3)",
    "S#window.timeBatch(5)",
]
AGGREGATES = [
    "sum(l)",
    "sum(i)",
    "sum(d)",
    "avg(l)",
    "avg(f)",
    "count()",
    "min(d)",
    "max(l)",
    "max(i)",
    "stdDev(d)",
    "distinctCount(s)",
    "distinctCount(i)",
    "minForever(l)",
    "maxForever(d)",
]
OF_AGGREGATES = [
    "d - avg(d)",
    "max(d) - min(d)",
    "sum(l) % 7",
    "stdDev(d) / avg(d)",
    "count() > 2",
    "min(d) is null",
    "ifThenElse(count() > 2, sum(l), -1L)",
    "ifThenElse(avg(d) > 1.0, s, 'none')",
    "coalesce(avg(d), 0.5)",
    "maximum(avg(f), d)",
    "convert(sum(i), 'int') + i",
    "math:abs(sum(l))",
]
PASSING = ["a0 > 1", "a0 <= 1 and not (a0 < 0)", "a0 is null or a0 == 1", "l > a0", "not (a0 is null) and l + 1 > 0"]
SIDES = ["{}", "{}#window.length(1)", "{}#window.length(3)", "{}#window.length(64)"]


@st.composite
def aggregating(draw: st.DrawFn) -> str:
    names = draw(st.lists(st.sampled_from("silfdb"), max_size=3, unique=True))
    calls = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3))
    selected = [*names, *(f"{call} as a{number}" for number, call in enumerate(calls))]
    computed = draw(st.lists(st.sampled_from(OF_AGGREGATES), max_size=2))
    selected += [f"{one} as c{number}" for number, one in enumerate(computed)]
    having = draw(st.sampled_from(["", "", *PASSING]))
    if "l" in having and "l" not in names:
        selected.append("l")
    having = f" having {having}" if having else ""
    key = draw(st.sampled_from(["", " group by s", " group by s", " group by i", " group by s, i"]))
    source = draw(st.sampled_from(SOURCES)).replace("S", f"S{draw(st.sampled_from(FILTERS))}", 1)
    query = f"from {source} select {', '.join(selected)}{key}{having} insert into Out;"
    return draw(st.sampled_from([query, query, f"partition with (s of S) begin {query} end;"]))


@st.composite
def joins(draw: st.DrawFn) -> str:
    streams = [f"{stream}{draw(st.sampled_from(FILTERS))}" for stream in "ST"]
    left, right = (draw(st.sampled_from(SIDES)).format(stream) for stream in streams)
    kind = draw(st.sampled_from(["join", "join", "join", "left outer join"]))
    only = draw(st.sampled_from(["", "", " unidirectional"]))
    names = draw(st.lists(st.sampled_from([f"{side}.{name}" for side in "xy" for name in "silfdb"]), min_size=1))
    selected = ", ".join(f"{name} as o{number}" for number, name in enumerate(names))
    on = draw(st.sampled_from(["x.s == y.s", "x.s == y.s", "y.s == x.s and x.i > y.i", "x.i == y.i"]))
    return f"from {left} as x{only} {kind} {right} as y on {on} select {selected} insert into Out;"


@st.composite
def lookups(draw: st.DrawFn) -> str:
    """Events of S look up rows that events of T have inserted into a table."""
    key = draw(st.sampled_from(["@PrimaryKey('s')", "@PrimaryKey('s')", "@Index('s')", ""]))
    write = draw(st.sampled_from(["insert into Held", "update or insert into Held on Held.s == s"]))
    kind, on = draw(st.sampled_from(["join", "join", "left outer join"])), draw(st.sampled_from("sssi"))
    names = draw(st.lists(st.sampled_from([f"{side}.{name}" for side in "xy" for name in "silfdb"]), min_size=1))
    selected = ", ".join(f"{name} as o{number}" for number, name in enumerate(names))
    table = f"{key} define table Held (s string, i int, l long, f float, d double, b bool);"
    filling = f"from T select s, i, l, f, d, b {write};"
    source = f"S{draw(st.sampled_from(FILTERS))}"
    return (
        f"{table} {filling} from {source} as x {kind} Held as y on x.{on} == y.{on} select {selected} insert into Out;"
    )


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """Two or three elements of one stream or of both, in a pattern or a sequence."""
    count = draw(st.integers(2, 3))
    elements = []
    for number in range(1, count + 1):
        tests = draw(st.lists(st.sampled_from(["i > 0", "d <= 1.0", "s == 'a'", "b != true", "f > 0.0f"]), max_size=1))
        for earlier in range(1, number):
            pairs = ["s == e{}.s", "l >= e{}.l", "d > e{}.d", "i != e{}.i", "d < e{}.d"]
            tests += [test.format(earlier) for test in draw(st.lists(st.sampled_from(pairs), max_size=2))]
        condition = f"[{' and '.join(tests)}]" if tests else ""
        elements.append(f"e{number}={draw(st.sampled_from('SST'))}{condition}")
    names = [f"e{number}.{name}" for number in range(1, count + 1) for name in "silfdb"]
    selected = ", ".join(
        f"{name} as o{number}" for number, name in enumerate(draw(st.lists(st.sampled_from(names), min_size=1)))
    )
    every, arrow = draw(st.sampled_from(["", "every "])), draw(st.sampled_from([" -> ", " -> ", ", "]))
    within = draw(st.sampled_from(["", " within 9 milliseconds"]))
    query = f"from {every}{arrow.join(elements)}{within} select {selected} insert into Out;"
    key = draw(st.sampled_from(["", "", "s", "i"]))
    if not key:
        return query
    return f"partition with ({key} of S, {key} of T) begin {query} end;"


CONDITIONS = [
    "i > 0",
    "d <= 1.0 and l != 7",
    "l > i",
    "s == 'a' or d * 2.0 < l",
    "not (i * 2 > l)",
    "math:abs(d) > 0.5",
]
COMPUTED = [
    "l + i * 2",
    "d / f",
    "i % 3",
    "f * 2.5f",
    "s == 'a'",
    "ifThenElse(i > 0, l, -1L)",
    "ifThenElse(d > f, s, 'none')",
    "ifThenElse(b, i > 1, l > 1)",
    "coalesce(d, 0.0)",
    "default(s, 'none')",
    "maximum(d, 1.5, 0.0)",
    "minimum(f, 1.5f)",
    "maximum(i, 3)",
    "convert(i, 'double') + d",
    "convert(d, 'string')",
    "cast(l, 'float')",
    "instanceOfString(s)",
    "instanceOfLong(i)",
    "currentTimeMillis()",
    "eventTimestamp()",
    "math:sqrt(d) + 1.0",
    "math:round(f)",
    "str:upper(s)",
    "str:concat(s, '-', s)",
    "str:concat(s, i)",
    "str:length(ifThenElse(b, s, 'of none'))",
    "list:size(list:create(s, i))",
    "list:get(list:create(d), 0)",
    "map:get(map:create('k', s, s, 'k'), s)",
]


@st.composite
def selections(draw: st.DrawFn) -> str:
    """Conditions and computed values of single events."""
    filters = "".join(f"[{one}]" for one in draw(st.lists(st.sampled_from(CONDITIONS), max_size=2)))
    names = draw(st.lists(st.sampled_from("silfdb"), max_size=3, unique=True))
    computed = draw(st.lists(st.sampled_from(COMPUTED), min_size=1, max_size=4))
    selected = [*names, *(f"{one} as o{number}" for number, one in enumerate(computed))]
    having = ""
    if draw(st.integers(0, 2)) == 0:
        selected.append("l - i as h")
        having = draw(
            st.sampled_from(
                [" having h > 0", " having h > 0 and s != 'a'", " having h % 2 == 0", " having math:abs(h) > 1"]
            )
        )
        having = having if "s" in names else having.replace(" and s != 'a'", "")
    query = f"from S{filters} select {', '.join(selected)}{having} insert into Out;"
    return draw(st.sampled_from([query, query, f"partition with (s of S) begin {query} end;"]))


@st.composite
def batches(draw: st.DrawFn) -> tuple[str, pa.RecordBatch]:
    """Random events of one stream: sometimes with nulls, often alone, sliced from others, with decreasing times."""
    rows = draw(st.sampled_from([1, 1, 1, 2, 3, 9]))
    times = st.lists(st.integers(1, 40), min_size=rows, max_size=rows)
    columns: dict[str, list[Any]] = {"_timestamp": draw(times), "ts": draw(times)}
    with_nulls = draw(st.integers(0, 5)) == 0
    for name, items in VALUES.items():
        drawn = st.none() | items if with_nulls or name == "s" else items
        columns[name] = draw(st.lists(drawn, min_size=rows, max_size=rows))
    batch = pa.record_batch([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)
    first = draw(st.integers(0, rows - 1))
    return draw(st.sampled_from("SST")), batch.slice(first, draw(st.integers(1, rows - first)))


def answers(text: str, sent: Sequence[tuple[str, pa.RecordBatch]], saved_at: int, *, general_path: bool) -> object:
    """Return every output row and the app's final statistics.

    Another runtime continues from a snapshot at batch `saved_at`.
    """
    app = analyse(parse(text))
    told: list[object] = []
    schemas: set[str] = set()

    def take(records: pa.RecordBatch) -> None:
        records.validate(full=True)
        schemas.add(records.schema.to_string())
        told.extend(map(repr, records.to_pylist()))

    def listening(runtime: AppRuntime) -> AppRuntime:
        for stream in "ST" if general_path else "":
            runtime.add_stream_callback(stream, lambda _: None)  # the callback has to get these
        runtime.add_stream_callback("Out", take)
        return runtime

    runtime = listening(AppRuntime(app))
    runtime.start()
    for number, (stream, records) in enumerate(sent):
        if number == saved_at:
            saved, runtime = runtime.snapshot(), listening(AppRuntime(app))
            runtime.restore(saved)
        runtime.send(stream, records, 10 + number)
        told.append(("sent", runtime.saved().clock))
    held = runtime.statistics()
    return told, schemas, held.events["Out"], [part.size.rows for part in held.state]


@pytest.mark.thorough
@settings(deadline=None, max_examples=examples(200))
@given(
    aggregating() | joins() | lookups() | patterns() | selections() | selections(),
    st.lists(batches(), min_size=1, max_size=9),
    st.integers(0, 9),
    st.booleans(),
)
def test_a_fast_route_answers_as_the_general_path(
    query: str, sent: list[tuple[str, pa.RecordBatch]], saved_at: int, own: bool
) -> None:
    text = f"{'@app:playback ' if own else ''}{STREAMS} {query}"
    assert answers(text, sent, saved_at, general_path=False) == answers(text, sent, saved_at, general_path=True)


def fast_path_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the sizes of the batches that take the fast path from now on."""
    gone: list[int] = []
    run = FastPath.run

    def counted(cut: FastPath, records: pa.RecordBatch, rows: int, *given: Any) -> Any:
        passed = run(cut, records, rows, *given)
        if passed is not None:
            gone.append(rows)
        return passed

    monkeypatch.setattr(FastPath, "run", counted)
    return gone


def running(query: str) -> tuple[AppRuntime, list[pa.RecordBatch]]:
    """Return an app that runs `query`, and its output."""
    runtime = AppRuntime(analyse(parse(f"@app:playback {STREAMS} {query}")))
    told: list[pa.RecordBatch] = []
    runtime.add_stream_callback("Out", told.append)
    runtime.start(1)
    return runtime, told


def events(rows: int, **changed: Any) -> pa.RecordBatch:
    times = pa.array(range(1, rows + 1), pa.int64())
    columns = {
        "_timestamp": times,
        "s": pa.array(["a"] * rows),
        "i": pa.array(range(rows), pa.int32()),
        "l": pa.array(range(rows), pa.int64()),
        "f": pa.array([1.5] * rows, pa.float32()),
        "d": pa.array([0.5] * rows),
        "b": pa.array([True] * rows),
        "ts": times,
    }
    return pa.record_batch({**columns, **changed})


HELD = "@PrimaryKey('s') define table Held (s string, l long); from T select s, l insert into Held;"
SCRIPT = "define function twice[python] return int { return 2 * data[0] };"
BY_S = "partition with (s of S) begin"
INSIDE = "from every e1=S -> e2=S select e1.s as s insert into #In; from #In select s insert into Out; end;"
PURGED = "@purge(enable='true', interval='1 sec', idle.period='1 sec')"
JOINED = "S#window.length(9) as x join T#window.length(9) as y on x.s == y.s"


@pytest.mark.parametrize(
    ("query", "goes"),
    [
        ("from S select s, count() as n group by s insert into Out;", True),
        ("from S#window.length(2) select avg(d) as a, b insert into Out;", True),
        ("from S#window.time(2) select s, sum(l) as a group by s insert into Out;", True),
        ("from S#window.externalTime(ts, 2) select distinctCount(s) as a insert into Out;", True),
        ("from S#window.timeLength(2, 3) select min(l) as a, max(d) as c insert into Out;", True),
        ("from S[l >= 2]#window.length(2) select sum(l) as a insert into Out;", True),  # for some of its rows
        ("from S select l + 1 as a, str:upper(s) as u insert into Out;", True),
        ("from S[l > d] select l, ifThenElse(b, 1, 2) as a insert into Out;", True),
        ("from S[l > 2] select l * 2 as a having a > 6 insert into Out;", True),
        ("from S select l * 2 as a having coalesce(a, 0L) > 6 insert into Out;", True),
        ("from S select l * 2 as a having math:abs(a) > 6 insert into Out;", False),  # a function of an output
        ("from S select l, str:upper(s) as u having l > 1 and str:length(u) > 0 insert into Out;", False),
        ("from S[math:abs(d) < l] select l, list:size(list:create(l)) as n insert into Out;", True),
        (f"{BY_S} from S[l >= 2] select s, l * 2 as a insert into Out; end;", True),
        ("from S select l + 1 as a order by a insert into Out;", False),
        ("from S select l + 1 as a limit 2 insert into Out;", False),
        ("from S select list:create(l) as a insert into Out;", False),
        ("from S select l + 1 as a output every 2 events insert into Out;", False),
        ("from S#log('x') select l + 1 as a insert into Out;", False),
        (f"{SCRIPT} from S select twice(l) as a insert into Out;", False),  # it could observe a repeated call
        (f"{SCRIPT} from S[twice(l) > 2] select l + 1 as a insert into Out;", False),
        (f"{SCRIPT} from S select l + 1 as a having twice(a) > 2 insert into Out;", False),
        (f"{SCRIPT} from S select ifThenElse(b, 1, coalesce(twice(i), 2)) as a insert into Out;", False),
        (f"{SCRIPT} from S select l + 1 as a insert into Out;", True),  # which calls none
        ("from S#window.length(2) select max(i) as a insert into Out;", False),  # an int is held as a long
        ("from S#window.length(2) select sum(l) + 1 as a insert into Out;", True),
        ("from S#window.length(2) select l, sum(l) as a having a > l or l is null insert into Out;", True),
        ("from S#window.length(2) select d - avg(d) as a, str:upper(s) as u insert into Out;", False),  # a function
        ("from S#window.length(2) select sum(l) as a having math:abs(a) > 1 insert into Out;", False),
        ("from S#window.length(2) select list:create(sum(l)) as a insert into Out;", False),
        ("from S#window.length(2) select sum(l) as a group by i insert into Out;", False),
        ("from S[l >= 0]#window.length(2) select sum(l) as a insert into Out;", True),
        ("from S[l + 1 > 0]#window.length(2) select sum(l) as a insert into Out;", False),
        ("from S#window.length(2)[l >= 0] select sum(l) as a insert into Out;", False),
        ("from S#window.lengthBatch(500) select s, sum(l) as a group by s insert into Out;", True),
        ("from S#window.lengthBatch(4) select s, sum(l) as a group by s insert into Out;", False),
        ("from S#window.externalTimeBatch(ts, 1 sec) select max(l) as a insert into Out;", True),
        ("from S#window.timeBatch(1 sec) select max(i) as a insert into Out;", False),
        ("from S#window.length(2) select sum(l) as a output every 2 events insert into Out;", False),
        ("from S#window.length(2) select sum(l) as a insert all events into Out;", False),
        ("from S#window.length(2) select sum(l) as a insert into Out; from Out select a insert into B;", True),
        ("from S#window.length(2) select sum(l) as a insert into Out; from S select s insert into B;", False),
        (f"from {JOINED} select x.i as i, y.b as c insert into Out;", True),
        ("from S as x join T#window.length(9) as y on x.s == y.s select x.i as i, y.b as c insert into Out;", True),
        (f"from {JOINED} select x.i + y.i as i insert into Out;", False),
        (f"from {JOINED} select x.i as i limit 1 insert into Out;", False),
        (f"from {JOINED} and x.i > y.i select x.i as i insert into Out;", False),
        (f"from {JOINED.replace('join', 'full outer join')} select x.i as i insert into Out;", False),
        (f"from {JOINED.replace('x.s == y.s', 'x.i == y.i')} select x.i as i insert into Out;", False),
        (f"from {JOINED.replace('T#', 'S#')} select x.i as i insert into Out;", False),
        (f"from {JOINED.replace('S#window.length(9)', 'S#window.time(9)')} select x.i as i insert into Out;", False),
        (f"{HELD} from S join Held as y on S.s == y.s select S.d as d, y.l as l insert into Out;", True),
        (f"{HELD} from Held as y join S on y.s == S.s select S.d as d, y.l as l insert into Out;", True),
        (f"{HELD} from S join Held as y on S.s == y.s select S.d + 1 as d insert into Out;", False),
        (f"{HELD} from S join Held as y on S.l == y.l select S.d as d insert into Out;", False),
        (f"{HELD} from S join Held as y on S.s == y.s and S.l > y.l select S.d as d insert into Out;", False),
        (f"{HELD} from S left outer join Held as y on S.s == y.s select S.d as d insert into Out;", False),
        (f"{HELD} from S#window.length(2) as x join Held as y on x.s == y.s select x.d as d insert into Out;", False),
        ("from every e1=S[l > 2] -> e2=T[l > e1.l and s == e1.s] select e1.s as s, e2.l as l insert into Out;", True),
        ("from e1=S, e2=S select e1.s as s, e2.l as l insert into Out;", True),
        ("from every e1=S -> e2=S select e2[0].b as b insert into Out;", True),
        (f"{BY_S} from every e1=S[l > 2] -> e2=S[l > e1.l] select e1.s as s insert into Out; end;", True),
        (f"{BY_S} {INSIDE}", False),
        (f"{BY_S} from every e1=S -> e2=S select e1.l + 1 as l insert into Out; end;", False),
        (f"{BY_S.replace('s of', 'i of')} from every e1=S, e2=S select e1.l as l insert into Out; end;", False),
        (f"{PURGED} {BY_S} from every e1=S, e2=S select e1.l as l insert into Out; end;", False),
        ("from every e1=S -> e2=S select e1.l + 1 as l insert into Out;", False),
        ("from every e1=S -> e2=S[l + 1 > e1.l] select e1.l as l insert into Out;", False),
        ("from every e1=S -> e2=S select e2[1].l as l insert into Out;", False),
        ("from every e1=S<2:3> -> e2=S select e2.l as l insert into Out;", False),
        ("from every e1=S -> e2=S select e1.l as l, count() as n insert into Out;", False),
        ("from every e1=S -> not S for 5 milliseconds select e1.l as l insert into Out;", False),
        (f"{BY_S} from S#window.length(2) select s, sum(l) as a insert into Out; end;", True),
        (f"{BY_S} from S#window.time(2) select distinctCount(l) as a insert into Out; end;", True),
        (f"{BY_S} from S#window.length(2) select s, sum(l) - l as a having a > 1 insert into Out; end;", True),
        (f"{BY_S} from S#window.length(2) select sum(l) as a group by s insert into Out; end;", False),
        (f"{BY_S} from S[l >= 0]#window.length(2) select sum(l) as a insert into Out; end;", False),
        (f"{BY_S} from S#window.lengthBatch(500) select sum(l) as a insert into Out; end;", False),
    ],
)
def test_only_few_forms_of_queries_have_a_fast_route(query: str, goes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = fast_path_sizes(monkeypatch)
    runtime, _ = running(query)
    runtime.send("T", events(2))
    for _ in range(2):  # too many; a join has caught up with its windows by then, and strings in demand are known
        runtime.send("S", events(MAX_SMALL_BATCH_ROWS + 2))
    gone.clear()
    runtime.send("S", events(5))
    runtime.send("S", events(5, i=pa.array([1, None, 3, 4, 5], pa.int32())))
    reads_i = "x.i" in query
    assert gone == ([5] if goes and reads_i else [5, 5] if goes else [])


def test_an_output_may_have_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    query = "from S#window.length(3) select sum(l) as `@1`, count() as `@0`, count() as n having n > 1 insert into Out;"
    gone = fast_path_sizes(monkeypatch)
    for listens in (False, True):
        runtime, told = running(query)
        if listens:
            runtime.add_stream_callback("S", lambda _: None)  # events for a callback take the general path
        runtime.send("S", events(4))
        assert [list(row.values())[2:] for batch in told for row in batch.to_pylist()] == [
            [1, 2, 2],
            [3, 3, 3],
            [6, 3, 3],
        ]
    assert gone == [4]


def test_the_first_of_equal_zeros_is_the_least_on_both_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = fast_path_sizes(monkeypatch)
    for listened in ("", "S"):
        runtime, told = running("from S select minimum(d, 0.0) as a, minimum(0.0, d) as b insert into Out;")
        for stream in listened:
            runtime.add_stream_callback(stream, lambda _: None)
        runtime.send("S", events(51, d=pa.array([0.0, -0.0, -1.0] * 17)))  # numpy may treat many rows unlike few
        (records,) = told
        assert str(records.column("a").to_pylist()) == str([0.0, -0.0, -1.0] * 17)
        assert str(records.column("b").to_pylist()) == str([0.0, 0.0, -1.0] * 17)
    assert gone == [51]


COMPUTING = (
    "from S[l % 3 != 1][math:abs(d) < 1000.0] select l, s, str:concat(s, '!') as t, l * 2 as m,"
    " ifThenElse(l % 2 == 0L, s, 'odd') as c, math:sqrt(d) as r, l > 40L as o"
)
KEPT = "Kept (l long, s string, t string, m long, c string, r double, o bool)"


@pytest.mark.parametrize(
    ("definition", "query", "is_fast"),
    [
        ("", f"{COMPUTING} insert into Out;", True),
        ("", f"{BY_S} {COMPUTING} insert into Out; end;", True),
        ("", f"{COMPUTING.replace('math:sqrt(d)', 'd / 1.0')} having m >= 0 insert into Out;", True),
        (f"define table {KEPT};", f"{COMPUTING} insert into Kept;", False),
        (f"define window {KEPT} length(1000);", f"{COMPUTING} insert into Kept;", True),
        (f"define table {KEPT};", f"{COMPUTING} insert into Out; from Out select * insert into Kept;", True),
    ],
)
def test_results_that_are_kept_stay_the_same_whatever_comes_later(
    definition: str, query: str, is_fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = fast_path_sizes(monkeypatch)
    app = analyse(parse(f"@app:playback {STREAMS} {definition} {query}"))
    runtime, kept = AppRuntime(app), list[pa.RecordBatch]()
    if not definition:
        runtime.add_stream_callback("Out", kept.append)
    runtime.start(1)
    for _ in range(2):  # strings in demand are known by then, and the instances of a partition are open
        runtime.send("S", _numbered(-303, MAX_SMALL_BATCH_ROWS + 2))
    before, sizes = len(kept), [1, 5, 3, 256, 5, 1, 2] * 3
    gone.clear()
    first = 0
    for rows in sizes:
        runtime.send("S", _numbered(first, rows))
        first += rows
    if definition:
        found = runtime.query(analyse_on_demand_query(parse_on_demand_query("from Kept select *"), app))
        assert found is not None
        rows = [row for row in found.to_pylist() if row["l"] >= 0]
    else:
        rows = [row for records in kept[before:] for row in records.to_pylist()]
    assert [number for number in gone if number] == (sizes if is_fast else [])
    expected = []
    for number in (number for number in range(first) if number % 3 != 1):
        text, part = f"k{number % 7}", number % 11 / 4
        root = part if "having" in query else part**0.5
        chosen = text if number % 2 == 0 else "odd"
        expected.append((number, text, f"{text}!", 2 * number, chosen, root, number > 40))
    assert [tuple(row[name] for name in "lstmcro") for row in rows] == expected


def _numbered(first: int, rows: int) -> pa.RecordBatch:
    """Return the events number `first` and following."""
    numbers = range(first, first + rows)
    return events(
        rows,
        _timestamp=pa.array([1_000 + number for number in numbers], pa.int64()),
        l=pa.array(numbers, pa.int64()),
        s=pa.array([f"k{number % 7}" for number in numbers]),
        d=pa.array([number % 11 / 4 for number in numbers]),
    )


def test_all_pairs_of_an_event_that_meets_very_many_come_out_in_order() -> None:
    runtime, told = running(
        "from S as x join T#window.length(9000) as y on x.s == y.s select y.l as l insert into Out;"
    )
    for start in range(0, 9_000, 3_000):
        runtime.send("T", events(9_000).slice(start, 3_000))
    for rows in (1, 3):
        told.clear()
        runtime.send("S", events(rows))
        (records,) = told
        assert records.column("l").to_pylist() == [*range(9_000)] * rows


def test_what_a_window_held_null_stays_null_where_it_leaves() -> None:
    query = (
        "from S as x join T#window.length(3) as y on x.s == y.s select y.l as l, y.b as b, y.s as t insert into Out;"
    )
    runtime, told = running(query)
    runtime.send("S", events(1))
    runtime.send("T", events(2, l=pa.array([None, 5], pa.int64()), b=pa.array([True, None])))
    runtime.send("T", events(1))
    runtime.send("S", events(1))
    (records,) = told
    assert records.column("l").to_pylist() == [None, 5, 0]
    assert records.column("b").to_pylist() == [True, None, True]


def test_many_strings_that_come_by_a_fast_route_are_forgotten_in_time() -> None:
    runtime, told = running("from S#window.length(2) select s, count() as n group by s insert into Out;")
    names = np.arange(70_000)
    for start in range(0, len(names), MAX_SMALL_BATCH_ROWS):
        part = [f"name {name}" for name in names[start : start + MAX_SMALL_BATCH_ROWS]]
        runtime.send("S", events(len(part), s=pa.array(part)))
    assert runtime.statistics().strings < 66_000
    assert told[-1].column("s").to_pylist()[-1] == "name 69999"
    assert told[-1].column("n").to_pylist()[-1] == 1


def test_strings_that_only_pass_by_take_the_general_path_and_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = fast_path_sizes(monkeypatch)
    runtime, told = running("from S#window.length(2) select s, sum(l) as a insert into Out;")
    for number in range(9):
        runtime.send("S", events(1, s=pa.array([f"text {number}"])))
    assert (gone, runtime.statistics().strings) == ([], 0)
    assert [records.column("s").to_pylist() for records in told] == [[f"text {number}"] for number in range(9)]


@pytest.mark.thorough
def test_strings_behind_a_filter_are_read_as_long_as_they_are_in_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = fast_path_sizes(monkeypatch)
    query = "from S[l == 1]#window.length(2) select s, sum(l) as a group by s insert into Out;"
    runtime, _ = running(query)
    for number in range(STRING_DEMAND_PROBE_ROWS + STRING_DEMAND_HOLD_ROWS + 2 * STRING_DEMAND_PROBE_ROWS):
        passes = number % 2 == 0
        level = pa.array([1 if passes else 0], pa.int64())
        runtime.send("S", events(1, l=level, s=pa.array([f"passes {number % 8}" if passes else f"held back {number}"])))
    assert (
        STRING_DEMAND_HOLD_ROWS - 2 * STRING_DEMAND_PROBE_ROWS
        < len(gone)
        <= STRING_DEMAND_HOLD_ROWS + STRING_DEMAND_PROBE_ROWS
    )  # tried again in between
    assert runtime.statistics().strings < 2 * STRING_DEMAND_PROBE_ROWS


def test_a_watch_gets_the_entrance_of_a_partition_as_on_the_general_path() -> None:
    told: list[list[tuple[str, int]]] = []
    for listened in ("", "S"):
        runtime, _ = running(f"{BY_S} from S#window.length(2) select s, sum(l) as a insert into Out; end;")
        for stream in listened:
            runtime.add_stream_callback(stream, lambda _: None)
        worked: list[tuple[str, int]] = []
        runtime.watch_queries(_Watch(worked))
        for rows in (1, 1, 3):
            runtime.send("S", events(rows))
        told.append(worked)
    assert told[0] == told[1]
    assert len(told[0]) == 6


class _Watch:
    def __init__(self, told: list[tuple[str, int]]) -> None:
        self._told = told

    def now_ns(self) -> int:
        return 0

    def worked(self, name: str, events: int, length_ns: int) -> None:
        self._told.append((name, events))


def test_streams_of_merged_batches_are_looked_for_though_they_have_no_events() -> None:
    runtime, _ = running("from S select s insert into Out;")
    with pytest.raises(SiddhiRuntimeError) as refused:
        runtime.send_merged([("S", events(1)), ("Nope", events(0))], np.zeros(1, np.int64))
    assert refused.value.problems[0].code == "unknown-stream"
