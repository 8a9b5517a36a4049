"""The examples in docs/query-plan.md are what the planner says today."""

from __future__ import annotations

import re
from pathlib import Path

from query_plan.findings import render_finding
from query_plan.validation import validate

GOLDEN = Path(__file__).parent / "golden"
BLOCKS = re.findall(
    r"```\w*\n(.*?)```", (Path(__file__).parents[2] / "docs" / "query-plan.md").read_text(encoding="utf-8"), re.DOTALL
)


def test_the_example_is_a_golden_plan_with_its_xml_and_its_words() -> None:
    assert BLOCKS[:3] == [
        (GOLDEN / f"RoomMonitor.{ending}").read_text(encoding="utf-8") for ending in ("siddhiql", "xml", "txt")
    ]


def test_the_refused_plan_is_refused_with_these_words() -> None:
    plan, words = BLOCKS[3:]
    assert words == "\n\n".join(render_finding(finding, plan) for finding in validate(plan)) + "\n"


def test_every_code_of_a_refused_plan_is_in_the_table() -> None:
    doc = (Path(__file__).parents[2] / "docs" / "query-plan.md").read_text(encoding="utf-8")
    cases = (Path(__file__).parent / "refused_plans.txt").read_text(encoding="utf-8")
    for code in re.findall(r"^---- (\S+)", cases, re.MULTILINE):
        assert f"`{code}`" in doc or f"`-{code.rpartition('-')[2]}`" in doc, code
