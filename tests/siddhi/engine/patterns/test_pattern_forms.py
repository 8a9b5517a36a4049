"""Conditions of every kind, absent events between the rows of a batch, and the operator for each form."""

from __future__ import annotations

import itertools

import pytest
from pattern_runs import Event, PatternRun, analysed, answers, event_by_event

from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.base.choices import NotApplicable
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.patterns.chain.plan import ChainPlan, plan_chain
from siddhi.engine.operators.patterns.compiled.operator import CompiledMachineOperator

CONDITIONS = (
    "k == e1.k",
    "k != e1.k",
    "v > e1.v",
    "e1.v >= v",
    "v == e1.v",
    "p > e1.v",
    "v < e1.p",
    "p <= e1.p * 1.5 and v != e1.v",
    "v + 1 > e1.v * 2 and k == e1.k and p < 4.0",
    "e1.v > 3",
    "e1.v is null",
    "k == e1.k and v > e1.v and p > e1.p",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_mean_the_same_in_the_compiled_chain(condition: str) -> None:
    values = [("x", 3, 1.5), ("y", None, 2.0), (None, 7, None), ("x", 7, 3.5), ("y", 3, 4.0), ("x", 5, 2.25)]
    events = [
        Event(stream, 1000 + place, *row)
        for place, (row, stream) in enumerate(itertools.product([*values, *reversed(values)], "AB"))
    ]
    query = f"every e1=A -> e2=B[{condition}] select e1.k as k, e1.v as v, e2.v as w, e2.p as p"
    assert isinstance(plan_chain(analysed(query).elements[0].input, OperatorContext(StringPool())), ChainPlan)
    found = answers(query, events, [5, 11, 12], [7])
    assert found == event_by_event(query, events)
    assert found


@pytest.mark.parametrize("filter_", ["p < 5.0", "p > 5.0", "p != 5.0", "p != 2.0", "v > 2 and p < 5.0", "v != 3"])
def test_a_null_means_the_same_in_a_filter_of_the_compiled_chain(filter_: str) -> None:
    values = [(3, None), (None, 2.0), (7, 1.5), (None, None), (2, 9.0), (3, 5.0)]
    events = [Event("A", 1000 + place, "x", v, p) for place, (v, p) in enumerate(values)]
    query = f"every e1=A[{filter_}] -> e2=B select e1.v as v, e1.p as p"
    assert isinstance(plan_chain(analysed(query).elements[0].input, OperatorContext(StringPool())), ChainPlan)
    events.append(Event("B", 2000, "x", 1, 1.0))
    found = answers(query, events, [3, 5])
    assert found == event_by_event(query, events)
    assert 0 < len(found) < len(values)


@pytest.mark.parametrize(
    "query",
    [
        "e1=A<2> -> e2=B select e2.v as v",
        "e1=A and e2=B select e2.v as v",
        "e1=A -> not B for 1 sec select e1.v as v",
        "e1=A -> every e2=B -> e3=A select e3.v as v",
        "every e1=A -> e2=B[v - e1.v > 3] select e2.v as v",
    ],
)
def test_what_is_no_chain_of_comparisons_is_left_to_the_machine_of_every_form(query: str) -> None:
    assert isinstance(plan_chain(analysed(query).elements[0].input, OperatorContext(StringPool())), NotApplicable)
    assert isinstance(PatternRun(query).operator, CompiledMachineOperator)


def test_a_silence_ends_between_two_rows_of_one_batch() -> None:
    query = "every e1=A -> not B[k == e1.k] for 100 milliseconds select e1.v as v"
    events = [
        Event("A", 1000, "x", 1),
        Event("A", 1010, "y", 2),
        Event("B", 1050, "x", 0),
        Event("A", 1200, "x", 3),
        Event("B", 1300, "x", 0),
    ]
    expected = [(1110, (2,)), (1300, (3,))]
    for cuts in ([], [1, 2, 3, 4], [3]):
        assert answers(query, events, cuts, cuts) == expected


def test_a_silence_needs_only_the_clock_to_end() -> None:
    run = PatternRun("e1=A -> not B for 100 milliseconds select e1.v as v")
    run.step([Event("A", 1000, "x", 1)])
    assert run.operator.next_deadline_ms() == 1100
    run.restart()
    assert run.operator.next_deadline_ms() == 1100
    run.step([], until=1099)
    assert run.answers == []
    run.step([], until=1500)
    assert run.answers == [(1100, (1,))]
    assert run.operator.next_deadline_ms() is None


def test_partial_matches_of_a_closed_instance_are_gone() -> None:
    run = PatternRun("every e1=A -> e2=B select e1.v as a, e2.v as b", partitioned=True)
    run.step([Event("A", 1000, "x", 1), Event("A", 1001, "y", 2)])
    run.operator.close_partitions(run.closed("x"))
    run.step([Event("A", 1002, "x", 3), Event("B", 1003, "x", 4), Event("B", 1004, "y", 5)])
    assert run.answers == [(1003, (3, 4)), (1004, (2, 5))]


def test_a_stream_function_adds_to_the_events_of_its_element() -> None:
    query = (
        "every e1=A[p >= 1.0]#pol2Cart(p, 2.0)[x > 1.5] -> e2=B[p > e1.y]#pol2Cart(p, p, p)[z < 90.0]"
        " select e1.v as a, e1.y as y, e2.x as x, e2.z as z"
    )
    events = [
        Event("A", 1000, "x", 1, 30.0),  # x is 1.73, y 1.0
        Event("A", 1001, "x", 2, 60.0),  # x is 1.0
        Event("A", 1002, "x", 3, None),  # does not reach the function
        Event("B", 1003, "x", 4, 0.5),  # below y
        Event("B", 1004, "x", 5, 95.0),  # z is too much
        Event("B", 1005, "x", 6, 60.0),
    ]
    for cuts in ([], [1, 2, 3, 4, 5]):
        ((time, (a, *coordinates)),) = answers(query, events, cuts, cuts)
        assert (time, a) == (1005, 1)
        assert coordinates == pytest.approx([1.0, 30.0, 60.0])


def test_an_event_that_fails_in_a_stream_function_is_kept_out() -> None:
    run = PatternRun("every e1=A#pol2Cart(p, p)[v > 0] -> e2=B select e1.v as a, e2.v as b")
    run.step([Event("A", 1000, "x", 1, None), Event("A", 1001, "x", 2, 1.0), Event("B", 1002, "x", 3)])
    assert run.answers == [(1002, (2, 3))]


def test_an_aggregate_in_a_filter_counts_each_partition_instance_for_itself() -> None:
    query = "every e1=A[sum(v) > 10] -> e2=B select e1.v as a, e2.v as b"
    run = PatternRun(query, partitioned=True)
    run.step([Event("A", 1000, "x", 9), Event("A", 1001, "y", 8), Event("A", 1002, "x", 2)])
    run.restart()
    run.step([Event("B", 1003, "x", 1), Event("B", 1004, "y", 2), Event("A", 1005, "y", 3), Event("B", 1006, "y", 4)])
    assert run.answers == [(1003, (2, 1)), (1006, (3, 4))]


def test_an_aggregate_in_a_filter_starts_anew_with_its_instance() -> None:
    run = PatternRun("every e1=A[sum(v) > 10] -> e2=B select e1.v as a, e2.v as b", partitioned=True)
    run.step([Event("A", 1000, "x", 9)])
    run.operator.close_partitions(run.closed("x"))
    run.restart()
    run.step([Event("A", 1001, "x", 5), Event("B", 1002, "x", 1), Event("A", 1003, "x", 6), Event("B", 1004, "x", 2)])
    assert run.answers == [(1004, (6, 2))]


def test_a_match_found_out_of_turn_is_told_only_by_the_element_that_ends_its_stream() -> None:
    # An optional last element is done before it has begun; the first element is notified.
    events = [Event("A", 1000, "x", 1)]
    assert answers("every e1=A or e2=B, e3=C<0:2> select e1.v as v", events) == [(1000, (1,))]
    assert answers("every e1=A or e2=A, e3=C<0:2> select e1.v as v", events) == []
