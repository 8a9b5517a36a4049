"""The inputs of queries: a stream with its handlers, a join, a pattern or sequence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from siddhi.language.ast.expressions import Expression, FunctionCall, TimeConstant
from siddhi.spans import Span, span_field


@dataclass(frozen=True, slots=True)
class FilterHandler:
    """`[condition]` after a stream."""

    condition: Expression
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class StreamFunction:
    """`#namespace:name(arguments)` in an input's handler chain."""

    call: FunctionCall
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class WindowHandler:
    """`#window.name(arguments)`."""

    call: FunctionCall
    span: Span = span_field()


Handler = FilterHandler | StreamFunction | WindowHandler


@dataclass(frozen=True, slots=True)
class SingleInput:
    """One source with its handlers in text order; `alias` is the `as` of a join side or the `e1=` of a pattern."""

    source: str
    handlers: tuple[Handler, ...] = ()
    alias: str | None = None
    inner: bool = False
    fault: bool = False
    span: Span = span_field()


class JoinKind(str, Enum):
    """The kinds of joins."""

    INNER = "join"
    LEFT_OUTER = "left outer join"
    RIGHT_OUTER = "right outer join"
    FULL_OUTER = "full outer join"


@dataclass(frozen=True, slots=True)
class JoinInput:
    """`unidirectional` is the side (`left`, `right`) that alone triggers, or None."""

    left: SingleInput
    right: SingleInput
    kind: JoinKind
    on: Expression | None = None
    unidirectional: str | None = None
    within: tuple[Expression, ...] = ()
    per: Expression | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class StreamElement:
    """One element of a pattern or sequence: a stream with its handlers, counted `minimum` to `maximum` times.

    `minimum` and `maximum` are None for an uncounted element; `maximum` -1 is unbounded.
    """

    input: SingleInput
    minimum: int | None = None
    maximum: int | None = None
    span: Span = span_field()

    @property
    def bare(self) -> bool:
        """Return whether only brackets distinguish it from a stream that a query reads event by event."""
        return self.minimum is None and self.input.alias is None


@dataclass(frozen=True, slots=True)
class AbsentElement:
    """`not S[…]`, with `for` a time when `waiting` is set."""

    input: SingleInput
    waiting: TimeConstant | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class LogicalElement:
    """`left and right` or `left or right`."""

    operator: str
    left: StreamElement | AbsentElement
    right: StreamElement | AbsentElement
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class EveryElement:
    """`every` and an element of a pattern."""

    element: StateElement
    within: TimeConstant | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class NextElement:
    """Elements one after the other: `a -> b -> c` in a pattern, `a, b, c` in a sequence."""

    elements: tuple[StateElement, ...]
    within: TimeConstant | None = None
    span: Span = span_field()


StateElement = StreamElement | AbsentElement | LogicalElement | EveryElement | NextElement


@dataclass(frozen=True, slots=True)
class StateInput:
    """A pattern (`sequence` False) or a sequence."""

    element: StateElement
    sequence: bool
    within: TimeConstant | None = None
    span: Span = span_field()
