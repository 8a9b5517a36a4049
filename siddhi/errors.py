"""The errors of SiddhiQL: all problems of a text at once, each with its position and a hint.

SiddhiError
├── SiddhiParseError      the text is not SiddhiQL
├── SiddhiAnalysisError   it is, but it does not make sense
└── SiddhiRuntimeError    it made sense and failed while running
    └── SnapshotError     bytes are not state that the app could continue from
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice

from siddhi.spans import Span

MOST_PROBLEMS = 100
"""Maximum number of reported problems: more would not help, and each costs time to find and to write."""
LONGEST_SIMILAR, MOST_SIMILAR = 80, 1_000
"""Longer names, and further names, are not compared for a hint, since the time grows with both."""
SHOWN_BEFORE, SHOWN_WIDTH = 60, 160
"""The number of characters shown of a long line, and how many of them precede the position."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem. `code` is stable (kebab-case, for programs); `message` and `hint` are for users."""

    code: str
    message: str
    hint: str | None = None
    span: Span | None = None

    def __str__(self) -> str:
        """Return the message with its place and code."""
        place = f"line {self.span.line}, column {self.span.column}: " if self.span is not None else ""
        return f"{place}{self.message} [{self.code}]"


class SiddhiError(Exception):
    """The base of all errors of this package; `problems` holds at least one problem, in text order."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        """Create the error.

        Args:
            problems: What is wrong, one problem or several.
        """
        found = (problems,) if isinstance(problems, Problem) else tuple(problems)
        self.problems: tuple[Problem, ...] = tuple(sorted(found, key=_place))
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def render(self, text: str) -> str:
        """Return every problem with its line of `text`, a caret under the place, and the hint."""
        return "\n\n".join(render_problem(problem, text) for problem in self.problems)


class SiddhiParseError(SiddhiError):
    """The text violates the grammar of SiddhiQL."""


class SiddhiAnalysisError(SiddhiError):
    """The text is SiddhiQL, but names, types or rules are violated; the error has all problems of the app."""


class SiddhiRuntimeError(SiddhiError):
    """A running app cannot perform an operation."""


class SnapshotError(SiddhiRuntimeError):
    """An app cannot continue from these bytes.

    Codes: `snapshot-unknown` (not a snapshot), `snapshot-format` (of another version of the engine), `snapshot-torn`
    (truncated or changed), `snapshot-damaged` (complete, but with invalid contents), `snapshot-of-another-app`, and
    `snapshot-not-by-key` (it cannot be redistributed to other instances).
    """


def render_problem(problem: Problem, text: str) -> str:
    """Return the problem as a person wants to read it.

    Example:
        line 3, column 8: stream 'Departure' is not defined [unknown-stream]
            from Departure select origin insert into Out;
                 ^^^^^^^^^
        hint: did you mean 'Departures'?
    """
    lines = [str(problem)]
    span = problem.span
    source = _line(text, span) if span is not None else None
    if span is not None and source is not None:
        start = min(max(span.column - 1, 0), len(source))
        end = span.end_column - 1 if span.end_line == span.line else len(source)
        if len(source) > SHOWN_WIDTH:
            cut = max(0, start - SHOWN_BEFORE)
            source = source[cut : cut + SHOWN_WIDTH]
            start, end = start - cut, end - cut
        carets = "^" * max(1, min(end, len(source)) - start)
        indent = "".join("\t" if character == "\t" else " " for character in source[:start])
        lines += [f"    {source}", f"    {indent}{carets}"]
    if problem.hint:
        lines.append(f"hint: {problem.hint}")
    return "\n".join(lines)


def more_problems(shown: Sequence[Problem]) -> Problem:
    """Return the message about problems beyond those `shown`."""
    return Problem("too-many-problems", f"only the first {len(shown)} problems are shown", "fix these first")


def first_problems(problems: Sequence[Problem]) -> Sequence[Problem]:
    """Return `problems`, or the first of them and a note that there are more."""
    shown = problems[:MOST_PROBLEMS]
    return problems if len(problems) <= MOST_PROBLEMS else (*shown, more_problems(shown))


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with the known name that is most similar to `name`, or None when none is."""
    if len(name) > LONGEST_SIMILAR:
        return None
    first = islice(known, MOST_SIMILAR)
    by_folded = {candidate.casefold(): candidate for candidate in first if len(candidate) <= LONGEST_SIMILAR}
    close = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f"did you mean '{by_folded[close[0]]}'?" if close else None


def _line(text: str, span: Span) -> str | None:
    """Return the line of `text` in which `span` begins; None when there is none."""
    start = text.rfind("\n", 0, span.start) + 1
    if text.count("\n", 0, start) != span.line - 1:  # the span has no position in the text
        lines = text.split("\n")
        return lines[span.line - 1].rstrip("\r") if 1 <= span.line <= len(lines) else None
    end = text.find("\n", start)
    return text[start : end if end >= 0 else len(text)].rstrip("\r")


def _place(problem: Problem) -> tuple[int, int]:
    return (problem.span.start, problem.span.end) if problem.span is not None else (-1, -1)
