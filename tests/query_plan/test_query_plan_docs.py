"""The examples in docs/query-plan.md are what the planner says today."""

from __future__ import annotations

import re
from pathlib import Path

from query_plan.examination import examine
from query_plan.findings import render_finding
from query_plan.validation import CHECKS

GOLDEN = Path(__file__).parent / "golden"
BLOCKS = re.findall(
    r"```\w*\n(.*?)```", (Path(__file__).parents[2] / "docs" / "query-plan.md").read_text(encoding="utf-8"), re.DOTALL
)


def test_the_example_is_a_golden_plan_with_its_xml_and_its_words() -> None:
    assert BLOCKS[:3] == [
        (GOLDEN / f"RoomMonitor.{ending}").read_text(encoding="utf-8") for ending in ("siddhiql", "xml", "txt")
    ]


def test_the_hints_are_those_of_a_golden_plan() -> None:
    assert (GOLDEN / "TradeAlerts.txt").read_text(encoding="utf-8").endswith("\n\n" + BLOCKS[3])


def test_the_refused_plan_is_refused_with_these_words() -> None:
    plan, words = BLOCKS[4:]
    assert words == "\n\n".join(render_finding(finding, plan) for finding in examine(plan).findings) + "\n"


def test_the_table_has_every_rule_in_the_order_of_the_checks() -> None:
    doc = (Path(__file__).parents[2] / "docs" / "query-plan.md").read_text(encoding="utf-8")
    rules = dict.fromkeys(rule for check in CHECKS for rule in check.rules)
    rows = [f"| `{rule.code}` | {rule.severity.value} | {rule.meaning} | {rule.remedy} |" for rule in rules]
    assert [line for line in doc.splitlines() if re.match(r"\| `[a-z-]+` \| (error|warning) ", line)] == rows
