"""What a standby manager answers over HTTP, and how the leader shows all managers."""

from __future__ import annotations

import msgspec
import pytest
from flask.testing import FlaskClient
from manager_world import LEADER, FakeView, World

from cep_common.ids import Endpoint
from cep_manager.web.app import create_app

ELSEWHERE = msgspec.structs.replace(
    LEADER, control=Endpoint("10.0.0.6", 8904), http_address="https://10.0.0.6:9080", asked=False
)
HERE = msgspec.structs.replace(LEADER, role="standby", token=0, since_ms=0)


@pytest.fixture
def view() -> FakeView:
    return FakeView(World())


@pytest.fixture
def standby(view: FakeView) -> FlaskClient:
    view.managers = (HERE, ELSEWHERE)
    return create_app(view, 1_000_000).test_client()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/plans?tenant=7"),
        ("POST", "/api/v1/plans?replace=true"),
        ("DELETE", "/api/v1/plans/Storms"),
        ("GET", "/api/v1/nowhere"),
    ],
)
def test_programs_are_sent_to_the_same_address_at_the_leader_with_the_same_method(
    standby: FlaskClient, view: FakeView, method: str, path: str
) -> None:
    answer = standby.open(path, method=method, data="@Plan:name('Storms')")
    assert (answer.status_code, answer.headers["Location"]) == (307, f"https://10.0.0.6:9080{path}")
    assert answer.json == {
        "code": "not-leader",
        "message": "this manager is on standby and has changed nothing; the leader is at https://10.0.0.6:9080",
        "details": {"leader": "https://10.0.0.6:9080"},
    }
    assert view.deployed == view.undeployed == []


@pytest.mark.parametrize(("method", "path"), [("GET", "/cluster/summary?sys=1"), ("POST", "/topology/one/kill/0")])
def test_storms_clients_are_sent_along_and_told_in_their_own_form(standby: FlaskClient, method: str, path: str) -> None:
    answer = standby.open(f"/storm/api/v1{path}", method=method)
    assert (answer.status_code, answer.headers["Location"]) == (307, f"https://10.0.0.6:9080/storm/api/v1{path}")
    assert answer.json == {
        "error": "307 Temporary Redirect",
        "errorMessage": "this manager is on standby and has changed nothing; the leader is at https://10.0.0.6:9080",
    }


def test_readers_of_pages_are_sent_along_too_but_a_form_is_not(standby: FlaskClient, view: FakeView) -> None:
    page = standby.get("/plans/Storms?tenant=7")
    assert (page.status_code, page.headers["Location"]) == (307, "https://10.0.0.6:9080/plans/Storms?tenant=7")
    form = standby.post("/deploy", data={"text": "@Plan:name('Storms')"})
    assert form.status_code == 503
    assert "has changed nothing; the leader is at https://10.0.0.6:9080" in form.text
    fragment = standby.get("/fragments/plans")
    assert (fragment.status_code, "<html" in fragment.text) == (503, False)
    assert view.deployed == []


def test_while_nobody_leads_everyone_is_told_to_ask_again(standby: FlaskClient, view: FakeView) -> None:
    view.managers = (HERE,)
    answer = standby.get("/api/v1/plans")
    assert (answer.status_code, answer.json["code"], answer.headers["Retry-After"]) == (503, "not-leader", "1")
    page = standby.get("/")
    assert (page.status_code, "no manager leads at the moment" in page.text) == (503, True)


def test_health_and_what_pages_are_made_of_do_not_depend_on_who_leads(standby: FlaskClient) -> None:
    assert standby.get("/api/v1/health").status_code == 200
    assert standby.get("/static/console.css").status_code == 200


def test_a_manager_is_ready_when_it_leads_or_knows_who_does(standby: FlaskClient, view: FakeView) -> None:
    assert (standby.get("/health/live").status_code, standby.get("/health/ready").status_code) == (200, 200)
    view.managers = (HERE,)
    answer = standby.get("/health/ready")
    assert (answer.status_code, answer.json) == (503, {"status": "not ready", "reason": "no manager leads yet"})
    view.healthy = False
    assert standby.get("/health/live").status_code == 503


def test_metrics_of_the_system_come_from_the_leader_alone(standby: FlaskClient, view: FakeView) -> None:
    told = standby.get("/metrics").text
    assert "cep_leader_up 0.0" in told
    assert "cep_plans" not in told
    view.managers = (LEADER,)
    told = standby.get("/metrics").text
    assert "cep_leader_up 1.0" in told
    assert "cep_plans 0.0" in told


def test_the_leader_shows_all_managers_and_under_which_token_it_leads(view: FakeView) -> None:
    other = msgspec.structs.replace(HERE, control=Endpoint("10.0.0.6", 8904), asked=False)
    gone = msgspec.structs.replace(other, control=Endpoint("10.0.0.7", 8904), role="silent", silent_ms=12_000)
    view.managers = (LEADER, other, gone)
    leader = create_app(view, 1_000_000).test_client()
    shown = leader.get("/api/v1/cluster").json["managers"]
    assert [(one["control"]["host"], one["role"], one["token"]) for one in shown] == [
        ("127.0.0.1", "leader", 3), ("10.0.0.6", "standby", 0), ("10.0.0.7", "silent", 0),
    ]  # fmt: skip
    page = leader.get("/cluster").text
    for text in (
        "2026-01-01 00:00:00 UTC</time>, token 3",
        "127.0.0.1:8904 (this one)",
        "standby",
        "silent for 12 s",
    ):
        assert text in page


def test_while_nobody_leads_for_want_of_a_database_that_is_said(
    standby: FlaskClient, view: FakeView, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = "the plan store cannot be used: database or disk is full"
    elected = msgspec.structs.replace(view.election(), leads=False, leader=None, problem=full)
    monkeypatch.setattr(view, "election", lambda: elected)
    answer = standby.get("/api/v1/plans")
    assert (answer.status_code, answer.json["code"]) == (503, "plan-store")
    assert full in answer.json["message"]
    assert full in standby.get("/plans").get_data(as_text=True)
