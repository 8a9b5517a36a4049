"""`json:group` and `json:groupAsObject`."""

from __future__ import annotations

from siddhi.analysis import model
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.aggregation import AGGREGATORS
from siddhi.extensions.groups import RowAggregator
from siddhi.nesting import ObjectError, read_object, write_object


@AGGREGATORS.register("groupAsObject", "json")
class JsonGroupAsObject(RowAggregator[list[object]]):
    """The values of the group, inside an object if it has a name.

    Equal values are adjacent, in the order of their first arrival. A text that is not an object stays a text.
    """

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        super().__init__(call, context)
        self.distinct = True in self.constants
        self.enclosing = next((str(constant) for constant in self.constants if isinstance(constant, str)), None)

    def empty(self) -> list[object]:
        return []

    def add(self, group: list[object], item: object) -> None:
        value = _read(item)
        same = group.count(value)
        place = group.index(value) + same if same else len(group)
        group.insert(place, value)

    def remove(self, group: list[object], item: object) -> None:
        if _read(item) in group:
            group.remove(_read(item))

    def result(self, group: list[object]) -> object:
        items: list[object] = []
        for item in group:
            if not self.distinct or item not in items:
                items.append(item)
        return items if self.enclosing is None else {self.enclosing: items}

    def save(self, group: list[object]) -> State:
        return list(group)

    def load(self, state: State) -> list[object]:
        return list(state)


def _read(item: object) -> object:
    if not isinstance(item, str):
        return item
    try:
        return read_object(item)
    except ObjectError:
        return item


@AGGREGATORS.register("group", "json")
class JsonGroup(JsonGroupAsObject):
    """The same as JSON text."""

    def result(self, group: list[object]) -> object:
        return write_object(super().result(group)).decode()
