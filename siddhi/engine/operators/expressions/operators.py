"""Arithmetic, comparison and logic with Java's number types and Siddhi's nulls."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from siddhi.engine.columnar.column import DTYPES
from siddhi.engine.jit.arrays import BoolArray, Int64Array
from siddhi.engine.operators.expressions.evaluation import (
    Evaluation,
    ExpressionNode,
    Value,
    as_type,
    both_valid,
    broadcast,
)
from siddhi.engine.operators.expressions.leaves import ColumnNode, ConstantNode
from siddhi.language.ast import AttributeType

NUMERIC = frozenset({AttributeType.INT, AttributeType.LONG, AttributeType.FLOAT, AttributeType.DOUBLE})

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class ArithmeticNode(ExpressionNode):
    """`left operator right`, both taken as `type_`; null when an operand is null or a divisor zero."""

    def __init__(self, sign: str, left: ExpressionNode, right: ExpressionNode, type_: AttributeType) -> None:
        self.sign = sign
        self.left = left
        self.right = right
        self.type = type_
        self.mixed = left.type not in NUMERIC or right.type not in NUMERIC
        self.can_fail = self.mixed or left.can_fail or right.can_fail
        self.stateful = left.stateful or right.stateful

    def evaluate(self, evaluation: Evaluation) -> Value:
        left, left_valid = self.left.evaluate(evaluation)
        right, right_valid = self.right.evaluate(evaluation)
        valid = both_valid(left_valid, right_valid)
        if self.mixed:
            return self._refuse(evaluation, valid)
        left, right = as_type(left, self.type), as_type(right, self.type)
        if self.sign == "+":
            return Value(left + right, valid)
        if self.sign == "-":
            return Value(left - right, valid)
        if self.sign == "*":
            return Value(left * right, valid)
        zero = right == 0
        if zero.any():
            right = np.where(zero, right.dtype.type(1), right)
            valid = both_valid(valid, np.broadcast_to(~zero, (evaluation.size,)))
        if self.sign == "%":
            return Value(_remainder(left, right), valid)
        return Value(_quotient(left, right), valid)

    def _refuse(self, evaluation: Evaluation, valid: BoolArray | None) -> Value:
        rows = np.ones(evaluation.size, dtype=np.bool_) if valid is None else valid
        evaluation.fail(rows, f"'{self.sign}' between {self.left.type.value} and {self.right.type.value}")
        zeros = as_type(np.zeros(evaluation.size, dtype=np.int64), self.type)
        return Value(zeros, np.zeros(evaluation.size, dtype=np.bool_))


def _remainder(left: Any, right: Any) -> Any:
    if left.dtype.kind == "i":
        right = np.where(
            right == -1, right.dtype.type(1), right
        )  # gives the same remainder without overflow at the least int
    return np.fmod(left, right)


def _quotient(left: Any, right: Any) -> Any:
    if left.dtype.kind == "f":
        return left / right
    floor = left // right
    inexact = (floor * right != left) & ((left < 0) != (right < 0))
    return floor + inexact.astype(floor.dtype)


class ComparisonNode(ExpressionNode):
    """False if an operand is null, except for `!=`, which is true."""

    type = AttributeType.BOOL

    def __init__(self, sign: str, left: ExpressionNode, right: ExpressionNode, operand_type: AttributeType) -> None:
        self.compare = _COMPARE[sign]
        self.null_result = sign == "!="
        dtype = self.dtype = DTYPES[operand_type] if operand_type in NUMERIC else None
        self.left = left.converted(dtype) if dtype is not None and isinstance(left, ConstantNode) else left
        self.right = right.converted(dtype) if dtype is not None and isinstance(right, ConstantNode) else right
        self.can_fail = left.can_fail or right.can_fail
        self.stateful = left.stateful or right.stateful
        self._direct = self._column_and_bound()

    def evaluate(self, evaluation: Evaluation) -> Value:
        return Value(self._compared(evaluation))

    def truth(self, evaluation: Evaluation) -> BoolArray:
        result = self._compared(evaluation)
        return result if result.ndim else np.full(evaluation.size, bool(result))

    def passing(self, evaluation: Evaluation) -> Int64Array:
        if self._direct is None:
            return super().passing(evaluation)
        name, bound = self._direct
        column = evaluation.batch.columns[name]
        values = column.values
        if column.valid is not None:
            return super().passing(evaluation)
        rows: Int64Array = self.compare(values, bound).nonzero()[0]
        return rows

    def _column_and_bound(self) -> tuple[str, Any] | None:
        """Return the column and the bound of a comparison between a column and a constant of its type.

        Most filters are such comparisons; with few rows evaluating the operands costs more than the comparison itself.
        """
        left, right = self.left, self.right
        if isinstance(left, ColumnNode) and isinstance(right, ConstantNode) and DTYPES[left.type] is self.dtype:
            return left.column, right.value.values
        return None

    def _compared(self, evaluation: Evaluation) -> BoolArray:
        left, left_valid = self.left.evaluate(evaluation)
        right, right_valid = self.right.evaluate(evaluation)
        dtype = self.dtype  # `as_type` inlined, as most filters have comparisons
        if dtype is not None:
            left = left if left.dtype is dtype else left.astype(dtype, copy=False)
            right = right if right.dtype is dtype else right.astype(dtype, copy=False)
        result: BoolArray = np.asarray(self.compare(left, right))
        valid = both_valid(left_valid, right_valid)
        if valid is not None:
            result = result | ~valid if self.null_result else result & valid
        return result


class LogicalNode(ExpressionNode):
    """`and` or `or` with null as false.

    The right side is evaluated only for rows that the left side does not decide.
    """

    type = AttributeType.BOOL

    def __init__(self, sign: str, left: ExpressionNode, right: ExpressionNode) -> None:
        self.conjunction = sign == "and"
        self.left = left
        self.right = right
        self.can_fail = left.can_fail or right.can_fail
        self.stateful = left.stateful or right.stateful

    def evaluate(self, evaluation: Evaluation) -> Value:
        left = self.left.truth(evaluation)
        if not (self.right.can_fail or self.right.stateful):
            right = self.right.truth(evaluation)
        else:
            right = evaluate_where(self.right, evaluation, left if self.conjunction else ~left).values
        return Value(left & right if self.conjunction else left | right)


def evaluate_where(node: ExpressionNode, evaluation: Evaluation, rows: BoolArray) -> Value:
    """Return the value of `node` for the active rows among `rows`; others are unspecified (a bool is false)."""
    before = evaluation.active
    evaluation.active = rows if before is None else before & rows
    if node.type is AttributeType.BOOL:
        value = Value(node.truth(evaluation) & evaluation.active)
    else:
        value = broadcast(node.evaluate(evaluation), evaluation.size)
    failed = evaluation.failed
    evaluation.active = before if failed is None else (~failed if before is None else before & ~failed)
    return value


def decision(condition: ExpressionNode) -> ExpressionNode:
    """Return a node for `condition` on pairs of rows; as in Siddhi, rows fail where it is not a bool."""
    return condition if condition.type is AttributeType.BOOL else NonBooleanConditionNode(condition)


class NonBooleanConditionNode(ExpressionNode):
    """A condition of another type than bool: every row fails."""

    type = AttributeType.BOOL
    can_fail = True

    def __init__(self, condition: ExpressionNode) -> None:
        self.condition = condition
        self.stateful = condition.stateful

    def evaluate(self, evaluation: Evaluation) -> Value:
        self.condition.evaluate(evaluation)
        message = f"the condition is not a bool but of type {self.condition.type.value}"
        evaluation.fail(np.ones(evaluation.size, dtype=np.bool_), message)
        return Value(np.zeros(evaluation.size, dtype=np.bool_))


class NotNode(ExpressionNode):
    """True where the operand is false or null."""

    type = AttributeType.BOOL

    def __init__(self, operand: ExpressionNode) -> None:
        self.operand = operand
        self.can_fail = operand.can_fail
        self.stateful = operand.stateful

    def evaluate(self, evaluation: Evaluation) -> Value:
        return Value(~self.operand.truth(evaluation))


class IsNullNode(ExpressionNode):
    """True where the operand is null."""

    type = AttributeType.BOOL

    def __init__(self, operand: ExpressionNode) -> None:
        self.operand = operand
        self.can_fail = operand.can_fail
        self.stateful = operand.stateful

    def evaluate(self, evaluation: Evaluation) -> Value:
        valid = self.operand.evaluate(evaluation).valid
        return Value(np.zeros(evaluation.size, dtype=np.bool_) if valid is None else ~valid)
