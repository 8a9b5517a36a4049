"""The position of a node in its text."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """The position of a node in its text: lines and columns count from 1, offsets from 0, the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int
    start: int
    end: int


NOWHERE = Span(0, 0, 0, 0, 0, 0)
"""The span of a node that was created, not parsed."""


def span_field() -> Span:
    """Return the last field of every node, which does not take part in equality."""
    return field(default=NOWHERE, compare=False, repr=False, kw_only=True)
