"""The examples in the pages about the language are correct."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.errors import SiddhiError
from siddhi.language.parser import parse

DOCS = Path(__file__).parents[2] / "docs"
STREAMS = """
define stream Deals (symbol string, price double, amount long, ts long);
define stream Sales (shop string, sold int, stock int);
define stream Orders (item string, customer string, price double);
"""


def blocks(pages: str, language: str) -> list[str]:
    """Return the code blocks of that language."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.glob(pages)))
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [block for named, block in found if named == language]


@pytest.mark.parametrize("example", [*blocks("siddhiql.md", "sql"), *blocks("siddhiql/*.md", "sql")])
def test_every_example_of_a_plan_runs(example: str) -> None:
    AppRuntime(analyse(parse(STREAMS + example)))


def test_an_error_looks_as_the_page_shows_it() -> None:
    shown = next(block for block in blocks("siddhiql/*.md", "") if "[unknown-stream]" in block)
    text = "define stream Departures (origin string);\nfrom Departure select origin insert into Out;"
    with pytest.raises(SiddhiError) as refused:
        analyse(parse(text))
    assert refused.value.render(text).strip() == shown.strip()
