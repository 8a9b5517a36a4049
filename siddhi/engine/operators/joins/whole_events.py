"""References to whole events in a join: whether there is one, and its timestamp."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.implementations import not_supported
from siddhi.engine.operators.base.operator import Operator, Step
from siddhi.engine.operators.base.scope import EVENT_PRESENT, EVENT_TIMESTAMP, slot_column
from siddhi.engine.operators.joins.side import Fetch, Held, JoinFailures, Side
from siddhi.engine.operators.tables.pairs import Pairs
from siddhi.language.ast import AttributeType

_TYPES = {EVENT_PRESENT: AttributeType.BOOL, EVENT_TIMESTAMP: AttributeType.LONG}


def asked_of_events(slot: int, source: model.SourceInput, columns: Collection[str]) -> dict[str, AttributeType]:
    """Return the values of `columns` that refer to whole events of `source`, named like attributes."""
    asked = {name: type_ for name, type_ in _TYPES.items() if slot_column(slot, name) in columns}
    if EVENT_TIMESTAMP in asked and source.kind is model.SourceKind.AGGREGATION:
        raise not_supported(f"the timestamps of the rows of '{source.source}'", None)
    return asked


def refuse_in_condition(on: model.TypedExpression | None, slot: int, source: model.SourceInput) -> None:
    """Refuse a condition that tests whether a row of a table with a key or an index exists, as Siddhi does.

    In all other tables the row always exists.
    """
    if on is not None:
        for part in walk(on):
            if isinstance(part, model.IsEmptySlot) and part.slot == slot:
                raise not_supported(f"'{source.source} is null' in the condition of a join", None)


def answers(names: Collection[str], timestamps: Int64Array, pool: StringPool) -> dict[str, Column]:
    """Return the columns `names` of events with these timestamps."""
    values = {EVENT_PRESENT: np.ones(len(timestamps), dtype=np.bool_), EVENT_TIMESTAMP: timestamps}
    return {name: Column(_TYPES[name], pool, values=values[name]) for name in names}


class WholeEvents(Operator):
    """Adds the values of whole-event references to rows; windows then store them like any attribute."""

    def __init__(self, names: Mapping[str, AttributeType], pool: StringPool) -> None:
        self._names = tuple(names)
        self._pool = pool

    def process(self, batch: EventBatch, step: Step) -> EventBatch:
        return batch.with_columns({**batch.columns, **answers(self._names, batch.timestamps, self._pool)})

    def snapshot(self) -> State:
        return None

    def restore(self, state: State) -> None:
        """Do nothing: there is no state."""


class PresentRows(Held):
    """The rows of `held`, with the mark that they exist."""

    def __init__(self, held: Held, pool: StringPool) -> None:
        self._held = held
        self._pool = pool
        self.aggregates = held.aggregates

    def meet(self, side: Side, events: EventBatch, rows: Int64Array | None) -> tuple[Pairs, Fetch, JoinFailures | None]:
        pairs, fetch, failures = self._held.meet(side, events, rows)

        def fetch_all(name: str, places: Int64Array) -> Column:
            if name == EVENT_PRESENT:
                return answers([name], places, self._pool)[name]
            return fetch(name, places)

        return pairs, fetch_all, failures
