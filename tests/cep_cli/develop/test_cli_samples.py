"""What `cep sample` asks of the manager, and what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

import cep_cli.develop.samples
from cep_cli.main import main
from cep_common.web.client import Answer, WebClient

ORDERS = [{"component": "late", "percent": 5.0, "left_ms": 900}]


def event(number: int) -> dict[str, Any]:
    return {"instance": "late#0", "direction": "out", "stream": "Late", "at_ms": 0, "event": f'{{"delay": {number}}}'}


class FakeManager:
    """Tells of these events, look by look, and then that the order is over."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.looks = [[event(1)], [event(1), event(1), event(2)], [event(2), event(3)]]

    def request(self, method: str, url: str, params: dict[str, str], data: bytes | None, **_: Any) -> Answer:
        path = url.partition("/api/v1")[2]
        if method == "POST":
            self.asked.append((path, json.loads(data or b"")))
            body: Any = {"orders": ORDERS, "events": []}
        else:
            self.asked.append((path, params["component"]))
            body = {"events": self.looks.pop(0), "orders": ORDERS if self.looks else []}
        return Answer(200, {}, "", json.dumps(body).encode())


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> FakeManager:
    made = FakeManager()
    monkeypatch.setattr(WebClient, "request", staticmethod(made.request))
    monkeypatch.setattr(cep_cli.develop.samples, "POLL_S", 0.0)
    return made


def test_each_event_is_said_once_until_the_order_is_over(manager: FakeManager) -> None:
    result = CliRunner().invoke(main, ["sample", "Flights", "--stage", "late", "--percent", "5", "--seconds", "30"])
    assert result.exit_code == 0, result.output
    said = [line.partition(" Late ")[2] for line in result.output.splitlines()]
    assert said == ['{"delay": 1}', '{"delay": 1}', '{"delay": 2}', '{"delay": 3}']
    assert manager.asked[0] == ("/plans/Flights/sample", {"component": "late", "percent": 5.0, "for_s": 30})
    assert manager.asked[1:] == [("/plans/Flights/samples", "late")] * 3


def test_machines_read_a_line_of_json_for_each(manager: FakeManager) -> None:
    result = CliRunner().invoke(main, ["sample", "Flights", "--json"])
    assert [json.loads(line) for line in result.output.splitlines()] == [event(1), event(1), event(2), event(3)]


def test_an_order_is_ended_by_who_gave_it(manager: FakeManager, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cep_cli.develop.samples.time, "sleep", interrupt)
    result = CliRunner().invoke(main, ["sample", "Flights"])
    assert result.exit_code == 0
    assert manager.asked[-1] == ("/plans/Flights/sample", {"component": "", "percent": 0})


def test_a_percentage_that_is_none_is_refused_before_anything_is_asked(manager: FakeManager) -> None:
    assert CliRunner().invoke(main, ["sample", "Flights", "--percent", "0"]).exit_code == 2
    assert manager.asked == []
