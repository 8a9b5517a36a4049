"""`unionSet`: the union of the stored sets."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.column import objects
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.aggregation import AGGREGATORS, AggregateInput, Aggregator, numbered_on
from siddhi.engine.operators.expressions.evaluation import Value


@AGGREGATORS.register("unionSet")
class UnionSet(Aggregator):
    """The set of all elements of the stored sets; a row whose argument is null or not a set fails."""

    by_row = True

    can_fail = True

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        self.counts: dict[int, dict[object, int]] = {}

    def update(self, rows: AggregateInput) -> Value:
        kinds = rows.kinds.tolist()
        counted = (rows.kinds == CURRENT) | (rows.kinds == EXPIRED)
        sets = np.array([isinstance(value, frozenset | set) for value in rows.values], dtype=np.bool_)
        rows.evaluation.fail(counted & ~sets, "the aggregator 'unionSet' was given no set")
        sets &= ~rows.evaluation.from_first(counted & ~sets)
        results: list[object] = [None] * len(kinds)
        read = None if rows.read is None else rows.read.tolist()
        fits = sets.tolist()
        for row, group in enumerate(rows.groups.tolist()):
            if rows.fresh is not None and rows.fresh[row]:
                self.counts.pop(group, None)
            counts = self.counts.setdefault(group, {})
            if fits[row] and kinds[row] == CURRENT:
                for element in map(_as_one, rows.values[row]):
                    counts[element] = counts.get(element, 0) + 1
            elif fits[row] and kinds[row] == EXPIRED:
                for element in map(_as_one, rows.values[row]):
                    counts[element] = counts.get(element, 0) - 1
                    if counts[element] <= 0:
                        del counts[element]
            if read is None or read[row]:
                results[row] = frozenset(counts)
        return Value(objects(results))

    def distinct_values(self) -> int:
        return sum(map(len, self.counts.values()))

    def keep_groups(self, kept: Int64Array) -> None:
        self.counts = {number: self.counts[group] for number, group in enumerate(kept.tolist()) if group in self.counts}

    def joined(self, states: Sequence[State], counts: Sequence[int]) -> State:
        return numbered_on(states, counts)

    def snapshot(self) -> State:
        return [[group, list(counts), list(counts.values())] for group, counts in self.counts.items()]

    def restore(self, state: State) -> None:
        self.counts = {
            group: dict(zip(map(_as_one, elements), counts, strict=True)) for group, elements, counts in state
        }


def _as_one(element: object) -> object:
    """Return `element`, with any NaN replaced by a common one, because NaN values are equal in a Java set."""
    return element if element == element else math.nan  # noqa: PLR0124 - false for NaN alone
