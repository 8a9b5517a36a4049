"""How a query plan is laid out: placement, who takes what from whom, and where tickets must be put in order."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topology_builders import plan_of, schema_of, stage, topology_of

from query_plan.model import ALL, GLOBAL, SHUFFLE, QueryPlan, fields
from topology.model import Topology

STORM = plan_of(
    ["S"],
    [
        stage("counting", [("M", GLOBAL)], ["Out"]),
        stage("filtering", [("S", SHUFFLE)], ["M"], parallel=2),
    ],
    ["Out"],
)
"""S ─▶ filtering ×2 ─▶ counting ─▶ Out, the consumer written before its producer."""


def names(topology: Topology) -> list[str]:
    return [component.name for component in topology.components]


def paths(topology: Topology, component: str) -> dict[str, int]:
    return topology.paths(topology.component(component))


def test_components_stand_in_flow_order_whatever_the_order_of_the_plan() -> None:
    assert names(topology_of(STORM)) == ["EventReceiver", "filtering", "counting", "EventPublisher"]


def test_every_stream_between_components_has_its_schema() -> None:
    assert topology_of(STORM).streams == {name: schema_of(name) for name in ("S", "M", "Out")}


def test_one_task_holds_everything() -> None:
    assert set(topology_of(STORM).placement.values()) == {0}


@given(st.integers(1, 5), st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(1, 3))
@settings(deadline=None)
def test_instances_are_spread_evenly_and_those_of_one_component_apart(
    tasks: int, parallels: list[int], receivers: int
) -> None:
    stages = [stage(f"s{index}", [("S", ALL)], ["O"], parallel) for index, parallel in enumerate(parallels)]
    topology = topology_of(plan_of(["S"], stages, ["O"], receivers=receivers), tasks)
    for component in topology.components:
        counts = Counter(topology.placement[instance] for instance in component.instances())
        assert max(counts.values()) <= -(-component.parallel // tasks)
    loads = Counter(topology.placement.values())
    assert max(loads.values()) - min(loads.get(task, 0) for task in range(tasks)) <= len(topology.components)
    assert topology.placement == topology_of(topology.plan, tasks).placement


@pytest.mark.parametrize(
    ("inputs", "parallel", "keeps"),
    [
        ([("S", SHUFFLE)], 2, True),
        ([("S", SHUFFLE)], 1, False),
        ([("S", fields("number"))], 2, False),
        ([("S", ALL)], 2, False),
        ([("S", SHUFFLE), ("T", SHUFFLE)], 2, True),
        ([("S", SHUFFLE), ("T", fields("number"))], 2, False),
    ],
)
def test_only_a_stateless_stage_in_parallel_keeps_tickets(
    inputs: list[tuple[str, object]], parallel: int, keeps: bool
) -> None:
    plan = plan_of(["S", "T"], [stage("one", inputs, ["Out"], parallel)], ["Out"])  # type: ignore[arg-type]
    topology = topology_of(plan)
    assert topology.keeps_tickets(topology.component("one")) is keeps
    assert not topology.keeps_tickets(topology.component("EventReceiver"))
    assert not topology.keeps_tickets(topology.component("EventPublisher"))


def test_tickets_are_put_in_order_behind_a_parallel_stateless_stage_and_nowhere_else() -> None:
    topology = topology_of(STORM)
    assert paths(topology, "filtering") == {}
    assert paths(topology, "counting") == {"EventReceiver#0": 1}
    assert paths(topology, "EventPublisher") == {}


def test_a_ticket_that_comes_directly_and_through_a_parallel_stage_comes_on_two_ways() -> None:
    both = plan_of(
        ["S"],
        [
            stage("filtering", [("S", SHUFFLE)], ["M"], parallel=2),
            stage("joining", [("S", GLOBAL), ("M", GLOBAL)], ["Out"]),
        ],
        ["Out"],
        receivers=2,
    )
    assert paths(topology_of(both), "joining") == {"EventReceiver#0": 2, "EventReceiver#1": 2}


def test_parallel_stages_in_a_row_and_side_by_side_pass_the_first_origins_tickets_on() -> None:
    chain = plan_of(
        ["S"],
        [
            stage("a", [("S", SHUFFLE)], ["M"], parallel=2),
            stage("b", [("M", SHUFFLE)], ["N"], parallel=3),
            stage("c", [("S", SHUFFLE)], ["N"], parallel=2),
            stage("d", [("N", GLOBAL)], ["Out"]),
        ],
        ["Out"],
    )
    assert paths(topology_of(chain), "d") == {"EventReceiver#0": 2}


def test_an_ordered_stage_between_numbers_anew() -> None:
    plan = plan_of(
        ["S"],
        [
            stage("a", [("S", GLOBAL)], ["M"]),
            stage("b", [("M", SHUFFLE)], ["N"], parallel=2),
            stage("c", [("N", GLOBAL)], ["Out"]),
        ],
        ["Out"],
    )
    assert paths(topology_of(plan), "c") == {"a#0": 1}


def consumers(plan: QueryPlan, producer: str) -> list[tuple[str, list[str], bool, bool]]:
    topology = topology_of(plan)
    return [
        (one.component.name, sorted(one.groupings), one.every_ticket, one.every_instance)
        for one in topology.consumers(topology.component(producer))
    ]


def test_a_consumer_knows_whose_tickets_its_streams_bear_and_as_whom_each_is_waited_for() -> None:
    """Behind stages that pass tickets on it is who numbered them; of receivers any one stands for all."""
    plan = plan_of(
        ["S", "T"],
        [
            stage("totals", [("S", fields("number"))], ["M"], parallel=2),
            stage("filtering", [("M", SHUFFLE), ("T", SHUFFLE)], ["N"], parallel=3),
            stage("counting", [("M", GLOBAL), ("N", GLOBAL), ("T", GLOBAL)], ["Out"]),
        ],
        ["Out"],
        receivers=2,
    )
    topology = topology_of(plan)
    receivers = {"EventReceiver#0": "EventReceiver", "EventReceiver#1": "EventReceiver"}
    totals = {"totals#0": "totals#0", "totals#1": "totals#1"}
    assert topology.origins(topology.component("counting")) == {"M": totals, "N": totals | receivers, "T": receivers}


def test_consumers_say_what_they_take_and_whether_they_count_tickets() -> None:
    assert consumers(STORM, "EventReceiver") == [("filtering", ["S"], True, False)]
    assert consumers(STORM, "filtering") == [("counting", ["M"], True, True)]
    assert consumers(STORM, "counting") == [("EventPublisher", ["Out"], False, False)]
    assert consumers(STORM, "EventPublisher") == []


def test_publishers_in_parallel_behind_a_parallel_stage_all_get_every_ticket() -> None:
    """Each of them puts the tickets in order: one that it never got would stop it forever."""
    plan = plan_of(["S"], [stage("a", [("S", SHUFFLE)], ["Out"], parallel=2)], ["Out"], publishers=2)
    assert consumers(plan, "a") == [("EventPublisher", ["Out"], True, True)]


def test_a_stage_that_reads_what_it_writes_is_not_its_own_consumer() -> None:
    plan = plan_of(["S"], [stage("a", [("S", GLOBAL), ("M", GLOBAL)], ["M"])], ["M"])
    assert consumers(plan, "a") == [("EventPublisher", ["M"], False, False)]
