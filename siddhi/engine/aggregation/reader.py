"""Reads an aggregation for a query whose `within` and `per` may depend on an event."""

from __future__ import annotations

from collections.abc import Sequence

from siddhi.analysis import model
from siddhi.engine.aggregation.aggregation import Aggregation
from siddhi.engine.aggregation.period import parse_duration, within_bounds
from siddhi.engine.batch import Column, EventBatch
from siddhi.engine.expressions.compiler import ExpressionCompiler
from siddhi.engine.expressions.evaluation import Evaluation, Node, to_column
from siddhi.errors import Problem, SiddhiRuntimeError


class AggregationReader:
    """`within` and `per` of one query, made ready to be asked event by event."""

    def __init__(
        self,
        aggregation: Aggregation,
        within: Sequence[model.TypedExpression],
        per: model.TypedExpression,
        compiler: ExpressionCompiler,
    ) -> None:
        self.aggregation = aggregation
        self._within = [compiler.compile(bound) for bound in within]
        self._per = compiler.compile(per)

    def read(self, event: EventBatch) -> dict[str, Column]:
        """The rows that the one row of `event` asks for: the columns of the aggregation's schema.

        `SiddhiRuntimeError` when its period says nothing: `wrong-period`, `unknown-duration`, `duration-not-kept`.
        """
        per = self._value(self._per, event)
        if not isinstance(per, str):
            raise SiddhiRuntimeError(Problem("unknown-duration", "the duration of `per` is null"))
        bounds = [self._value(bound, event) for bound in self._within]
        within = within_bounds([bound if isinstance(bound, str | int) else None for bound in bounds])
        return self.aggregation.find_within(within, parse_duration(per))

    def _value(self, node: Node, event: EventBatch) -> object:
        value = node.evaluate(Evaluation(event))
        return to_column(value, node.type, self.aggregation.pool, 1).to_list()[0]
