"""Joins that test whether an event exists, or read its timestamp."""

from __future__ import annotations

from typing import Any

import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.errors import SiddhiError, SiddhiRuntimeError
from siddhi.language.parser import parse
from siddhi.testing import Between, Case, record_batch, restored, run_case

DEFINITIONS = """@app:playback
define stream S (k string, v int);
define stream R (k string, v int);
define stream ToT (k string, v int);
define stream ToW (k string, v int);
define table T (k string, v int);
@PrimaryKey('k') define table K (k string, v int);
define window W (k string, v int) length(2);
define aggregation G from S select k, sum(v) as v group by k aggregate every sec;
from ToT insert into T;
from ToW insert into W;
"""

BY_EVENT = (
    "from S#window.length(2) as s join R#window.length(5) as r select s.v as v, count() as n group by s insert into O;"
)


def differences(
    query: str,
    events: list[tuple[str, int, str, int] | int],
    rows: list[list[Any]],
    batch_rows: int | None = None,
    between: Between | None = None,
) -> tuple[str, ...]:
    """Return the differences between `rows` and the output of `query`, given events (stream, time, k, v) and clock
    moves."""
    document = {
        "listen": {"streams": ["O"]},
        "events": [
            {"advance_time": event}
            if isinstance(event, int)
            else {"stream": event[0], "timestamp": event[1], "data": list(event[2:])}
            for event in events
        ],
        "expect": {"streams": {"O": rows}},
    }
    app = DEFINITIONS + query
    return run_case(Case("join", "join", app, document), batch_rows, between).differences


@pytest.mark.parametrize("window", ["#window.length(3)", "#window.time(10 sec)", "#window.lengthBatch(1)"])
def test_what_an_outer_join_does_not_find_is_null(window: str) -> None:
    query = f"from S left outer join R{window} as r on S.k == r.k select S.v as v, r is null as lonely insert into O;"
    events = [("S", 1, "a", 1), ("R", 2, "a", 7), ("S", 3, "a", 2), ("S", 4, "b", 3)]
    assert differences(query, [*events], [[1, [1, True]], [3, [2, False]], [4, [3, True]]]) == ()


@pytest.mark.parametrize(("feeder", "held"), [("ToT", "T"), ("ToW", "W")])
def test_rows_of_tables_and_named_windows_are_there_or_not(feeder: str, held: str) -> None:
    on = f"S.k == {held}.k and {held}.v > 5"
    query = f"from S left outer join {held} on {on} select S.v as v having {held} is null insert into O;"
    events = [(feeder, 1, "a", 7), (feeder, 2, "b", 5), ("S", 3, "a", 1), ("S", 4, "b", 2)]
    assert differences(query, [*events], [[4, [2]]]) == ()


def test_events_tell_when_they_came() -> None:
    query = (
        "from S#window.length(2) as s join R#window.time(1 sec) as r "
        "on s.k == r.k and eventTimestamp(s) < eventTimestamp(r) "
        "select eventTimestamp(s) as early, eventTimestamp(r) as late insert into O;"
    )
    events = [("S", 10, "a", 1), ("R", 20, "a", 1), ("S", 30, "a", 1), ("R", 40, "a", 1)]
    assert differences(query, [*events, 5000], [[20, [10, 20]], [40, [10, 40]], [40, [30, 40]]]) == ()


def test_a_named_window_tells_when_its_events_came() -> None:
    query = "from S join W on S.k == W.k select eventTimestamp(W) as came, eventTimestamp(S) as met insert into O;"
    assert differences(query, [("ToW", 10, "a", 1), ("S", 30, "a", 1)], [[30, [10, 30]]]) == ()


def test_an_event_of_a_table_join_tells_when_it_came() -> None:
    query = "from S as s join T on s.k == T.k select T.v as v, eventTimestamp(s) as met insert into O;"
    assert differences(query, [("ToT", 10, "a", 4), ("S", 30, "a", 1)], [[30, [4, 30]]]) == ()


def test_pairs_are_grouped_by_an_event() -> None:
    events = [("S", 1, "a", 5), ("S", 2, "a", 6), ("R", 3, "a", 1), ("R", 4, "a", 1)]
    rows = [[3, [5, 1]], [3, [6, 1]], [4, [5, 2]], [4, [6, 2]]]
    assert differences(BY_EVENT, [*events], rows) == ()


def test_two_events_of_one_moment_are_two_groups() -> None:
    events = [("S", 1, "a", 5), ("S", 1, "a", 6), ("R", 3, "a", 1)]
    assert differences(BY_EVENT, [*events], [[3, [5, 1]], [3, [6, 1]]]) == ()


@pytest.mark.parametrize(
    "query",
    [
        "from S left outer join G on S.k == G.k within 0L, 9L per 'sec' select eventTimestamp(G) as t insert into O;",
        "from S left outer join K on not (K is null) select S.v as v insert into O;",
    ],
)
def test_what_rows_do_not_know_is_refused(query: str) -> None:
    with pytest.raises(SiddhiRuntimeError, match="does not support"):
        AppRuntime(analyse(parse(DEFINITIONS + query)))


ROWS_AND_TIMES = "select T.k as k, T.v as v, eventTimestamp(T) as t insert into O;"


@pytest.mark.parametrize("batch_rows", [None, 1])
@pytest.mark.parametrize(
    ("change", "rows"),
    [
        ("from R insert into T;", [["a", 1, 10], ["b", 2, 20], ["a", 3, 30]]),
        ("from R update T set T.v = v on T.k == k;", [["a", 3, 10], ["b", 2, 20]]),
        ("from R select k, v update or insert into T on T.k == k;", [["a", 3, 10], ["b", 2, 20]]),
        ("from R#window.length(1) insert all events into T;", [["a", 1, 10], ["b", 2, 20], ["a", 3, 30]]),
        ("from R delete T on T.k == k;", [["b", 2, 20]]),
    ],
)
def test_rows_of_a_table_tell_when_they_came(change: str, rows: list[Any], batch_rows: int | None) -> None:
    query = f"{change} from S join T on true {ROWS_AND_TIMES}"
    events = [("ToT", 10, "a", 1), ("ToT", 20, "b", 2), ("R", 30, "a", 3), ("S", 40, "x", 0)]
    answers = [[40, row] for row in rows]
    assert differences(query, [*events], answers, batch_rows, restored) == ()


@pytest.mark.parametrize("batch_rows", [None, 1])
def test_a_row_that_takes_the_place_of_another_came_when_it_did(batch_rows: int | None) -> None:
    query = "from R update or insert into K on K.k == k; from S as s join K as T " + ROWS_AND_TIMES
    events = [("R", 10, "a", 1), ("R", 20, "b", 2), ("R", 30, "a", 3), ("S", 40, "x", 0)]
    answers = [[40, ["a", 3, 30]], [40, ["b", 2, 20]]]
    assert differences(query, [*events], answers, batch_rows, restored) == ()


def test_rows_are_compared_by_when_they_came() -> None:
    query = f"from S join T on eventTimestamp(T) > 10L {ROWS_AND_TIMES}"
    events = [("ToT", 10, "a", 1), ("ToT", 20, "b", 2), ("S", 40, "x", 0)]
    assert differences(query, [*events], [[40, ["b", 2, 20]]]) == ()


def test_pairs_are_grouped_by_a_row_of_a_table() -> None:
    query = "from S#window.length(9) join T on S.k == T.k select T.v as v, count() as n group by T insert into O;"
    events = [("ToT", 10, "a", 1), ("ToT", 20, "a", 1), ("S", 30, "a", 0), ("S", 40, "a", 0)]
    rows = [[30, [1, 1]], [30, [1, 1]], [40, [1, 2]], [40, [1, 2]]]
    assert differences(query, [*events], rows) == ()


def test_a_row_that_is_not_there_did_not_come() -> None:
    query = "from S left outer join T on S.k == T.k select eventTimestamp(T) as t insert into O;"
    assert differences(query, [("ToT", 10, "a", 1), ("S", 30, "b", 0), ("S", 40, "a", 0)], [[40, [10]]]) == ()


@pytest.mark.parametrize(("asks_before", "asks_after", "told"), [(False, True, -1), (True, False, 7)])
def test_rows_of_a_snapshot_without_times_came_at_no_time(asks_before: bool, asks_after: bool, told: int) -> None:
    def app(*, asks: bool) -> AppRuntime:
        value = "eventTimestamp(T)" if asks else "T.v"
        runtime = AppRuntime(analyse(parse(f"{DEFINITIONS} from S join T select {value} as x insert into O;")))
        runtime.add_stream_callback("O", lambda batch: found.extend(batch.column("x").to_pylist()))
        return runtime

    found: list[int] = []
    before = app(asks=asks_before)
    before.start(0)
    before.send("ToT", record_batch(before.app.streams["ToT"].schema, [{"timestamp": 10, "data": ["a", 7]}]))
    after = app(asks=asks_after)
    after.restore_matching(before.snapshot())
    after.send("S", record_batch(after.app.streams["S"].schema, [{"timestamp": 20, "data": ["a", 0]}]))
    assert found == [told]


@pytest.mark.parametrize(("feeder", "held"), [("ToT", "T"), ("ToW", "W"), ("R", "R#window.length(5)")])
def test_events_that_are_being_compared_are_there(feeder: str, held: str) -> None:
    on = f"not ({held[0]} is null) and not (s is null)"
    query = f"from S as s left outer join {held} on {on} select s.v as v, {held[0]}.v as w insert into O;"
    events = [("S", 1, "a", 1), (feeder, 2, "a", 7), ("S", 3, "b", 2)]
    assert differences(query, [*events], [[1, [1, None]], [3, [2, 7]]]) == ()


def test_the_event_of_a_side_is_its_first_and_its_last() -> None:
    query = (
        "from S#window.length(2) as s left outer join R#window.length(2) as r on s[0].v < r[last].v "
        "select s[last].v as v, r[0].v as w, r[0] is null as lonely, eventTimestamp(s[0]) as t insert into O;"
    )
    events = [("S", 1, "a", 5), ("R", 2, "a", 6), ("S", 3, "a", 7)]
    assert (
        differences(query, [*events], [[1, [5, None, True, 1]], [2, [5, 6, False, 1]], [3, [7, None, True, 3]]]) == ()
    )


@pytest.mark.parametrize("right", ["R#window.length(2)", "R#window.lengthBatch(1)", "W"])
def test_the_second_event_of_a_side_is_null(right: str) -> None:
    query = (
        f"from S#window.length(2) as s join {right} as r select s[1].v as v, s[last - 1].k as k, s[0].v as w, "
        "s[2] is null as alone, count() as n group by s[1].k having r[3].v is null insert into O;"
    )
    events = [("S", 1, "a", 5), ("ToW" if right == "W" else "R", 2, "a", 6), ("S", 3, "a", 7)]
    rows = [[2, [None, None, 5, True, 1]], [3, [None, None, 7, True, 2]]]
    assert differences(query, [*events], rows) == ()


def test_the_second_event_of_a_side_has_no_timestamp() -> None:
    query = "from S#window.length(2) as s join R as r select eventTimestamp(s[1]) as t insert into O;"
    assert differences(query, [("S", 1, "a", 5), ("R", 2, "a", 6)], []) == ()


@pytest.mark.parametrize("reference", ["s[1].v", "eventTimestamp(s[last - 1])", "r[2].v"])
def test_a_condition_cannot_ask_for_a_second_event_of_a_side(reference: str) -> None:
    query = f"from S#window.length(2) as s join R as r on {reference} > 0 select s.v as x insert into O;"
    with pytest.raises(SiddhiError) as caught:
        analyse(parse(DEFINITIONS + query))
    assert [problem.code for problem in caught.value.problems] == ["no-such-event"]
