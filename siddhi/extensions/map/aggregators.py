"""`map:collect` and `map:merge`."""

from __future__ import annotations

from typing import Any

from siddhi.engine.expressions.aggregation import AGGREGATORS
from siddhi.engine.state import State
from siddhi.extensions.groups import RowAggregator

Entries = dict[Any, list[object]]


class _Entries(RowAggregator[Entries]):
    """For each key the values held, in the order in which they came; the last one is shown."""

    def empty(self) -> Entries:
        return {}

    def put(self, group: Entries, key: object, item: object) -> None:
        """The key has one value more."""
        group.setdefault(key, []).append(item)

    def drop(self, group: Entries, key: object, item: object) -> None:
        """The key has this value no more."""
        items = group.get(key, [])
        if item in items:
            items.remove(item)
        if not items:
            group.pop(key, None)

    def result(self, group: Entries) -> object:
        return {key: items[-1] for key, items in group.items()}

    def save(self, group: Entries) -> State:
        return [[key, list(items)] for key, items in group.items()]

    def load(self, state: State) -> Entries:
        return {key: list(items) for key, items in state}


@AGGREGATORS.register("collect", "map")
class Collect(_Entries):
    """Keys and values of single events."""

    whole_rows = True

    def add(self, group: Entries, item: Any) -> None:
        self.put(group, *item)

    def remove(self, group: Entries, item: Any) -> None:
        self.drop(group, *item)


@AGGREGATORS.register("merge", "map")
class Merge(_Entries):
    """The entries of maps; what is no map is ignored."""

    def add(self, group: Entries, item: object) -> None:
        for key, entry in item.items() if isinstance(item, dict) else ():
            self.put(group, key, entry)

    def remove(self, group: Entries, item: object) -> None:
        for key, entry in item.items() if isinstance(item, dict) else ():
            self.drop(group, key, entry)
