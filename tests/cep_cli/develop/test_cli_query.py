"""What `cep query` asks of the manager, and what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from cep_cli.main import main
from cep_common.web.client import Answer, WebClient

ANSWER = {
    "plan": "Flights",
    "tenant": -1234,
    "stage": "late",
    "columns": [{"name": "carrier", "type": "string"}, {"name": "late", "type": "long"}],
    "rows": [["Ü\x1b[A", 7], [None, 3]],
    "found": 9,
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []

    def request(method: str, url: str, data: bytes | None, **_: Any) -> Answer:
        found.append((method, url.partition("/api/v1")[2], json.loads(data or b"")))
        return Answer(200, {}, "", json.dumps(ANSWER).encode())

    monkeypatch.setattr(WebClient, "request", staticmethod(request))
    return found


def test_each_row_is_a_line_that_a_terminal_can_show(asked: list[Any]) -> None:
    result = CliRunner().invoke(main, ["query", "Flights", "from Late select *", "--limit", "2"])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert rows == [{"carrier": "Ü\x1b[A", "late": 7}, {"carrier": None, "late": 3}]
    assert "\x1b" not in result.stdout
    assert "7 more: --limit" in result.stderr
    assert asked == [("POST", "/plans/Flights/query", {"query": "from Late select *", "limit": 2})]


def test_machines_read_the_whole_answer(asked: list[Any]) -> None:
    result = CliRunner().invoke(main, ["query", "Flights", "from Late select *", "--json"])
    assert json.loads(result.stdout) == ANSWER
    assert len(asked) == 1


def test_a_query_that_is_no_text_is_told_of_and_not_sent(asked: list[Any]) -> None:
    result = CliRunner().invoke(main, ["query", "Flights", "from Late on carrier == '\udcff' select *"])
    assert result.exit_code == 2
    assert "QUERY is not text in UTF-8" in result.stderr
    assert asked == []


def test_what_failed_at_no_place_of_the_query_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = {"code": "query-failed", "message": "the query failed: 1 is null", "hint": "", "line": 0, "column": 0}
    refusal = {"code": "query-invalid", "message": problem["message"], "details": {"problems": [problem]}}

    def request(*_: Any, **__: Any) -> Answer:
        return Answer(422, {}, "", json.dumps(refusal).encode())

    monkeypatch.setattr(WebClient, "request", staticmethod(request))
    result = CliRunner().invoke(main, ["query", "Flights", "from Late select str:upper(carrier) as carrier"])
    assert result.exit_code == 1
    assert "  the query failed: 1 is null [query-failed]" in result.stderr
    assert "line 0" not in result.stderr
