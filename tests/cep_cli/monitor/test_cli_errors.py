"""What `cep errors` asks of the manager, and what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from cep_cli.main import main
from cep_common.web.client import Answer, WebClient

ENTRY = {
    "id": "a1", "worker": "w", "kind": "sink", "stream": "Out", "sink": "http#2", "query": "", "time_ms": 0,
    "reason": "refused\x1b[A", "events": [{"_timestamp": number, "a": "Ü"} for number in range(5)],
}  # fmt: skip
OF_QUERY = {**ENTRY, "id": "b2", "kind": "stream", "stream": "In", "sink": "", "query": "Ratios", "events": []}
LISTED = {"plan": "P", "tenant": -1234, "found": 9, "entries": [ENTRY, OF_QUERY], "silent": []}
REPLAYED = {
    "plan": "P", "tenant": -1234, "replayed": 2, "events": 7, "refused": [], "under_way": 0, "left": 0, "silent": [],
}  # fmt: skip


class Manager:
    """Answers in turn, the last answer again and again."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answers: list[Any] = [LISTED]

    def request(self, method: str, url: str, data: bytes | None, params: dict[str, str], **_: Any) -> Any:
        self.asked.append((method, url.partition("/api/v1")[2], json.loads(data) if data else None))
        told = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return Answer(200, {}, "", json.dumps(told).encode())


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Manager:
    made = Manager()
    monkeypatch.setattr(WebClient, "request", staticmethod(made.request))
    return made


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["errors", "P", *arguments])


def test_entries_are_shown_with_where_why_and_some_of_their_events(manager: Manager) -> None:
    result = run()
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("a1  ")
    assert "sink http#2 of Out: refused" in lines[0]
    assert "\x1b" not in result.stdout
    assert json.loads(lines[1]) == {"_timestamp": 0, "a": "Ü"}
    assert lines[4] == "  and 2 more events"
    assert "stream In, query Ratios: " in lines[5]
    assert "7 more entries" in result.stderr
    assert manager.asked == [("GET", "/plans/P/errors", None)]


def test_machines_read_the_whole_answer(manager: Manager) -> None:
    assert json.loads(run("--json").stdout) == LISTED


def test_a_plan_without_failed_events_says_so(manager: Manager) -> None:
    manager.answers = [{**LISTED, "found": 0, "entries": []}]
    assert run().stdout == "P: no failed events are stored\n"


def test_entries_are_replayed_by_id(manager: Manager) -> None:
    manager.answers = [REPLAYED]
    result = run("--replay", "a1", "--replay", "b2")
    assert (result.exit_code, result.stdout) == (0, "P: 2 entries replayed (7 events)\n")
    assert manager.asked == [("POST", "/plans/P/errors/replay", {"ids": ["a1", "b2"]})]


def test_all_are_replayed_as_long_as_some_are_left_and_some_are_taken(manager: Manager) -> None:
    manager.answers = [{**REPLAYED, "left": 5}, {**REPLAYED, "left": 3}, {**REPLAYED, "replayed": 0, "events": 0}]
    result = run("--replay-all")
    assert (result.exit_code, result.stdout) == (0, "P: 4 entries replayed (14 events)\n")
    assert [asked[2] for asked in manager.asked] == [{"all": True}] * 3


def test_an_entry_that_stays_is_told_with_the_reason_and_ends_the_command_with_1(manager: Manager) -> None:
    refused = {"id": "b2", "worker": "w", "code": "no-inflow", "reason": "In takes no events from outside"}
    manager.answers = [{**REPLAYED, "replayed": 1, "events": 5, "refused": [refused]}]
    result = run("--replay", "a1", "--replay", "b2")
    assert result.exit_code == 1
    assert "b2 stays: In takes no events from outside [no-inflow]" in result.stderr


def test_an_id_that_there_is_not_is_told_of(manager: Manager) -> None:
    manager.answers = [REPLAYED]
    result = run("--replay", "a1", "--replay", "b2", "--replay", "c3")
    assert result.exit_code == 1
    assert "1 of these ids are not entries of P" in result.stderr
    manager.answers = [{"plan": "P", "tenant": -1234, "discarded": 0, "silent": []}]
    assert run("--discard", "c3").exit_code == 1


def test_a_worker_that_does_not_answer_is_named(manager: Manager) -> None:
    manager.answers = [{**LISTED, "silent": [{"worker": "w2", "problem": "no answer"}]}]
    assert "worker w2 did not answer: no answer" in run().stderr
    manager.answers = [{**REPLAYED, "silent": [{"worker": "w2", "problem": "no answer"}]}]
    assert run("--replay-all").exit_code == 1


def test_entries_are_discarded(manager: Manager) -> None:
    manager.answers = [{"plan": "P", "tenant": -1234, "discarded": 1, "silent": []}]
    assert run("--discard", "a1").stdout == "P: 1 entries discarded\n"
    run("--discard-all")
    assert [asked[1:] for asked in manager.asked] == [
        ("/plans/P/errors/discard", {"ids": ["a1"]}), ("/plans/P/errors/discard", {"all": True})
    ]  # fmt: skip


def test_two_wishes_at_once_are_refused(manager: Manager) -> None:
    assert run("--replay-all", "--discard", "a1").exit_code == 2
    assert manager.asked == []
