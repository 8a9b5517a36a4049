"""Failing conditions on pairs of rows: in joins, in `in`, in writes to tables, in on-demand queries."""

from __future__ import annotations

from typing import Any

import pytest

from siddhi.analysis.analyser import analyse
from siddhi.analysis.query.on_demand import analyse_on_demand_query
from siddhi.engine.app_runtime import AppRuntime
from siddhi.errors import SiddhiRuntimeError
from siddhi.language.parser import parse, parse_on_demand_query
from siddhi.testing import Case, record_batch, run_case

STREAMS = """@app:playback
@OnError(action='STREAM') define stream Ask (k string, v int);
define stream Put (k string, v int, o object);
define stream Lost (k string, v int);
"""
PUTS = [("Put", 1, ["a", 1, 5]), ("Put", 2, ["b", 2, "no number"]), ("Put", 3, ["c", 3, 7])]
"""The object of the row b cannot be cast to a number."""
FAULTS = "from !Ask select k, v insert into Lost;"
PLAIN = "define table T (k string, v int, o object); from Put insert into T;"
KEYED = "@PrimaryKey('k') " + PLAIN
INDEXED = "@Index('k') " + PLAIN


def differences(app: str, events: list[tuple[Any, ...]], batch_rows: int | None, **streams: list[Any]) -> Any:
    """Return the differences between these rows and the output of `app`, given events (stream, time, values) or
    (stream, chunk)."""
    document = {
        "listen": {"streams": list(streams)},
        "events": [
            {"stream": event[0], "batch": [{"timestamp": at, "data": data} for at, data in event[1]]}
            if len(event) == 2
            else {"stream": event[0], "timestamp": event[1], "data": event[2]}
            for event in events
        ],
        "expect": {"streams": streams},
    }
    return run_case(Case("failing", "failing", STREAMS + app + FAULTS, document), batch_rows).differences


def asks(*keys: str, at: int = 10) -> list[tuple[Any, ...]]:
    return [("Ask", at + place, [key, place]) for place, key in enumerate(keys)]


@pytest.mark.parametrize("batch_rows", [None, 1])
@pytest.mark.parametrize(
    ("table", "on", "found", "lost"),
    [
        (PLAIN, "cast(T.o, 'int') > 0", [], ["a", "b", "x"]),
        (PLAIN, "T.k == k and cast(T.o, 'int') > 0", ["a"], ["b"]),
        (PLAIN, "cast(T.o, 'int') > 0 and T.k == k", [], ["a", "b", "x"]),
        (PLAIN, "T.v == 1 and cast(T.o, 'int') > 0", ["a", "b", "x"], []),
        (KEYED, "cast(T.o, 'int') > 0 and T.k == k", ["a"], ["b"]),
        (INDEXED, "cast(T.o, 'int') > 0 and T.k == k", ["a"], ["b"]),
        (KEYED, "T.k == k and cast(T.o, 'int') > 5", [], ["b"]),
    ],
)
def test_an_event_fails_at_the_rows_that_it_is_shown(
    table: str, on: str, found: list[str], lost: list[str], batch_rows: int | None
) -> None:
    query = f"from Ask join T on {on.replace('== k', '== Ask.k')} select Ask.k as k insert into O;"
    events = [*PUTS, *asks("a", "b", "x")]
    times = {"a": 10, "b": 11, "x": 12}
    faults = [[times[key], [key, times[key] - 10]] for key in lost]
    answers = [[times[key], [key]] for key in found]
    assert differences(table + query, events, batch_rows, O=answers, Lost=faults) == ()


@pytest.mark.parametrize("batch_rows", [None, 1])
@pytest.mark.parametrize(("table", "lost"), [(PLAIN, 0), (KEYED, 1)])
def test_what_is_asked_of_the_event_alone_fails_without_rows_where_there_is_a_key(
    table: str, lost: int, batch_rows: int | None
) -> None:
    query = "from Ask left outer join T on T.k == Ask.k and cast(Ask.k, 'int') > 0 select Ask.k as k insert into O;"
    answers = [] if lost else [[10, ["a"]]]
    faults = [[10, ["a", 0]]] if lost else []
    assert differences(table + query, asks("a"), batch_rows, O=answers, Lost=faults) == ()


@pytest.mark.parametrize("batch_rows", [None, 1])
def test_a_probe_that_fails_is_no_key(batch_rows: int | None) -> None:
    app = "define stream Which (o object); define stream Gone (n long);" + PLAIN
    app = app.replace("define stream Which", "@OnError(action='STREAM') define stream Which")
    app += "from Which join T on T.v == cast(Which.o, 'int') select T.k as k insert into O;"
    app += "from !Which select eventTimestamp() as n insert into Gone;"
    events = [("Which", 0, ["x"]), *PUTS, ("Which", 4, [2]), ("Which", 5, ["x"]), ("Which", 6, [None])]
    assert differences(app, events, batch_rows, O=[[4, ["b"]]], Gone=[[5, [5]]]) == ()


@pytest.mark.parametrize("batch_rows", [None, 1])
def test_a_membership_looks_at_rows_up_to_the_first_that_matches(batch_rows: int | None) -> None:
    query = "from Ask[(cast(T.o, 'int') == v) in T] select k insert into O;"
    events = [*PUTS, ("Ask", 10, ["five", 5]), ("Ask", 11, ["seven", 7])]
    assert differences(PLAIN + query, events, batch_rows, O=[[10, ["five"]]], Lost=[[11, ["seven", 7]]]) == ()


@pytest.mark.parametrize("batch_rows", [None, 1])
@pytest.mark.parametrize(
    ("on", "kept", "found", "lost"),
    [
        ("cast(w.o, 'int') > 0", "length(2)", [], [10, 11]),
        ("cast(w.o, 'int') > 0", "length(1)", [10, 11], []),
        ("w.k == a.k and cast(w.o, 'int') > 0", "length(3)", [10], [11]),
        ("cast(w.o, 'int') > 0 and w.k == a.k", "length(3)", [], [10, 11]),
    ],
)
@pytest.mark.parametrize("window", ["", "#window.length(5)", "#window.lengthBatch(1)"])
def test_events_fail_at_rows_of_windows(
    window: str, on: str, kept: str, found: list[int], lost: list[int], batch_rows: int | None
) -> None:
    query = f"from Ask{window} as a join Put#window.{kept} as w on {on} select a.k as k insert into O;"
    keys = {10: "a", 11: "b"}
    answers, faults = [[at, [keys[at]]] for at in found], [[at, [keys[at], at - 10]] for at in lost]
    assert differences(query, [*PUTS, *asks("a", "b")], batch_rows, O=answers, Lost=faults) == ()


def test_an_event_that_fails_takes_its_chunk_with_it() -> None:
    query = "from Ask left outer join T on T.k == Ask.k and cast(T.o, 'int') > 0 select Ask.k as k insert into O;"
    events = [*PUTS, ("Ask", [(10, ["x", 0]), (11, ["a", 1])]), ("Ask", [(20, ["a", 0]), (21, ["b", 1])])]
    faults = [[20, ["a", 0]], [21, ["b", 1]]]
    assert differences(PLAIN + query, events, None, O=[[10, ["x"]], [11, ["a"]]], Lost=faults) == ()


def test_the_right_side_does_not_get_what_failed_on_the_left() -> None:
    query = "from Ask as a join Ask#window.length(9) as b on a.v < 5 or cast(b.k, 'int') == 1 select b.k as k "
    events = [("Ask", 1, ["x", 1]), ("Ask", 2, ["y", 9]), ("Ask", 3, ["z", 1]), ("Ask", 4, ["w", 1])]
    answers = [[3, ["x"]], [4, ["x"]], [4, ["z"]]]
    assert differences(query + "insert into O;", events, None, O=answers, Lost=[[2, ["y", 9]]]) == ()


@pytest.mark.parametrize("batch_rows", [None, 1])
def test_a_condition_that_is_no_bool_fails(batch_rows: int | None) -> None:
    events = [("Ask", 0, ["z", 0]), *PUTS, *asks("a")]
    faults = [[10, ["a", 0]]]
    for query in ("from Ask join T on T.v select Ask.k as k insert into O;", "from Ask[T.v in T] insert into O;"):
        assert differences(PLAIN + query, events, batch_rows, O=[], Lost=faults) == ()


def table_after(change: str, table: str = PLAIN, *chunks: list[str]) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Return the rows (k, v) of T and the lost keys after `change` has processed chunks of Ask (k, position in the
    chunk)."""
    runtime = AppRuntime(analyse(parse(STREAMS + table + change + FAULTS)))
    lost: list[str] = []
    runtime.add_stream_callback("Lost", lambda batch: lost.extend(batch.column("k").to_pylist()))
    runtime.start(0)
    schemas = runtime.app.streams
    for stream, at, data in PUTS:
        runtime.send(stream, record_batch(schemas[stream].schema, [{"timestamp": at, "data": data}]))
    for keys in chunks:
        events = [{"timestamp": 10, "data": [key, place]} for place, key in enumerate(keys)]
        runtime.send("Ask", record_batch(schemas["Ask"].schema, events), as_chunk=True)
    rows = runtime.query(analyse_on_demand_query(parse_on_demand_query("from T select k, v"), runtime.app))
    return [(row["k"], row["v"]) for row in rows.to_pylist()] if rows is not None else [], lost


@pytest.mark.parametrize(
    ("change", "table", "rows"),
    [
        ("from Ask delete T on cast(T.o, 'int') > 0;", PLAIN, "b2 c3"),
        ("from Ask delete T on cast(T.o, 'int') > 0;", KEYED, "a1 b2 c3"),
        ("from Ask update T set T.v = 9 on cast(T.o, 'int') > 0;", PLAIN, "a9 b2 c3"),
        ("from Ask update T set T.v = 9 on cast(T.o, 'int') > 0;", INDEXED, "a1 b2 c3"),
        ("from Ask update T set T.v = cast(T.o, 'int') on T.v > 0;", PLAIN, "a5 b2 c3"),
        ("from Ask update T set T.k = 'z', T.v = cast(T.o, 'int') on T.v > 0;", PLAIN, "z5 z2 c3"),
        (
            "from Ask select k, v, createSet(k) as o update or insert into T set T.v = cast(T.o, 'int') on T.v > 0;",
            PLAIN,
            "a5 b2 c3",
        ),
    ],
)
def test_what_was_changed_before_an_event_fails_stays(change: str, table: str, rows: str) -> None:
    found = [(text[0], int(text[1:])) for text in rows.split()]
    assert table_after(change, table, ["q"]) == (found, ["q"])


def test_events_of_a_chunk_behind_one_that_fails_change_nothing() -> None:
    change = "from Ask update T set T.v = v + 20 on T.k == k and (k == 'a' or cast(T.o, 'int') > 0);"
    assert table_after(change, PLAIN, ["c", "b", "a"], ["c"]) == ([("a", 1), ("b", 2), ("c", 20)], ["c", "b", "a"])


@pytest.mark.parametrize("key", [PLAIN, INDEXED])
def test_an_upsert_of_which_one_event_fails_inserts_none_of_its_chunk(key: str) -> None:
    change = (
        "from Ask select k, v, createSet(k) as o update or insert into T "
        "set T.v = ifThenElse(k == 'a', cast(k, 'int'), v + 30) on T.k == k;"
    )
    rows = [("a", 1), ("b", 2), ("c", 31)]
    assert table_after(change, key, ["x", "c", "a", "y"]) == (rows, ["x", "c", "a", "y"])
    rows = [("a", 1), ("b", 2), ("c", 31), ("x", 0), ("y", 2)]
    assert table_after(change, key, ["x", "c", "y"]) == (rows, [])


@pytest.mark.parametrize(
    "question",
    [
        "from T on cast(o, 'int') > 0 select k",
        "from T select k, cast(o, 'int') as n",
        "update T set T.v = cast(T.o, 'int') on T.v > 0",
        "select cast('x', 'int') as v update T set T.v = v on T.k == 'a'",
    ],
)
def test_a_question_that_fails_says_so(question: str) -> None:
    runtime = AppRuntime(analyse(parse(STREAMS + PLAIN)))
    runtime.start(0)
    for stream, at, data in PUTS:
        runtime.send(stream, record_batch(runtime.app.streams[stream].schema, [{"timestamp": at, "data": data}]))
    with pytest.raises(SiddhiRuntimeError) as caught:
        runtime.query(analyse_on_demand_query(parse_on_demand_query(question), runtime.app))
    assert [problem.code for problem in caught.value.problems] == ["query-failed"]
