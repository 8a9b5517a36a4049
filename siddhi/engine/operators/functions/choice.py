"""`coalesce`, `default` and `ifThenElse`: functions that select one of their arguments."""

from __future__ import annotations

import numpy as np

from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import Evaluation, Value, broadcast
from siddhi.engine.operators.expressions.operators import evaluate_where
from siddhi.engine.operators.functions.calls import CallNode, never_null, valid_mask
from siddhi.language.ast import AttributeType


class _Choice(CallNode):
    def first_valid(self, evaluation: Evaluation) -> Value:
        """Return for each row the first argument that is not null, null when all are.

        Every argument sees every row.
        """
        values, valid = broadcast(self.arguments[0].evaluate(evaluation), evaluation.size)
        for argument in self.arguments[1:]:
            if valid is None and not (argument.can_fail or argument.stateful):
                continue
            other = broadcast(argument.evaluate(evaluation), evaluation.size)
            if valid is None:
                continue
            values = np.where(valid, values, other.values)
            filled = valid | valid_mask(other, evaluation.size)
            valid = None if filled.all() else filled
        value = Value(values, valid)
        return never_null(value, evaluation.size) if self.type is AttributeType.BOOL else value


@FUNCTIONS.register("coalesce")
class Coalesce(_Choice):
    """The first argument that is not null."""

    def evaluate(self, evaluation: Evaluation) -> Value:
        return self.first_valid(evaluation)


@FUNCTIONS.register("default")
class Default(_Choice):
    """The attribute, or the constant where it is null."""

    def evaluate(self, evaluation: Evaluation) -> Value:
        return self.first_valid(evaluation)


@FUNCTIONS.register("ifThenElse")
class IfThenElse(CallNode):
    """The second argument where the first is true, else the third; only the selected one can fail."""

    def evaluate(self, evaluation: Evaluation) -> Value:
        condition, then, otherwise = self.arguments
        truth = condition.truth(evaluation)
        yes = evaluate_where(then, evaluation, truth)
        no = evaluate_where(otherwise, evaluation, ~truth)
        values = np.where(truth, yes.values, no.values)
        valid = None
        if yes.valid is not None or no.valid is not None:
            valid = np.where(truth, valid_mask(yes, evaluation.size), valid_mask(no, evaluation.size))
        value = Value(values, valid)
        return never_null(value, evaluation.size) if self.type is AttributeType.BOOL else value
