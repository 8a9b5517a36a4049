"""`regex:` functions over the values of a row.

A null pattern fails; a null text matches nothing, and `group` fails.
"""

from __future__ import annotations

from siddhi.engine.operators.functions.rows import Nulls, RowError, row_function
from siddhi.extensions.str.functions import group, pattern


def _given(regex: str | None) -> str:
    if regex is None:
        raise RowError("argument 1 is null")
    return regex


def _find(regex: str | None, text: str | None, start: int | None = 0) -> bool:
    compiled = pattern(_given(regex))
    if text is None or start is None:
        return False
    if not 0 <= start <= len(text):
        raise RowError(f"'{text}' has no character {start}")
    return compiled.search(text, start) is not None


def _group(regex: str | None, text: str | None, number: int | None) -> str | None:
    compiled = pattern(_given(regex))
    if text is None or number is None:
        raise RowError(f"argument {2 if text is None else 3} is null")
    match = compiled.search(text)
    return None if match is None or number > compiled.groups else group(match, number)


def _looking_at(regex: str | None, text: str | None) -> bool:
    compiled = pattern(_given(regex))
    return text is not None and compiled.match(text) is not None


def _matches(regex: str | None, text: str | None) -> bool:
    compiled = pattern(_given(regex))
    return text is not None and compiled.fullmatch(text) is not None


row_function("regex", "find", _find, Nulls.PASS)
row_function("regex", "group", _group, Nulls.PASS)
row_function("regex", "lookingAt", _looking_at, Nulls.PASS)
row_function("regex", "matches", _matches, Nulls.PASS)
