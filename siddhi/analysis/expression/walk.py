"""Walking through typed expressions."""

from __future__ import annotations

from collections.abc import Iterator

from siddhi.analysis.model import (
    Aggregate,
    Arithmetic,
    Call,
    Comparison,
    InTable,
    IsNullValue,
    Logical,
    Negation,
    TypedExpression,
)


def children(expression: TypedExpression) -> tuple[TypedExpression, ...]:
    """The expressions right inside `expression`."""
    match expression:
        case Call() | Aggregate():
            return expression.arguments
        case Arithmetic() | Comparison() | Logical():
            return expression.left, expression.right
        case Negation() | IsNullValue():
            return (expression.operand,)
        case InTable():
            return (expression.condition,)
        case _:
            return ()


def walk(expression: TypedExpression) -> Iterator[TypedExpression]:
    """`expression` and all that lies inside it, outside first."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def has_aggregate(expression: TypedExpression) -> bool:
    """True when an aggregate stands anywhere in `expression`."""
    return any(isinstance(part, Aggregate) for part in walk(expression))
