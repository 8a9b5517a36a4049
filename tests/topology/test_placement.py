"""Which task each instance runs in: evenly, siblings apart, neighbours together."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_builders import plan_of, stage, topology_of

from query_plan.model import GLOBAL, SHUFFLE, ProcessingStage, fields
from topology.model import Topology
from topology.placement import PlacedStage, StageLink, place


def chain(*parallels: int, by_pairs: bool = False) -> tuple[list[PlacedStage], list[StageLink]]:
    """Stages a, b, c … of so many instances, each fed by the one before."""
    names = [chr(ord("a") + index) for index in range(len(parallels))]
    stages = [
        PlacedStage(name, tuple(f"{name}{index}" for index in range(parallel)))
        for name, parallel in zip(names, parallels, strict=True)
    ]
    return stages, [StageLink(*pair, by_pairs) for pair in pairwise(names)]


def tasks_of(topology: Topology, component: str) -> list[int]:
    return [topology.placement[one] for one in topology.component(component).instances()]


def test_a_chain_is_cut_once_for_each_further_task() -> None:
    assert place(*chain(1, 1, 1, 1, 1), tasks=2) == {"a0": 0, "b0": 0, "c0": 0, "d0": 1, "e0": 1}
    assert list(place(*chain(1, 1, 1, 1, 1), tasks=4).values()) == [0, 0, 1, 2, 3]


def test_every_instance_has_a_task_of_its_own_when_there_are_enough() -> None:
    assert sorted(place(*chain(1, 2, 1), tasks=6).values()) == [0, 1, 2, 3]


def test_instance_i_stands_with_instance_i_that_feeds_it_alone() -> None:
    placed = place(*chain(1, 3, 3, 3, by_pairs=False), tasks=3)
    assert len(Counter(placed.values())) == 3
    stages, ways = chain(3, 3, 3, by_pairs=True)
    placed = place(stages, ways, tasks=3)
    assert all(placed[f"a{index}"] == placed[f"b{index}"] == placed[f"c{index}"] for index in range(3))


def test_a_consumer_stands_where_most_of_its_producers_do() -> None:
    stages = [PlacedStage("a", ("a0", "a1")), PlacedStage("b", ("b0",)), PlacedStage("c", ("c0",))]
    placed = place(stages, [StageLink("a", "c"), StageLink("b", "c")], tasks=3)
    assert placed["c0"] == placed["b0"], "all of b comes from there, and only half of a"


@pytest.mark.thorough
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 7))
@settings(deadline=None)
def test_no_nearness_upsets_the_balance(parallels: list[int], tasks: int) -> None:
    stages, ways = chain(*parallels)
    placed = place(stages, ways, tasks)

    for stage_ in stages:
        together = Counter(placed[instance] for instance in stage_.instances)
        assert max(together.values()) <= -(-len(stage_.instances) // tasks)
    if all(parallel in (1, tasks) for parallel in parallels):
        loads = [Counter(placed.values())[task] for task in range(tasks)]
        assert max(loads) - min(loads) <= 1
    assert set(placed.values()) == set(range(min(tasks, len(placed))))


def two_stages(first: ProcessingStage, second: ProcessingStage) -> Topology:
    return topology_of(plan_of(["S"], [first, second], ["Out"]), tasks=3)


def test_stages_by_the_same_key_keep_their_events_in_the_task() -> None:
    by_key = two_stages(
        stage("one", [("S", fields("number"))], ["M"], parallel=3),
        stage("two", [("M", fields("number"))], ["Out"], parallel=3),
    )
    assert tasks_of(by_key, "one") == tasks_of(by_key, "two")


def test_stateless_stages_of_one_size_keep_their_events_in_the_task() -> None:
    stateless = two_stages(
        stage("one", [("S", SHUFFLE)], ["M"], parallel=3), stage("two", [("M", SHUFFLE)], ["Out"], parallel=3)
    )
    assert tasks_of(stateless, "one") == tasks_of(stateless, "two")


def test_a_stage_by_another_key_takes_events_from_everywhere() -> None:
    plan = two_stages(
        stage("one", [("S", fields("number"))], ["M"], parallel=3),
        stage("two", [("M", fields("other"))], ["Out"], parallel=3),
    )
    assert sorted(tasks_of(plan, "two")) == [0, 1, 2]
    alone = two_stages(
        stage("one", [("S", fields("number"))], ["M"], parallel=3), stage("two", [("M", GLOBAL)], ["Out"])
    )
    assert len(tasks_of(alone, "two")) == 1
