"""The page about extensions."""

from __future__ import annotations

import importlib.util
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools" / "write_extension_reference.py"


def test_the_tables_in_the_documentation_are_those_of_the_declarations() -> None:
    spec = importlib.util.spec_from_file_location("write_extension_reference", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = tool.PAGE.read_text(encoding="utf-8")
    assert page == tool.page_with_reference(page), "run tools/write_extension_reference.py"
