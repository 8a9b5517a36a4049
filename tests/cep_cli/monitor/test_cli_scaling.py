"""What `cep scaling` says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

import cep_cli.monitor.scaling
from cep_cli.main import main
from cep_common.web.client import Answer, WebClient

STAGE = {
    "stage": "perRoom", "instances": 3, "least": 1, "most": 4, "busiest": 0.612, "events_per_s": 182_400.0,
    "waiting": 1_204, "wanted": 3, "decision": "busiest instance 61%",
}  # fmt: skip
CHANGE = {
    "at_ms": 1_767_225_600_000, "stage": "perRoom", "instances_before": 2, "instances_after": 3,
    "events_per_s": 150_000.0, "reason": "busiest instance 92% for 30 s → 3 instances", "problem": "",
}  # fmt: skip


def cep(monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], *arguments: str) -> Result:
    def request(_: WebClient, method: str, url: str, **__: Any) -> Answer:
        assert (method, url.partition("/api/v1")[2]) == ("GET", "/plans/P/scaling")
        return Answer(200, {}, "", json.dumps(found).encode())

    monkeypatch.setattr(WebClient, "request", request)
    return CliRunner().invoke(main, ["scaling", "P", *arguments])


def test_stages_are_shown_with_their_last_decision_and_changes_with_their_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed = {**CHANGE, "problem": "no such host"}
    found = {"stages": [STAGE, {**STAGE, "stage": "other", "busiest": None}], "history": [CHANGE, failed]}
    shown = cep(monkeypatch, found).output.splitlines()
    assert shown[0] == (
        "perRoom: 3 of 1 to 4 instances, busiest 61%, 182,400 events/s, 1,204 waiting; busiest instance 61%"
    )
    assert shown[1].startswith("other: 3 of 1 to 4 instances, 182,400")
    assert shown[2].endswith("perRoom 2 → 3: busiest instance 92% for 30 s → 3 instances")
    assert shown[3].endswith("→ 3 instances; failed: no such host")
    assert json.loads(cep(monkeypatch, found, "--json").output) == found


def test_old_changes_are_left_out_and_a_plan_that_does_not_scale_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {"stages": [STAGE], "history": [CHANGE] * (cep_cli.monitor.scaling.MOST_SHOWN + 5)}
    assert "5 older ones: --all" in cep(monkeypatch, many).output
    assert len(cep(monkeypatch, many, "--all").output.splitlines()) == 1 + len(many["history"])
    nothing = cep(monkeypatch, {"stages": [], "history": []}).output
    assert nothing == "P has no stages with parallel='auto'\n"
