"""The parser's tables on disk: a parser that reads them gives the same results as the one that wrote them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lark import Lark

from siddhi.language import parser

TEXT = "define stream S (a int); from S[a > 1] select a, a + 1 as b insert into O;"


def made(monkeypatch: pytest.MonkeyPatch, file: Path | None) -> Lark:
    """Return the parser of a new process that stores its tables in `file`."""
    monkeypatch.setattr(parser, "_tables_on_disk", lambda: None if file is None else str(file))
    lark: Lark = parser._lark.__wrapped__()
    return lark


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, Any]:
    """The file of the tables, which know where it is; those that a process has kept which found none; and how it
    parses `TEXT`: as one that keeps none."""
    file = tmp_path_factory.mktemp("tables") / "grammar.lark"
    with pytest.MonkeyPatch.context() as monkeypatch:
        expected = made(monkeypatch, None).parse(TEXT, start="app")
        assert made(monkeypatch, file).parse(TEXT, start="app") == expected
    return file, file.read_bytes(), expected


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def of_other_text(content: bytes) -> bytes:
    return b"0" * 64 + content[64:]


@pytest.mark.thorough
@pytest.mark.parametrize("spoil", [None, cut, of_other_text])
def test_tables_are_made_once_and_again_when_they_are_spoilt(
    monkeypatch: pytest.MonkeyPatch,
    first: tuple[Path, bytes, Any],
    spoil: Callable[[bytes], bytes] | None,
) -> None:
    file, tables, expected = first
    before = tables if spoil is None else spoil(tables)
    file.write_bytes(before)

    assert made(monkeypatch, file).parse(TEXT, start="app") == expected

    fixed = file.read_bytes()
    assert (fixed == before) == (spoil is None)
    made(monkeypatch, file)
    assert file.read_bytes() == fixed


def test_tables_lie_with_the_compiled_code_or_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    there = parser._tables_on_disk()
    assert there is None or Path(there).parent == Path(parser.__file__).parent / "__pycache__"
    monkeypatch.setattr(parser.os, "access", lambda *_: False)
    monkeypatch.setattr(Path, "is_file", lambda _: False)
    assert parser._tables_on_disk() is None
