"""`map:collect` and `map:merge`."""

from __future__ import annotations

from typing import Any

from siddhi.engine.columnar.state_tree import State
from siddhi.engine.operators.expressions.aggregation import AGGREGATORS
from siddhi.extensions.groups import RowAggregator

Entries = dict[Any, object]


class _Entries(RowAggregator[Entries]):
    """The last value of each key; a key is removed with the first of its events that leaves."""

    def empty(self) -> Entries:
        return {}

    def result(self, group: Entries) -> object:
        return dict(group)

    def save(self, group: Entries) -> State:
        return [[key, item] for key, item in group.items()]

    def load(self, state: State) -> Entries:
        return dict(state)


@AGGREGATORS.register("collect", "map")
class MapCollect(_Entries):
    """Keys and values of single events."""

    whole_rows = True

    def add(self, group: Entries, item: Any) -> None:
        key, entry = item
        group[key] = entry

    def add_all(self, group: Entries, items: list[Any]) -> None:
        group.update(items)

    def remove(self, group: Entries, item: Any) -> None:
        group.pop(item[0], None)


@AGGREGATORS.register("merge", "map")
class MapMerge(_Entries):
    """The entries of maps; a row whose argument is not a map fails."""

    def refused(self, item: object) -> str | None:
        return None if isinstance(item, dict) else "a map was expected"

    def add(self, group: Entries, item: Any) -> None:
        group.update(item)

    def remove(self, group: Entries, item: Any) -> None:
        for key in item:
            group.pop(key, None)
