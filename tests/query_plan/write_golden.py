"""Writes the golden files of the planner again: look at the difference before you keep it."""

from __future__ import annotations

import re
from pathlib import Path

from query_plan.builder import build
from query_plan.examination import examine
from query_plan.explain import explain
from query_plan.findings import render_finding
from query_plan.validation import CHECKS
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXPLAINED = ("RoomMonitor", "Sessions", "TradeAlerts")


def main() -> None:
    for source in (*sorted((HERE / "golden").glob("*.siddhiql")), ROOT / "samples/flights/KnockOnDelays.siddhiql"):
        plan = build(analyse(parse(source.read_text(encoding="utf-8"))))
        golden = HERE / "golden" / source.stem
        golden.with_suffix(".xml").write_text(write_xml(plan), encoding="utf-8")
        if source.stem in EXPLAINED:
            golden.with_suffix(".txt").write_text(explain(plan) + "\n", encoding="utf-8")
    write_docs(ROOT / "docs/query-plan.md")


def write_docs(page: Path) -> None:
    """The page's blocks are the golden room monitor, its XML, its words, hints, a refused plan and why."""
    golden = HERE / "golden" / "RoomMonitor"
    blocks = [golden.with_suffix(ending).read_text(encoding="utf-8") for ending in (".siddhiql", ".xml", ".txt")]
    text = page.read_text(encoding="utf-8")
    hinted = (HERE / "golden" / "TradeAlerts.txt").read_text(encoding="utf-8")
    refused = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)[4]
    words = "\n\n".join(render_finding(finding, refused) for finding in examine(refused).findings) + "\n"
    fresh = iter([*blocks, hinted[hinted.index("Hints") :], refused, words])
    text = re.sub(r"(```\w*\n).*?```", lambda block: f"{block[1]}{next(fresh)}```", text, flags=re.DOTALL)
    page.write_text(text[: text.index("| code |")] + rule_table(), encoding="utf-8")


def rule_table() -> str:
    """Every rule once, in the order of the checks."""
    rules = dict.fromkeys(rule for check in CHECKS for rule in check.rules)
    rows = (f"| `{rule.code}` | {rule.severity.value} | {rule.meaning} | {rule.remedy} |\n" for rule in rules)
    return "| code | | broken when | what fixes it |\n|---|---|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    main()
