"""`cep exceptions` and `cep workers`: what the manager tells, in lines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cep_cli.main import main
from cep_cli.monitor.health import MOST_ERRORS
from cep_common.web.client import Answer, WebClient

PLACE = {"instance": "storms#0", "host": "10.0.0.2", "process_id": 200, "first_ms": 0, "last_ms": 0, "count": 3}
ERROR = {
    "id": "1", "kind": "failure", "plan": "Storms", "tenant": -1234, "component": "storms", "code": "ValueError",
    "text": "no such thing", "traceback": "Traceback:\n  line 1", "first_ms": 1_767_225_600_000,
    "last_ms": 1_767_225_600_000, "count": 3, "places": [PLACE],
}  # fmt: skip
WORKER = {
    "worker": "worker-1", "state": "live", "host": "10.0.0.3", "process_id": 300, "events_in_per_s": 1_000.4,
    "events_out_per_s": 10.0, "waiting_events": 3, "wal_bytes": 1_048_576, "prepared_results": 0,
    "memory_bytes": 104_857_600, "errors": 14,
    "plans": [{
        "plan": "Storms", "inflow": [{"connected": True}, {"connected": False}], "publishers": [{}],
        "write_ahead_logs": [{"stream": "In", "problem": "it is full"}],
    }],
    "connectors": [{"direction": "sink", "type": "http", "stream": "Out", "error": "answered 503"}],
}  # fmt: skip


class FakeManager:
    """Answers every call with `body`, and notes what was asked for."""

    def __init__(self) -> None:
        self.body: Any = {}
        self.asked: list[str] = []

    def request(self, method: str, url: str, **_: Any) -> Answer:
        self.asked.append(f"{method} {url.partition('/api/v1')[2]}")
        return Answer(200, {}, "", json.dumps(self.body).encode())


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> FakeManager:
    made = FakeManager()
    monkeypatch.setattr(WebClient, "request", staticmethod(made.request))
    return made


def cep(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_errors_are_shown_with_count_place_and_on_request_traceback(manager: FakeManager) -> None:
    manager.body = {"errors": [ERROR]}
    first, second = cep("exceptions", "Storms").output.splitlines()
    assert first.endswith("3 ×  failure  Storms  ValueError  storms#0 10.0.0.2")
    assert second == "    no such thing"
    assert "    |   line 1" in cep("exceptions", "--traceback").output
    assert manager.asked == ["GET /plans/Storms/exceptions", "GET /exceptions"]
    assert json.loads(cep("exceptions", "--json").output) == manager.body


def test_what_came_from_outside_does_not_steer_the_terminal(manager: FakeManager) -> None:
    hostile = "\x1b]0;mine\x07\ud800"
    manager.body = {"errors": [{**ERROR, "text": hostile, "traceback": hostile}]}
    shown = cep("exceptions", "--traceback").output
    assert shown.splitlines()[1:] == ["    \\x1b]0;mine\\x07\\ud800", "    | \\x1b]0;mine\\x07\\ud800"]
    connectors = [{**WORKER["connectors"][0], "error": hostile}]
    manager.body = {"workers": [{**WORKER, "host": hostile, "connectors": connectors}]}
    shown = cep("workers").output
    assert shown.count("\\x1b]0;mine\\x07") == 2
    assert "\x1b" not in shown


def test_of_many_errors_the_newest_are_shown_unless_all_are_asked_for(manager: FakeManager) -> None:
    manager.body = {"errors": [ERROR] * (MOST_ERRORS + 5)}
    assert cep("exceptions").output.count("no such thing") == MOST_ERRORS
    assert cep("exceptions", "--all").output.count("no such thing") == MOST_ERRORS + 5
    manager.body = {"errors": []}
    assert cep("exceptions").output == "no errors\n"


def test_workers_are_shown_with_what_passes_and_what_is_wrong(manager: FakeManager) -> None:
    manager.body = {"workers": [WORKER]}
    lines = cep("workers").output.splitlines()
    assert lines[0] == (
        "worker-1  live  10.0.0.3 (process 300)  in 1000/s  out 10/s  waiting 3  log 1.0 MiB  prepared 0  "
        "memory 100.0 MiB  errors 14"
    )
    assert lines[1:] == [
        "    Storms: 1 of 2 inflows, 1 publishers linked",
        "        log of In: it is full",
        "    sink http of Out: answered 503",
    ]
    manager.body = {"workers": []}
    assert cep("workers").output == "no worker is alive\n"
