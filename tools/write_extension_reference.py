"""Writes the tables in docs/extensions.md from the declarations: `python tools/write_extension_reference.py`."""

from __future__ import annotations

from pathlib import Path

from siddhi.extensions.extension import Extension
from siddhi.extensions.packs import PACKS
from siddhi.registry import Declaration, Kind

PAGE = Path(__file__).parents[1] / "docs" / "extensions.md"
MARK = "<!-- What follows is written by tools/write_extension_reference.py. -->"
_PREFIXES = {Kind.WINDOW: "#window.", Kind.STREAM_FUNCTION: "#"}


def reference() -> str:
    """One section for each pack, with a table of what it has."""
    return "\n".join(_section(pack) for pack in PACKS)


def page_with_reference(page: str) -> str:
    """`page` with everything behind the mark written anew."""
    return f"{page.partition(MARK)[0]}{MARK}\n\n{reference()}"


def _section(pack: Extension) -> str:
    rows = [_row(declaration) for declaration in pack.declarations]
    return "\n".join([f"### {pack.name}", "", "| kind | call | gives |", "|---|---|---|", *rows, ""])


def _row(declaration: Declaration) -> str:
    prefix = _PREFIXES.get(declaration.kind, "")
    calls = "<br>".join(f"`{prefix}{signature}`" for signature in declaration.signatures()).replace("|", "\\|")
    return f"| {declaration.kind.value} | {calls} | {declaration.summary} |"


if __name__ == "__main__":
    PAGE.write_text(page_with_reference(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
