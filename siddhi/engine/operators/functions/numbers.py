"""`maximum` and `minimum` of several numbers."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from siddhi.engine.jit.arrays import AnyArray
from siddhi.engine.operators.expressions.batch_program import EXTREME_BOUNDS
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import Evaluation, Value, broadcast
from siddhi.engine.operators.functions.calls import CallNode
from siddhi.engine.operators.functions.conversion import number_as


class _Extreme(CallNode):
    """Siddhi's extremes: doubles with an initial bound; nulls and NaNs are ignored.

    A single argument is returned as it is.

    Therefore the result is never null, longs beyond 2^53 lose precision, and no result lies beyond the bound.
    """

    bound: ClassVar[float]

    def evaluate(self, evaluation: Evaluation) -> Value:
        values = [broadcast(argument.evaluate(evaluation), evaluation.size) for argument in self.arguments]
        if len(values) == 1:
            return values[0]
        best: AnyArray = np.full(evaluation.size, self.bound)
        for value in values:
            counted = value.values.astype(np.float64, copy=False)
            best = self.better(best, counted if value.valid is None else np.where(value.valid, counted, np.nan))
        with np.errstate(over="ignore"):
            return Value(number_as(best, self.type))

    @abstractmethod
    def better(self, first: AnyArray, second: AnyArray) -> AnyArray:
        """Return the better number of each pair, the first of equal ones; NaN does not count."""


@FUNCTIONS.register("maximum")
class Maximum(_Extreme):
    """The largest of the arguments and the least positive double: 0 for whole numbers that are all negative."""

    bound = EXTREME_BOUNDS["maximum"]

    def better(self, first: AnyArray, second: AnyArray) -> AnyArray:
        return np.fmax(first, second)  # the bound is above both zeros


@FUNCTIONS.register("minimum")
class Minimum(_Extreme):
    """The least of the arguments; the largest number of the type when all are null."""

    bound = EXTREME_BOUNDS["minimum"]

    def better(self, first: AnyArray, second: AnyArray) -> AnyArray:
        lesser: AnyArray = np.fmin(first, second)
        zeros = lesser == 0.0
        if zeros.any():  # numpy returns either of -0.0 and 0.0, depending on the array's length
            np.copyto(lesser, first, where=zeros & (first == 0.0))
        return lesser
