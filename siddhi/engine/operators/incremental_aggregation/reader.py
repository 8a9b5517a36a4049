"""Reads an aggregation for a query whose `within` and `per` may depend on an event."""

from __future__ import annotations

from collections.abc import Sequence

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, to_column
from siddhi.engine.operators.incremental_aggregation.aggregation import Aggregation
from siddhi.engine.operators.incremental_aggregation.period import parse_duration, within_bounds
from siddhi.errors import Problem, SiddhiRuntimeError


class AggregationReader:
    """`within` and `per` of one query, made ready to be asked event by event.

    In a join the event has `slot`; in a question from outside (`slot` None) there is none. `columns` are those of the
    event that are read. `SiddhiRuntimeError` `wrong-period` when anything else is.
    """

    def __init__(
        self,
        aggregation: Aggregation,
        within: Sequence[model.TypedExpression],
        per: model.TypedExpression,
        context: OperatorContext,
        slot: int | None = None,
    ) -> None:
        compiler = ExpressionCompiler(context, several=slot is not None)
        self.aggregation = aggregation
        self._joined = slot is not None
        self.columns = compiler.columns
        self._within = [compiler.compile(bound) for bound in within]
        self._per = compiler.compile(per)
        for column in self.columns:
            if slot is None or not column.startswith(f"{slot}."):
                message = f"the period in which '{aggregation.id}' is read depends on the rows that are to be read"
                hint = "use constants or, in a join, attributes of the other side"
                raise SiddhiRuntimeError(Problem("wrong-period", message, hint))

    def read(self, event: EventBatch) -> dict[str, Column]:
        """Return the rows that the one row of `event` asks for: the columns of the aggregation's schema.

        `SiddhiRuntimeError` when its period says nothing: `wrong-period`, `unknown-duration`, `duration-not-kept`.
        """
        per = self._value(self._per, event)
        if not isinstance(per, str):
            raise SiddhiRuntimeError(Problem("unknown-duration", "the duration of `per` is null"))
        bounds = [self._value(bound, event) for bound in self._within]
        within = within_bounds([bound if isinstance(bound, str | int) else None for bound in bounds])
        return self.aggregation.find(within.start_ms, within.end_ms, parse_duration(per), joined=self._joined)

    def _value(self, node: ExpressionNode, event: EventBatch) -> object:
        value = node.evaluate(Evaluation(event))
        return to_column(value, node.type, self.aggregation.pool, 1).to_list()[0]
