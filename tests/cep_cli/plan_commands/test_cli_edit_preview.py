"""`cep deploy --dry-run` asks the manager what an edit would keep, and says it in lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cep_cli.client.rest import ManagerClient
from cep_cli.main import main

HELD = {
    "kind": "query",
    "name": "late",
    "rows": 1_200,
    "groups": 0,
    "partial_matches": 0,
    "dropped_partial_matches": 0,
    "distinct_values": 0,
    "instances": 0,
    "bytes": 4_000,
}
PREVIEW = {
    "plan": "Old",
    "kept": 1,
    "reset": 1,
    "parts": [
        {"stage": "s", "kind": "query", "name": "late", "kept": True, "reason": "", "held": HELD},
        {"stage": "s", "kind": "table", "name": "T", "kept": False, "reason": "its definition changed", "held": None},
    ],
    "streams": [
        {"stream": "S", "waiting_events": 1_234, "fate": "mapped", "reason": "by name; null: gate"},
        {"stream": "R", "waiting_events": 2, "fate": "failed", "reason": "a was int and is string now"},
    ],
    "note": "",
}
NOTHING: dict[str, Any] = {"plan": "Old", "kept": 0, "reset": 0, "parts": [], "streams": [], "note": ""}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def preview_edit(_: ManagerClient, plan: str, text: str) -> Any:
        found.append((plan, text))
        return PREVIEW if "late" in text else NOTHING

    monkeypatch.setattr(ManagerClient, "plans", lambda _: [{"plan": "Old"}])
    monkeypatch.setattr(ManagerClient, "preview_edit", preview_edit)
    return found


def dry_run(tmp_path: Path, text: str, *options: str) -> Result:
    file = tmp_path / "plan.siddhiql"
    file.write_text(text, encoding="utf-8")
    return CliRunner().invoke(main, ["deploy", str(file), "--dry-run", *options])


def test_kept_and_reset_parts_and_waiting_events_are_told(asked: list[tuple[str, str]], tmp_path: Path) -> None:
    text = "@Plan:name('Old') define stream late (a int);"
    assert dry_run(tmp_path, text).output.splitlines() == [
        "kept  query late (1,200 rows, 4.0 kB)",
        "RESET table T: its definition changed",
        "stream S: 1,234 waiting events would continue in their new form (by name; null: gate)",
        "stream R: 2 waiting events would become failed events (a was int and is string now)",
    ]
    assert asked == [("Old", text)]
    assert json.loads(dry_run(tmp_path, text, "--json").output) == PREVIEW


def test_a_plan_of_another_name_is_compared_with_the_one_that_it_replaces(
    asked: list[tuple[str, str]], tmp_path: Path
) -> None:
    text = "@Plan:name('New') define stream S (a int);"
    assert dry_run(tmp_path, text).output == "New is not deployed: it would start with empty state\n"
    assert asked == []
    assert dry_run(tmp_path, text, "--rename", "Old").output == "Old holds no state that an edit could reset\n"
    assert asked == [("Old", text)]
