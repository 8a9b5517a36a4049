"""The filters of an element, split into those that read only the event and those that compare it with earlier slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import conjunction, conjuncts, walk
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.kinds import CURRENT
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import BoolArray, Int64Array
from siddhi.engine.jit.kernels import grown
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.expressions.evaluation import Evaluation, ExpressionNode
from siddhi.engine.operators.patterns.base.columns import SlotLayout, SlotReader
from siddhi.engine.operators.patterns.base.partial import Partial, PatternEvent
from siddhi.engine.operators.patterns.base.references import references


@dataclass(frozen=True, slots=True)
class SplitFilter:
    """An element's filters as two conjunctions.

    `alone` reads only the event, `across` reads other slots or keeps state.
    """

    alone: tuple[model.TypedExpression, ...]
    across: tuple[model.TypedExpression, ...]


def filters_of(element: model.PatternElement) -> tuple[model.FilterStep, ...]:
    """Return the filters of `element`."""
    steps = (*element.input.before, *element.input.after)
    return tuple(step for step in steps if isinstance(step, model.FilterStep))


def split_filter(filters: Sequence[model.FilterStep], slot: int, context: OperatorContext) -> SplitFilter:
    """Return `filters` of the element with `slot`, split at their `and`s.

    A filter that may fail, or that keeps state, is not split: its effect depends on whether a partial match is waiting.
    """
    alone: list[model.TypedExpression] = []
    across: list[model.TypedExpression] = []
    for step in filters:
        whole = ExpressionCompiler(context, several=True).compile(step.condition)
        if whole.can_fail or whole.stateful:
            across.append(step.condition)
            continue
        for part in conjuncts(step.condition):
            (alone if _looks_at_event_alone(part, slot) else across).append(part)
    return SplitFilter(tuple(alone), tuple(across))


def _looks_at_event_alone(expression: model.TypedExpression, slot: int) -> bool:
    for part in walk(expression):
        if isinstance(part, model.AttributeValue):
            if part.slot != slot or part.index is not None:
                return False
        elif isinstance(part, model.EventReference | model.IsEmptySlot | model.InTable | model.Aggregate):
            return False
    return True


class EventFilter:
    """The filters of an element that read only the event, for a whole batch at once."""

    def __init__(self, parts: Sequence[model.TypedExpression], context: OperatorContext) -> None:
        whole = conjunction(parts)
        self._node: ExpressionNode | None = None if whole is None else ExpressionCompiler(context).compile(whole)

    @property
    def always(self) -> bool:
        """True when there is no filter."""
        return self._node is None

    def mask(self, batch: EventBatch) -> BoolArray:
        """Return which rows pass."""
        if self._node is None:
            return np.ones(batch.size, dtype=np.bool_)
        return self._node.truth(Evaluation(batch))


class SlotCondition:
    """The filters of an element that read partial matches, for all waiting ones at once.

    `clock` is the app's clock at the current row, `partition` its instance; the caller sets both. `failure` is the
    error of the last call, if it failed. The state of aggregates is kept per instance.
    """

    def __init__(
        self,
        slot: int,
        parts: Sequence[model.TypedExpression],
        places: Sequence[int],
        layouts: Sequence[SlotLayout],
        context: OperatorContext,
    ) -> None:
        compiler = ExpressionCompiler(context, several=True)
        whole = conjunction(parts)
        self._node: ExpressionNode | None = None if whole is None else compiler.compile(whole)
        self._aggregates = compiler.aggregates
        self._readers = {
            name: SlotReader(
                reference, places[reference.slot], layouts[reference.slot], context.pool, tested=reference.slot == slot
            )
            for name, reference in references(parts).items()
        }
        self.clock = 0
        self.partition = 0
        self.failure: str | None = None
        self._groups = 1
        self._closed: set[int] = set()

    def __call__(self, partials: Sequence[Partial], event: PatternEvent) -> Sequence[bool]:
        """Return for each of `partials`, in whose slot `event` already is, whether the filters are true."""
        if self._node is None:
            return [True] * len(partials)
        rows = [partial.slots for partial in partials]
        columns = {name: reader.column(rows) for name, reader in self._readers.items()}
        count = len(rows)
        batch = EventBatch(
            np.full(count, event.timestamp, dtype=np.int64),
            np.full(count, CURRENT, dtype=np.int8),
            np.zeros(count, dtype=np.int64),
            np.full(count, self.clock, dtype=np.int64),
            columns,
        )
        truth = self._node.truth(evaluation := self._evaluation(batch))
        if evaluation.failed is not None:
            self.failure = evaluation.message
            truth = truth & ~evaluation.failed
        verdicts: list[bool] = truth.tolist()
        return verdicts

    def _evaluation(self, batch: EventBatch) -> Evaluation:
        if not self._aggregates:
            return Evaluation(batch)
        self._groups = max(self._groups, self.partition + 1)
        groups = np.full(batch.size, self.partition, dtype=np.int64)
        fresh = None
        if self.partition in self._closed:
            self._closed.remove(self.partition)
            fresh = np.arange(batch.size) == 0
        return Evaluation(batch, None, groups, self._groups, fresh)

    def close_partitions(self, partitions: Iterable[int]) -> None:
        """Reset the aggregates of these instances, in case they are opened again."""
        if self._aggregates:
            self._closed.update(partition for partition in partitions if partition < self._groups)

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        """Return one state as operators do; instances are the groups of the aggregates."""
        counts = [max(len(numbers), groups) for numbers, (_, groups, _) in zip(ids, states, strict=True)]
        closed = [int(numbers[one]) for numbers, (_, _, gone) in zip(ids, states, strict=True) for one in gone]
        dense = [grown(numbers, count, -1)[:count] for numbers, count in zip(ids, counts, strict=True)]
        kept = np.flatnonzero(np.concatenate(dense) >= 0)
        aggregators = []
        for place, aggregate in enumerate(self._aggregates):
            aggregate.aggregator.restore(aggregate.aggregator.joined([state[0][place] for state in states], counts))
            aggregate.aggregator.keep_groups(kept)
            aggregators.append(aggregate.aggregator.snapshot())
        return [aggregators, max(len(kept), 1), sorted(one for one in closed if one >= 0)]

    def snapshot(self) -> State:
        aggregators = [aggregate.aggregator.snapshot() for aggregate in self._aggregates]
        return [aggregators, self._groups, sorted(self._closed)]

    def restore(self, state: State) -> None:
        aggregators, self._groups, closed = state
        self._closed = set(closed)
        for aggregate, kept in zip(self._aggregates, aggregators, strict=True):
            aggregate.aggregator.restore(kept)


def filter_expressions(machine: model.StateMachine) -> Iterable[model.TypedExpression]:
    """Yield all filters of all elements."""
    for element in machine.slots:
        for step in filters_of(element):
            yield step.condition
