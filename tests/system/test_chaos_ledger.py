"""The ledger sees what is missing, what came twice and what is wrong: a test that cannot fail would prove nothing."""

from __future__ import annotations

from typing import Any

import pytest
from chaos_ledger import KeyOrder, Ledger, judge
from chaos_plans import PLANS, ChaosPlan

from query_plan.builder import build
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse

BY_NAME = {plan.name: plan for plan in PLANS}


def ledger(numbers: range, uncertain: tuple[int, ...] = ()) -> Ledger:
    made = Ledger()
    made.accepted["k"] += [number for number in numbers if number not in uncertain]
    made.uncertain["k"] |= set(uncertain)
    return made


def rows(plan: str, numbers: list[int]) -> list[dict[str, Any]]:
    """What the plan answers to these events of key `k`."""
    names = {"Windowed": "total", "Matched": "former", "Counted": "events"}
    made = [
        {"key": "k", "number": number, names.get(plan, "number"): answer}
        for number, answer in zip(numbers, BY_NAME[plan].answers(numbers), strict=True)
    ]
    return made[1:] if BY_NAME[plan].pairs else made


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_the_plan_can_be_planned(plan: ChaosPlan) -> None:
    assert build(analyse(parse(plan.deployed("at-least-once")))).name == plan.name


@pytest.mark.parametrize("plan", sorted(BY_NAME))
def test_all_in_order_is_all_in_order(plan: str) -> None:
    verdict = judge(BY_NAME[plan], ledger(range(1, 121)), rows(plan, list(range(1, 121))))
    assert (verdict.lost, verdict.duplicated, verdict.wrong) == (0, 0, ())


@pytest.mark.parametrize("plan", sorted(BY_NAME))
def test_an_event_that_was_not_counted_is_lost(plan: str) -> None:
    found = judge(BY_NAME[plan], ledger(range(1, 11)), rows(plan, [1, 2, 3, 4, 6, 7, 8, 9, 10]))
    assert (found.lost, found.wrong) == (1, ())


@pytest.mark.parametrize("plan", sorted(BY_NAME))
def test_a_result_that_came_twice_is_counted(plan: str) -> None:
    once = rows(plan, list(range(1, 11)))
    assert judge(BY_NAME[plan], ledger(range(1, 11)), [*once, once[4], once[5]]).duplicated == 2


@pytest.mark.parametrize("plan", ["Windowed", "Matched", "Counted"])
def test_a_state_that_lost_an_event_whose_result_came_gives_wrong_answers(plan: str) -> None:
    whole, without = rows(plan, list(range(1, 11))), rows(plan, [1, 2, 3, 4, 6, 7, 8, 9, 10])
    at = 5 if plan != "Matched" else 4
    assert judge(BY_NAME[plan], ledger(range(1, 11)), [*whole[:at], *without[at - 1 :]]).wrong


@pytest.mark.parametrize("counted", [True, False])
def test_events_of_which_nothing_was_heard_may_have_been_counted_or_not(counted: bool) -> None:
    numbers = [1, 2, 3, 4, 5] if counted else [1, 2, 4, 5]
    verdict = judge(BY_NAME["Windowed"], ledger(range(1, 6), uncertain=(3,)), rows("Windowed", numbers))
    assert (verdict.lost, verdict.wrong) == (0, ())


def test_what_was_never_sent_is_wrong() -> None:
    assert judge(BY_NAME["Passed"], ledger(range(1, 3)), rows("Passed", [1, 2, 3])).wrong


def test_a_result_behind_a_later_one_of_its_key_is_out_of_order_and_one_that_comes_again_is_not() -> None:
    order = KeyOrder()
    for key, number in (("k", 1), ("k", 3), ("l", 2), ("k", 2), ("k", 1), ("k", 3), ("k", 4), ("l", 5)):
        order.note("Direct", key, number)
    assert order.disorder == ["Direct k: 2 came behind 3"]


@pytest.mark.parametrize("plan", ["Counted", "Windowed"])
def test_results_that_are_lost_of_events_that_were_counted_make_no_other_answer_wrong(plan: str) -> None:
    found = [row for row in rows(plan, list(range(20))) if not 8 <= row["number"] < 11]
    verdict = judge(BY_NAME[plan], ledger(range(20)), found)
    assert (verdict.lost, verdict.duplicated, verdict.wrong) == (3, 0, ())
    found[-1] = {**found[-1], {"Counted": "events", "Windowed": "total"}[plan]: 1}
    assert len(judge(BY_NAME[plan], ledger(range(20)), found).wrong) == 1
