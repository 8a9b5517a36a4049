"""`unique:` windows and `#unique:deduplicate`."""

from __future__ import annotations

import pytest
from extension_runs import Run

from siddhi.analysis.analyser import analyse
from siddhi.errors import SiddhiAnalysisError
from siddhi.language.parser import parse

Events = list[tuple[int, list[object]]]


def emitted(
    window: str, events: Events, end: int, *, at_once: bool, restarts: bool = False
) -> list[tuple[str, int, str]]:
    """Return the output of the window under playback: (sign, timestamp, key and value)."""
    run = Run(
        "@app:playback define stream In (k string, v int, t long); "
        f"@info(name='q') from In#window.unique:{window} select k, v insert all events into Out;"
    )
    if at_once:
        run.send(*events)
    else:
        for event in events:
            run.send(event)
            if restarts:
                run.restart()
    run.advance(end)
    return [(sign, stamp, f"{key}{value}") for sign, stamp, (key, value) in run.emitted]


def event(time: int, key: str | None, number: int) -> tuple[int, list[object]]:
    return time, [key, number, time]


EVENTS = [event(0, "a", 1), event(4, "b", 1), event(6, "a", 2), event(12, "c", 1), event(13, "a", 3), event(25, "b", 2)]
CASES = [
    ("ever(k)", "+a1@0 +b1@4 -a1@6 +a2@6 +c1@12 -a2@13 +a3@13 -b1@25 +b2@25"),
    ("ever(k, v)", "+a1@0 +b1@4 +a2@6 +c1@12 +a3@13 +b2@25"),
    ("first(k)", "+a1@0 +b1@4 +c1@12"),
    ("length(k, 2)", "+a1@0 +b1@4 -a1@6 +a2@6 -b1@12 +c1@12 -a2@13 +a3@13 -c1@25 +b2@25"),
    ("lengthBatch(k, 2)", "+a1@4 +b1@4 -a1@12 -b1@12 +a2@12 +c1@12 -a2@25 -c1@25 +a3@25 +b2@25"),
    ("time(k, 10)", "+a1@0 +b1@4 -a1@6 +a2@6 +c1@12 -a2@13 +a3@13 -b1@14 -c1@22 -a3@23 +b2@25 -b2@35"),
    ("timeBatch(k, 10)", "+a2@10 +b1@10 -a2@20 -b1@20 +c1@20 +a3@20 -c1@30 -a3@30 +b2@30 -b2@40"),
    ("timeBatch(k, 10, 5)", "+a3@15 +b1@15 +c1@15 -a3@25 -b1@25 -c1@25 +b2@35"),
    ("firstTimeBatch(k, 10)", "+a1@10 +b1@10 -a1@20 -b1@20 +c1@20 +a3@20 -c1@30 -a3@30 +b2@30 -b2@40"),
    ("timeLengthBatch(k, 10, 2)", "+a1@4 +b1@4 -a1@13 -b1@13 +c1@13 +a3@13 -c1@30 -a3@30 +b2@30 -b2@40"),
    ("externalTimeBatch(k, t, 10)", "+a2@6 +b1@4 -a2@13 -b1@13 +c1@12 +a3@13"),
    ("externalTimeBatch(k, t, 10, 0, 0)", "+a2@6 +b1@4 -a2@13 -b1@13 +c1@12 +a3@13"),
]


@pytest.mark.parametrize(("window", "expected"), CASES)
def test_a_window_holds_one_event_of_each_key(window: str, expected: str) -> None:
    one_by_one = emitted(window, EVENTS, 40, at_once=False)
    assert " ".join(f"{sign}{item}@{stamp}" for sign, stamp, item in one_by_one) == expected
    assert emitted(window, EVENTS, 40, at_once=True) == one_by_one
    assert emitted(window, EVENTS, 40, at_once=False, restarts=True) == one_by_one


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (
            "externalTimeBatch(k, t, 10, 0, 3)",
            "+a1@0 -a1@4 +a1@0 +b1@4 -a1@6 -b1@6 +a2@6 +b1@4 -a2@13 -b1@13 +c1@12 +a3@13 -c1@25 -a3@25 +b2@25",
        ),
        (
            "externalTimeBatch(k, t, 20, 0, 5)",
            "+a1@0 +b1@4 -a1@6 -b1@6 +a2@6 +b1@4 -a2@13 -b1@13 +a3@13 +b1@4 +c1@12 -a3@25 -b1@25 -c1@25 +b2@25",
        ),
    ],
)
def test_a_batch_that_waited_too_long_goes_out_and_again_when_it_grows(window: str, expected: str) -> None:
    later = [event(1000 + time, str(key), number) for time, (key, number, _) in EVENTS]  # type: ignore[arg-type]
    one_by_one = emitted(window, later, 1040, at_once=False)
    assert " ".join(f"{sign}{item}@{stamp - 1000}" for sign, stamp, item in one_by_one) == expected
    assert emitted(window, later, 1040, at_once=True) == one_by_one
    assert emitted(window, later, 1040, at_once=False, restarts=True) == one_by_one


def test_events_of_a_batch_may_have_its_end_as_their_time() -> None:
    run = Run(
        "@app:playback define stream In (k string, v int, t long); @info(name='q') "
        "from In#window.unique:externalTimeBatch(k, t, 10, 0, 0, true) select k, t insert all events into Out;"
    )
    run.send(*EVENTS)
    assert run.taken() == ["+a,10", "+b,10", "-a,10", "-b,10", "+c,20", "+a,20"]


def test_the_first_of_each_key_stays_in_a_batch() -> None:
    events = [event(0, "a", 1), event(1, "a", 2), event(2, "b", 3)]
    assert emitted("firstLengthBatch(k, 2)", events, 9, at_once=True) == [("+", 2, "a1"), ("+", 2, "b3")]


def test_an_event_passes_when_none_of_its_key_passed_lately() -> None:
    run = Run(
        "@app:playback define stream In (k string); "
        "@info(name='q') from In#unique:deduplicate(k, 10 milliseconds) select k, eventTimestamp() as t "
        "insert into Out;"
    )
    run.send((0, ["a"]), (4, ["a"]), (5, ["b"]), (10, ["a"]), (11, ["a"]))
    run.restart()
    run.send((12, ["a"]), (15, ["b"]), (16, ["b"]))
    assert run.taken() == ["+a,0", "+b,5", "+a,11", "+b,16"]


@pytest.mark.parametrize(
    "window", ["ever()", "length(k)", "length(k, v)", "timeBatch(k, 'x')", "externalTimeBatch(k, v, 1)"]
)
def test_wrong_arguments_are_refused(window: str) -> None:
    text = f"define stream In (k string, v int); from In#window.unique:{window} select k insert into Out;"
    with pytest.raises(SiddhiAnalysisError, match="wrong-arguments"):
        analyse(parse(text))


@pytest.mark.parametrize(
    ("older", "name", "output"),
    [
        ("unique(k)", "unique:ever", ["+a,1", "+b,2", "-a,1", "+a,3"]),
        ("firstUnique(k)", "unique:first", ["+a,1", "+b,2"]),
        ("uniqueExternalTimeBatch(k, t, 10, 0, 1 hour)", "unique:externalTimeBatch", ["+a,1", "+b,2"]),
    ],
)
def test_execution_plans_know_the_windows_by_their_older_names(older: str, name: str, output: list[str]) -> None:
    query = (
        "define stream In (k string, v int, t long); "
        f"@info(name='q') from In#window.{older} select k, v insert all events into Out;"
    )
    run = Run(f"@Plan:name('P') {query}")
    run.send((0, ["a", 1, 0]), (4, ["b", 2, 4]), (12, ["a", 3, 12]))
    assert run.taken() == output
    with pytest.raises(SiddhiAnalysisError) as refused:
        analyse(parse(query))
    assert (
        refused.value.problems[0].hint == f"it is called {name}; the other name belongs to execution plans (@Plan:name)"
    )


@pytest.mark.parametrize(
    ("call", "let_in"),
    [
        ("window.unique:ever(k)", [1, 2, 3]),
        ("window.unique:lengthBatch(k, 2)", [1, 2]),
        ("window.unique:lengthBatch(k, 0)", []),
        ("window.unique:length(k, 5)", [1, 3]),
        ("window.unique:time(k, 1 min)", [1, 3]),
        ("window.unique:firstLengthBatch(k, 2)", [1, 3]),
        ("unique:deduplicate(k, 1 min)", [1, 3]),
    ],
)
def test_a_null_is_a_key_only_where_siddhi_asks_for_no_text_of_it(call: str, let_in: list[int]) -> None:
    run = Run(f"define stream In (k string, v int); @info(name='q') from In#{call} select v insert into Out;")
    run.send((0, ["a", 1]), (0, [None, 2]), (0, ["b", 3]))
    assert run.taken() == [f"+{number}" for number in let_in]
