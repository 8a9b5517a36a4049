"""`cep overview`: what the manager tells, in lines."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cep_cli.main import main
from cep_common.web.client import Answer, WebClient

METRICS = {"received_per_second": 595.4, "emitted_per_second": 5.2, "p99_ms": 14.26, "waiting_events": 7}
SYSTEM = {"driver": "driver", "driver_missing": "", "slots_total": 8, "slots_free": 5, "workers": 1}
ALERT = {
    "severity": "critical", "code": "plan-failed", "subject": "plan", "name": "Storms", "what": "It does not run: no",
    "advice": "Edit it.", "since_ms": None,
}  # fmt: skip


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a manager answers to everything."""
    body: dict[str, Any] = {"plans": {"active": 2}, "metrics": METRICS, "system": SYSTEM, "alerts": []}

    def request(method: str, url: str, **_: Any) -> Answer:
        assert (method, url.partition("/api/v1")[2]) == ("GET", "/overview")
        return Answer(200, {}, "", json.dumps(body).encode())

    monkeypatch.setattr(WebClient, "request", staticmethod(request))
    return body


def cep(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_all_is_told_in_a_few_lines(told: dict[str, Any]) -> None:
    answer = cep("overview", "--check")
    assert answer.exit_code == 0
    assert answer.output.splitlines() == [
        "events   595/s in, 5/s out, 7 wait, latency p99 14.3 ms",
        "plans    2 active",
        "system   driver driver, 3 of 8 slots used, workers: 1",
        "no alerts",
    ]


def test_findings_follow_and_a_critical_one_fails_a_check(told: dict[str, Any]) -> None:
    told["alerts"] = [ALERT]
    told["system"] = None
    answer = cep("overview")
    assert answer.exit_code == 0
    assert answer.output.splitlines()[-2:] == ["critical plan Storms: It does not run: no", "    Edit it."]
    assert cep("overview", "--check").exit_code == 1
    told["alerts"] = [{**ALERT, "severity": "warning"}]
    assert cep("overview", "--check").exit_code == 0


def test_what_came_from_outside_does_not_steer_the_terminal(told: dict[str, Any]) -> None:
    told["alerts"] = [{**ALERT, "name": "\x1b[2J", "what": "\x9b2J"}]
    assert "critical plan \\x1b[2J: \\x9b2J" in cep("overview").output


def test_programs_get_it_as_it_is(told: dict[str, Any]) -> None:
    assert json.loads(cep("overview", "--json").output) == told
