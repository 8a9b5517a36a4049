"""`list:collect` and `list:merge`."""

from __future__ import annotations

from itertools import chain
from typing import Any

from siddhi.analysis import model
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.aggregation import AGGREGATORS
from siddhi.extensions.groups import RowAggregator
from siddhi.extensions.list.functions import holds, place_of


@AGGREGATORS.register("collect", "list")
class ListCollect(RowAggregator[list[object]]):
    """The values of the group, including nulls, in the order of arrival.

    A distinct value is removed with the first of its events that leaves.
    """

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        super().__init__(call, context)
        self.distinct = True in self.constants

    def empty(self) -> list[object]:
        return []

    def items(self, item: Any) -> list[object]:
        """Return the items of one event."""
        return [item]

    def add(self, group: list[object], item: object) -> None:
        if not self.distinct:
            group.extend(self.items(item))
            return
        for come in self.items(item):
            if not holds(group, come):
                group.append(come)

    def add_all(self, group: list[object], items: list[object]) -> None:
        if self.distinct:
            super().add_all(group, items)
        else:
            group.extend(chain.from_iterable(map(self.items, items)))

    def remove(self, group: list[object], item: object) -> None:
        if (place := place_of(group, item)) >= 0:
            del group[place]

    def result(self, group: list[object]) -> object:
        return list(group)

    def save(self, group: list[object]) -> State:
        return list(group)

    def load(self, state: State) -> list[object]:
        return list(state)


@AGGREGATORS.register("merge", "list")
class ListMerge(ListCollect):
    """The values of the group's lists; a row whose argument is not a list fails.

    A list that leaves removes all equal values.
    """

    def refused(self, item: object) -> str | None:
        return None if isinstance(item, list) else "a list was expected"

    def items(self, item: Any) -> list[object]:
        return list(item)

    def remove(self, group: list[object], item: Any) -> None:
        try:
            alike = set(item)  # equality as in Python, where 1 equals true
            group[:] = [held for held in group if held not in alike or not holds(item, held)]
        except TypeError:  # lists and maps are not hashable
            group[:] = [held for held in group if not holds(item, held)]
