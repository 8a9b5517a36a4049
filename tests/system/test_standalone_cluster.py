"""The sample plan on a standalone Spark cluster, its stages spread over two executors."""

from __future__ import annotations

from collections import Counter

import pytest
from flights_events import PLAN, assert_all_rows_equal
from flights_feed import deploy_flights, results_of_all_flights
from standalone_cluster import parent_of

from cep_cli.system.local_system import LocalSystem

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


def test_every_row_is_found_when_the_stages_talk_between_two_executors(cluster_system: LocalSystem) -> None:
    deploy_flights(cluster_system)
    try:
        found = results_of_all_flights(cluster_system, {})

        tasks = [task for task in cluster_system.client.cluster()["tasks"] if task["plan"] == PLAN]
        executors = Counter(parent_of(parent_of(task["process_id"])) for task in tasks)
    finally:
        cluster_system.client.undeploy(PLAN, discard=True)

    assert_all_rows_equal(found)
    assert [task["live"] for task in tasks] == [True] * 4, "as many as the manager is told that plans have"
    assert list(executors.values()) == [2, 2], "half of the tasks run in either executor"
    assert all(task["instances"] for task in tasks), "no task is without a stage"
