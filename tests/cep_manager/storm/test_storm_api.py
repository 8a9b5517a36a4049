"""Storm UI's REST API: every answer as it is kept, its operations, and what it refuses."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

import msgspec
import pytest
from flask import g
from flask.testing import FlaskClient
from manager_world import KEY, FakeView, World, plan, task
from storm_calls import CALLS, GOLDEN, PREFIX, client_of, written
from storm_world import ID, running_view

from cep_common.clock import ManualClock
from cep_common.ids import PlanKey
from cep_common.security.access import AccessRole, Principal
from cep_common.security.config import ServerSecurity
from cep_common.security.tokens import TokenFile
from cep_common.security.web import Gate
from cep_manager.errors import ManagerUnavailableError
from cep_manager.monitoring.storm_topology.model import STATUS
from cep_manager.monitoring.storm_topology.texts import plan_of, topology_id, uptime
from cep_manager.plans.state import PlanState
from cep_manager.web.app import create_app
from cep_manager.web.storm_api.kills import Kills


@pytest.fixture(scope="module")
def still() -> FakeView:
    """A system that no test changes."""
    return running_view()


@pytest.fixture
def view() -> FakeView:
    world = World()
    world.active(events=1_000)
    return FakeView(world)


def get(view: FakeView, call: str) -> Any:
    answer = client_of(view).get(PREFIX + call)
    assert answer.status_code == 200, answer.text
    return answer.get_json()


def identifier(view: FakeView) -> str:
    return str(get(view, "/topology/summary")["topologies"][0]["id"])


@pytest.mark.parametrize("name", CALLS)
def test_every_answer_is_as_it_is_kept(still: FakeView, name: str) -> None:
    answer = client_of(still).get(PREFIX + CALLS[name])
    assert answer.status_code == 200
    assert answer.content_type == "application/json;charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache, no-store"
    assert written(answer.get_json()) == (GOLDEN / f"{name}.json").read_text(encoding="utf-8")
    assert "error" not in answer.get_json()


def test_every_kept_answer_is_of_a_call() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == CALLS.keys()


# ---- names and texts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Storms", "my-plan", "a b/c", "Zürich~100%", "x-1-2", "名前", "a.b_c"])
@pytest.mark.parametrize("tenant", [-1234, 0, 7, 1234, -7])
def test_the_id_of_a_topology_needs_no_encoding_and_leads_back_to_its_plan(name: str, tenant: int) -> None:
    made = topology_id(PlanKey(tenant, name), 1_767_225_600_123)
    assert made.isascii()
    assert not set(made) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~")
    assert plan_of(made) == (tenant, name)


def test_the_id_stays_as_long_as_the_plan_is_deployed(view: FakeView) -> None:
    before = identifier(view)
    view.world.instructions += view.world.plane.restart_plan(KEY, 2, view.world.now_ms)
    view.world.hear(task(epoch=2, process_id=500))
    assert identifier(view) == before


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (5, "5s"), (365, "6m 5s"), (3_600, "1h 0m 0s"), (86_400, "1d 0h 0m 0s"), (200_000, "2d 7h 33m 20s")],
)
def test_lengths_of_time_are_written_as_storm_writes_them(seconds: int, text: str) -> None:
    assert uptime(seconds) == text


# ---- windows --------------------------------------------------------------------------------------------------------


def test_a_window_that_is_not_kept_is_answered_with_zeros(still: FakeView) -> None:
    page = get(still, f"/topology/{ID}?window=60")
    assert (page["window"], page["windowHint"]) == ("60", "1m 0s")
    assert {(bolt["executed"], bolt["executeLatency"]) for bolt in page["bolts"]} == {(0, "0")}
    assert [row["window"] for row in page["topologyStats"]] == ["600", "10800", "86400", ":all-time"]
    assert page["topologyStats"][0]["emitted"] > 0


def test_all_time_is_the_window_when_none_is_asked_for(still: FakeView) -> None:
    implied, named = get(still, f"/topology/{ID}"), get(still, f"/topology/{ID}?window=:all-time")
    assert implied == named
    assert implied["windowHint"] == "All time"


@pytest.mark.parametrize("flag", ["0", "1", "true", "false", "True"])
def test_every_spelling_of_the_system_flag_is_taken(still: FakeView, flag: str) -> None:
    assert get(still, f"/topology/{ID}?sys={flag}") == get(still, f"/topology/{ID}")


# ---- states ---------------------------------------------------------------------------------------------------------


def test_what_does_not_run_is_inactive_and_says_what_it_is(view: FakeView) -> None:
    view.world.tick(after_ms=10_000)
    (found,) = get(view, "/topology/summary")["topologies"]
    assert (found["status"], found["workersTotal"]) == ("INACTIVE", 0)
    assert found["schedulerInfo"].startswith("waiting: the driver")
    assert get(view, "/nimbus/summary")["nimbuses"][0]["status"] == "Dead"
    assert get(view, "/supervisor/summary")["supervisors"] == []


def test_a_system_without_a_driver_still_names_a_nimbus() -> None:
    (nimbus,) = get(FakeView(World()), "/nimbus/summary")["nimbuses"]
    assert nimbus["status"] == "Offline"
    assert get(FakeView(World()), "/cluster/summary")["slotsTotal"] == 0


def test_only_states_that_storm_has_are_told() -> None:
    assert set(STATUS.values()) <= {"ACTIVE", "INACTIVE", "KILLED", "REBALANCING"}
    assert {state for state in PlanState if STATUS.get(state) == "ACTIVE"} == {PlanState.ACTIVE, PlanState.DEGRADED}


def test_a_plan_that_cannot_be_compiled_any_more_is_listed_without_components(view: FakeView) -> None:
    view.world.put(plan(key=PlanKey(-1234, "Broken"), compiled="the stored text can no longer be compiled"))
    broken = next(one for one in get(view, "/topology/summary")["topologies"] if one["name"] == "Broken[-1234]")
    page = get(view, f"/topology/{broken['id']}")
    assert (page["spouts"], page["bolts"], page["status"]) == ([], [], "INACTIVE")
    assert get(view, f"/topology/{broken['id']}/visualization") == {}


# ---- operations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "body", "operation", "done"),
    [
        ("activate", None, "activate", ["activate"]),
        ("deactivate", None, "deactivate", ["deactivate"]),
        ("rebalance/30", {"rebalanceOptions": {"numWorkers": 2}}, "rebalance", ["rebalance to 2"]),
        ("rebalance/0", None, "rebalance", []),
        ("rebalance/0", {"rebalanceOptions": {}}, "rebalance", []),
        ("debug/enable/10", None, "debug/enable", ["trace"]),
        ("debug/disable/0", None, "debug/disable", ["untrace"]),
    ],
)
def test_operations_are_commands_to_the_manager(
    view: FakeView, call: str, body: Any, operation: str, done: list[str]
) -> None:
    answer = client_of(view).post(f"{PREFIX}/topology/{identifier(view)}/{call}", json=body)
    assert answer.status_code == 200
    assert answer.get_json() == {
        "topologyOperation": operation,
        "topologyId": identifier(view),
        "status": "success",
    }
    assert view.done == [(KEY, what) for what in done]


def test_a_kill_without_a_wait_undeploys_at_once(view: FakeView) -> None:
    answer = client_of(view).post(f"{PREFIX}/topology/{identifier(view)}/kill/0")
    assert answer.get_json()["topologyOperation"] == "kill"
    assert view.undeployed == [KEY]


def test_a_kill_with_a_wait_takes_no_more_events_and_is_told_until_it_comes(view: FakeView) -> None:
    name = identifier(view)
    client = client_of(view)
    assert client.post(f"{PREFIX}/topology/{name}/kill/3600").status_code == 200
    assert (view.done, view.undeployed) == ([(KEY, "deactivate")], [])
    assert client.get(f"{PREFIX}/topology/{name}").get_json()["status"] == "KILLED"
    assert client.post(f"{PREFIX}/topology/{name}/kill/0").status_code == 200
    assert view.undeployed == [KEY]
    assert client.get(f"{PREFIX}/topology/{name}").get_json()["status"] == "ACTIVE"  # as far as the fake goes


def test_a_kill_comes_when_its_wait_is_over_and_the_last_one_asked_for_counts() -> None:
    killed: queue.SimpleQueue[str] = queue.SimpleQueue()
    kills = Kills(killed.put)
    kills.after("one", 3_600)
    kills.after("one", 0)
    assert killed.get(timeout=10) == "one"
    assert killed.empty()


def test_a_rebalance_cannot_set_the_parallelism_of_stages(view: FakeView) -> None:
    body = {"rebalanceOptions": {"executors": {"lateness": 4}}}
    answer = client_of(view).post(f"{PREFIX}/topology/{identifier(view)}/rebalance/0", json=body)
    assert answer.status_code == 500
    assert "@dist(parallel=" in answer.get_json()["errorMessage"]
    assert view.done == []


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "call", "status", "error", "message"),
    [
        ("GET", "/topology/None-1234-1", 500, "500 Internal Server Error", "NotAliveException(msg:None-1234-1 is not"),
        ("GET", "/topology/nonsense", 500, "500 Internal Server Error", "NotAliveException(msg:nonsense is not"),
        ("GET", "/topology/Storms-1234-1", 500, "500 Internal Server Error", "NotAliveException"),
        ("POST", "/topology/Storms-1234-1/kill/0", 500, "500 Internal Server Error", "NotAliveException"),
        ("GET", f"/topology/{ID}/component/None", 500, "500 Internal Server Error", "has no component None"),
        ("GET", f"/topology/{ID}?window=soon", 500, "500 Internal Server Error", "window must be seconds or :all-time"),
        ("GET", f"/topology/{ID}?window=-5", 500, "500 Internal Server Error", "window must be"),
        ("GET", f"/topology/{ID}?sys=perhaps", 500, "500 Internal Server Error", "sys must be true or false"),
        ("GET", "/cluster/summary?callback=show", 500, "500 Internal Server Error", "only JSON"),
        ("POST", f"/topology/{ID}/kill/soon", 500, "500 Internal Server Error", "must be a whole number"),
        ("POST", f"/topology/{ID}/kill/86401", 500, "500 Internal Server Error", "at most 86400 seconds"),
        ("POST", f"/topology/{ID}/logconfig", 500, "500 Internal Server Error", "each process's configuration"),
        ("GET", f"/topology/{ID}/profiling/start/h:1/5", 500, "500 Internal Server Error", "cannot be profiled"),
        ("POST", f"/topology/{ID}/component/storms/debug/enable/10", 500, "500 Internal Server Error", "not at storms"),
        ("GET", "/nothing", 404, "404 Not Found", "no such call: GET /storm/api/v1/nothing"),
        ("GET", f"/topology/{ID}/activate", 404, "404 Not Found", "no such call"),
    ],
)
def test_refusals_have_storms_form(
    still: FakeView, method: str, call: str, status: int, error: str, message: str
) -> None:
    answer = client_of(still).open(PREFIX + call, method=method)
    assert answer.status_code == status
    assert answer.get_json().keys() == {"error", "errorMessage"}
    assert answer.get_json()["error"] == error
    assert message in answer.get_json()["errorMessage"]


@pytest.mark.parametrize("body", [b"{", b'{"rebalanceOptions": {"numWorkers": "two"}}', b"\xff"])
def test_a_body_that_cannot_be_read_is_refused(still: FakeView, body: bytes) -> None:
    answer = client_of(still).post(f"{PREFIX}/topology/{ID}/rebalance/0", data=body)
    assert (answer.status_code, "numWorkers" in answer.get_json()["errorMessage"]) == (500, True)


@pytest.mark.parametrize("failure", [ManagerUnavailableError("the control loop does not run"), ValueError("a defect")])
def test_what_fails_is_told_in_storms_form(failure: Exception) -> None:
    view = FakeView(World())
    view.failure = failure
    answer = client_of(view).get(f"{PREFIX}/cluster/summary")
    assert (answer.status_code, answer.get_json()["error"]) == (500, "500 Internal Server Error")


# ---- tenants --------------------------------------------------------------------------------------------------------


def visible(client: FlaskClient, **arguments: Any) -> list[str]:
    answer = client.get(f"{PREFIX}/topology/summary", **arguments)
    return [found["name"] for found in answer.get_json()["topologies"]]


def test_topologies_of_all_tenants_are_told_unless_one_is_asked_for(view: FakeView) -> None:
    view.world.put(plan(key=PlanKey(7, "Theirs")))
    client = client_of(view)
    assert visible(client) == ["Storms[-1234]", "Theirs[7]"]
    assert visible(client, query_string={"tenant": "7"}) == ["Theirs[7]"]
    assert visible(client, headers={"tenant": "-1234"}) == ["Storms[-1234]"]
    assert [one["owner"] for one in get(view, "/owner-resources")["owners"]] == ["-1234", "7"]
    assert get(view, "/owner-resources/8")["totalTopologies"] == 0


def test_who_belongs_to_a_tenant_sees_and_kills_its_topologies_alone(view: FakeView) -> None:
    view.world.put(plan(key=PlanKey(7, "Theirs")))
    theirs, ours = (one["id"] for one in reversed(get(view, "/topology/summary")["topologies"]))
    client = client_of(view)
    client.application.before_request(
        lambda: setattr(g, "principal", Principal("one of theirs", AccessRole.EDITOR, tenant=7))
    )
    assert visible(client) == ["Theirs[7]"]
    assert client.get(f"{PREFIX}/topology/{ours}").status_code == 500
    assert client.post(f"{PREFIX}/topology/{ours}/kill/0").status_code == 500
    assert view.undeployed == []
    assert client.post(f"{PREFIX}/topology/{theirs}/kill/0").status_code == 200
    assert view.undeployed == [PlanKey(7, "Theirs")]


def test_names_that_users_choose_are_told_as_they_are() -> None:
    world = World()
    world.put(plan(key=PlanKey(-1234, "<script>alert(1)</script>")))
    (found,) = get(FakeView(world), "/topology/summary")["topologies"]
    assert found["name"] == "<script>alert(1)</script>[-1234]"
    assert "<" not in found["id"]
    assert get(FakeView(world), f"/topology/{found['id']}")["name"] == found["name"]


def test_a_stage_in_parallel_is_as_busy_as_its_busiest_instance(still: FakeView) -> None:
    page = get(still, f"/topology/{ID}/component/lateness?window=600")
    assert [one["capacity"] for one in page["executorStats"]] == ["0.120", "0.000"]
    assert {row["capacity"] for row in page["boltStats"]} == {"0.120"}


def test_figures_outlive_the_process_that_counted_them(still: FakeView) -> None:
    before = get(still, f"/topology/{ID}")["topologyStats"][3]["emitted"]
    view = running_view()
    again = msgspec.structs.replace(task(events=200), process_id=999, up_ms=2_000)
    view.world.hear(again)
    assert get(view, f"/topology/{ID}")["topologyStats"][3]["emitted"] > before


# ---- beside the manager's other pages -------------------------------------------------------------------------------


def test_who_shows_no_token_is_refused_in_storms_form_and_a_token_may_be_the_password(
    view: FakeView, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens.json"
    token = TokenFile(tokens).create("zabbix", AccessRole.VIEWER, None, 0)
    gate = Gate(ServerSecurity(tokens=str(tokens)), "127.0.0.1", ManualClock())
    client = create_app(view, 1_000, gate).test_client()
    refused = client.get(f"{PREFIX}/cluster/summary")
    assert (refused.status_code, refused.get_json()["error"]) == (401, "401 Unauthorized")
    assert "Basic" in refused.headers["WWW-Authenticate"]
    assert client.get(f"{PREFIX}/cluster/summary", auth=("zabbix", token)).status_code == 200
    refused = client.post(f"{PREFIX}/topology/{ID}/kill/0", auth=("zabbix", token))
    assert (refused.status_code, refused.get_json()["error"]) == (403, "403 Forbidden")


def test_a_page_of_another_site_cannot_kill(view: FakeView) -> None:
    client = create_app(view, 1_000).test_client()
    call = f"{PREFIX}/topology/{identifier(view)}/kill/0"
    refused = client.post(call, headers={"Origin": "http://elsewhere.example"})
    assert (refused.status_code, refused.get_json()["error"]) == (403, "403 Forbidden")
    assert client.post(call).status_code == 200
