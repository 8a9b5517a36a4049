"""`and` and `or` over stored bools."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.jit.kernels import grown, kernel_array, kernel_mask, regrouped, state_kernel
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.aggregation import AGGREGATORS, AggregateInput, Aggregator
from siddhi.engine.operators.expressions.evaluation import Value


@state_kernel
def _run_truths(values, kinds, groups, fresh, counts, out):  # type: ignore[no-untyped-def]
    """Count falses (column 0) and trues (column 1) of each group; write both after each row."""
    for row in range(len(values)):
        group = groups[row]
        if len(fresh) and fresh[row]:
            counts[group, 0] = counts[group, 1] = 0
        if kinds[row] == CURRENT:
            counts[group, 1 if values[row] else 0] += 1
        elif kinds[row] == EXPIRED:
            counts[group, 1 if values[row] else 0] -= 1
        out[row, 0], out[row, 1] = counts[group, 0], counts[group, 1]


class _Truths(Aggregator):
    """The counts of both truth values; a row with a null argument fails."""

    can_fail = True

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        self.name = call.name
        self.counts: Int64Array = np.zeros((8, 2), dtype=np.int64)

    def count(self, rows: AggregateInput) -> Int64Array:
        """Return the falses and trues of each row's group, (n, 2)."""
        kinds = rows.kinds
        if rows.valid is not None:
            counted = (kinds == CURRENT) | (kinds == EXPIRED)
            nulls = ~rows.valid & counted
            rows.evaluation.fail(nulls, f"null given to the aggregator '{self.name}'")
            kinds = np.where(rows.evaluation.from_first(nulls) & counted, np.int8(-1), kinds)
        self.counts = grown(self.counts, rows.group_count)
        out = np.empty((len(kinds), 2), dtype=np.int64)
        values, groups = kernel_array(rows.values), kernel_array(rows.groups)
        _run_truths(values, kernel_array(kinds), groups, kernel_mask(rows.fresh), self.counts, out)
        return out

    def keep_groups(self, kept: Int64Array) -> None:
        self.counts = regrouped(self.counts, kept)

    def joined(self, states: Sequence[State], counts: Sequence[int]) -> State:
        return np.concatenate([grown(state, count)[:count] for state, count in zip(states, counts, strict=True)])

    def snapshot(self) -> State:
        return self.counts.copy()

    def restore(self, state: State) -> None:
        self.counts = state


@AGGREGATORS.register("and")
class AllTrue(_Truths):
    """True when there are trues and no falses."""

    def update(self, rows: AggregateInput) -> Value:
        counts = self.count(rows)
        return Value((counts[:, 1] > 0) & (counts[:, 0] == 0))


@AGGREGATORS.register("or")
class AnyTrue(_Truths):
    """True when there is a true."""

    def update(self, rows: AggregateInput) -> Value:
        return Value(self.count(rows)[:, 1] > 0)
