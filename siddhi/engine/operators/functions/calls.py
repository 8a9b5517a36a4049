"""The common form of function nodes."""

from __future__ import annotations

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value, broadcast, to_column
from siddhi.language.ast import AttributeType


class CallNode(ExpressionNode):
    """The call of a function: its arguments' nodes and the type that analysis found for it."""

    def __init__(self, call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> None:
        self.name = call.name
        self.type = call.type
        self.arguments = arguments
        self.pool = pool


def as_lists(evaluation: Evaluation, node: ExpressionNode, value: Value, pool: StringPool) -> list[object]:
    """Return the values of `node` as Python objects, null as None."""
    return to_column(value, node.type, pool, evaluation.size).to_list()


def from_list(items: list[object], type_: AttributeType, pool: StringPool) -> Value:
    """Return the value made of Python objects, None as null."""
    column = Column.of(type_, pool, items)
    return Value(column.values, column.valid)


def never_null(value: Value, size: int) -> Value:
    """Return a bool value with false for null, as functions of type bool do."""
    values, valid = broadcast(value, size)
    return Value(values if valid is None else values & valid)


def valid_mask(value: Value, size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return where `value` is not null, as an array."""
    return np.ones(size, dtype=np.bool_) if value.valid is None else value.valid
