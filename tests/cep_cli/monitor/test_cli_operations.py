"""`cep operations`: long actions in lines, and waiting for one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cep_cli.main import main
from cep_cli.monitor import operations
from cep_common.web.client import Answer, WebClient

NAME = "rebalance:1767225600000::Storms"
RUNNING = {
    "operation": NAME, "kind": "rebalance", "plan": "Storms", "tenant": -1234, "state": "running",
    "progress": "the driver is starting its tasks", "begun_ms": 1_767_225_600_000, "result": None, "error": None,
}  # fmt: skip
DONE = {**RUNNING, "state": "succeeded", "progress": "every task runs and sends heartbeats"}
FAILED = {**RUNNING, "state": "failed", "error": {"code": "change-failed", "message": "no memory", "details": {}}}


class FakeManager:
    """Tells of the operation as it is at each look, the last of them forever."""

    def __init__(self) -> None:
        self.looks: list[dict[str, Any]] = [RUNNING]
        self.asked: list[str] = []

    def request(self, _method: str, url: str, **_: Any) -> Answer:
        self.asked.append(url.partition("/api/v1")[2])
        told, self.looks = self.looks[0], self.looks[1:] or self.looks
        return Answer(200, {}, "", json.dumps({"operations": [told]} if url.endswith("/operations") else told).encode())


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> FakeManager:
    made = FakeManager()
    monkeypatch.setattr(WebClient, "request", staticmethod(made.request))
    monkeypatch.setattr(operations, "POLL_S", 0.0)
    return made


def cep(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_operations_are_listed_with_state_and_progress(manager: FakeManager) -> None:
    told = cep("operations").output
    assert "running     rebalance of Storms: the driver is starting its tasks" in told
    assert NAME in told


def test_one_is_waited_for(manager: FakeManager) -> None:
    manager.looks = [RUNNING, RUNNING, DONE]
    result = cep("operations", NAME, "--wait", "60")
    assert (result.exit_code, len(manager.asked)) == (0, 3)
    assert manager.asked[0] == "/operations/rebalance%3A1767225600000%3A%3AStorms"
    assert "succeeded" in result.output


def test_one_that_failed_or_takes_too_long_is_a_failure(manager: FakeManager) -> None:
    manager.looks = [FAILED]
    result = cep("operations", NAME)
    assert (result.exit_code, "no memory" in result.output) == (1, True)
    manager.looks = [RUNNING]
    result = cep("operations", NAME, "--wait", "0.01")
    assert (result.exit_code, "not ended within" in result.output) == (1, True)
