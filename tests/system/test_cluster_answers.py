"""Plans that are spread over a standalone cluster of four slots answer as one engine does.

`CEP_CLUSTER_CASES=all` also deploys each of our plans by itself, and every plan of the conformance suite that the
planner takes with parallelism, which takes half an hour; otherwise a few of those are compared.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from distributed_plans import all_in_one, plans
from distributed_runs import DistributedPlan, candidates, differences, on_a_cluster, on_one_engine

from cep_cli.system.local_system import LocalSystem
from siddhi.testing import load_cases

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

CONFORMANCE = Path(__file__).parents[1] / "conformance" / "cases.jsonl.xz"
EVERY_CASE = os.environ.get("CEP_CLUSTER_CASES") == "all"
SHARE = 1 if EVERY_CASE else 120
"""Every so many-th case is compared."""
AT_A_TIME = 2
"""Plans of the suite take two of the four slots."""

FAILS_IN_ONE_GROUP = {"function.cast.object"}
"""An event that a query cannot work on is lost to the queries behind it in its engine, and not to those of others."""

OWN = plans() if EVERY_CASE else plans()[:2]


def test_twenty_parallel_plans_give_what_one_engine_gives(cluster_system: LocalSystem) -> None:
    plan, keys = all_in_one()
    expected = on_one_engine(plan)
    assert all(expected.values()), "a plan without answers shows nothing"

    found = on_a_cluster(plan, cluster_system, expected)

    assert differences(plan, expected, found, keys) == []


@pytest.mark.parametrize(("plan", "key"), OWN, ids=[plan.name for plan, _ in OWN])
def test_a_parallel_plan_of_its_own_gives_what_one_engine_gives(
    cluster_system: LocalSystem, plan: DistributedPlan, key: str | None
) -> None:
    expected = on_one_engine(plan)

    found = on_a_cluster(plan, cluster_system, expected)

    assert differences(plan, expected, found, {"Out": key}) == []


def test_plans_of_the_conformance_suite_give_what_one_engine_gives(cluster_system: LocalSystem) -> None:
    cases = list(load_cases(CONFORMANCE))[::SHARE]
    chosen = [plan for plan in candidates(cases) if plan.name not in FAILS_IN_ONE_GROUP]
    assert chosen

    def compare(plan: DistributedPlan) -> list[str]:
        expected = on_one_engine(plan)
        return differences(plan, expected, on_a_cluster(plan, cluster_system, expected))

    with ThreadPoolExecutor(AT_A_TIME) as threads:
        wrong = dict(zip([plan.name for plan in chosen], threads.map(compare, chosen), strict=True))

    assert {name: found for name, found in wrong.items() if found} == {}
