"""`str:groupConcat`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat

from siddhi.analysis import model
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.aggregation import AGGREGATORS
from siddhi.extensions.groups import RowAggregator


@AGGREGATORS.register("groupConcat", "str")
class GroupConcat(RowAggregator[dict[str, int]]):
    """The texts held, equal ones side by side in the place of the first; empty without texts. Nulls are ignored.

    A group counts each of its texts.
    """

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        super().__init__(call, context)
        defaults = [",", False, None]
        self.options = [*self.constants, *defaults[len(self.constants) :]]

    def empty(self) -> dict[str, int]:
        return {}

    def add(self, group: dict[str, int], item: object) -> None:
        if isinstance(item, str):
            group[item] = group.get(item, 0) + 1

    def remove(self, group: dict[str, int], item: object) -> None:
        if isinstance(item, str) and item in group:
            group[item] -= 1
            if not group[item]:
                del group[item]

    def result(self, group: dict[str, int]) -> object:
        separator, distinct, order = self.options
        texts: Iterable[str] = group
        if order is not None:
            texts = sorted(group, reverse=str(order).upper() == "DESC")
        if not distinct:
            counts = group.values() if order is None else map(group.__getitem__, texts)
            texts = chain.from_iterable(map(repeat, texts, counts))
        return str(separator).join(texts)

    def save(self, group: dict[str, int]) -> State:
        return dict(group)

    def load(self, state: State) -> dict[str, int]:
        return dict(state)
