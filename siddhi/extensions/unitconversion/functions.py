"""`unitconversion:` functions over whole columns."""

from __future__ import annotations

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.operators.expressions.compiler import FUNCTIONS
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value
from siddhi.engine.operators.functions.calls import CallNode
from siddhi.extensions.unitconversion.declarations import SIZES


class Conversion(CallNode):
    """The argument times the ratio of its unit to the other; a null fails."""

    def __init__(self, call: model.Call, arguments: tuple[ExpressionNode, ...], pool: StringPool) -> None:
        super().__init__(call, arguments, pool)
        self.source, self.target = SIZES[call.name]
        self.can_fail = True

    def evaluate(self, evaluation: Evaluation) -> Value:
        values, valid = self.arguments[0].evaluate(evaluation)
        if valid is not None:
            evaluation.fail(~valid, f"the argument of 'unitconversion:{self.name}' is null")
        return Value(values.astype(np.float64) * self.source / self.target, valid)


for _name in SIZES:
    FUNCTIONS.register(_name, "unitconversion")(Conversion)
