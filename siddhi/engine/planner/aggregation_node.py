"""The node of an aggregation in the graph of an app."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch, empty_batch
from siddhi.engine.operators.base.operator import OperatorContext, Step
from siddhi.engine.operators.base.scope import source_key
from siddhi.engine.operators.environment import Environment
from siddhi.engine.operators.incremental_aggregation.aggregation import Aggregation
from siddhi.engine.operators.node import AppNode
from siddhi.engine.operators.source_chain import build_chain


class AggregationNode(AppNode):
    """Adds the events of the aggregation's source to its buckets and sends nothing."""

    def __init__(self, analysed: model.AnalysedAggregation, context: OperatorContext, environment: Environment) -> None:
        """Build the node of an aggregation.

        Args:
            analysed: The aggregation.
            context: The context for new operators.
            environment: What the queries of the app share.
        """
        environment.looked_into = set()
        self.name = f"aggregation {analysed.schema.id}"
        self.sources = (source_key(analysed.input),)
        self.arrival = (0,)
        self.aggregation = Aggregation(analysed, context)
        columns = self.aggregation.compiler.columns
        self.chain = build_chain(
            analysed.input, columns, context, expired=False, selected=(), in_table=environment.in_table
        )
        self.writes = frozenset({analysed.schema.id})
        self.reads = frozenset(environment.looked_into)
        self.parts = (*self.chain, self.aggregation)
        self._nothing = empty_batch((), context.pool)

    @cached_property
    def timed(self) -> bool:
        """Whether the node sets timers, which it uses to purge old buckets."""
        return self.aggregation.retention.enabled

    def process(self, inputs: Sequence[EventBatch], step: Step) -> EventBatch:
        """Add the events to the aggregation.

        Returns:
            No rows.
        """
        batch = inputs[0]
        for operator in self.chain:
            if batch.size:
                batch = operator.process(batch, step)
        self.aggregation.add(batch, step)
        return self._nothing
