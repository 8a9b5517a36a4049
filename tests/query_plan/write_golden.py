"""Writes the golden files of the planner anew: look at the difference before you keep it."""

from __future__ import annotations

import re
from pathlib import Path

from query_plan.builder import build
from query_plan.explain import explain
from query_plan.findings import render_finding
from query_plan.validation import validate
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXPLAINED = ("RoomMonitor", "Sessions")


def main() -> None:
    for source in (*sorted((HERE / "golden").glob("*.siddhiql")), ROOT / "samples/flights/KnockOnDelays.siddhiql"):
        plan = build(analyse(parse(source.read_text(encoding="utf-8"))))
        golden = HERE / "golden" / source.stem
        golden.with_suffix(".xml").write_text(write_xml(plan), encoding="utf-8")
        if source.stem in EXPLAINED:
            golden.with_suffix(".txt").write_text(explain(plan) + "\n", encoding="utf-8")
    write_docs(ROOT / "docs/query-plan.md")


def write_docs(page: Path) -> None:
    """The page's blocks are the golden room monitor, its XML, its words, a refused plan and why."""
    golden = HERE / "golden" / "RoomMonitor"
    blocks = [golden.with_suffix(ending).read_text(encoding="utf-8") for ending in (".siddhiql", ".xml", ".txt")]
    text = page.read_text(encoding="utf-8")
    refused = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)[3]
    words = "\n\n".join(render_finding(finding, refused) for finding in validate(refused)) + "\n"
    fresh = iter([*blocks, refused, words])
    page.write_text(
        re.sub(r"(```\w*\n).*?```", lambda block: f"{block[1]}{next(fresh)}```", text, flags=re.DOTALL),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
