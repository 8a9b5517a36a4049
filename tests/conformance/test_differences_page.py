"""The page on the language tells every difference that is written down, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "siddhiql" / "differences.md"


def _section(title: str) -> str:
    return PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]


def _listed(section: str) -> dict[str, set[str]]:
    """The cases of each list item `- **name**: `case`, …`."""
    items = re.findall(r"^- \*\*(.+?)\*\*:(.*(?:\n  .*)*)", section, flags=re.MULTILINE)
    return {name: set(re.findall(r"`([^`]+)`", cases)) for name, cases in items}


def test_the_page_lists_the_cases_of_every_deliberate_difference_and_describes_it_in_its_table() -> None:
    deliberate = json.loads((HERE / "differences.json").read_text())["deliberate"]
    section = _section("Deliberate differences")
    assert _listed(section) == {name: set(difference["cases"]) for name, difference in deliberate.items()}
    assert set(re.findall(r"^\| ([a-z][a-z-]+) \|", section, flags=re.MULTILINE)) - {"name"} == set(deliberate)


def test_the_page_lists_every_case_that_is_not_mended_yet_as_a_known_gap() -> None:
    listed = _listed(_section("Known gaps"))
    assert set().union(*listed.values()) == set(json.loads((HERE / "differences.json").read_text())["open"])
