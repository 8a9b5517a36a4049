"""`math:percentile`."""

from __future__ import annotations

import math
from bisect import bisect_left, insort

from siddhi.analysis import model
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.aggregation import AGGREGATORS
from siddhi.extensions.groups import RowAggregator


@AGGREGATORS.register("percentile", "math")
class Percentile(RowAggregator[list[float]]):
    """The value below which p percent of the values lie.

    It is the mean of two values where p falls between them. Nulls are ignored; without values the result is null.

    A group is the sorted list of its values. A place in the list that is not a whole number is rounded, half upwards.
    """

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        super().__init__(call, context)
        self._percent = float(str(self.constants[0]))

    def empty(self) -> list[float]:
        return []

    def add(self, group: list[float], item: object) -> None:
        if isinstance(item, int | float):
            insort(group, float(item))

    def remove(self, group: list[float], item: object) -> None:
        if isinstance(item, int | float):
            place = bisect_left(group, float(item))
            if place < len(group) and group[place] == item:
                del group[place]

    def result(self, group: list[float]) -> object:
        if not group:
            return None
        place = self._percent * len(group) / 100
        whole = int(place)
        if place != whole:
            return group[max(math.floor(place + 0.5) - 1, 0)]
        return group[whole - 1] if whole == len(group) else (group[whole - 1] + group[whole]) / 2

    def save(self, group: list[float]) -> State:
        return list(group)

    def load(self, state: State) -> list[float]:
        return list(state)
