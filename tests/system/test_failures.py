"""What a user sees when a part of the system dies or is given nonsense, and that nothing else suffers."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
import requests
from late_plan import (
    CONNECT_TIMEOUT_S,
    EVENT_TIMEOUT_MS,
    PLAN,
    TEXT,
    assert_events_flow,
    deploy_late,
    status_until,
)

from cep_cli.monitor.status_text import plan_status
from cep_cli.system.local_system import LocalSystem
from topology.links.event_listener import EventListener

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

NOTICED_S = 10.0
"""Within this time the status must tell of a loss."""

RECOVERED_S = 90.0
"""A driver brings Spark up again; the rest is quicker."""


def is_whole(status: Any) -> bool:
    return status["topology"]["state"] == "active" and bool(status["connected"])


def test_a_killed_worker_is_missed_and_its_successor_takes_over(system: LocalSystem) -> None:
    deploy_late(system)

    system.kill("worker")
    try:
        status, _ = status_until(system, lambda now: not now["connected"] and not now["inflow"], NOTICED_S)
        shown = plan_status(system.client.plan(PLAN))
    finally:
        system.start("worker")

    assert status["outflow"] == {"connected": 0, "required": 1}
    assert [lost["worker"] for lost in status["lost_workers"]] == ["worker-1"]
    assert "lost: worker-1 on 127.0.0.1, not heard for" in shown
    after, _ = status_until(system, is_whole, RECOVERED_S)
    assert after["lost_workers"] == [], "it is back under its name"
    assert after["topology"]["restarts"] == 0, "the topology outlives its workers"
    assert_events_flow(system)


def test_a_killed_stage_process_comes_back_by_itself(system: LocalSystem) -> None:
    deploy_late(system)
    (task,) = system.client.cluster()["tasks"]

    os.kill(task["process_id"], signal.SIGKILL)
    lost, _ = status_until(system, lambda now: now["topology"]["state"] != "active", NOTICED_S)

    assert lost["topology"]["state"] == "restarting"
    assert lost["topology"]["reason"] == "a stage process died"
    assert not lost["connected"]
    after, _ = status_until(system, is_whole, RECOVERED_S)
    assert _stage_process(system) not in (None, task["process_id"]), "the new process is meant, not the dead one"
    assert after["topology"]["restarts"] == 1
    assert (after["topology"]["reason"], after["topology"]["interruption"]) == ("", "a stage process died")
    assert_events_flow(system)


def test_a_killed_driver_takes_its_topologies_along_and_brings_them_back(system: LocalSystem) -> None:
    deploy_late(system)
    driver, stage = system.pid("driver"), _stage_process(system)

    system.kill("driver")
    try:
        lost, _ = status_until(system, lambda now: now["topology"]["state"] == "waiting", NOTICED_S)
    finally:
        system.start("driver")

    assert lost["topology"]["reason"] == f"the driver driver on 127.0.0.1 (process {driver}) is silent"
    status_until(system, lambda now: is_whole(now) and _stage_process(system) != stage, RECOVERED_S)
    with pytest.raises(ProcessLookupError):
        os.kill(stage, 0)
    assert_events_flow(system)


def test_a_killed_manager_is_not_missed_by_the_events_and_finds_the_plan_again(system: LocalSystem) -> None:
    deploy_late(system)
    stage = _stage_process(system)

    system.kill("manager")
    try:
        assert_events_flow(system)
    finally:
        system.start("manager")
    _until_healthy(system)

    status_until(system, is_whole, RECOVERED_S)
    assert _stage_process(system) == stage, "the topology ran on"
    assert_events_flow(system)


def _stage_process(system: LocalSystem) -> int | None:
    live = [task["process_id"] for task in system.client.cluster()["tasks"] if task["live"]]
    return live[0] if live else None


def _until_healthy(system: LocalSystem) -> None:
    session = requests.Session()
    retries = requests.adapters.Retry(total=None, connect=60, backoff_factor=0.1, backoff_max=0.5)
    session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
    assert session.get(f"{system.client.url}/api/v1/health", timeout=10).status_code == 200


BAD_EVENTS = {
    "a wrong type": ('{"carrier": "UA", "dep_delay": "late"}', "dep_delay"),
    "a missing attribute": ('{"carrier": "UA"}', "dep_delay"),
    "an extra attribute": ('{"carrier": "UA", "dep_delay": 70, "gate": 3}', "gate"),
}


@pytest.mark.parametrize("fault", BAD_EVENTS)
def test_an_event_that_does_not_fit_is_refused_by_name_and_loses_nothing_else(system: LocalSystem, fault: str) -> None:
    text, attribute = BAD_EVENTS[fault]
    deploy_late(system)
    with EventListener(system.egress, f"{PLAN}/Late") as listener:
        before = _post(system, '{"carrier": "B6", "dep_delay": 61}')
        refused = _post(system, text)
        broken = _post(system, text[:-1])
        batch = _post(system, f'[{{"carrier": "DL", "dep_delay": 62}}, {text}]')
        after = _post(system, '{"carrier": "AA", "dep_delay": 63}')
        found: list[Any] = []
        while len(found) < 2:
            came = listener.receive(EVENT_TIMEOUT_MS)
            assert came is not None
            found += came.column("carrier").to_pylist()

    assert before.ok
    assert after.ok
    assert (refused.status_code, broken.status_code, batch.status_code) == (400, 400, 400)
    assert refused.json()["details"][0]["attribute"] == attribute
    assert batch.json()["details"][0]["index"] == 1, "the second event of the body is at fault"
    assert found == ["B6", "AA"], "a body is taken as a whole or not at all"


def test_an_unknown_stream_is_refused_with_a_hint(system: LocalSystem) -> None:
    deploy_late(system)

    answer = requests.post(f"{system.worker_http}/events/Departure", data="{}", timeout=10)

    assert answer.status_code == 404
    assert answer.json()["code"] == "unknown-stream"
    assert "Departures" in answer.json()["message"]
    assert_events_flow(system)


def test_a_second_plan_of_the_same_name_is_refused_and_the_first_runs_on(system: LocalSystem) -> None:
    deploy_late(system)
    other = TEXT.replace("> 60", "> 90")

    answer = requests.post(f"{system.client.url}/api/v1/plans", data=other.encode(), timeout=10)

    assert answer.status_code == 409
    assert answer.json()["code"] == "plan-exists"
    assert PLAN in answer.json()["message"]
    assert system.client.plan(PLAN)["text"] == TEXT
    assert_events_flow(system)


def test_a_replaced_plan_runs_with_its_new_text(system: LocalSystem) -> None:
    deploy_late(system)
    epoch = system.client.plan(PLAN)["epoch"]

    system.client.deploy(TEXT.replace("> 60", "> 60 and dep_delay < 1000"), replace=True)
    status_until(system, is_whole, CONNECT_TIMEOUT_S)

    assert system.client.plan(PLAN)["epoch"] == epoch + 1
    assert_events_flow(system)


def test_a_plan_with_errors_is_refused_with_all_of_them_and_deploys_nothing(system: LocalSystem) -> None:
    deploy_late(system)
    wrong = (
        TEXT.replace(PLAN, "Wrong")
        .replace("dep_delay > 60", "dep_delai > 60")
        .replace("select carrier", "select cariere")
    )

    answer = requests.post(f"{system.client.url}/api/v1/plans", data=wrong.encode(), timeout=10)

    assert answer.status_code == 422
    problems = answer.json()["details"]["problems"]
    assert {(problem["line"], problem["hint"]) for problem in problems} >= {
        (10, "did you mean 'dep_delay'?"),
        (11, "did you mean 'carrier'?"),
    }, json.dumps(problems, indent=1)
    assert [plan["plan"] for plan in system.client.plans()] == [PLAN]
    assert_events_flow(system)


def _post(system: LocalSystem, body: str) -> requests.Response:
    return requests.post(f"{system.worker_http}/events/{PLAN}/Departures", data=body.encode(), timeout=10,
                         headers={"Content-Type": "application/json"})  # fmt: skip
