"""Filters: the rows that make a condition true."""

from __future__ import annotations

import numpy as np

from siddhi.engine.arrays import BoolArray
from siddhi.engine.batch import EventBatch
from siddhi.engine.expressions.compiler import ExpressionCompiler
from siddhi.engine.expressions.evaluation import Evaluation, Node
from siddhi.engine.operator import Operator, Step
from siddhi.engine.state import State


class Filter(Operator):
    """Lets current and expired rows through where the condition is true, and resets always; of each only the columns
    `kept`."""

    def __init__(self, condition: Node, compiler: ExpressionCompiler, kept: tuple[str, ...]) -> None:
        self.condition = condition
        self.kept = kept
        self.aggregates = compiler.aggregates

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        events = None if batch.only_current else batch.event_rows()
        evaluation = Evaluation(batch, events)
        passed = self.condition.truth(evaluation)
        if events is not None:
            passed = passed | ~events
        if evaluation.failed is not None:
            passed = passed & drop_failed(evaluation, step)
        (positions,) = passed.nonzero()
        if len(positions) == batch.size:
            return batch.with_columns({name: batch.columns[name] for name in self.kept})
        return batch.take(positions, self.kept)

    def snapshot(self) -> State:
        return [node.aggregator.snapshot() for node in self.aggregates]

    def restore(self, state: State) -> None:
        for node, part in zip(self.aggregates, state, strict=True):
            node.aggregator.restore(part)


def drop_failed(evaluation: Evaluation, step: Step) -> BoolArray:
    """Books the failed rows of `evaluation` in `step`; returns where rows are left: a failed row takes its chunk with
    it."""
    batch, failed = evaluation.batch, evaluation.failed
    if failed is None:
        return np.ones(batch.size, dtype=np.bool_)
    step.failures.add(batch.orders[failed], evaluation.message)
    chunks = batch.chunk_ids()
    return ~np.isin(chunks, chunks[failed])
