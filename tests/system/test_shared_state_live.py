"""A rule over all events in three instances with shared state, on a cluster, while one of them is killed."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import requests

from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem
from topology.links.event_listener import EventListener

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

SAMPLE = Path(__file__).parents[2] / "samples" / "shared-state" / "Rise.siddhiql"
TEMPERATURES = [float(number * number % 17) for number in range(120)]
"""Every now and then a reading is more than a degree above the one before it."""
CONNECT_S = 120.0
RESULTS_S = 120.0
POLL_MS = 500


def test_readings_of_three_instances_are_related_once_though_one_is_killed(
    cluster_system: LocalSystem,
) -> None:
    cluster_system.client.deploy(SAMPLE.read_text(encoding="utf-8"), replace=False)
    try:
        wait_until_connected(cluster_system.client, "Rise", CONNECT_S)
        address = f"{cluster_system.worker_http}/Rise/TempStream"
        with EventListener(cluster_system.egress, "Rise/AlertStream") as listener:
            for number, reading in enumerate(TEMPERATURES):
                if number == len(TEMPERATURES) // 2:
                    os.kill(process_of("rise#1", cluster_system), signal.SIGKILL)
                answer = requests.post(address, json={"room": str(number), "temp": reading}, timeout=30)
                assert answer.status_code < 300, answer.text
            found = alerts(listener)
        nodes = {node["id"]: node for node in cluster_system.client.topology("Rise")["nodes"]}
    finally:
        cluster_system.client.undeploy("Rise", discard=True)

    assert found == expected()
    assert {f"rise#{index}" for index in range(3)} < nodes.keys()


def expected() -> list[tuple[str, float, float]]:
    pairs = pairwise(TEMPERATURES)
    return [(str(number + 1), first, then) for number, (first, then) in enumerate(pairs) if first + 1 < then]


def alerts(listener: EventListener) -> list[tuple[str, float, float]]:
    """As many alerts as are expected, and those that come within a moment after them."""
    found: list[tuple[str, float, float]] = []
    deadline = time.monotonic() + RESULTS_S
    while time.monotonic() < deadline:
        batch = listener.receive(POLL_MS)
        if batch is not None:
            columns = (batch.column(name).to_pylist() for name in ("room", "initialTemp", "finalTemp"))
            found += zip(*columns, strict=True)
        elif len(found) >= len(expected()):
            break
    return found


def process_of(instance: str, system: LocalSystem) -> int:
    """The process of the task in which `instance` runs."""
    tasks: list[dict[str, Any]] = system.client.cluster()["tasks"]
    return next(int(task["process_id"]) for task in tasks if instance in task["instances"])
