"""Plans that are spread over a standalone cluster of four slots answer as one engine does.

`CEP_CLUSTER_CASES=all` compares every plan of the conformance suite that the planner takes with parallelism, which
takes some minutes; otherwise a share of them is compared.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from distributed_plans import plans
from distributed_runs import DistributedPlan, candidates, differences, on_a_cluster, on_one_engine

from cep_cli.local_system import LocalSystem
from siddhi.testing import load_cases

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

CONFORMANCE = Path(__file__).parents[3] / "shared" / "conformance"
SHARE = 1 if os.environ.get("CEP_CLUSTER_CASES") == "all" else 60
"""Every so many-th case is compared."""
SIZES = range(2, 5)

OWN = plans()


@pytest.mark.parametrize(("plan", "key"), OWN, ids=[plan.name for plan, _ in OWN])
def test_a_parallel_plan_gives_what_one_engine_gives(
    cluster_system: LocalSystem, plan: DistributedPlan, key: str | None
) -> None:
    expected = on_one_engine(plan)
    assert all(expected.values()), "a plan without answers shows nothing"

    found = on_a_cluster(plan, cluster_system, expected)

    assert differences(plan, expected, found, key) == []


@pytest.mark.skipif(not CONFORMANCE.exists(), reason=f"the conformance suite is not in {CONFORMANCE}")
def test_plans_of_the_conformance_suite_give_what_one_engine_gives(cluster_system: LocalSystem) -> None:
    cases = [case for path in sorted(CONFORMANCE.glob("*.jsonl")) for case in load_cases(path)]
    found = {}
    for plan in candidates(cases)[::SHARE]:
        expected = on_one_engine(plan)
        wrong = differences(plan, expected, on_a_cluster(plan, cluster_system, expected))
        if wrong:
            found[plan.name] = wrong

    assert found == {}
