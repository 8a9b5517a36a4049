"""The input of one element of a state machine.

It consists of the events of its stream after its filters and stream functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from siddhi.analysis import model
from siddhi.column_names import internal_name
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import Operator, OperatorContext, Step
from siddhi.engine.operators.expressions.compiler import ExpressionCompiler
from siddhi.engine.operators.patterns.base.columns import SlotLayout
from siddhi.engine.operators.patterns.base.conditions import EventFilter, filters_of, split_filter
from siddhi.engine.operators.patterns.base.partial import PatternEvent
from siddhi.engine.operators.stream_functions.stream_function import STREAM_FUNCTIONS
from siddhi.language.ast import AttributeType

_ROW = internal_name("row")
"""The column that identifies, after stream functions, the row of the batch from which a row comes."""


@dataclass(frozen=True, slots=True)
class _FunctionStep:
    """A stream function and the filters before it that read only the event."""

    name: str
    filter: EventFilter
    operator: Operator


class ElementReader:
    """A reader of the events of one element.

    A stream function is called for each event of the stream that passes the preceding filters; events that it drops or
    fails are left out.
    """

    def __init__(self, element: model.PatternElement, layout: SlotLayout, context: OperatorContext) -> None:
        self._layout = layout
        self._pool = context.pool
        self._filter = EventFilter(split_filter(filters_of(element), element.slot, context).alone, context)
        self._functions = list(_functions(element, context))

    def read(self, batch: EventBatch, step: Step) -> tuple[list[PatternEvent], list[bool]]:
        """Return the rows of `batch` as events, and which of them pass the filters that read only the event."""
        if not self._functions:
            return self._layout.events(batch), self._filter.mask(batch).tolist()
        rows, handled = self._handled(batch, step)
        events = [PatternEvent(timestamp, ()) for timestamp in batch.timestamps.tolist()]
        passing = [False] * batch.size
        passed = self._filter.mask(handled).tolist()
        for row, event, passes in zip(rows.tolist(), self._layout.events(handled), passed, strict=True):
            events[row], passing[row] = event, passes
        return events, passing

    def _handled(self, batch: EventBatch, step: Step) -> tuple[Int64Array, EventBatch]:
        """Return the rows of `batch` that pass the stream functions, with the added attributes."""
        numbers = Column(AttributeType.LONG, self._pool, values=np.arange(batch.size))
        handled = batch.with_columns({**batch.columns, _ROW: numbers})
        for function in self._functions:
            if not function.filter.always:
                handled = handled.take(np.flatnonzero(function.filter.mask(handled)))
            handled = function.operator.process(handled, step)
            rows = handled.columns[_ROW].values
            if len(rows) > 1 and (np.diff(rows) <= 0).any():
                raise TypeError(f"'{function.name}' gives several rows for one and so is not allowed in a pattern")
        return handled.columns[_ROW].values, handled

    def close_partitions(self, partitions: Int64Array) -> None:
        for function in self._functions:
            function.operator.close_partitions(partitions)

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        """Return one state as operators do."""
        return [
            function.operator.joined([state[place] for state in states], ids)
            for place, function in enumerate(self._functions)
        ]

    def snapshot(self) -> State:
        return [function.operator.snapshot() for function in self._functions]

    def restore(self, state: Sequence[State]) -> None:
        for function, kept in zip(self._functions, state, strict=True):
            function.operator.restore(kept)


def _functions(element: model.PatternElement, context: OperatorContext) -> Iterator[_FunctionStep]:
    filters: list[model.FilterStep] = []
    for step in (*element.input.before, *element.input.after):
        if isinstance(step, model.FilterStep):
            filters.append(step)
            continue
        make = STREAM_FUNCTIONS.find(step.namespace, step.name, step.syntax)
        alone = split_filter(filters, element.slot, context).alone
        yield _FunctionStep(step.name, EventFilter(alone, context), make(step, ExpressionCompiler(context)))
        filters = []
