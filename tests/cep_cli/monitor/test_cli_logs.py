"""What the commands on processes and logs ask of the manager, and what they say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

import cep_cli.monitor.logs
from cep_cli.main import main
from cep_common.web.client import Answer, WebClient


def process(identity: str, kind: str, name: str, live: bool = True) -> dict[str, Any]:
    return {
        "id": identity, "kind": kind, "name": name, "host": "h1", "process_id": 7, "live": live, "readable": True,
        "silent_ms": 4_000,
    }  # fmt: skip


DRIVER = process("driver:d", "driver", "d")
PROCESSES = [DRIVER, process("worker:w1", "worker", "w1"), process("worker:w2", "worker", "w2", live=False)]


def record(sequence: int, text: str, **more: Any) -> dict[str, Any]:
    return {
        "sequence": sequence, "time_ms": 1_767_225_600_123 + sequence, "level": "ERROR", "logger": "x", "text": text,
        "traceback": "", "thread": "", **more,
    }  # fmt: skip


class FakeManager:
    """Gives `pages` out one after the other, then interrupts as Ctrl-C does."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.pages: list[tuple[int, dict[str, Any]]] = []

    def request(self, method: str, url: str, params: dict[str, str], **_: Any) -> Answer:
        path = url.partition("/api/v1")[2]
        if path == "/processes":
            status, body = 200, {"processes": PROCESSES}
        else:
            if not self.pages:
                raise KeyboardInterrupt
            self.asked.append((path, {name: value for name, value in params.items() if name != "tenant"}))
            status, body = self.pages.pop(0)
        return Answer(status, {}, "", json.dumps(body).encode())


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> FakeManager:
    made = FakeManager()
    monkeypatch.setattr(WebClient, "request", staticmethod(made.request))
    monkeypatch.setattr(cep_cli.monitor.logs, "AGAIN_S", 0.0)
    return made


def cep(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def page(*records: dict[str, Any], place: str = "r:1", **more: Any) -> tuple[int, dict[str, Any]]:
    return 200, {"records": records, "next": place, "restarted": False, "lost": 0, **more}


def test_processes_are_listed(manager: FakeManager) -> None:
    assert "worker:w2  h1  process 7  silent for 4 s" in cep("processes").output


def test_a_log_is_printed_with_its_tracebacks(manager: FakeManager) -> None:
    manager.pages = [page(record(1, "it failed", traceback="Traceback\n  there"))]
    result = cep("logs", "w1", "--level", "error", "--grep", "fail")
    assert manager.asked == [
        ("/processes/worker%3Aw1/log", {"level": "ERROR", "contains": "fail", "limit": "200"}),
    ]
    assert ",124 ERROR x it failed\n  Traceback\n    there\n" in result.output
    assert result.exit_code == 0


def test_a_log_does_not_steer_the_terminal(manager: FakeManager) -> None:
    manager.pages = [page(record(1, "\x1b]0;broken\x07\ttext\x9b2J"))]
    output = cep("logs", "w1").output
    assert "x \\x1b]0;broken\\x07\ttext\\x9b2J\n" in output


def test_a_log_is_followed_over_a_silence_and_a_restart(manager: FakeManager) -> None:
    manager.pages = [
        page(record(1, "one"), place="r:1"),
        (504, {"code": "process-silent", "message": "worker w1 did not answer"}),
        page(record(1, "again"), place="s:1", restarted=True, lost=3),
    ]
    result = cep("logs", "worker:w1", "--follow")
    assert [asked["after"] for _, asked in manager.asked[1:]] == ["r:1", "r:1"]
    for said in (
        "one",
        "worker w1 did not answer",
        "worker:w1 was started again",
        "3 records were overwritten",
        "again",
    ):
        assert said in result.output


def test_all_processes_are_searched_and_nothing_is_told_twice(manager: FakeManager) -> None:
    missing = {"answered": False, "problem": "did not answer", "process": DRIVER}
    one, two = record(1, "one", process="worker:w1"), record(2, "two", process="worker:w1")
    manager.pages = [
        (200, {"records": [one], "answers": [missing]}),
        (200, {"records": [one, two], "answers": [missing]}),
    ]
    output = cep("logs", "--plan", "Storms", "-f").output
    assert manager.asked[0] == ("/log", {"level": "DEBUG", "contains": "", "limit": "200", "plan": "Storms"})
    assert [output.count(text) for text in ("x one", "x two", "driver:d did not answer")] == [1, 1, 1]
    assert "ERROR worker:w1 x one" in output


@pytest.mark.parametrize(("name", "said"), [("nobody", "is no process"), ("worker", "is not one process")])
def test_a_process_that_cannot_be_meant_is_refused_with_those_there_are(
    manager: FakeManager, name: str, said: str
) -> None:
    result = cep("logs", name)
    assert result.exit_code == 1
    assert said in result.output
    assert "worker:w1, worker:w2" in result.output


def test_a_configuration_is_shown_with_where_it_comes_from(manager: FakeManager) -> None:
    settings = [
        {"key": "http.port", "value": "1", "origin": "file", "where": "/etc/cep/worker.yaml"},
        {"key": "host", "value": '"h"', "origin": "default", "where": ""},
    ]
    told = {"problem": "", "settings": settings, "process": DRIVER}
    manager.pages = [(200, told), (200, told), (200, {**told, "problem": "did not answer"})]
    assert cep("config", "show", "driver").output == 'http.port: 1  # /etc/cep/worker.yaml\nhost: "h"\n'
    assert cep("config", "show", "d", "--changed").output == "http.port: 1  # /etc/cep/worker.yaml\n"
    refused = cep("config", "show", "d")
    assert (refused.exit_code, "driver:d did not answer" in refused.output) == (1, True)
