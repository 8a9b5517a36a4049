"""Aggregations read by conformance cases, joins and on-demand queries."""

from __future__ import annotations

from typing import Any

import pytest
from recorded_cases import recorded_cases

from siddhi.analysis.analyser import analyse
from siddhi.analysis.query.on_demand import analyse_on_demand_query
from siddhi.engine.app_runtime import AppRuntime
from siddhi.errors import SiddhiAnalysisError, SiddhiRuntimeError
from siddhi.language.parser import parse, parse_on_demand_query
from siddhi.testing import record_batch, run_case

STREAMS = """
@app:playback
define stream S (k string, v int);
define stream Ask (k string, a long, b long, per string);
define table T (k string);
"""


@pytest.mark.thorough
def test_recorded_aggregations_have_their_answers_when_events_come_one_by_one() -> None:
    cases = [case for case in recorded_cases() if case.feature.startswith("aggregation")]
    assert cases
    found = {case.id: run_case(case, 1).differences for case in cases}
    assert {case: differences for case, differences in found.items() if differences} == {}


def started(text: str) -> AppRuntime:
    runtime = AppRuntime(analyse(parse(STREAMS + text)))
    runtime.start(0)
    return runtime


def send(runtime: AppRuntime, stream: str, time: int, *data: Any) -> None:
    schema = runtime.app.streams[stream].schema
    runtime.send(stream, record_batch(schema, [{"timestamp": time, "data": list(data)}]))


def ask(runtime: AppRuntime, text: str) -> list[dict[str, Any]]:
    found = runtime.query(analyse_on_demand_query(parse_on_demand_query(text), runtime.app))
    return [] if found is None else found.drop_columns(["_timestamp", "_kind"]).to_pylist()


JOINED = """
define aggregation A from S select k, sum(v) as s group by k aggregate every sec, hour;
@info(name='q') from Ask as x join A as g on x.k == g.k within x.a, x.b per x.per
select g.AGG_TIMESTAMP as at, g.s as s insert into O;
"""


def test_a_join_reads_what_came_before_its_event_in_the_same_batch() -> None:
    runtime = started(JOINED)
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback("O", lambda records: rows.extend(records.to_pylist()))
    send(runtime, "S", 1_500, "x", 1)
    send(runtime, "S", 2_500, "x", 2)
    send(runtime, "S", 2_600, "y", 4)
    send(runtime, "Ask", 3_000, "x", 0, 9_000, "seconds")
    send(runtime, "S", 3_100, "x", 8)
    send(runtime, "Ask", 3_200, "x", 0, 9_000, "hour")
    assert [(row["at"], row["s"]) for row in rows] == [(1_000, 1), (2_000, 2), (0, 11)]


@pytest.mark.parametrize(("a", "b", "per"), [(9, 9, "sec"), (0, 9, "min"), (0, 9, "weeks"), (None, 9, "sec")])
def test_an_event_that_asks_for_no_period_is_dropped_and_counted(a: int | None, b: int, per: str) -> None:
    runtime = started(JOINED)
    send(runtime, "S", 1_500, "x", 1)
    send(runtime, "Ask", 1_600, "x", a, b, per)
    assert runtime.statistics().failures["Ask"] == 1


def test_the_events_of_a_trigger_can_be_aggregated() -> None:
    trigger = "define trigger Started at 'start';"
    runtime = started(f"{trigger} define aggregation A from Started select count() as n aggregate every sec;")
    assert ask(runtime, "from A within 0L, 9L per 'sec' select n") == [{"n": 1}]


def test_events_that_fail_can_be_aggregated() -> None:
    runtime = started(
        "@OnError(action='STREAM') define stream Failing (o object);"
        "define aggregation A from !Failing select count() as n aggregate every sec;"
        "from Failing select sizeOfSet(o) as n insert into O;"
    )
    send(runtime, "Failing", 0, "no set")
    assert ask(runtime, "from A within 0L, 9L per 'sec' select n") == [{"n": 1}]


def test_a_question_for_buckets_that_are_not_kept_says_which_are() -> None:
    runtime = started(JOINED)
    with pytest.raises(SiddhiAnalysisError) as caught:
        ask(runtime, "from A within 0L, 1L per 'days' select *")
    (problem,) = caught.value.problems
    assert (problem.code, problem.hint) == ("duration-not-kept", "it has sec, hour")
    assert problem.span is not None


def test_a_period_cannot_depend_on_the_rows_that_are_read() -> None:
    runtime = started(JOINED)
    with pytest.raises(SiddhiRuntimeError, match="wrong-period"):
        ask(runtime, "from A within AGG_TIMESTAMP, 9L per 'sec' select *")


def test_questions_select_group_and_order_the_rows() -> None:
    runtime = started("define aggregation A from S select k, sum(v) as s group by k aggregate every sec;")
    for time, k, v in ((1_000, "x", 1), (2_000, "y", 2), (3_000, "x", 4)):
        send(runtime, "S", time, k, v)
    question = "from A on s < 4 within 0L, 9999L per 'sec' select k, sum(s) as t group by k order by t desc limit 1"
    assert ask(runtime, question) == [{"k": "y", "t": 2}]


def test_the_source_of_an_aggregation_may_look_into_a_table() -> None:
    runtime = started(
        """define aggregation A from S[T.k == k in T] select k, sum(v) as s group by k aggregate every sec;
        from Ask select k insert into T;"""
    )
    send(runtime, "S", 1_000, "x", 1)
    send(runtime, "Ask", 1_100, "x", 0, 0, "")
    send(runtime, "S", 1_200, "x", 2)
    assert [row["s"] for row in ask(runtime, "from A within 0L, 9999L per 'sec' select s")] == [2]


def test_an_aggregation_reads_what_queries_insert() -> None:
    runtime = started(
        """define stream M (k string, w int);
        define aggregation A from M select sum(w) as s aggregate every min;
        from S[v > 1] select k, v * 10 as w insert into M;"""
    )
    for time, v in ((1_000, 1), (2_000, 2), (3_000, 4)):
        send(runtime, "S", time, "x", v)
    assert ask(runtime, "from A within 0L, 9999L per 'min' select s") == [{"s": 60}]


def test_without_a_time_of_its_own_an_event_belongs_to_the_clock_at_which_it_comes() -> None:
    runtime = started("define aggregation A from S select sum(v) as s aggregate every sec;")
    send(runtime, "S", 2_500, "x", 1)
    send(runtime, "S", 900, "x", 2)
    assert ask(runtime, "from A within 0L, 9999L per 'sec' select *") == [{"AGG_TIMESTAMP": 2_000, "s": 3}]


def test_an_aggregation_on_the_left_of_an_outer_join_gives_nulls_for_events_that_meet_nothing() -> None:
    runtime = started(
        """define aggregation A from S select k, sum(v) as s group by k aggregate every sec;
        from A as g right outer join Ask as x on x.k == g.k within x.a, x.b per 'sec'
        select x.k as k, g.s as s insert into O;"""
    )
    rows: list[dict[str, Any]] = []
    runtime.add_stream_callback("O", lambda records: rows.extend(records.to_pylist()))
    send(runtime, "S", 1_500, "x", 1)
    send(runtime, "Ask", 3_000, "x", 0, 9_000, "")
    send(runtime, "Ask", 3_000, "q", 0, 9_000, "")
    assert [(row["k"], row["s"]) for row in rows] == [("x", 1), ("q", None)]
