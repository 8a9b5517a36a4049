"""The problems of an app, collected by all parts of the analysis."""

from __future__ import annotations

from siddhi.errors import MOST_PROBLEMS, Problem, SiddhiAnalysisError, more_problems
from siddhi.language.ast import Span


class Problems:
    """Problems in the order in which they were found, each once."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self._found: dict[Problem, None] = {}

    def add(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Record the problem. Raise SiddhiAnalysisError with all of them once there are too many to read."""
        self._found[Problem(code, message, hint, span)] = None
        if len(self._found) > MOST_PROBLEMS:
            shown = self.all()[:MOST_PROBLEMS]
            raise SiddhiAnalysisError((*shown, more_problems(shown)))

    def __bool__(self) -> bool:
        """Return whether a problem was found."""
        return bool(self._found)

    def __len__(self) -> int:
        """Return how many problems were found."""
        return len(self._found)

    def all(self) -> tuple[Problem, ...]:
        """Return all problems in the order in which they were found."""
        return tuple(self._found)
