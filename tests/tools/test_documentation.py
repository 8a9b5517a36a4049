"""The pages of the documentation: their links lead somewhere, and none is too long to read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "cep_common/**/*.md", "samples/**/*.md", "benchmarks/**/*.md")
    for page in ROOT.glob(pattern)
)
NAMING = ("cep_cli", "cep_common", "cep_manager", "cep_worker", "conf", "deploy", "query_plan", "siddhi", "topology")
"""Where messages, comments and configuration name pages."""
GENERATED = "<!-- This page is written by"
MOST_WORDS = 2_600


def text_of(page: Path) -> str:
    """Return the page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page, and those that the page names."""
    text = text_of(page)
    headings = [re.sub(r"`|\*|\[([^]]*)]\([^)]*\)", r"\1", heading) for heading in re.findall(r"^#+ (.*)$", text, re.M)]
    slugs = {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'(?:id|name)="([^"]+)"', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading_of_it(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


def test_pages_that_code_and_configuration_name_exist_with_their_headings() -> None:
    named, broken = 0, []
    for folder in NAMING:
        for file in (one for kind in ("py", "yaml", "html") for one in (ROOT / folder).rglob(f"*.{kind}")):
            for path, anchor in re.findall(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?", file.read_text(encoding="utf-8")):
                named += 1
                page = ROOT / path
                if not page.exists() or (anchor and anchor not in anchors_of(page)):
                    broken.append(f"{file.relative_to(ROOT)}: {path}#{anchor}")
    assert named
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_that_is_not_generated_is_short_enough_to_read(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert GENERATED in text or len(text.split()) <= MOST_WORDS
