"""Convert between the engine's columns and the events that a state machine stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import DTYPES, Column, objects
from siddhi.engine.columnar.strings import NULL_CODE, StringPool
from siddhi.engine.operators.patterns.base.partial import EventChain, PatternEvent
from siddhi.engine.operators.patterns.base.references import Reference, column_type, pick
from siddhi.language.ast import AttributeType

SlotChains = Sequence[EventChain | tuple[PatternEvent, ...] | None]


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """The attributes that events of one slot carry, in the order of `PatternEvent.values`."""

    names: tuple[str, ...]
    types: tuple[AttributeType, ...]

    def events(self, batch: EventBatch) -> list[PatternEvent]:
        """Return the rows of `batch` as events; strings are kept as their codes."""
        timestamps = batch.timestamps.tolist()
        if not self.names:
            return [PatternEvent(timestamp, ()) for timestamp in timestamps]
        columns = [_items(batch.columns[name]) for name in self.names]
        return [
            PatternEvent(timestamp, values)
            for timestamp, values in zip(timestamps, zip(*columns, strict=True), strict=True)
        ]


def layouts(machine: model.StateMachine, read: Mapping[str, Reference]) -> tuple[SlotLayout, ...]:
    """Return for each slot the attributes of it in `read`."""
    names: list[dict[str, AttributeType]] = [{} for _ in machine.slots]
    for reference in read.values():
        if isinstance(reference, model.AttributeValue):
            schema = machine.slots[reference.slot].input.output
            names[reference.slot][reference.name] = schema.type_of(reference.name)
    return tuple(SlotLayout(tuple(slot), tuple(slot.values())) for slot in names)


def _items(column: Column) -> list[Any]:
    values: list[Any] = column.values.tolist()
    valid = column.valid
    if valid is None:
        return values
    return [value if there else None for value, there in zip(values, valid.tolist(), strict=True)]


def column_of_items(type_: AttributeType, pool: StringPool, items: Sequence[Any]) -> Column:
    """Return a column of values that come from events."""
    if type_ is AttributeType.OBJECT:
        return Column(type_, pool, values=objects(items))
    if type_ is AttributeType.STRING:
        codes = np.array([NULL_CODE if item is None else item for item in items], dtype=np.int64)
        return Column(type_, pool, values=codes)
    if None not in items:
        return Column(type_, pool, values=np.array(items, dtype=DTYPES[type_]))
    values = np.array([0 if item is None else item for item in items], dtype=DTYPES[type_])
    return Column(type_, pool, values=values, valid=np.array([item is not None for item in items], dtype=np.bool_))


class SlotReader:
    """Evaluates one reference for many partial matches at once.

    `place` is the position of the slot in the machine. `tested` is set if the last event of the slot is under test (in
    the element's own filter).
    """

    def __init__(self, reference: Reference, place: int, layout: SlotLayout, pool: StringPool, *, tested: bool) -> None:
        self._reference = reference
        self._place = place
        self._layout = layout
        self._pool = pool
        self._tested = tested and reference.index is not None
        name = reference.name if isinstance(reference, model.AttributeValue) else None
        self._attribute = -1 if name is None else layout.names.index(name)
        self.type = column_type(reference)

    def column(self, rows: Sequence[SlotChains]) -> Column:
        """Return the column with one value for each row of slots."""
        chains = [slots[self._place] for slots in rows]
        if isinstance(self._reference, model.AttributeValue) and self._reference.all_events:
            return column_of_items(self.type, self._pool, [self._list(chain) for chain in chains])
        events = [pick(chain, self._reference.index, under_test=self._tested) for chain in chains]
        return column_of_items(self.type, self._pool, [self._value(event) for event in events])

    def _value(self, event: PatternEvent | None) -> Any:
        if isinstance(self._reference, model.IsEmptySlot):
            return event is not None
        if event is None:
            return None
        return event.timestamp if self._attribute < 0 else event.values[self._attribute]

    def _list(self, chain: Sequence[PatternEvent] | None) -> list[Any]:
        values = [event.values[self._attribute] for event in chain or ()]
        if self._layout.types[self._attribute] is AttributeType.STRING:
            return [None if code is None else self._pool.text(code) for code in values]
        return values
