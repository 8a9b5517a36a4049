"""The groups, topics and refusals of WSO2 SP's topology tests."""

from __future__ import annotations

import pytest
from sp_topologies import FACTS, Fact

from query_plan.examination import examine
from query_plan.findings import Severity


def test_there_are_as_many_as_sp_has() -> None:
    assert len({one.test for one in FACTS}) == 18


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.test)
def test_an_app_of_sp_has_its_groups_and_topics(fact: Fact) -> None:
    examined = examine(fact.app)
    errors = [one.problem.code for one in examined.findings if one.severity is Severity.ERROR]
    assert errors == ([fact.refused] if fact.refused else [])
    if examined.compiled is None:
        return
    plan = examined.compiled.plan
    between = {one.stream: (one.key, one.partitions) for one in examined.compiled.carried if one.use == "between"}
    assert {one.name: one.parallel for one in plan.processors} == fact.groups
    assert (between, plan.receiver.parallel) == (fact.topics, fact.receivers)
