"""`sum`, `avg` and `count`: aggregates that keep a total and a count for each group."""

from __future__ import annotations

import numpy as np

from siddhi.analysis import model
from siddhi.engine.arrays import AnyArray, Int64Array
from siddhi.engine.expressions.aggregation import AGGREGATORS, AggregateInput, Aggregator
from siddhi.engine.expressions.evaluation import Value
from siddhi.engine.kernels import grown, kernel, kernel_array, kernel_mask, regrouped
from siddhi.engine.kinds import CURRENT, EXPIRED
from siddhi.engine.operator import OperatorContext
from siddhi.engine.state import State
from siddhi.language.ast import AttributeType


@kernel
def _run_totals(values, valid, kinds, groups, fresh, totals, counts, out, out_count):  # type: ignore[no-untyped-def]
    """Adds and removes `values` row by row; writes each row's group total and count of non-null values."""
    for row in range(len(values)):
        group = groups[row]
        if len(fresh) and fresh[row]:
            totals[group] = 0
            counts[group] = 0
        if len(valid) == 0 or valid[row]:
            if kinds[row] == CURRENT:
                totals[group] += values[row]
                counts[group] += 1
            elif kinds[row] == EXPIRED:
                totals[group] -= values[row]
                counts[group] -= 1
        out[row] = totals[group]
        out_count[row] = counts[group]


@kernel
def _run_counts(kinds, groups, fresh, counts, out):  # type: ignore[no-untyped-def]
    """Counts rows up and down; writes each row's group count."""
    for row in range(len(kinds)):
        group = groups[row]
        if len(fresh) and fresh[row]:
            counts[group] = 0
        if kinds[row] == CURRENT:
            counts[group] += 1
        elif kinds[row] == EXPIRED:
            counts[group] -= 1
        out[row] = counts[group]


class _Totals(Aggregator):
    """Totals are int64 for int and long arguments, else double; they go up and down by each value, nothing is summed
    anew."""

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        whole = call.arguments[0].type in (AttributeType.INT, AttributeType.LONG) and call.name == "sum"
        self.dtype = np.dtype(np.int64 if whole else np.float64)
        self.totals: AnyArray = np.zeros(8, dtype=self.dtype)
        self.counts: Int64Array = np.zeros(8, dtype=np.int64)

    def run(self, rows: AggregateInput) -> tuple[AnyArray, Int64Array]:
        self.totals = grown(self.totals, rows.group_count)
        self.counts = grown(self.counts, rows.group_count)
        out = np.empty(len(rows.kinds), dtype=self.dtype)
        out_count = np.empty(len(rows.kinds), dtype=np.int64)
        values = kernel_array(rows.values, self.dtype)
        mask, fresh = kernel_mask(rows.valid), kernel_mask(rows.fresh)
        kinds, groups = kernel_array(rows.kinds), kernel_array(rows.groups)
        _run_totals(values, mask, kinds, groups, fresh, self.totals, self.counts, out, out_count)
        return out, out_count

    def keep_groups(self, kept: Int64Array) -> None:
        self.totals = regrouped(self.totals, kept)
        self.counts = regrouped(self.counts, kept)

    def snapshot(self) -> State:
        return [self.totals.copy(), self.counts.copy()]

    def restore(self, state: State) -> None:
        self.totals, self.counts = state


@AGGREGATORS.register("sum")
class Sum(_Totals):
    """The sum of the non-null values held, null when there are none; a value that has just come is always held."""

    def update(self, rows: AggregateInput) -> Value:
        totals, counts = self.run(rows)
        arrived = rows.kinds == CURRENT
        held = (counts != 0) | (arrived if rows.valid is None else arrived & rows.valid)
        return Value(totals, None if held.all() else held)


@AGGREGATORS.register("avg")
class Average(_Totals):
    """The mean of the non-null values held, null when there are none."""

    def update(self, rows: AggregateInput) -> Value:
        totals, counts = self.run(rows)
        held = counts != 0
        if held.all():
            return Value(totals / counts)
        return Value(totals / np.where(held, counts, 1), held)


@AGGREGATORS.register("count")
class Count(Aggregator):
    """How many events are held, nulls too."""

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        self.counts: Int64Array = np.zeros(8, dtype=np.int64)

    def update(self, rows: AggregateInput) -> Value:
        self.counts = grown(self.counts, rows.group_count)
        out = np.empty(len(rows.kinds), dtype=np.int64)
        kinds, groups = kernel_array(rows.kinds), kernel_array(rows.groups)
        _run_counts(kinds, groups, kernel_mask(rows.fresh), self.counts, out)
        return Value(out)

    def keep_groups(self, kept: Int64Array) -> None:
        self.counts = regrouped(self.counts, kept)

    def snapshot(self) -> State:
        return self.counts.copy()

    def restore(self, state: State) -> None:
        self.counts = state
