"""Decision records: each has its number, a date and a status, and a line in the list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_record_has_number_date_and_status(record: Path) -> None:
    title, blank, dated = record.read_text(encoding="utf-8").split("\n", 3)[:3]
    assert title.startswith(f"# {record.name[:4]} ")
    assert blank == ""
    assert re.match(r"Date: \d{4}-\d\d-\d\d\. Status: (?:accepted|replaced)\b", dated), dated


def test_the_list_has_every_record_once() -> None:
    listed = re.findall(r"^\| \[(\d{4})\]\(([^)]+)\)", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for _, name in listed] == [record.name for record in RECORDS]
    assert all(name.startswith(number) for number, name in listed)
