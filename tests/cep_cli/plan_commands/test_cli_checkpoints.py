"""What the commands on checkpoints and savepoints ask of the manager, and what they say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

import cep_cli.plan_commands.checkpoints
from cep_cli.main import main
from cep_common.web.client import Answer, WebClient

STORED = {
    "name": "three", "state": "stored", "checkpoint": 7, "taken_ms": 1_767_225_600_000, "size_bytes": 13_865,
    "error": "", "unreadable": "",
}  # fmt: skip
TAKING = {**STORED, "state": "taking", "checkpoint": 0, "taken_ms": 0, "size_bytes": 0}
FAILED = {**TAKING, "state": "failed", "error": "task 1: No space left on device"}


class FakeManager:
    """Tells of `savepoints` as they are at each look, the last of them forever."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bytes | None]] = []
        self.savepoints: list[list[dict[str, Any]]] = [[]]
        self.checkpoints: dict[str, Any] = {}

    def request(self, method: str, url: str, params: dict[str, str], data: bytes | None, **_: Any) -> Answer:
        path = url.partition("/api/v1")[2]
        if method != "GET":
            self.asked.append((method, path, data))
        body: Any = {"message": "done", **TAKING}
        if method == "GET" and path.endswith("/savepoints"):
            body = {"savepoints": self.savepoints[0]}
            self.savepoints = self.savepoints[1:] or self.savepoints
        elif method == "GET":
            body = self.checkpoints
        return Answer(200, {}, "", json.dumps(body).encode())


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> FakeManager:
    made = FakeManager()
    monkeypatch.setattr(WebClient, "request", staticmethod(made.request))
    monkeypatch.setattr(cep_cli.plan_commands.checkpoints, "POLL_S", 0.0)
    return made


def cep(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_a_savepoint_is_waited_for_also_when_it_takes_the_place_of_another(manager: FakeManager) -> None:
    before = {**STORED, "checkpoint": 3}
    manager.savepoints = [[before], [before], [TAKING], [STORED]]
    result = cep("savepoint", "P", "--name", "three")
    assert (result.exit_code, manager.asked) == (0, [("POST", "/plans/P/savepoints", b'{"name":"three"}')])
    assert "P: savepoint three" in result.output
    assert "checkpoint 7  13.5 KiB" in result.output


def test_a_savepoint_that_fails_or_does_not_come_says_so(manager: FakeManager) -> None:
    manager.savepoints = [[], [TAKING], [FAILED]]
    result = cep("savepoint", "P", "--name", "three")
    assert (result.exit_code, "task 1: No space left on device" in result.output) == (1, True)
    manager.savepoints = [[], [TAKING]]
    result = cep("savepoint", "P", "--name", "three", "--within", "0")
    assert (result.exit_code, "was not complete within 0 s" in result.output) == (1, True)


def test_savepoints_are_listed_and_deleted(manager: FakeManager) -> None:
    manager.savepoints = [[STORED, FAILED]]
    listed = cep("savepoints", "P").output
    assert "three  2026-01-01" in listed
    assert "three  failed  task 1" in listed
    manager.savepoints = [[STORED], []]
    assert "savepoint three was deleted" in cep("savepoints", "P", "--delete", "three").output
    assert manager.asked == [("DELETE", "/plans/P/savepoints/three", None)]
    manager.savepoints = [[{**STORED, "error": "not deleted: P was started from three"}]]
    kept = cep("savepoints", "P", "--delete", "three")
    assert (kept.exit_code, "P was started from three" in kept.output) == (1, True)


def test_checkpoints_are_shown_with_sizes_and_failures(manager: FakeManager) -> None:
    taken = {
        "checkpoint": 11, "state": "complete", "began_ms": 1_767_225_600_000, "duration_ms": 102, "size_bytes": 2_048,
        "stored_bytes": 512, "alignment_ms": 2, "name": "three", "error": "",
    }  # fmt: skip
    abandoned = {**taken, "checkpoint": 10, "state": "abandoned", "error": "missing: 1", "name": ""}
    failed = {**taken, "checkpoint": 12, "state": "failed", "error": "the store is full", "name": ""}
    manager.checkpoints = {
        "epoch": 4, "attempt": 1, "begun_from": 3, "checkpoints": [abandoned, taken, failed], "kept_savepoint": "",
    }  # fmt: skip
    shown = cep("checkpoints", "P").output.splitlines()
    assert shown[0] == "P: epoch 4, restarted 1 times, started from checkpoint 3"
    assert shown[1].endswith("missing: 1")
    assert shown[2].endswith("102 ms  2.0 KiB, 512 B of it new  alignment 2 ms  savepoint three")
    assert shown[3].endswith("the store is full")
    manager.checkpoints |= {"begun_from": 0, "kept_savepoint": "former-9"}
    assert cep("checkpoints", "P").output.splitlines()[1].endswith("the newest is savepoint former-9")
    assert "done" in cep("checkpoints", "P", "--clear").output
    assert manager.asked == [("DELETE", "/plans/P/checkpoints", None)]
