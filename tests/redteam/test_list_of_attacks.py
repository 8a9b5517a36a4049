"""The page that says which tests each attack has names only tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "testing" / "attacks.md"


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`([a-z_/]*test_[a-z0-9_]+\.py)`", PAGE.read_text(encoding="utf-8"))
    names = {path.name for path in TESTS.rglob("test_*.py")}
    assert len(named) > 40
    assert [one for one in named if not ((TESTS / one).is_file() or ("/" not in one and one in names))] == []


def test_the_page_names_every_file_of_attacks() -> None:
    written = PAGE.read_text(encoding="utf-8")
    files = {path.name for path in Path(__file__).parent.glob("test_*.py")} - {Path(__file__).name}
    assert [name for name in sorted(files) if name not in written] == []
