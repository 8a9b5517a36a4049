"""Aggregators whose state is a Python object for each group, updated by one value at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, TIMER
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import Int8Array, Int64Array
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.aggregation import AggregateInput, Aggregator, numbered_on
from siddhi.engine.operators.expressions.evaluation import Value, to_column
from siddhi.engine.operators.functions.calls import from_list
from siddhi.engine.tuning import MIN_ROWS_PER_RUN
from siddhi.float_values import written_list
from siddhi.language.ast import AttributeType
from siddhi.nesting import TOO_DEEP, nests_too_deeply

Group = TypeVar("Group")


class RowAggregator(Aggregator, Generic[Group]):
    """Base class of aggregators that keep a `Group` object for each group and see one value at a time.

    Subclasses implement `empty`, `add`, `remove`, `result`, `save` and `load`, and are registered with
    `@AGGREGATORS.register(name, namespace)`. All methods run on the engine's thread, one at a time. Values are Python
    objects, null is None.

    An item is the value of the first argument or, with `whole_rows`, the tuple of all arguments. `constants` are the
    values of the constant arguments behind the first. A row fails (`@OnError`) if one of its objects nests too deeply
    or `refused` gives a reason.
    """

    by_row = True

    whole_rows = False

    def __init__(self, call: model.Aggregate, context: OperatorContext) -> None:
        """Create the aggregator of one call.

        Args:
            call: The call with its analysed arguments.
            context: What operators are given when they are built.
        """
        self.type = call.type
        self.pool = context.pool
        self.argument_types = [argument.type for argument in call.arguments]
        self.constants = [
            argument.value if isinstance(argument, model.ConstantValue) else None for argument in call.arguments[1:]
        ]
        self.groups: dict[int, Group] = {}
        self.can_fail = AttributeType.OBJECT in self.argument_types
        self.title = f"{call.namespace}:{call.name}" if call.namespace else call.name

    @abstractmethod
    def empty(self) -> Group:
        """Return a group without values."""

    def refused(self, _item: object) -> str | None:
        """Return why the item is invalid; None if it is valid."""
        return None

    @abstractmethod
    def add(self, group: Group, item: object) -> None:
        """Add `item`, which has entered the window, to the group.

        Args:
            group: What `empty` or `load` returned.
            item: The value of the first argument, or of all of several; None is null.
        """

    def add_all(self, group: Group, items: list[object]) -> None:
        """Add `items`, which have entered the window one after the other, to the group.

        Implement it where that is faster than calling `add` for each item.

        Args:
            group: What `empty` or `load` returned.
            items: What `add` would get, in this order.
        """
        for item in items:
            self.add(group, item)

    @abstractmethod
    def remove(self, group: Group, item: object) -> None:
        """Remove `item`, which has left the window, from the group; it was added before.

        Args:
            group: What `empty` or `load` returned.
            item: The value of the first argument, or of all of several; None is null.
        """

    @abstractmethod
    def result(self, group: Group) -> object:
        """Return the aggregate of the group's items, None for null.

        Called after the `add` or `remove` of a row whose result is read.

        Args:
            group: What `empty` or `load` returned.
        """

    @abstractmethod
    def save(self, group: Group) -> State:
        """Return the group's state as plain values, lists, dictionaries and numpy arrays, for a snapshot.

        It must not share anything with the group that later calls change.

        Args:
            group: What `empty` or `load` returned.
        """

    @abstractmethod
    def load(self, state: State) -> Group:
        """Return the group from a state that `save` returned.

        Args:
            state: What `save` returned.
        """

    def update(self, rows: AggregateInput) -> Value:
        """Pass the rows to `add` and `remove` of their groups.

        Args:
            rows: The arguments, and the group of each row.

        Returns:
            The result of the row's group after each row.
        """
        fresh = None if rows.fresh is None else rows.fresh.tolist()
        read = None if rows.read is None else rows.read.tolist()
        results: list[object] = [None] * len(rows.kinds)
        lists = self._lists(rows)
        items: list[object] = list(zip(*lists, strict=True)) if self.whole_rows else lists[0]
        kinds = self._kinds(rows, lists, items)
        groups, add, remove, result = self.groups, self.add, self.remove, self.result
        ends = _ends_of_runs(rows, kinds)
        if len(ends) * MIN_ROWS_PER_RUN <= len(kinds):
            self._update_runs(rows, kinds, items, ends.tolist(), results)
            return from_list(results, self.type, self.pool)
        lines = zip(kinds.tolist(), rows.groups.tolist(), items, strict=True)
        for row, (kind, number, item) in enumerate(lines):
            if number not in groups or (fresh is not None and fresh[row]):
                groups[number] = self.empty()
            group = groups[number]
            if kind == CURRENT:
                add(group, item)
            elif kind == EXPIRED:
                remove(group, item)
            if read is None or read[row]:
                results[row] = result(group)
        return from_list(results, self.type, self.pool)

    def _update_runs(
        self, rows: AggregateInput, kinds: Int8Array, items: list[object], ends: list[int], results: list[object]
    ) -> None:
        """Update the groups as `update` does, run by run; each run ends before a row in `ends`."""
        groups, start = self.groups, 0
        for end in ends:
            number, kind = rows.groups.item(start), kinds.item(start)
            if number not in groups or (rows.fresh is not None and rows.fresh.item(start)):
                groups[number] = self.empty()
            group = groups[number]
            if kind == CURRENT:
                self.add_all(group, items[start:end])
            elif kind == EXPIRED:
                for item in items[start:end]:
                    self.remove(group, item)
            if rows.read is None or rows.read.item(end - 1):
                results[end - 1] = self.result(group)
            start = end

    def _lists(self, rows: AggregateInput) -> list[list[object]]:
        """Return the values of each argument."""
        values = [Value(rows.values, rows.valid), *rows.others]
        size = len(rows.kinds)
        lists = [
            to_column(value, type_, self.pool, size).to_list()
            for value, type_ in zip(values, self.argument_types, strict=True)
        ]
        if self.type is not AttributeType.OBJECT:
            return lists
        return [
            written_list(items) if type_ is AttributeType.FLOAT else items
            for items, type_ in zip(lists, self.argument_types, strict=True)
        ]

    def _kinds(self, rows: AggregateInput, lists: list[list[object]], items: Sequence[object]) -> Int8Array:
        """Return the kinds of the rows, with TIMER for those that fail, so that they are skipped.

        Only the arguments are checked: the result of a group nests only slightly deeper.
        """
        if not self.can_fail:
            return rows.kinds
        counted = (rows.kinds == CURRENT) | (rows.kinds == EXPIRED)
        objects = [
            column for column, type_ in zip(lists, self.argument_types, strict=True) if type_ is AttributeType.OBJECT
        ]
        reasons: dict[int, str] = {}
        for row in np.flatnonzero(counted).tolist():
            reason = self.refused(items[row])
            for column in objects:
                if nests_too_deeply(column[row]):
                    reason = TOO_DEEP
            if reason is not None:
                reasons[row] = reason
        if not reasons:
            return rows.kinds
        failed = np.zeros(len(rows.kinds), dtype=np.bool_)
        failed[list(reasons)] = True
        rows.evaluation.fail(failed, f"'{self.title}': {next(iter(reasons.values()))}")
        return np.where(failed, np.int8(TIMER), rows.kinds)

    def keep_groups(self, kept: Int64Array) -> None:
        """Drop all groups but `kept`, which get the numbers 0, 1, … in this order."""
        self.groups = {number: self.groups[group] for number, group in enumerate(kept.tolist()) if group in self.groups}

    def joined(self, states: Sequence[State], counts: Sequence[int]) -> State:
        """Return the state of several tasks as one, with consecutive group numbers."""
        return numbered_on(states, counts)

    def snapshot(self) -> State:
        """Return what `save` returns for each group."""
        return [[number, self.save(group)] for number, group in self.groups.items()]

    def restore(self, state: State) -> None:
        """Restore the groups of a snapshot with `load`."""
        self.groups = {number: self.load(saved) for number, saved in state}


def _ends_of_runs(rows: AggregateInput, kinds: Int8Array) -> Int64Array:
    """Return where each run of rows ends: rows of one kind and group, of which only the last one is read."""
    size = len(kinds)
    if rows.read is None or size < MIN_ROWS_PER_RUN:
        return np.arange(1, size + 1)
    ends = rows.read.copy()
    ends[:-1] |= (kinds[1:] != kinds[:-1]) | (rows.groups[1:] != rows.groups[:-1])
    if rows.fresh is not None:
        ends[:-1] |= rows.fresh[1:]
    ends[-1] = True
    return np.flatnonzero(ends) + 1
