"""The pages that list what plans may call are up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "write_reference.py"


def test_the_tables_in_the_documentation_are_those_of_the_declarations() -> None:
    spec = importlib.util.spec_from_file_location("write_reference", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    for page, text in tool.pages().items():
        assert page.read_text(encoding="utf-8") == text, "run tools/write_reference.py"
