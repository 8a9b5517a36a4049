"""The sample plan on a standalone Spark cluster, its stages spread over two executors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from flights_events import assert_all_rows_equal
from flights_feed import deploy_flights, results_of_all_flights
from standalone_cluster import StandaloneCluster

from cep_cli.local_system import LocalSystem, Ports

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


def test_every_row_is_found_when_the_stages_talk_between_two_executors(tmp_path: Path) -> None:
    with StandaloneCluster(tmp_path) as cluster:
        environment = {
            **os.environ,
            **cluster.driver_settings(),
            "CEP_MANAGER__TOPOLOGY__WORKERS": "2",
        }
        with LocalSystem(tmp_path / "system", Ports.free(), environment=environment) as system:
            deploy_flights(system)

            found = results_of_all_flights(system, {})

            tasks = system.client.cluster()["tasks"]
            executors = {_parent(_parent(task["process_id"])) for task in tasks}

    assert_all_rows_equal(found)
    assert [task["live"] for task in tasks] == [True, True]
    assert len(executors) == 2, "each task runs in an executor of its own"
    assert all(task["instances"] for task in tasks), "no task is without a stage"


def _parent(process: int) -> int:
    """The process that started `process`: of a stage Spark's Python daemon, of that the executor."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("PPid:"))
