"""The examples in docs/query-plan are the current output of the planner."""

from __future__ import annotations

import re
from pathlib import Path

from write_golden import code_blocks, validated

GOLDEN = Path(__file__).parent / "golden"
DOCS = Path(__file__).parents[2] / "docs" / "query-plan"


def test_the_example_is_a_golden_plan_with_its_xml_and_its_words() -> None:
    assert code_blocks(DOCS / "xml.md")[:3] == [
        (GOLDEN / f"RoomMonitor.{ending}").read_text(encoding="utf-8") for ending in ("siddhiql", "xml", "txt")
    ]


def test_the_hints_are_those_of_a_golden_plan() -> None:
    (hints,) = code_blocks(DOCS / "xml.md")[3:]
    assert (GOLDEN / "TradeAlerts.txt").read_text(encoding="utf-8").endswith("\n\n" + hints)


def test_the_refused_plan_is_refused_with_these_words() -> None:
    plan, words = code_blocks(DOCS / "validation.md")
    assert words == validated(plan)


def test_the_page_names_every_attribute_of_a_query_plan() -> None:
    schema = (Path(__file__).parents[2] / "query_plan" / "query-plan.xsd").read_text(encoding="utf-8")
    root = schema.partition('<xs:element name="query-plan"')[2].partition("</xs:element>\n")[0]
    attributes = set(re.findall(r'<xs:attribute name="(\w+)"', root))
    page = (DOCS / "xml.md").read_text(encoding="utf-8")
    listed = re.search(r"^- Attributes of `query-plan`:.*?\.$", page, re.MULTILINE | re.DOTALL)
    assert attributes
    assert listed is not None
    assert attributes <= set(re.findall(r"`(\w+)`", listed[0]))
