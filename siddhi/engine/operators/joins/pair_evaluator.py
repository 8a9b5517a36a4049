"""Test pairs of events and rows of the other side: some match, and for some the condition fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.jit.arrays import BoolArray, Int64Array
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, FailureReasons
from siddhi.engine.operators.joins.side import JoinFailures
from siddhi.engine.operators.tables.careful import as_current
from siddhi.engine.operators.tables.pairs import Pairs


class PairEvaluator:
    """Evaluates a condition for pairs of `events` and rows of the other side, and records events that fail."""

    def __init__(self, events: EventBatch, condition: ExpressionNode | None) -> None:
        self._events = events
        self._condition = condition
        self._failed: BoolArray | None = None
        self._reasons = FailureReasons()

    @property
    def failures(self) -> JoinFailures | None:
        """The events for which it failed, None if there are none."""
        return None if self._failed is None else JoinFailures(self._failed, self._reasons)

    def fail(self, events: Int64Array, reasons: FailureReasons) -> None:
        """Record that the condition failed for `events`."""
        if self._failed is None:
            self._failed = np.zeros(self._events.size, dtype=np.bool_)
        self._failed[events] = True
        self._reasons = self._reasons.and_then(reasons)

    def fail_as(self, other: PairEvaluator) -> None:
        """Record the events for which the condition of `other` failed."""
        if other._failed is not None:
            self.fail(np.flatnonzero(other._failed), other._reasons)

    def narrowed(self, blocks: Iterable[Pairs], held: Mapping[str, Column]) -> Iterator[Pairs]:
        """Yield the pairs of the events and rows `held` for which the condition is true."""
        for pairs in blocks:
            if self._condition is None:
                yield pairs
                continue
            rows = self._events.take(pairs.probes)
            columns = {name: column.take(pairs.places) for name, column in held.items()}
            met = rows.with_columns({**rows.columns, **columns})
            evaluation = Evaluation(as_current(met) if self._condition.stateful else met)
            truth = self._condition.truth(evaluation)
            if evaluation.failed is not None:
                self.fail(pairs.probes[evaluation.failed], evaluation.reasons.through(pairs.probes))
                truth = truth & ~evaluation.failed
            (left,) = truth.nonzero()
            yield Pairs(pairs.probes[left], pairs.places[left])
