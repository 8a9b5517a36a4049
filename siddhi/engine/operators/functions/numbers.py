"""`maximum` and `minimum` of several numbers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from siddhi.engine.jit.arrays import AnyArray
from siddhi.engine.operators.expressions.batch_program import EXTREME_BOUNDS
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import Evaluation, Value, broadcast
from siddhi.engine.operators.functions.calls import CallNode
from siddhi.engine.operators.functions.conversion import number_as


class _Extreme(CallNode):
    """Siddhi's extremes: doubles that start from a bound; nulls and NaNs do not count. One argument passes through.

    So the answer is never null, longs beyond 2^53 lose digits, and no answer lies beyond the bound.
    """

    bound: ClassVar[float]
    better: ClassVar[np.ufunc]

    def evaluate(self, evaluation: Evaluation) -> Value:
        values = [broadcast(argument.evaluate(evaluation), evaluation.size) for argument in self.arguments]
        if len(values) == 1:
            return values[0]
        best: AnyArray = np.full(evaluation.size, self.bound)
        for value in values:
            counted = value.values.astype(np.float64, copy=False)
            better = self.better(counted, best)  # not for NaN; of equal zeros the first stays
            np.copyto(best, counted, where=better if value.valid is None else better & value.valid)
        with np.errstate(over="ignore"):
            return Value(number_as(best, self.type))


@FUNCTIONS.register("maximum")
class Maximum(_Extreme):
    """The largest of the arguments and the least positive double: 0 for whole numbers that are all negative."""

    bound = EXTREME_BOUNDS["maximum"]
    better = np.greater


@FUNCTIONS.register("minimum")
class Minimum(_Extreme):
    """The least of the arguments; the largest number of the type when all are null."""

    bound = EXTREME_BOUNDS["minimum"]
    better = np.less
