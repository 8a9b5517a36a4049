"""Aggregates inside expressions."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.kinds import RESET, TIMER
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import BoolArray, Int8Array, Int64Array
from siddhi.engine.operators.base.implementations import Implementations
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode, Value, broadcast


class AggregateInput:
    """The rows that one aggregate processes; `kinds` selects add (current), remove (expired) or ignore (any other).

    `groups` are dense group ids below `group_count`; `fresh`, if not None, marks rows whose group restarts (its state
    is dropped before the row counts). `values` and `valid` are the first argument, None without one; `others` are the
    further arguments. `read` masks the rows whose results are read, None for all.
    """

    __slots__ = ("evaluation", "fresh", "group_count", "groups", "kinds", "others", "read", "valid", "values")

    def __init__(
        self,
        evaluation: Evaluation,
        argument: Value | None,
        others: tuple[Value, ...] = (),
        read: BoolArray | None = None,
    ) -> None:
        self.evaluation = evaluation
        self.read = read
        size = evaluation.size
        kinds: Int8Array = evaluation.batch.kinds
        if evaluation.active is not None:
            kinds = np.where(evaluation.active | (kinds == RESET), kinds, np.int8(TIMER))
        self.kinds = kinds
        self.groups: Int64Array = np.zeros(size, dtype=np.int64) if evaluation.groups is None else evaluation.groups
        self.group_count = evaluation.group_count
        self.fresh: BoolArray | None = evaluation.fresh
        self.others = others
        self.values: Any = None
        self.valid: BoolArray | None = None
        if argument is not None:
            self.values, self.valid = broadcast(argument, size)


class Aggregator(ABC):
    """The running state of one aggregate, with one value per group. With `by_row`, Python code runs for each row."""

    by_row = False
    can_fail = False

    @abstractmethod
    def update(self, rows: AggregateInput) -> Value:
        """Return the aggregate of each row's group after that row."""

    def distinct_values(self) -> int:
        """Return the number of distinct values stored, over all groups."""
        return 0

    @abstractmethod
    def keep_groups(self, kept: Int64Array) -> None:
        """Keep only the groups `kept` (ascending), and number them from 0 in this order."""

    @abstractmethod
    def joined(self, states: Sequence[State], counts: Sequence[int]) -> State:
        """Return one state with the contents of all `states` of aggregators like this one.

        The `counts[k]` groups of each are numbered after those of the states before it.
        """

    @abstractmethod
    def snapshot(self) -> State:
        """Return the state as a tree that shares no array with the aggregator."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Replace the state by one from `snapshot`."""


def numbered_on(states: Sequence[State], counts: Sequence[int]) -> State:
    """Return one state from lists of items that begin with a group number, as `Aggregator.joined` does."""
    firsts = itertools.accumulate(counts, initial=0)
    return [
        [first + group, *item]
        for state, count, first in zip(states, counts, firsts, strict=False)
        for group, *item in state
        if group < count
    ]


AggregatorFactory = Callable[[model.Aggregate, OperatorContext], Aggregator]
AGGREGATORS: Implementations[AggregatorFactory] = Implementations("aggregator")


class AggregateNode(ExpressionNode):
    """One occurrence of an aggregate in a query, with its own state.

    `is_output` is set if it is a whole output attribute.
    """

    stateful = True
    is_output = False

    def __init__(self, call: model.Aggregate, arguments: tuple[ExpressionNode, ...], context: OperatorContext) -> None:
        self.type = call.type
        self.argument = arguments[0] if arguments else None
        self.others = arguments[1:]
        self.aggregator = AGGREGATORS.find(call.namespace, call.name, call.syntax)(call, context)
        self.by_row = self.aggregator.by_row
        self.can_fail = self.aggregator.can_fail or any(argument.can_fail for argument in arguments)

    def evaluate(self, evaluation: Evaluation) -> Value:
        argument = None if self.argument is None else self.argument.evaluate(evaluation)
        others = tuple(other.evaluate(evaluation) for other in self.others)
        read = evaluation.read if self.is_output else None
        return self.aggregator.update(AggregateInput(evaluation, argument, others, read))
