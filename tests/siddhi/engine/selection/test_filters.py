"""A filter whose condition fails for rows although it is declared as never failing."""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value
from siddhi.engine.operators.filters import Filter
from siddhi.language.ast import AttributeType


class Careless(ExpressionNode):
    """True for odd numbers; fails for 3 without declaring it."""

    type = AttributeType.BOOL

    def evaluate(self, evaluation: Evaluation) -> Value:
        numbers = evaluation.batch.columns["number"].values
        evaluation.fail(numbers == 3, "no 3")
        return Value(numbers % 2 == 1)


class NoAggregates(ExpressionCompiler):
    """Of a condition that holds none."""

    def __init__(self) -> None:
        self.aggregates = []


def test_rows_for_which_a_condition_fails_are_booked_though_it_never_said_that_it_can() -> None:
    numbers = np.arange(6)
    column = Column(AttributeType.LONG, StringPool(), numbers)
    batch = EventBatch(numbers, None, 2 * numbers + 1, numbers, {"number": column}, only_current=True)
    step = Step(numbers)
    passed = Filter(Careless(), NoAggregates(), ("number",)).process(batch, step)
    assert passed.columns["number"].to_list() == [1, 5]
    failures = step.taken_failures()
    assert failures is not None
    assert (np.concatenate(failures.orders).tolist(), failures.messages) == ([7], ["no 3"])
