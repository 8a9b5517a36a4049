"""The driver on a real standalone cluster whose executors join, are lost, and lose their driver."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import requests
from driver_desk import Desk, driver_at_desk, lives
from standalone_cluster import EXECUTORS, StandaloneCluster, parent_of

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

LEASE_S = 8.0
REST_S = 60.0
"""Spark's web interface needs long for its first answer."""

NOTICED_S = 20.0
"""In which Spark tells of a lost worker, and the driver of it."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster"), workers=1) as started:
        yield started


@pytest.fixture(scope="module")
def running_desk(cluster: StandaloneCluster) -> Iterator[Desk]:
    settings = {
        **cluster.driver_settings({**EXECUTORS, "spark.ui.enabled": "true", "spark.ui.port": "0"}),
        "CEP_DRIVER__SPARK__EXECUTOR_LEASE_MS": str(int(LEASE_S * 1_000)),
    }
    with driver_at_desk(cluster.folder, settings) as started:
        started.until(lambda: slots(started) == 1)
        yield started


@pytest.fixture
def desk(running_desk: Desk) -> Desk:
    running_desk.clear()
    return running_desk


def test_topologies_follow_the_executors(cluster: StandaloneCluster, desk: Desk) -> None:
    """A plan waits until executors join, is taken to the others when one is lost, and waits when there is no room."""
    desk.submit("Pair", workers=2)
    desk.submit("Small")
    (small,) = desk.until_started("Small")
    assert (desk.state("Pair"), desk.reason("Pair")) == ("waiting", "needs 2 slots, the cluster has 1 in all")

    cluster.add_worker()
    cluster.add_worker()

    pair = desk.until_started("Pair", workers=2)
    assert slots(desk) == 3
    assert desk.latest is not None
    assert [(one.host, one.slots) for one in desk.latest.executors] == [("127.0.0.1", 1)] * 3

    cluster.kill_worker_of(pair[0])

    desk.until(lambda: desk.state("Pair") == "restarting", NOTICED_S)
    assert desk.reason("Pair") == "an executor was lost on 127.0.0.1"
    too_few = ("waiting", "needs 2 free slots, 1 of 2 are free")  # told when the executors have been looked up again
    desk.until(lambda: (desk.state("Pair"), desk.reason("Pair")) == too_few)
    desk.until(lambda: not any(lives(process) for process in pair))
    assert desk.state("Small") == "running"
    assert lives(small)

    desk.kill("Small")

    again = desk.until_started("Pair", workers=2)
    assert not set(again) & set(pair)
    report = desk.report("Pair")
    assert report is not None
    assert report.restarts == 1


def test_stages_end_within_the_lease_when_their_driver_hangs(cluster: StandaloneCluster, desk: Desk) -> None:
    desk.submit("Plan", workers=2)
    orphans = desk.until_started("Plan", workers=2)
    for process in driver_processes(desk):
        os.kill(process, signal.SIGSTOP)

    took_s = desk.until(lambda: not any(lives(process) for process in orphans), 3 * LEASE_S)

    assert took_s <= 2 * LEASE_S
    for process in driver_processes(desk):
        os.kill(process, signal.SIGCONT)
    desk.until_started("Plan", workers=2)


def test_a_stage_that_hangs_is_ended_on_its_host_whatever_spark_does(desk: Desk) -> None:
    desk.submit("Hung")
    desk.until_started("Hung")
    (stage,) = desk.until_started("Hung")  # it registers once more when it has met its driver
    executor = parent_of(parent_of(stage))
    os.kill(executor, signal.SIGSTOP)
    try:
        os.kill(stage, signal.SIGSTOP)
        desk.until(lambda: not lives(stage), within_s=LEASE_S - 2)  # before Spark gives the executor up
    finally:
        with suppress(ProcessLookupError):
            os.kill(executor, signal.SIGCONT)

    assert desk.until_started("Hung") != [stage]


def test_python_starts_on_an_executor_that_joins_before_any_topology_is_put_there(
    cluster: StandaloneCluster, desk: Desk
) -> None:
    desk.until(lambda: not cluster.workers_without_python())

    cluster.add_worker()

    assert cluster.workers_without_python()
    desk.until(lambda: not cluster.workers_without_python())


def test_a_task_of_two_cores_waits_for_an_executor_that_has_them_and_spark_keeps_both_for_it(
    cluster: StandaloneCluster, desk: Desk
) -> None:
    cores = slots(desk)
    desk.submit("Thick", cores=2)
    desk.submit("Full", workers=cores)
    desk.until_started("Full", workers=cores)
    assert desk.state("Thick") == "waiting"
    assert ("at most 1 on one executor" in desk.reason("Thick")) == (cores > 1)

    cluster.add_worker(cores=2)

    desk.until_started("Thick")
    assert desk.latest is not None
    assert desk.latest.slots_free == 0
    assert sorted(cores_of_running_tasks(desk.latest.web_url)) == [1] * cores + [2]


def test_a_driver_whose_spark_has_gone_ends_so_that_it_is_started_again(desk: Desk) -> None:
    """Stands last: the driver is gone afterwards."""
    desk.submit("Alone")
    (task,) = desk.until_started("Alone")
    _, spark = driver_processes(desk)

    os.kill(spark, signal.SIGKILL)

    desk.until(lambda: desk.driver.poll() is not None)
    desk.until(lambda: not lives(task))
    assert desk.driver.returncode == 1
    assert "\ncep: Spark's process does not respond" in desk.log.read_text()


def slots(desk: Desk) -> int:
    return desk.latest.slots_total if desk.latest is not None else 0


def driver_processes(desk: Desk) -> list[int]:
    """The driver and its Java process."""
    children = Path(f"/proc/{desk.driver.pid}/task").glob("*/children")
    return [desk.driver.pid, *(int(child) for path in children for child in path.read_text().split())]


def cores_of_running_tasks(web_url: str) -> list[int]:
    """The cores that Spark itself keeps for each task that runs now."""
    (application,) = requests.get(f"{web_url}/api/v1/applications", timeout=REST_S).json()
    base = f"{web_url}/api/v1/applications/{application['id']}"
    environment = requests.get(f"{base}/environment", timeout=REST_S).json()
    cores = {one["id"]: int(one["taskResources"]["cpus"]["amount"]) for one in environment["resourceProfiles"]}
    stages = requests.get(f"{base}/stages?status=active", timeout=REST_S).json()
    return [cores[stage["resourceProfileId"]] for stage in stages for _ in range(stage["numActiveTasks"])]
