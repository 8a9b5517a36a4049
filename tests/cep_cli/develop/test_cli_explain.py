"""`cep explain`: of a file without a system, of a deployed plan through its manager."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cep_cli.client.rest import ManagerClient
from cep_cli.main import main

PLAN = """@app:name('Rooms') @app:playback
define stream Readings (room string, degrees double);
@info(name='means') from Readings#window.length(10) select room, avg(degrees) as mean group by room insert into Means;
@info(name='odd') from Means#window.frequent(2, room) select room insert into Odd;
"""


def test_of_a_file_each_query_is_explained_with_its_warnings(tmp_path: Path) -> None:
    file = tmp_path / "rooms.siddhiql"
    file.write_text(PLAN, encoding="utf-8")
    told = CliRunner().invoke(main, ["explain", str(file)])
    assert told.exit_code == 0, told.output
    assert "SlidingSelection (compiled)" in told.output
    assert "query odd" in told.output
    found = json.loads(CliRunner().invoke(main, ["explain", str(file), "--json"]).output)
    assert [query["name"] for stage in found["stages"] for query in stage["queries"]] == ["means", "odd"]


def test_of_a_wrong_file_the_problems_are_told(tmp_path: Path) -> None:
    file = tmp_path / "wrong.siddhiql"
    file.write_text("define stream S (v int); from T select v insert into Out;", encoding="utf-8")
    told = CliRunner().invoke(main, ["explain", str(file)])
    assert told.exit_code == 1
    assert "'T' is not defined" in told.output


def test_a_deployed_plan_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = {
        "part": "input",
        "operator": "Slow",
        "execution": "event by event",
        "event_ns": None,
        "batch_us": None,
        "ruled_out": [{"operator": "Fast", "reason": "a count"}],
    }
    query = {"name": "q", "operators": [operator], "shared": "", "event_ns": None, "single_us": None, "warnings": ["w"]}

    def explain(_: ManagerClient, plan: str) -> Any:
        return {"type": "explanation", "plan": plan, "stages": [{"stage": "one", "queries": [query]}]}

    monkeypatch.setattr(ManagerClient, "explain", explain)
    told = CliRunner().invoke(main, ["explain", "Rooms"])
    assert told.output.splitlines() == [
        "one: query q, cost not measured",
        "  input        Slow (event by event)",
        "    not Fast: a count",
        "  warning: w",
    ]
