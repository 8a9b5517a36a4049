"""Conditions that compare a value of the event under test with a value of one earlier event.

`symbol == e1.symbol and price > e1.price * 1.1` is two comparisons, each with the event under test on one side and one
earlier slot on the other. Each side is an expression over one event alone, so it is computed for whole batches when its
event comes, and the state loop only compares numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.language.ast import AttributeType

_SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WHOLE = frozenset({AttributeType.INT, AttributeType.LONG, AttributeType.BOOL, AttributeType.STRING})
_FRACTIONS = frozenset({AttributeType.FLOAT, AttributeType.DOUBLE})
_TRUE = model.ConstantValue(value=True, type=AttributeType.BOOL)


@dataclass(frozen=True, slots=True)
class SlotComparison:
    """`event operator kept`: `event` reads the event under test, `kept` the event in slot `slot`.

    Both sides are converted to `operand_type`; with `fractions` they are compared as doubles, otherwise as integers.
    """

    operator: str
    event: model.TypedExpression
    slot: int
    kept: model.TypedExpression
    operand_type: AttributeType

    @property
    def fractions(self) -> bool:
        return self.operand_type in _FRACTIONS


@dataclass(frozen=True, slots=True)
class SlotTest:
    """`event operator constant`: `event` reads the event under test; both sides are converted to `operand_type`."""

    operator: str
    event: model.TypedExpression
    constant: bool | int | float | str
    operand_type: AttributeType

    @property
    def fractions(self) -> bool:
        return self.operand_type in _FRACTIONS


def separate_test(condition: model.TypedExpression) -> SlotTest:
    """Return `condition`, which reads only the event under test, as a test of it.

    In the general case it is a test of whether the condition is true.
    """
    if isinstance(condition, model.Comparison) and condition.operand_type in _WHOLE | _FRACTIONS:
        left, right = condition.left, condition.right
        if _is_constant(right):
            return SlotTest(condition.operator, left, right.value, condition.operand_type)
        if _is_constant(left):
            return SlotTest(_SWAPPED[condition.operator], right, left.value, condition.operand_type)
    return SlotTest("==", condition, constant=True, operand_type=AttributeType.BOOL)


def _is_constant(expression: model.TypedExpression) -> TypeGuard[model.ConstantValue]:
    return isinstance(expression, model.ConstantValue) and expression.value is not None


def separate(condition: model.TypedExpression, own: int) -> SlotComparison | None:
    """Return `condition` of the element with slot `own` as one comparison, or None if it does not have that form."""
    slots = _slots(condition)
    if slots is None:
        return None
    foreign = slots - {own}
    if len(foreign) != 1:
        return None
    slot = foreign.pop()
    if slots == {slot}:
        return SlotComparison("==", _TRUE, slot, condition, AttributeType.BOOL)
    if not isinstance(condition, model.Comparison) or condition.operand_type not in _WHOLE | _FRACTIONS:
        return None
    left, right = _slots(condition.left), _slots(condition.right)
    if left is None or right is None:
        return None
    if left <= {own} and right == {slot}:
        return SlotComparison(condition.operator, condition.left, slot, condition.right, condition.operand_type)
    if right <= {own} and left == {slot}:
        operator = _SWAPPED[condition.operator]
        return SlotComparison(operator, condition.right, slot, condition.left, condition.operand_type)
    return None


def separate_all(conditions: Sequence[model.TypedExpression], own: int) -> tuple[SlotComparison, ...] | None:
    """Return all of `conditions` as comparisons, or None when one of them is not of that form."""
    comparisons: list[SlotComparison] = []
    for condition in conditions:
        comparison = separate(condition, own)
        if comparison is None:
            return None
        comparisons.append(comparison)
    return tuple(comparisons)


def _slots(expression: model.TypedExpression) -> set[int] | None:
    """Return the slots that `expression` reads by plain references.

    Return None when it reads anything else of the machine, or tables.
    """
    slots: set[int] = set()
    for part in walk(expression):
        if isinstance(part, model.AttributeValue):
            if part.index is not None or part.all_events:
                return None
            slots.add(part.slot)
        elif isinstance(part, model.EventReference | model.IsEmptySlot | model.InTable | model.Aggregate):
            return None
    return slots
