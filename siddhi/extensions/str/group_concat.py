"""`str:groupConcat`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain, repeat

from siddhi.analysis import model
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.aggregation import AGGREGATORS
from siddhi.extensions.groups import RowAggregator


@AGGREGATORS.register("groupConcat", "str")
class GroupConcat(RowAggregator[Counter[str]]):
    """The joined texts of the group, equal ones adjacent at the position of the first; empty without texts.

    Nulls are ignored. A group counts each of its texts.
    """

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        super().__init__(call, context)
        defaults = [",", False, None]
        self.options = [*self.constants, *defaults[len(self.constants) :]]

    def empty(self) -> Counter[str]:
        return Counter()

    def add(self, group: Counter[str], item: object) -> None:
        if isinstance(item, str):
            group[item] = group.get(item, 0) + 1

    def add_all(self, group: Counter[str], items: list[object]) -> None:
        group.update([item for item in items if isinstance(item, str)])

    def remove(self, group: Counter[str], item: object) -> None:
        if isinstance(item, str) and item in group:
            group[item] -= 1
            if not group[item]:
                del group[item]

    def result(self, group: Counter[str]) -> object:
        separator, distinct, order = self.options
        texts: Iterable[str] = group
        if order is not None:
            texts = sorted(group, reverse=str(order).upper() == "DESC")
        if not distinct:
            counts = group.values() if order is None else map(group.__getitem__, texts)
            texts = chain.from_iterable(map(repeat, texts, counts))
        return str(separator).join(texts)

    def save(self, group: Counter[str]) -> State:
        return dict(group)

    def load(self, state: State) -> Counter[str]:
        return Counter(dict(state))
