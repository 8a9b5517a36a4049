"""What the commands on plans ask of the manager, and what they say of its answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cep_cli.main import main
from cep_common.web.client import Answer, WebClient

OUTCOME = {
    "plan": "P",
    "tenant": 7,
    "topology": "P[7]",
    "epoch": 2,
    "created": False,
    "changed": True,
    "message": "done",
}


class FakeManager:
    """Keeps what it is asked; answers commands with `OUTCOME`, and reads with a plan in `state`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes | None]] = []
        self.topology: dict[str, Any] = {
            "state": "active",
            "change_error": "",
            "state_left": [],
            "reason": "",
            "intake": True,
        }

    def request(self, method: str, url: str, params: dict[str, str], data: bytes | None, **_: Any) -> Answer:
        self.asked.append((method, url.partition("/api/v1")[2], params, data))
        body = {"status": {"topology": self.topology, "connected": True}} if method == "GET" else OUTCOME
        return Answer(200, {}, "", json.dumps(body).encode())


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> FakeManager:
    made = FakeManager()
    monkeypatch.setattr(WebClient, "request", staticmethod(made.request))
    return made


def cep(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--tenant", "7"])


def test_a_plan_is_sent_with_the_values_of_its_variables(manager: FakeManager, tmp_path: Path) -> None:
    file = tmp_path / "plan.siddhiql"
    file.write_text("-- ${FIRST} ${SECOND}", encoding="utf-8")
    assert cep("deploy", str(file), "--set", "FIRST=1").exit_code == 0
    assert manager.asked[-1][3] == b"-- 1 ${SECOND}"


@pytest.mark.parametrize(
    ("command", "path", "body"),
    [
        (("activate", "P"), "/plans/P/activate", None),
        (("deactivate", "P"), "/plans/P/deactivate", None),
        (("restart", "P"), "/plans/P/restart", None),
        (("rebalance", "P", "--workers", "3"), "/plans/P/rebalance", b'{"workers":3}'),
        (("rebalance", "P", "--host", "own"), "/plans/P/rebalance", b'{"host":"own"}'),
        (
            ("rebalance", "P", "--workers", "1", "--host", "shared"),
            "/plans/P/rebalance",
            b'{"workers":1,"host":"shared"}',
        ),
        (("rename", "P", "a b"), "/plans/P/rename", b'{"name":"a b"}'),
        (("restart", "a b"), "/plans/a%20b/restart", None),
    ],
)
def test_each_command_is_one_request(
    manager: FakeManager, command: tuple[str, ...], path: str, body: bytes | None
) -> None:
    result = cep(*command)
    assert (result.exit_code, result.stdout) == (0, "P[7]: done\n")
    assert manager.asked == [("POST", path, {"tenant": "7"}, body)]
    assert json.loads(cep(*command, "--json").stdout) == OUTCOME


def test_a_file_is_deployed_in_place_of_a_plan_of_another_name(manager: FakeManager, tmp_path: Path) -> None:
    file = tmp_path / "new.siddhiql"
    file.write_text("text", encoding="utf-8")
    assert cep("deploy", str(file), "--rename", "Old").exit_code == 0
    assert manager.asked == [("PUT", "/plans/Old", {"tenant": "7", "rename": "true"}, b"text")]


def test_waiting_ends_when_the_change_has_come_about(manager: FakeManager) -> None:
    manager.topology["state"] = "inactive"
    assert cep("rebalance", "P", "--workers", "3", "--wait", "5").stdout == "P[7]: done\n"


def test_a_change_that_came_to_nothing_is_a_failure_for_whoever_waited(manager: FakeManager) -> None:
    manager.topology["change_error"] = "it needs 9 slots"
    result = cep("rebalance", "P", "--workers", "9", "--wait", "5")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "cep: P was not changed and runs as before: it needs 9 slots\n"
