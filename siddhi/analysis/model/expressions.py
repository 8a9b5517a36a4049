"""Typed expressions, with all names resolved."""

from __future__ import annotations

from dataclasses import dataclass, field

from siddhi.language import ast
from siddhi.language.ast import AttributeType
from siddhi.scripts.language import Script, ScriptLanguage, ScriptRunner


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A literal; a time literal is a long in milliseconds."""

    value: bool | int | float | str
    type: AttributeType


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """Attribute `name` of the input in slot `slot`.

    Slot 0 is the only input of a single-stream query, 0 and 1 the left and right of a join, and a pattern's elements
    are numbered in text order from 0. `index` is set for a counted element's `e[k]`, and where the selection
    means its first event; without it a counted element gives the last event, or (`all_events`) a list.
    """

    slot: int
    name: str
    type: AttributeType
    index: ast.EventIndex | None = None
    all_events: bool = False


@dataclass(frozen=True, slots=True)
class OutputValue:
    """Attribute `name` of the query's own output (in having, order by, `on` and `set`)."""

    name: str
    type: AttributeType


@dataclass(frozen=True, slots=True)
class TableValue:
    """Attribute `name` of a row of table `table` (in `in`, `on` and `set`)."""

    table: str
    name: str
    type: AttributeType


@dataclass(frozen=True, slots=True)
class EventReference:
    """A whole event handed to a function, as in `eventTimestamp(e1)`."""

    slot: int
    index: ast.EventIndex | None = None
    type: AttributeType = AttributeType.OBJECT


@dataclass(frozen=True, slots=True)
class AnalysedFunction:
    """A function that the app defines itself, in `language`."""

    syntax: ast.FunctionDefinition
    language: ScriptLanguage = field(compare=False, repr=False)

    def make(self) -> Script:
        """Compile the function for a caller in this process."""
        return self.language.compile(self.syntax.body)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a scalar function.

    `script` is set for a function that the app defines itself. `runner` runs its scripts; None runs them in the
    engine's process.
    """

    namespace: str
    name: str
    arguments: tuple[TypedExpression, ...]
    type: AttributeType
    script: AnalysedFunction | None = None
    syntax: ast.FunctionCall | None = field(default=None, compare=False, repr=False)
    runner: ScriptRunner | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A call of an aggregator. Each occurrence in a query is a separate instance with its own state."""

    namespace: str
    name: str
    arguments: tuple[TypedExpression, ...]
    type: AttributeType
    syntax: ast.FunctionCall | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`operator` is one of `* / % + -`; both operands are first converted to `type`."""

    operator: str
    left: TypedExpression
    right: TypedExpression
    type: AttributeType


@dataclass(frozen=True, slots=True)
class Comparison:
    """`operator` is one of `< <= > >= == !=`; numeric operands are compared as `operand_type`."""

    operator: str
    left: TypedExpression
    right: TypedExpression
    operand_type: AttributeType
    type: AttributeType = AttributeType.BOOL


@dataclass(frozen=True, slots=True)
class Logical:
    """`operator` is `and` or `or`."""

    operator: str
    left: TypedExpression
    right: TypedExpression
    type: AttributeType = AttributeType.BOOL


@dataclass(frozen=True, slots=True)
class Negation:
    """`not` and a condition."""

    operand: TypedExpression
    type: AttributeType = AttributeType.BOOL


@dataclass(frozen=True, slots=True)
class IsNullValue:
    """`is null` for the value of an expression."""

    operand: TypedExpression
    type: AttributeType = AttributeType.BOOL


@dataclass(frozen=True, slots=True)
class IsEmptySlot:
    """`e1 is null` of a state query: that slot (at that index) has no event."""

    slot: int
    index: ast.EventIndex | None = None
    type: AttributeType = AttributeType.BOOL


@dataclass(frozen=True, slots=True)
class InTable:
    """True when some row of `table` makes `condition` true (its `TableValue`s are that row's)."""

    condition: TypedExpression
    table: str
    type: AttributeType = AttributeType.BOOL


TypedExpression = (
    ConstantValue
    | AttributeValue
    | OutputValue
    | TableValue
    | EventReference
    | Call
    | Aggregate
    | Arithmetic
    | Comparison
    | Logical
    | Negation
    | IsNullValue
    | IsEmptySlot
    | InTable
)
