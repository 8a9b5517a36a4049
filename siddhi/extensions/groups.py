"""Aggregators made of plain Python objects, one for each group, that see one value at a time."""

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
        """Return why the item cannot be taken; None if it can."""
        return None

    @abstractmethod
    def add(self, group: Group, item: object) -> None:
        """Add `item`, which has entered the window, to the group.

        Args:
            group: What `empty` or `load` returned.
            item: The value of the first argument, or of all of several; None is null.
        """

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
        """Return the group that `save` gave this state of.

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
        items = list(zip(*lists, strict=True)) if self.whole_rows else lists[0]
        lines = zip(self._kinds(rows, lists, items).tolist(), rows.groups.tolist(), items, strict=True)
        groups, add, remove, result = self.groups, self.add, self.remove, self.result
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
        """Return the kinds of the rows, with TIMER for those that fail, so that they are left alone.

        Only the arguments are checked: what a group makes of them nests just a little deeper.
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
        """Return the state of several tasks as one, with the groups numbered on."""
        return numbered_on(states, counts)

    def snapshot(self) -> State:
        """Return what `save` returns for each group."""
        return [[number, self.save(group)] for number, group in self.groups.items()]

    def restore(self, state: State) -> None:
        """Restore the groups of a snapshot with `load`."""
        self.groups = {number: self.load(saved) for number, saved in state}
