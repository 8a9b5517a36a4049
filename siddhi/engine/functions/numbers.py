"""`maximum` and `minimum` of several numbers."""

from __future__ import annotations

import numpy as np

from siddhi.engine.expressions.compiler import FUNCTIONS
from siddhi.engine.expressions.evaluation import Evaluation, Value, broadcast
from siddhi.engine.functions.calls import CallNode, valid_mask


class _Extreme(CallNode):
    """Nulls and NaNs are skipped; null when nothing is left. A single argument passes through."""

    largest: bool

    def evaluate(self, evaluation: Evaluation) -> Value:
        best = broadcast(self.arguments[0].evaluate(evaluation), evaluation.size)
        if len(self.arguments) == 1:
            return best
        values, known = best.values, _comparable(best, evaluation.size)
        for argument in self.arguments[1:]:
            other = broadcast(argument.evaluate(evaluation), evaluation.size)
            better = other.values > values if self.largest else other.values < values
            taken = _comparable(other, evaluation.size) & (better | ~known)
            values = np.where(taken, other.values, values)
            known = known | taken
        return Value(values, None if known.all() else known)


def _comparable(value: Value, size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    valid = valid_mask(value, size)
    return valid & ~np.isnan(value.values) if value.values.dtype.kind == "f" else valid


@FUNCTIONS.register("maximum")
class Maximum(_Extreme):
    """The largest of the arguments."""

    largest = True


@FUNCTIONS.register("minimum")
class Minimum(_Extreme):
    """The least of the arguments."""

    largest = False
