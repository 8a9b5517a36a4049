"""The list of what is wrong with an app, filled by all parts of the analysis."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

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


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint with the known name that looks most like `name`, or None when none does."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    close = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f"did you mean '{by_folded[close[0]]}'?" if close else None
