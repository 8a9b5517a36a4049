"""The input of a query: a source with its handlers, a join, or a state machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from siddhi.analysis.model.expressions import TypedExpression
from siddhi.analysis.model.schema import Schema
from siddhi.language import ast
from siddhi.language.ast import JoinKind


@dataclass(frozen=True, slots=True)
class FilterStep:
    """A filter on an input stream."""

    condition: TypedExpression


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """A stream function or a window with typed arguments; `output` is the schema after it.

    `condition` is the parsed text of an expression window if it is constant: plain attributes refer to the event under
    test, index 0 and last to the ends of the window.
    """

    namespace: str
    name: str
    arguments: tuple[TypedExpression, ...]
    output: Schema
    condition: TypedExpression | None = None
    syntax: ast.FunctionCall | None = field(default=None, compare=False, repr=False)


class SourceKind(Enum):
    """The input of a query."""

    STREAM = "stream"
    INNER_STREAM = "inner stream"
    FAULT_STREAM = "fault stream"
    WINDOW = "window"
    TRIGGER = "trigger"
    TABLE = "table"
    AGGREGATION = "aggregation"


@dataclass(frozen=True, slots=True)
class SourceInput:
    """One source: the handlers `before` the window, the window, and the handlers `after` it.

    `schema` is that of the source, `output` that of the events after the last handler. `reference` is the alias or
    pattern reference, else the source's id.
    """

    source: str
    kind: SourceKind
    reference: str
    schema: Schema
    output: Schema
    before: tuple[FilterStep | HandlerCall, ...] = ()
    window: HandlerCall | None = None
    after: tuple[FilterStep | HandlerCall, ...] = ()
    syntax: ast.SingleInput | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Join:
    """`triggers` are flags for left and right: whether events of the side look up the other one."""

    left: SourceInput
    right: SourceInput
    kind: JoinKind
    on: TypedExpression | None
    triggers: tuple[bool, bool]
    within: tuple[TypedExpression, ...] = ()
    per: TypedExpression | None = None


@dataclass(frozen=True, slots=True)
class PatternElement:
    """An event slot of a pattern; `slot` counts in text order.

    Without a written count `minimum` and `maximum` are 1 and `counted` is False; a `maximum` of -1 is unbounded.
    `absent` marks `not`, `waiting_ms` its `for`.
    """

    slot: int
    input: SourceInput
    minimum: int = 1
    maximum: int = 1
    counted: bool = False
    absent: bool = False
    waiting_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LogicalPair:
    """Two elements of a pattern that are connected by `and` or `or`."""

    operator: str
    left: PatternElement
    right: PatternElement


@dataclass(frozen=True, slots=True)
class EveryScope:
    """`every (…)` over consecutive steps."""

    steps: tuple[PatternStep, ...]
    within_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BoundScope:
    """`(…) within t` over consecutive steps inside a pattern, which only the 3.x dialect has."""

    steps: tuple[PatternStep, ...]
    within_ms: int


PatternStep = PatternElement | LogicalPair | EveryScope | BoundScope


@dataclass(frozen=True, slots=True)
class StateMachine:
    """A pattern or sequence as a flat chain of steps; `slots` are its elements by slot number."""

    sequence: bool
    steps: tuple[PatternStep, ...]
    slots: tuple[PatternElement, ...]
    within_ms: int | None = None


QueryInput = SourceInput | Join | StateMachine
