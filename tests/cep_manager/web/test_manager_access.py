"""Every call of the manager's HTTP interface is in the table of what it asks for."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from manager_world import FakeView, World, plan
from werkzeug.routing import Rule

from cep_common.clock import ManualClock
from cep_common.ids import PlanKey
from cep_common.security.access import AccessRole, Principal, is_granted
from cep_common.security.config import ServerSecurity
from cep_common.security.tokens import TokenFile
from cep_common.security.web import SENT_BY_SINK, Gate
from cep_manager.monitoring.plan_model import PlanDetails
from cep_manager.web.access import CALLS
from cep_manager.web.app import create_app


def calls_of(rule: Rule) -> list[str]:
    """The rule's calls by their names in the table: one for each action where there are several."""
    actions = re.search(r"any\(([^)]*)\):action", rule.rule)
    return [f"{rule.endpoint}:{action.strip()}" for action in actions[1].split(",")] if actions else [rule.endpoint]


def test_every_call_of_the_manager_asks_for_a_permission() -> None:
    """A new route belongs into `cep_manager/web/access.py`; until it is there only admins can call it."""
    routes = {call for rule in create_app(FakeView(World()), 1_000).url_map.iter_rules() for call in calls_of(rule)}
    assert routes - CALLS.keys() == set()


def test_what_changes_something_is_not_for_viewers() -> None:
    viewer = Principal("v", AccessRole.VIEWER)
    changing = re.compile(r"\W(deploy|replace|undeploy|rename|activate|deactivate|restart|rebalance|trace|untrace|try)")
    changes = [call for call in CALLS if changing.search(call)]
    assert len(changes) > 10
    assert [call for call in changes if is_granted(viewer, CALLS[call])] == []


def test_a_manager_takes_no_requests_of_sinks() -> None:
    client = create_app(FakeView(World()), 100_000).test_client()
    assert client.get("/api/v1/plans").status_code == 200
    refused = client.get("/api/v1/plans", headers={SENT_BY_SINK: "7/P"})
    assert (refused.status_code, (refused.json or {})["code"]) == (403, "sent-by-sink")


TEXT = "@Plan:name('Storms') @sink(type='email', password='hushHush') define stream Alerts (a string);"


class ViewWithSecrets(FakeView):
    def plan(self, key: PlanKey) -> PlanDetails:
        return msgspec.structs.replace(super().plan(key), text=TEXT)

    def query_plan(self, key: PlanKey) -> str:
        return f"<plan>{TEXT}</plan>"


@pytest.mark.parametrize("role", ["sender", "viewer", "operator", "editor"])
def test_passwords_in_plans_are_for_those_who_may_change_these(tmp_path: Path, role: str) -> None:
    sees = role == "editor"
    file = TokenFile(tmp_path / "tokens.json")
    token = file.create("somebody", AccessRole(role), None, 0)
    gate = Gate(ServerSecurity(tokens=str(tmp_path / "tokens.json")), "127.0.0.1", ManualClock(0))
    world = World()
    world.put(plan())
    client = create_app(ViewWithSecrets(world), 100_000, gate).test_client()
    for address in ("/api/v1/plans/Storms", "/api/v1/plans/Storms/query-plan", "/plans/Storms"):
        answer = client.get(address, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 200, address
        text = answer.get_data(as_text=True)
        assert ("hushHush" in text) is sees, address
        assert ("•••" in text or "\\u2022" in text) is not sees, address
