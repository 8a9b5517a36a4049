"""`#pol2Cart(theta, rho[, z])`: adds Cartesian coordinates."""

from __future__ import annotations

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.base.operator import Operator, Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, broadcast
from siddhi.engine.operators.filters import drop_failed
from siddhi.engine.operators.stream_functions.stream_function import STREAM_FUNCTIONS
from siddhi.language.ast import AttributeType


@STREAM_FUNCTIONS.register("pol2Cart")
class PolarToCartesian(Operator):
    """A function that appends `x` and `y`, and `z` unchanged when given.

    The angle `theta` is in degrees. A row with a null argument fails.
    """

    def __init__(self, call: model.HandlerCall, compiler: ExpressionCompiler) -> None:
        self.nodes = [compiler.compile(argument) for argument in call.arguments]
        self.pool = compiler.context.pool

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        evaluation = Evaluation(batch)
        values = [broadcast(node.evaluate(evaluation), batch.size) for node in self.nodes]
        for value in values:
            if value.valid is not None:
                evaluation.fail(~value.valid, "null given to 'pol2Cart'")
        angle, distance = np.radians(values[0].values), values[1].values
        added = {"x": distance * np.cos(angle), "y": distance * np.sin(angle)}
        if len(values) > 2:
            added["z"] = values[2].values
        columns = {name: Column(AttributeType.DOUBLE, self.pool, values=array) for name, array in added.items()}
        result = batch.with_columns({**batch.columns, **columns})
        if evaluation.failed is None:
            return result
        return result.take(np.flatnonzero(drop_failed(evaluation, step)))

    def snapshot(self) -> State:
        return None

    def restore(self, state: State) -> None:
        """Do nothing: there is no state."""
