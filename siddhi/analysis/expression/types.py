"""The typing rules of operators."""

from __future__ import annotations

from siddhi.language.ast import AttributeType

NUMERIC = (AttributeType.INT, AttributeType.LONG, AttributeType.FLOAT, AttributeType.DOUBLE)
"""The number types from narrow to wide."""

_EQUALITIES = frozenset({"==", "!="})
_EQUALITY_TYPES = frozenset({AttributeType.STRING, AttributeType.BOOL})
_LONG_AND_FLOAT = {AttributeType.LONG, AttributeType.FLOAT}


def is_number(attribute_type: AttributeType) -> bool:
    """Return whether values of the type are numbers."""
    return attribute_type in NUMERIC


def arithmetic_type(left: AttributeType, right: AttributeType) -> AttributeType | None:
    """Return the type of `left + right`, which is the wider of the two numeric types, or None if neither is numeric.

    As in Siddhi, one operand may be non-numeric: the type is then that of the other, and the events fail at run time.
    """
    numbers = [NUMERIC.index(operand) for operand in (left, right) if is_number(operand)]
    return NUMERIC[max(numbers)] if numbers else None


def comparison_type(operator: str, left: AttributeType, right: AttributeType) -> AttributeType | None:
    """Return the type in which `left operator right` compares; None if they cannot be compared.

    A long and a float are ordered as floats, as in Java, but compared for equality as doubles.
    """
    if is_number(left) and is_number(right):
        if operator in _EQUALITIES and {left, right} == _LONG_AND_FLOAT:
            return AttributeType.DOUBLE
        return arithmetic_type(left, right)
    if operator in _EQUALITIES and left is right and left in _EQUALITY_TYPES:
        return left
    return None
