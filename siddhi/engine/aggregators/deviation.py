"""`stdDev`: the population standard deviation of what is held."""

from __future__ import annotations

import numpy as np

from siddhi.analysis import model
from siddhi.engine.arrays import FloatArray, Int64Array
from siddhi.engine.expressions.aggregation import AGGREGATORS, AggregateInput, Aggregator
from siddhi.engine.expressions.evaluation import Value
from siddhi.engine.kernels import grown, kernel, kernel_array, kernel_mask, regrouped
from siddhi.engine.kinds import CURRENT, EXPIRED
from siddhi.engine.operator import OperatorContext
from siddhi.engine.state import State

_SUM, _MEAN, _SQUARES = 0, 1, 2


@kernel
def _run_deviation(values, valid, kinds, groups, fresh, moments, counts, out, out_count):  # type: ignore[no-untyped-def]
    """Welford's running update of (sum, mean, squared distances) with its inverse for leaving values."""
    for row in range(len(values)):
        group = groups[row]
        state = moments[group]
        if len(fresh) and fresh[row]:
            counts[group] = 0
            state[:] = 0.0
        if len(valid) == 0 or valid[row]:
            value = values[row]
            if kinds[row] == CURRENT:
                counts[group] += 1
                if counts[group] == 1:
                    state[_SUM] = value
                    state[_MEAN] = value
                    state[_SQUARES] = 0.0
                else:
                    old = state[_MEAN]
                    state[_SUM] += value
                    state[_MEAN] = state[_SUM] / counts[group]
                    state[_SQUARES] += (value - old) * (value - state[_MEAN])
            elif kinds[row] == EXPIRED:
                counts[group] -= 1
                if counts[group] == 0:
                    state[:] = 0.0
                else:
                    old = state[_MEAN]
                    state[_SUM] -= value
                    state[_MEAN] = state[_SUM] / counts[group]
                    state[_SQUARES] -= (value - old) * (value - state[_MEAN])
        out_count[row] = counts[group]
        out[row] = 0.0 if counts[group] <= 1 else np.sqrt(state[_SQUARES] / counts[group])


@AGGREGATORS.register("stdDev")
class StandardDeviation(Aggregator):
    """0 for a single value, null when nothing but nulls is held."""

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        self.moments: FloatArray = np.zeros((8, 3))
        self.counts: Int64Array = np.zeros(8, dtype=np.int64)

    def update(self, rows: AggregateInput) -> Value:
        self.moments = grown(self.moments, rows.group_count)
        self.counts = grown(self.counts, rows.group_count)
        out = np.empty(len(rows.kinds))
        count = np.empty(len(rows.kinds), dtype=np.int64)
        values = kernel_array(rows.values, np.float64)
        mask, fresh = kernel_mask(rows.valid), kernel_mask(rows.fresh)
        kinds, groups = kernel_array(rows.kinds), kernel_array(rows.groups)
        _run_deviation(values, mask, kinds, groups, fresh, self.moments, self.counts, out, count)
        held = count != 0
        return Value(out, None if held.all() else held)

    def keep_groups(self, kept: Int64Array) -> None:
        self.moments = regrouped(self.moments, kept)
        self.counts = regrouped(self.counts, kept)

    def snapshot(self) -> State:
        return [self.moments.copy(), self.counts.copy()]

    def restore(self, state: State) -> None:
        self.moments, self.counts = state
