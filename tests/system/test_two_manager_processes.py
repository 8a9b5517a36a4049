"""Two managers, a driver with Spark and a worker as processes: the leader is killed and hung under load."""

from __future__ import annotations

import signal
from typing import Any

import pytest
import requests
from late_plan import PLAN, TEXT
from two_managers import Flow, ManagerPair, steady_flow

from cep_cli.plan_commands.plans import wait_until_connected

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

TAKES_OVER_S = 4.0
KNOWS_ALL_S = 10.0
LONGEST_PAUSE_S = 1.0
SECOND = TEXT.replace(PLAN, "Second")


@pytest.fixture
def pair(manager_pair: ManagerPair) -> ManagerPair:
    return manager_pair


def work_of(pair: ManagerPair) -> Any:
    """What must not change when a manager does: epoch, restarts, and the processes that do the work."""
    plan = pair.client.plan(PLAN)
    tasks = [(one["epoch"], one["process_id"]) for one in pair.client.cluster()["tasks"] if one["plan"] == PLAN]
    return plan["epoch"], plan["status"]["topology"]["restarts"], tasks


def is_whole(pair: ManagerPair, plan: str = PLAN) -> bool:
    status = pair.client.plan(plan)["status"]
    return bool(status["topology"]["state"] == "active" and status["connected"])


def roles(pair: ManagerPair) -> dict[str, str]:
    """What the leader says of each manager."""
    return {one["http_address"]: one["role"] for one in pair.client.cluster()["managers"]}


def other_than(manager: str) -> str:
    return "two" if manager == "one" else "one"


def asked_to_undeploy(manager: str, pair: ManagerPair) -> requests.Response:
    """What the manager says to an order for the leader."""
    return requests.delete(f"{pair.url(manager)}/api/v1/plans/Second", timeout=5, allow_redirects=False)


def tell(text: str, flow: Flow) -> None:
    print(f"\n{text}; longest pause of the flow {flow.longest_pause_s * 1_000:.0f} ms")  # noqa: T201 - what was measured


def test_a_leader_that_is_killed_under_load_is_followed_and_nothing_that_runs_notices(pair: ManagerPair) -> None:
    leader, before = pair.leader(), work_of(pair)
    heir = other_than(leader)
    with steady_flow(pair) as flow:
        pair.client.deploy(SECOND, replace=False)
        pair.signal_manager(leader, signal.SIGKILL)
        _, led_s = pair.until(lambda: pair.leads(heir), 10.0)
        assert [plan["plan"] for plan in pair.client.plans()] == [PLAN, "Second"], "what was deployed last is known"
        _, whole_s = pair.until(lambda: is_whole(pair), KNOWS_ALL_S)
        after = work_of(pair)
        wait_until_connected(pair.client, "Second", 60.0)
    tell(f"manager killed: {heir} leads after {led_s:.2f} s, knows all after {led_s + whole_s:.2f} s", flow)
    flow.assert_whole()
    assert after == before
    assert led_s < TAKES_OVER_S
    assert flow.longest_pause_s < LONGEST_PAUSE_S
    pair.start_manager(leader)
    assert (pair.leads(leader), pair.leads(heir)) == (False, True), "a former leader comes back as a standby"
    pair.client.undeploy("Second")
    pair.until(lambda: [plan["plan"] for plan in pair.client.plans()] == [PLAN], 30.0)


def test_a_leader_that_hangs_is_followed_and_does_no_harm_when_it_wakes(pair: ManagerPair) -> None:
    leader, before = pair.leader(), work_of(pair)
    heir = other_than(leader)
    with steady_flow(pair) as flow:
        pair.signal_manager(leader, signal.SIGSTOP)
        _, led_s = pair.until(lambda: pair.leads(heir), 10.0)
        _, whole_s = pair.until(lambda: is_whole(pair), KNOWS_ALL_S)
        pair.client.deploy(SECOND, replace=False)
        wait_until_connected(pair.client, "Second", 60.0)

        pair.signal_manager(leader, signal.SIGCONT)
        pair.until(lambda: pair.leads(leader) is False, 5.0)
        pair.until(lambda: asked_to_undeploy(leader, pair).status_code == 307, 5.0)
        answer = asked_to_undeploy(leader, pair)
        shown = requests.get(f"{pair.url(leader)}/", timeout=5)
        both = {pair.url(heir): "leader", pair.url(leader): "standby"}
        pair.until(lambda: roles(pair) == both, 5.0)
        after = work_of(pair)
        assert is_whole(pair, "Second")
    tell(f"manager hung: {heir} leads after {led_s:.2f} s, knows all after {led_s + whole_s:.2f} s", flow)
    flow.assert_whole()
    assert after == before
    assert led_s < TAKES_OVER_S
    assert flow.longest_pause_s < LONGEST_PAUSE_S
    assert "resigned token=" in pair.log(leader)
    assert answer.headers["Location"] == f"{pair.url(heir)}/api/v1/plans/Second"
    assert shown.url == f"{pair.url(heir)}/", "its console leads to the leader's"
    for manager in ("one", "two"):
        assert "Traceback" not in pair.log(manager)
