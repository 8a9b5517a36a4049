"""A plan tried on a few events: its output by event, and refusals."""

import json
import math
import subprocess
import sys

import msgspec
import pytest

from siddhi.trial.messages import TrialAnswer, TrialEvent, TrialOutput, TrialRefused, TrialRequest, TrialResult
from siddhi.trial.run import run_trial

PLAN = """
@Plan:name('Trial')
define stream A (s string, v int, f float, o object, b bool);
define stream B (s string, v int);
define table Kept (s string, v int);
@info(name='knock') from every a=A -> b=B[s == a.s] within 1 min select a.v as first, b.v as second insert into Pairs;
@info(name='recent') from B#window.time(10 sec) select s, v insert all events into Recent;
@info(name='keep') from B select s, v insert into Kept;
"""
START_MS = 1_767_225_600_000


def tried(*events: TrialEvent, text: str = PLAN, **settings: int) -> TrialResult:
    answer = run_trial(TrialRequest(text, events, START_MS, **settings))
    assert isinstance(answer, TrialResult), answer
    return answer


def refused(*events: TrialEvent, text: str = PLAN) -> TrialRefused:
    answer = run_trial(TrialRequest(text, events, START_MS))
    assert isinstance(answer, TrialRefused)
    return answer


def output(result: TrialResult, kind: str, name: str) -> TrialOutput:
    return next(one for one in result.outputs if (one.kind, one.name) == (kind, name))


def a(s: str, v: int) -> TrialEvent:
    return TrialEvent("A", {"s": s, "v": v})


def b(s: str, v: int, timestamp: int | None = None) -> TrialEvent:
    return TrialEvent("B", [s, v], timestamp)


def test_every_row_tells_after_which_event_it_came() -> None:
    result = tried(a("x", 1), a("y", 2), b("x", 9))
    (row,) = output(result, "stream", "Pairs").rows
    assert (row.after, row.timestamp, row.values) == (3, START_MS + 2_000, [1, 9])


def test_attributes_may_be_called_as_the_time_and_the_kind_of_events() -> None:
    text = """@Plan:name('Trial') define stream S (_timestamp long, _kind string); define table T (_timestamp long);
    from S select _timestamp + 1 as _timestamp, _kind insert into O; from S select _timestamp insert into T;"""
    result = tried(TrialEvent("S", {"_timestamp": 5, "_kind": "x"}), TrialEvent("S", [6, "y"]), text=text)
    (first, second) = output(result, "stream", "O").rows
    assert (first.timestamp, first.values) == (5, [6, "x"])
    assert (second.timestamp, second.values) == (6, [7, "y"])
    assert [row.values for row in output(result, "table", "T").rows] == [[5], [6]]


def test_an_event_is_of_the_time_that_its_attribute_says_unless_it_has_another() -> None:
    text = "define stream S (a int, _timestamp long); from S select a insert into O;"
    events = [
        TrialEvent("S", {"a": 1, "_timestamp": 5_000}),
        TrialEvent("S", {"a": 2, "_timestamp": None}),
        TrialEvent("S", {"a": 3, "_timestamp": 7_000}, timestamp=9_000),
        TrialEvent("S", [4, 11_000]),
    ]
    rows = output(tried(*events, text=f"@Plan:name('Trial') {text}"), "stream", "O").rows
    assert [row.timestamp for row in rows] == [5_000, 6_000, 9_000, 11_000]


def test_an_attribute_that_is_no_long_says_no_time() -> None:
    text = "@Plan:name('Trial') define stream S (_timestamp string); from S select _timestamp insert into O;"
    rows = output(tried(TrialEvent("S", {"_timestamp": "5000"}), text=text), "stream", "O").rows
    assert [row.timestamp for row in rows] == [START_MS]


def test_partial_matches_are_told_whenever_their_number_changes() -> None:
    result = tried(a("x", 1), a("y", 2), b("z", 0), b("x", 9), wait_ms=120_000)
    told = [(change.after, change.query, change.count) for change in result.partial_matches]
    assert told[:3] == [(1, "knock", 1), (2, "knock", 2), (4, "knock", 1)]


def test_time_goes_by_after_the_last_event_and_queries_show_what_expires() -> None:
    result = tried(b("x", 1), wait_ms=15_000)
    rows = output(result, "query", "recent").rows
    assert [(row.after, row.expired, row.values) for row in rows] == [(1, False, ["x", 1]), (2, True, ["x", 1])]
    assert rows[1].timestamp == START_MS + 10_000
    assert result.end_ms == START_MS + 15_000


def test_tables_are_shown_as_they_are_at_the_end() -> None:
    assert [row.values for row in output(tried(b("x", 1), b("y", 2)), "table", "Kept").rows] == [["x", 1], ["y", 2]]


def test_rows_are_bounded_and_all_are_counted() -> None:
    result = tried(*(b("x", number) for number in range(10)), most_rows=12)
    assert sum(len(one.rows) for one in result.outputs if one.kind != "table") == 12
    assert output(result, "stream", "B").count == 10


def test_numbers_that_json_lacks_and_objects_come_as_json() -> None:
    event = TrialEvent("A", {"f": "NaN", "o": {"k": [1, None]}, "b": True})
    values = output(tried(event), "stream", "A").rows[0].values
    assert values == [None, None, "nan", {"k": [1, None]}, True]
    assert math.isnan(float(values[2]))


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (TrialEvent("Bee", []), "the plan has no stream 'Bee'"),
        (TrialEvent("B", {"z": 1}), "'B' has no attribute 'z'"),
        (TrialEvent("B", ["x"]), "'B' has 2 attributes (s, v), not 1"),
        (TrialEvent("B", ["x", "1"]), "'v' must be int, not \"1\""),
        (TrialEvent("B", ["x", 2**31]), "'v' must be int, not 2147483648"),
        (TrialEvent("B", ["x", True]), "'v' must be int, not true"),
        (TrialEvent("A", {"b": 1}), "'b' must be bool, not 1"),
        (TrialEvent("A", {"o": nested(65)}), "'o': more than 64 nested lists and maps"),
        (TrialEvent("A", {"b": nested(900)}), "'b': more than 64 nested lists and maps"),
        (TrialEvent("B", ["x", 1], -1), "timestamp must be milliseconds since 1970"),
    ],
)
def test_an_event_that_does_not_fit_is_named(event: TrialEvent, reason: str) -> None:
    told = refused(b("x", 1), event)
    assert (told.code, told.event) == ("bad-event", 2)
    assert reason in told.message


def test_a_plan_that_makes_no_sense_is_refused_with_its_place() -> None:
    told = refused(text="define stream S (a int); from T select a insert into U;")
    assert told.code == "unknown-stream"
    assert "line 1, column 31" in told.message


def test_scripts_run_only_when_they_are_allowed() -> None:
    function = "define function f[python] return int { return data[0] + 1 };"
    text = f"{function} define stream S (a int); from S select f(a) as x insert into U;"
    assert refused(text=text).code == "script-language-off"
    allowed = run_trial(TrialRequest(text, (TrialEvent("S", [1]),), START_MS, script_languages=("python",)))
    assert isinstance(allowed, TrialResult)
    assert output(allowed, "stream", "U").rows[0].values == [2]


def test_what_the_plan_logs_is_told() -> None:
    text = "define stream S (a int); from S#log('seen') select a insert into U;"
    (line,) = tried(TrialEvent("S", [7]), text=text).log
    assert line.startswith("info: ")
    assert "seen" in line


def test_a_log_that_is_off_writes_nothing_and_passes_events_on() -> None:
    text = "define stream S (a int); from S#log('OFF', 'seen') select a insert into U;"
    result = tried(TrialEvent("S", [7]), text=text)
    assert not result.log
    assert output(result, "stream", "U").rows[0].values == [7]


def test_event_time_plans_follow_their_events() -> None:
    text = "@Plan:playback define stream S (a int); from S#window.timeBatch(1 sec) select count() as n insert into U;"
    events = (TrialEvent("S", [1], 5_000), TrialEvent("S", [2], 5_400), TrialEvent("S", [3], 6_500))
    (row,) = output(tried(*events, text=text), "stream", "U").rows
    assert (row.after, row.values) == (3, [2])


@pytest.mark.cluster
def test_the_process_answers_on_its_standard_output_alone() -> None:
    request = TrialRequest(PLAN, (a("x", 1), b("x", 2)), START_MS)
    command = [sys.executable, "-m", "siddhi.trial"]
    done = subprocess.run(command, input=msgspec.json.encode(request), capture_output=True, timeout=60, check=True)  # noqa: S603
    answer = msgspec.json.decode(done.stdout, type=TrialAnswer)
    assert isinstance(answer, TrialResult)
    assert output(answer, "stream", "Pairs").rows[0].values == [1, 2]


@pytest.mark.cluster
def test_a_process_may_use_no_more_memory_than_it_is_told() -> None:
    request = msgspec.to_builtins(TrialRequest(PLAN, (), START_MS, memory_bytes=256 * 2**20))
    command = [sys.executable, "-m", "siddhi.trial"]
    done = subprocess.run(command, input=json.dumps(request).encode(), capture_output=True, timeout=60, check=False)  # noqa: S603
    assert (done.returncode != 0, done.stdout) == (True, b"")
