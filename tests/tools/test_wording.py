"""Wording that reads as translated does not come back: a short list of phrases, each with what to write instead."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("cep_cli", "cep_common", "cep_manager", "cep_worker", "query_plan", "siddhi", "topology")
LEFT_OUT = ("docs/decisions/", "siddhi/engine/", "/vendor/")
"""Decisions are records of their time. The engine's compiled loops are reworded only when they change anyway, since a
changed file is compiled again, which takes minutes."""
INSTEAD = {
    r"(?<!`)\bnobody\b": "name the thing that is missing: no consumer, no leader, no reader; or use the passive voice",
    r"\bwhoever\b|\bwhosoever\b": "name the role: the caller, the owner, the user",
    r"\b(?:is|are|was|were|be|been) told\b": "is reported, gets, is notified; programs are not told things",
    r"\btells? (?:of|apart)\b": "reports, describes, lists; distinguishes",
    r"\bstands? (?:for|behind|by|in (?:front|for))\b": "means, is replaced by, represents; comes before or after",
    r"\b(?:comes?|came) to nothing\b": "fails, failed",
    r"\bsurroundings\b": "context, dependencies",
    r"\bmend(?:s|ed|ing)?\b": "fix, repair",
    r"\banew\b": "again, from the start",
    r"\bgo(?:es|ne) by\b": "depends on, uses; passes (of time)",
    r"\bworks on[.;,]|\bworked on[.;,]": "keeps running, continues",
    r"\btroubles\b": "errors, problems",
    r"\bwithin each other\b": "nested",
    r"\bparted by\b": "separated by",
    r"\bother letters than\b": "characters other than, non-ASCII characters",
    r"\bstands? without\b": "is not quoted, has no",
    r"\bto be had\b": "available",
    r"\btried again to\b": "retried; name the interval between attempts",
    r"\b(?:anybody|strangers?) (?:may|learns?)\b": "anonymous requests, a caller without a token",
}


ANY = re.compile("|".join(INSTEAD), re.IGNORECASE)


@cache
def texts() -> list[Path]:
    """Return the files with texts for users and contributors."""
    found = [page for pattern in ("*.md", "docs/**/*.md", "conf/**/*.yaml") for page in ROOT.glob(pattern)]
    for package in PACKAGES:
        found += [path for kind in ("py", "md", "html", "js") for path in (ROOT / package).glob(f"**/*.{kind}")]
    return sorted(one for one in found if not any(part in one.as_posix() for part in LEFT_OUT))


def findings(text: str) -> list[str]:
    """Return the phrases of `text` to reword, with their lines and what to write instead."""
    if not ANY.search(text):
        return []
    return [
        f"line {number}: {found.group()!r}: {instead}"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, instead in INSTEAD.items()
        for found in re.finditer(pattern, line, re.IGNORECASE)
    ]


def test_there_are_texts_to_check() -> None:
    assert len(texts()) > 500


@pytest.mark.parametrize("package", ["*.md", "docs", "conf", *PACKAGES])
def test_texts_use_the_words_of_the_field(package: str) -> None:
    wrong = {
        str(one.relative_to(ROOT)): found
        for one in texts()
        if (one.relative_to(ROOT).parts[0] == package or (package == "*.md" and one.parent == ROOT))
        and (found := findings(one.read_text(encoding="utf-8")))
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("sentence", "count"),
    [
        ("The manager is told of it, and nobody waits.", 2),
        ("Checkpoint 1 came to nothing.", 1),
        ("Patterns within each other, parted by commas.", 2),
        ("The manager reports it; no client waits.", 0),
        ("Scripts run as the user `nobody`.", 0),
        ("A stage works on its events.", 0),
    ],
)
def test_phrases_are_found_and_plain_words_are_not(sentence: str, count: int) -> None:
    assert len(findings(sentence)) == count
