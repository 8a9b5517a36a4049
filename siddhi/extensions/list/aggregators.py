"""`list:collect` and `list:merge`."""

from __future__ import annotations

from siddhi.engine.expressions.aggregation import AGGREGATORS
from siddhi.engine.state import State
from siddhi.extensions.groups import RowAggregator


@AGGREGATORS.register("collect", "list")
class Collect(RowAggregator[list[object]]):
    """The values held, nulls too, in the order in which they came."""

    def empty(self) -> list[object]:
        return []

    def items(self, item: object) -> list[object]:
        """What one event brings."""
        return [item]

    def add(self, group: list[object], item: object) -> None:
        group.extend(self.items(item))

    def remove(self, group: list[object], item: object) -> None:
        for gone in self.items(item):
            if gone in group:
                group.remove(gone)

    def result(self, group: list[object]) -> object:
        if True not in self.constants:
            return list(group)
        distinct: list[object] = []
        distinct.extend(item for item in group if item not in distinct)
        return distinct

    def save(self, group: list[object]) -> State:
        return list(group)

    def load(self, state: State) -> list[object]:
        return list(state)


@AGGREGATORS.register("merge", "list")
class Merge(Collect):
    """The values of the lists held; what is no list is ignored."""

    def items(self, item: object) -> list[object]:
        return item if isinstance(item, list) else []
