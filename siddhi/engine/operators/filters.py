"""Filters: pass the rows for which a condition is true."""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import BoolArray, Int64Array
from siddhi.engine.operators.base.operator import Operator, Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, FailureReasons, broadcast
from siddhi.engine.operators.expressions.leaves import ColumnNode


class Filter(Operator):
    """A filter that passes rows for which the condition is true, with only the columns `kept`.

    A reset is tested as the event whose values it carries, as in Siddhi, unless the condition holds aggregates.
    """

    def __init__(self, condition: ExpressionNode, compiler: ExpressionCompiler, kept: tuple[str, ...]) -> None:
        self.condition = condition
        self.kept = kept
        self.aggregates = compiler.aggregates
        self._plain = not (condition.can_fail or self.aggregates)

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        positions = self._picked(batch, step) if self._plain else self._passing(batch, step)
        if len(positions) == batch.size:
            return batch.with_columns({name: batch.columns[name] for name in self.kept})
        return batch.take(positions, self.kept)

    def _picked(self, batch: EventBatch, step: Step) -> Int64Array:
        """Return the rows that pass, as `_passing` does, for a condition declared as never failing.

        If a function in it fails nevertheless, its rows are recorded, too.
        """
        evaluation = Evaluation(batch)
        positions = self.condition.passing(evaluation)
        if evaluation.failed is not None:
            positions = positions[drop_failed(evaluation, step)[positions]]
        return positions

    def _passing(self, batch: EventBatch, step: Step) -> Int64Array:
        """Return the rows that pass, and record those that fail in `step`."""
        events = batch.event_rows() if self.aggregates and not batch.only_current else None
        evaluation = Evaluation(batch, events)
        passed = self.condition.truth(evaluation)
        if events is not None:
            passed = passed | ~events
        if evaluation.failed is not None:
            passed = passed & drop_failed(evaluation, step)
        rows: Int64Array = passed.nonzero()[0]
        return rows

    def snapshot(self) -> State:
        return [node.aggregator.snapshot() for node in self.aggregates]

    def restore(self, state: State) -> None:
        for node, part in zip(self.aggregates, state, strict=True):
            node.aggregator.restore(part)


def with_value(batch: EventBatch, node: ExpressionNode, step: Step, name: str) -> EventBatch:
    """Return the rows for which `node` is not null, and record the others in `step` as failed."""
    if isinstance(node, ColumnNode) and batch.columns[node.column].valid is None:  # true for nearly all batches
        return batch
    evaluation = Evaluation(batch)
    valid = broadcast(node.evaluate(evaluation), batch.size).valid
    if valid is None or valid.all():
        return batch
    evaluation.fail(~valid, f"{name} is null")
    return batch.take(np.flatnonzero(drop_failed(evaluation, step)))


def drop_failed(evaluation: Evaluation, step: Step) -> BoolArray:
    """Record the failed rows of `evaluation` in `step` and return the remaining positions.

    A failed row removes its whole chunk.
    """
    if evaluation.failed is None:
        return np.ones(evaluation.size, dtype=np.bool_)
    return drop_rows(evaluation.batch, evaluation.failed, evaluation.reasons, step)


def drop_rows(batch: EventBatch, failed: BoolArray, reasons: FailureReasons, step: Step) -> BoolArray:
    """Record the rows `failed` of `batch` in `step` and return the remaining positions, as `drop_failed` does.

    An input chunk may have become several: one for each run of a key in a partition, or for each row of a window that
    releases rows one by one. In this case a failed row also removes the rows after it, as in Siddhi.
    """
    (rows,) = failed.nonzero()
    orders = batch.orders[rows]
    for places, text in reasons.of(rows):
        step.failures.add(orders[places], text)
    chunks = batch.chunk_ids()
    left = ~np.isin(chunks, chunks[failed])
    arrived = step.arrived(orders)
    if batch.chunks is not None and arrived.any():
        known, first = np.unique(orders[arrived], return_index=True)
        at = np.minimum(np.searchsorted(known, batch.orders), len(known) - 1)
        left &= (known[at] != batch.orders) | (np.arange(batch.size) < rows[arrived][first][at])
    return left
