"""Constants and references, the sources of values."""

from __future__ import annotations

from typing import Any

import numpy as np

from siddhi.engine.columnar.column import DTYPES
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value
from siddhi.language.ast import AttributeType


class ConstantNode(ExpressionNode):
    """A number or bool in the plan's text; a float too large for its type is infinite."""

    def __init__(self, value: bool | float, type_: AttributeType) -> None:
        self.type = type_
        with np.errstate(over="ignore"):
            self.value = Value(DTYPES[type_].type(value))

    def converted(self, dtype: np.dtype[np.generic]) -> ConstantNode:
        """Return the same number in another dtype."""
        node = ConstantNode(0, self.type)
        with np.errstate(over="ignore"):
            node.value = Value(self.value.values.astype(dtype))
        return node

    def evaluate(self, evaluation: Evaluation) -> Value:
        return self.value


class StringConstantNode(ExpressionNode):
    """A string in the plan's text; its code is looked up each time, since codes change when the pool is compacted."""

    type = AttributeType.STRING

    def __init__(self, text: str, pool: StringPool) -> None:
        self.text = text
        self.pool = pool

    def evaluate(self, evaluation: Evaluation) -> Value:
        return Value(np.int64(self.pool.code(self.text)))


class ColumnNode(ExpressionNode):
    """A column of the batch."""

    def __init__(self, column: str, type_: AttributeType) -> None:
        self.column = column
        self.type = type_

    def evaluate(self, evaluation: Evaluation) -> Value:
        column = evaluation.batch.columns[self.column]
        return Value(column.values, column.valid)


class OutputNode(ExpressionNode):
    """An output value of the query that was evaluated before."""

    def __init__(self, name: str, type_: AttributeType) -> None:
        self.name = name
        self.type = type_

    def evaluate(self, evaluation: Evaluation) -> Value:
        return evaluation.outputs[self.name]


class EmptySlotNode(ExpressionNode):
    """A test of whether a slot has no event, by the slot's `EVENT_PRESENT` column."""

    type = AttributeType.BOOL

    def __init__(self, column: str) -> None:
        self.column = column

    def evaluate(self, evaluation: Evaluation) -> Value:
        present = evaluation.batch.columns[self.column]
        return Value(~present.values if present.valid is None else ~(present.values & present.valid))


class TimestampNode(ExpressionNode):
    """The timestamp of each row."""

    type = AttributeType.LONG

    def evaluate(self, evaluation: Evaluation) -> Value:
        return Value(evaluation.batch.timestamps)


class ClockNode(ExpressionNode):
    """The app's clock at each row."""

    type = AttributeType.LONG

    def evaluate(self, evaluation: Evaluation) -> Value:
        return Value(evaluation.batch.clocks)


def scalar_or_none(node: ExpressionNode) -> Any:
    """Return the plain value of a constant node, None for any other."""
    if isinstance(node, ConstantNode):
        return node.value.values.item()
    return node.text if isinstance(node, StringConstantNode) else None
