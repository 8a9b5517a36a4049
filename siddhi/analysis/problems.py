"""The list of what is wrong with an app, filled by all parts of the analysis."""

from __future__ import annotations

from siddhi.errors import Problem
from siddhi.language.ast import Span


class Problems:
    """Problems in the order in which they were found; the same one is put down once."""

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}

    def add(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self._found[Problem(code, message, hint, span)] = None

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def all(self) -> tuple[Problem, ...]:
        return tuple(self._found)
