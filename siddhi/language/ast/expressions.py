"""Expressions, and the types of attributes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from siddhi.spans import Span, span_field


class AttributeType(str, Enum):
    """The attribute types of SiddhiQL: `int` and `float` have 32 bits, `long` and `double` 64."""

    STRING = "string"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BOOL = "bool"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; `value` is a bool, int, float or str according to `type`."""

    value: bool | int | float | str
    type: AttributeType
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class TimeConstant:
    """A time literal such as `1 min 30 sec`: `parts` as written, (amount, canonical unit); a long in milliseconds."""

    parts: tuple[tuple[int, str], ...]
    milliseconds: int
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class EventIndex:
    """The index of an event in a counted pattern element: `[k]` counts from the first, `[last - k]` from the last."""

    offset: int
    from_last: bool = False


@dataclass(frozen=True, slots=True)
class SourceReference:
    """A stream, alias or pattern reference before an attribute, or alone in `e1 is null`.

    `inner` and `fault` mean that the name was written `#name` or `!name`; `nested` is the `inner` of `S#inner.attr`.
    """

    name: str
    inner: bool = False
    fault: bool = False
    index: EventIndex | None = None
    nested: str | None = None
    nested_index: EventIndex | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Attribute:
    """`name` or `source.name`."""

    name: str
    source: SourceReference | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call `namespace:name(arguments)`.

    `star` is set when the argument list was `*`. An argument may be an indexed event (`e1[0]`); a plain one (`e1`) is
    parsed as an `Attribute`.
    """

    namespace: str
    name: str
    arguments: tuple[Expression | SourceReference, ...] = ()
    star: bool = False
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Not:
    """`not` and an expression."""

    operand: Expression
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Binary:
    """`operator` is one of `* / % + - < <= > >= == != and or`."""

    operator: str
    left: Expression
    right: Expression
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class IsNull:
    """`operand is null`. A bare name is parsed as an `Attribute`; analysis decides whether it means a stream's slot."""

    operand: Attribute | SourceReference | FunctionCall
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class In:
    """`operand in table`."""

    operand: Expression
    table: str
    span: Span = span_field()


Expression = Constant | TimeConstant | Attribute | FunctionCall | Not | Binary | IsNull | In
