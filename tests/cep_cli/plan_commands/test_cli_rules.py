"""`cep rules`: what it sends, what it says, and how it rolls back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cep_cli.main import main
from cep_common.web.client import Answer, WebClient

COUNTS = {"add": 0, "update": 0, "rename": 0, "restart": 0, "activate": 0, "remove": 0, "keep": 0}
CHANGE = {"message": "P was deployed", "former": "", "epoch": 1, "waiting_events": 0, "waiting_results": 0}


class FakeManager:
    """Keeps the rule set that it is sent; its plans are in `state`."""

    def __init__(self) -> None:
        self.files: list[dict[str, str]] = []
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.topology = {"state": "active", "change": "", "change_error": "", "reason": ""}
        self.refusal: dict[str, Any] | None = None
        self.waiting = 0

    def request(self, method: str, url: str, params: dict[str, str], data: bytes | None, **_: Any) -> Answer:
        path = url.partition("/api/v1")[2]
        self.asked.append((method, path, params))
        if method == "GET" and path == "/plans":
            plans = [{"plan": Path(one["file"]).stem, "status": {"topology": self.topology}} for one in self.files]
            return self._answer(200, {"plans": plans})
        if method == "GET":
            plans = [{"plan": Path(one["file"]).stem, "revision": "r1", **one} for one in self.files]
            unknown = {"code": "unknown-rule-set", "message": "none", "details": {}}
            return self._answer(200, {"plans": plans}) if plans else self._answer(404, unknown)
        if self.refusal is not None:
            return self._answer(422, self.refusal)
        wanted = json.loads(data)["files"] if data else []
        gone = [one for one in self.files if one["file"] not in {new["file"] for new in wanted}]
        removed = gone if params.get("remove", "true") == "true" else []
        changes = [{"plan": Path(one["file"]).stem, "file": one["file"], "action": "add", **CHANGE} for one in wanted]
        changes += [
            {"plan": Path(one["file"]).stem, "file": "", "action": "remove", **CHANGE, "waiting_events": self.waiting}
            for one in removed
        ]
        if params["dry_run"] == "false":
            self.files = [*wanted, *(one for one in gone if one not in removed)]
        counts = {**COUNTS, "add": len(wanted), "remove": len(removed)}
        report = {"rule_set": "rules", "revision": "r2", "dry_run": params["dry_run"] == "true", "applied": True}
        return self._answer(200, {**report, "counts": counts, "changes": changes, "problems": []})

    def _answer(self, status: int, body: dict[str, Any]) -> Answer:
        return Answer(status, {}, "", json.dumps(body).encode())


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> FakeManager:
    made = FakeManager()
    monkeypatch.setattr(WebClient, "request", staticmethod(made.request))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "rules"
    (made / "a").mkdir(parents=True)
    (made / ".git").mkdir()
    (made / ".git" / "Hidden.siddhiql").write_text("no plan of the set")
    (made / "a" / "P.siddhiql").write_text("@Plan:name('P') define stream S (x ${TYPE});")
    (made / "notes.txt").write_text("no plan")
    return made


def rules(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["rules", *map(str, arguments)])


def test_a_folder_is_sent_with_its_paths_and_values(manager: FakeManager, folder: Path) -> None:
    result = rules("deploy", folder, "--set", "TYPE=int")
    assert result.exit_code == 0, result.output
    assert manager.files == [{"file": "a/P.siddhiql", "text": "@Plan:name('P') define stream S (x int);"}]
    assert "1 added" in result.output
    refused = rules("deploy", folder, "--set", "NONE=1")
    assert (refused.exit_code, "NONE" in refused.output) == (2, True)


def test_a_plan_without_a_name_is_called_after_its_file(manager: FakeManager, folder: Path) -> None:
    (folder / "Q.siddhiql").write_text("define stream S (x int);")
    assert rules("deploy", folder, "--set", "TYPE=int").exit_code == 0
    assert "name('Q')" in manager.files[0]["text"]


def test_a_dry_run_says_what_would_be_done(manager: FakeManager, folder: Path) -> None:
    result = rules("deploy", folder, "--set", "TYPE=int", "--dry-run")
    assert manager.files == []
    assert "would be deployed" in result.output
    assert "nothing was changed" in result.output


def test_differences_are_shown_and_nothing_is_changed(manager: FakeManager, folder: Path) -> None:
    result = rules("diff", folder, "--set", "TYPE=int")
    assert (result.exit_code, manager.files) == (0, [])
    assert [params["dry_run"] for method, _, params in manager.asked if method == "PUT"] == ["true"]


def test_problems_are_listed_with_file_and_line(manager: FakeManager, folder: Path) -> None:
    wrong = {"code": "unknown-stream", "message": "stream 'T' is not defined", "hint": "'S'?", "line": 3, "column": 7}
    problem = {"plan": "", "file": "a/P.siddhiql", "code": "plan-invalid", "message": "…", "problems": [wrong]}
    report = {"rule_set": "rules", "problems": [problem]}
    manager.refusal = {"code": "rule-set-refused", "message": "no", "details": {"report": report}}
    result = rules("deploy", folder, "--set", "TYPE=int")
    assert result.exit_code == 1
    assert "a/P.siddhiql:3:7: stream 'T' is not defined [unknown-stream]" in result.output
    assert "nothing was changed, 1 plans have problems" in result.output
    assert json.loads(rules("deploy", folder, "--set", "TYPE=int", "--json").output) == report


def test_what_has_gone_is_removed_after_the_others_run(manager: FakeManager, folder: Path) -> None:
    rules("deploy", folder, "--set", "TYPE=int")
    (folder / "a" / "P.siddhiql").rename(folder / "N.siddhiql")
    manager.asked.clear()
    manager.waiting = 7
    result = rules("deploy", folder, "--set", "TYPE=int", "--wait", 5)
    assert result.exit_code == 0, result.output
    assert [params["remove"] for method, _, params in manager.asked if method == "PUT"] == ["false", "true"]
    assert [one["file"] for one in manager.files] == ["N.siddhiql"]
    assert "1 removed" in result.output
    assert "7 accepted events" in result.output


def test_a_set_is_rolled_back_when_a_plan_does_not_run(manager: FakeManager, folder: Path) -> None:
    rules("deploy", folder, "--set", "TYPE=int")
    before = manager.files
    (folder / "a" / "P.siddhiql").rename(folder / "N.siddhiql")
    manager.topology |= {"state": "failed", "reason": "no such column"}
    result = rules("deploy", folder, "--set", "TYPE=int", "--wait", 5)
    assert result.exit_code == 1
    assert "rolled back: N: no such column" in result.output
    assert manager.files == before


def test_a_new_set_is_removed_when_a_plan_does_not_run_in_time(manager: FakeManager, folder: Path) -> None:
    manager.topology |= {"state": "waiting", "reason": "no slot is free"}
    result = rules("deploy", folder, "--set", "TYPE=int", "--wait", 0.01)
    assert (result.exit_code, manager.files) == (1, [])
    assert "no slot is free" in result.output


def test_removal_is_asked_for_unless_agreed_to(manager: FakeManager, folder: Path) -> None:
    rules("deploy", folder, "--set", "TYPE=int")
    assert rules("remove", folder).exit_code == 1
    assert len(manager.files) == 1
    assert rules("remove", "rules", "--yes").exit_code == 0
    assert manager.files == []
