"""Walk through typed expressions, and split conditions at `and`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    """Return the direct subexpressions of `expression`."""
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
    """Yield `expression` and all its subexpressions, outer ones first."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def has_aggregate(expression: TypedExpression) -> bool:
    """Return whether there is an aggregate anywhere in `expression`."""
    return any(isinstance(part, Aggregate) for part in walk(expression))


def conjuncts(condition: TypedExpression) -> Iterator[TypedExpression]:
    """Yield the expressions that must all be true for `condition` to be true."""
    if isinstance(condition, Logical) and condition.operator == "and":
        yield from conjuncts(condition.left)
        yield from conjuncts(condition.right)
    else:
        yield condition


def conjunction(parts: Sequence[TypedExpression]) -> TypedExpression | None:
    """Return one expression that is true where all `parts` are, or None without parts."""
    whole: TypedExpression | None = None
    for part in parts:
        whole = part if whole is None else Logical("and", whole, part)
    return whole
