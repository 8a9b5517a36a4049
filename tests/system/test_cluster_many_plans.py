"""More plans than slots: they share stage hosts, those that want tasks of their own wait, and the manager answers."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
import requests
from late_plan import POLL_S, TEXT, assert_events_flow

from cep_cli.system.local_system import LocalSystem

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

SETTLED_S = 60.0
ANSWER_S = 0.3
HANGS_S = 2.0
"""Two other systems may start on the machine meanwhile, for which single calls wait."""


def test_twice_as_many_plans_as_slots_run_and_the_manager_answers_at_once(system: LocalSystem) -> None:
    slots = system.client.cluster()["driver"]["slots_total"]
    plans = 2 * slots
    for number in range(plans):
        system.client.deploy(TEXT.replace("LateFlights", f"Late{number}"), replace=False)
    _until_all_are_active(system, plans)
    answers = sorted(_answer_s(system, f"/api/v1/{path}") for path in ("plans", "cluster") for _ in range(50))
    assert answers[50] < ANSWER_S, f"half of the calls take more than {answers[50] * 1000:.0f} ms"
    assert answers[98] < HANGS_S, f"99 of 100 calls take up to {answers[98] * 1000:.0f} ms"
    driver = _driver_with(system, plans)
    assert driver["slots_free"] == slots - len(driver["stage_hosts"]) > 0, (
        "there is room for plans with tasks of their own"
    )


def _driver_with(system: LocalSystem, plans: int) -> Any:
    """Return what the driver tells once its hosts have `plans` plans; that of the test before may still be ending."""
    deadline = time.monotonic() + SETTLED_S
    while True:
        driver = system.client.cluster()["driver"]
        if sum(one["plans"] for one in driver["stage_hosts"]) == plans:
            return driver
        assert time.monotonic() < deadline, driver["stage_hosts"]
        time.sleep(POLL_S)


def test_plans_that_ask_for_tasks_of_their_own_wait_with_a_reason_when_slots_run_out(system: LocalSystem) -> None:
    slots = system.client.cluster()["driver"]["slots_total"]
    for number in range(slots + 2):
        system.client.deploy(f"@Plan:host('own') {TEXT.replace('LateFlights', f'Own{number}')}", replace=False)
    deadline = time.monotonic() + SETTLED_S
    while True:
        states = [plan["status"]["topology"] for plan in system.client.plans()]
        waiting = [one for one in states if one["state"] == "waiting"]
        if sum(one["state"] == "active" for one in states) == slots:
            break
        assert time.monotonic() < deadline, states
        time.sleep(POLL_S)
    assert len(waiting) == 2
    assert all(one["reason"] for one in waiting), waiting


def test_more_plans_than_slots_share_hosts_and_come_back_when_one_is_killed(system: LocalSystem) -> None:
    slots = system.client.cluster()["driver"]["slots_total"]
    names = ["LateFlights", *(f"Late{number}" for number in range(slots + 3))]
    for name in names:
        system.client.deploy(TEXT.replace("LateFlights", name), replace=False)
    _until_all_are_active(system, len(names))
    hosts = {one["process_id"]: one["plans"] for one in system.client.cluster()["driver"]["stage_hosts"]}
    tasks = {task["plan"]: task["process_id"] for task in system.client.cluster()["tasks"]}
    assert sum(hosts.values()) == len(names)
    assert set(tasks.values()) == set(hosts)
    assert len(hosts) <= slots // 2
    assert_events_flow(system)

    os.kill(tasks["LateFlights"], signal.SIGKILL)
    deadline = time.monotonic() + SETTLED_S
    while system.client.plan("LateFlights")["status"]["topology"]["restarts"] == 0:
        assert time.monotonic() < deadline
        time.sleep(POLL_S)
    _until_all_are_active(system, len(names))
    assert_events_flow(system)


def _until_all_are_active(system: LocalSystem, plans: int) -> None:
    """All plans are active and connected."""
    deadline = time.monotonic() + SETTLED_S
    while True:
        found = [plan["status"] for plan in system.client.plans()]
        if len([one for one in found if one["topology"]["state"] == "active" and one["connected"]]) == plans:
            return
        assert time.monotonic() < deadline, [one["topology"] for one in found]
        time.sleep(POLL_S)


def _answer_s(system: LocalSystem, path: str) -> float:
    started = time.monotonic()
    requests.get(f"{system.client.url}{path}", timeout=10).raise_for_status()
    return time.monotonic() - started
