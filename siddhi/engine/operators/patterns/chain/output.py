"""The attributes that a chain stores for events in partial matches, and the columns of its matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import DTYPES, Column
from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.columnar.strings import NULL_CODE, StringPool
from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.kernels import grown
from siddhi.engine.operators.base.scope import EVENT_TIMESTAMP
from siddhi.engine.operators.patterns.base.references import Reference, column_type
from siddhi.engine.tuning import MAX_UNKEPT_STRINGS
from siddhi.language.ast import AttributeType

_NULLS_INSIDE = (AttributeType.STRING, AttributeType.OBJECT)
"""Types whose values mark nulls themselves."""


_FILL = {AttributeType.STRING: NULL_CODE, AttributeType.OBJECT: None}


class SlotEvents(NamedTuple):
    """The events that matches have in one slot: rows of `batch`, or -1 for stored events (`from_before`)."""

    batch: EventBatch
    rows: Int64Array
    from_before: int


@dataclass(slots=True)
class _Kept:
    """One attribute of the events in one slot, by partial match; `valid` is None as long as there was no null."""

    slot: int
    name: str
    type: AttributeType
    values: AnyArray
    valid: BoolArray | None = None

    def put(self, partials: Int64Array, column: Column, rows: Int64Array, room: int) -> None:
        """Store the values of `column` in `rows` for `partials`, which are below `room`."""
        if room > len(self.values):
            self._make_room(room)
        if self.type is AttributeType.STRING and len(column) > MAX_UNKEPT_STRINGS + len(rows):
            column, rows = column.take(rows), np.arange(len(rows))
        self._set(partials, column.values[rows])
        if self.type in _NULLS_INSIDE or column.valid is None:
            return
        if self.valid is None:
            self.valid = np.ones(len(self.values), dtype=np.bool_)
        self.valid[partials] = column.valid[rows]

    def put_values(self, partials: Int64Array, values: AnyArray, room: int) -> None:
        """Store values as `put` does; only codes may be null."""
        if room > len(self.values):
            self._make_room(room)
        self._set(partials, values)

    def _set(self, partials: Int64Array, values: AnyArray) -> None:
        self.values[partials] = values
        if self.valid is not None:
            self.valid[partials] = True

    def _make_room(self, room: int) -> None:
        self.values = grown(self.values, room, _FILL.get(self.type, 0))
        self.valid = None if self.valid is None else grown(self.valid, len(self.values), fill=True)

    def of(self, partials: Int64Array) -> tuple[AnyArray, BoolArray | None]:
        """Return the values stored for `partials`; values are undefined for partials without one."""
        self._make_room(int(partials.max(initial=-1)) + 1)
        return self.values[partials], None if self.valid is None else self.valid[partials]

    def take(self, partials: Int64Array, pool: StringPool) -> Column:
        valid = None if self.valid is None else self.valid[partials]
        return Column(self.type, pool, values=self.values[partials], valid=valid)


class ChainOutput:
    """The columns that a selection reads from a chain's slots.

    The events may be in the batch or stored from earlier batches.
    """

    def __init__(self, machine: model.StateMachine, read: Mapping[str, Reference], pool: StringPool) -> None:
        self._read = read
        self._pool = pool
        self._names = [(column, reference, _name(reference)) for column, reference in read.items()]
        self._kept: dict[tuple[int, str], _Kept] = {}
        for _, reference, name in self._names:
            if reference.slot < len(machine.slots) - 1 and name is not None:
                type_ = column_type(reference)
                self._kept[reference.slot, name] = _Kept(reference.slot, name, type_, _empty(type_))
        slots = range(len(machine.slots))
        self._of_slot = [[kept for kept in self._kept.values() if kept.slot == slot] for slot in slots]

    def no_rows(self) -> dict[str, Column]:
        """Return the columns for zero matches."""
        return {name: Column.nulls(column_type(reference), self._pool, 0) for name, reference in self._read.items()}

    def columns(self, events: Sequence[SlotEvents], partials: Int64Array) -> dict[str, Column]:
        """Return the column of each reference; `events` are the matches' events, slot by slot."""
        made: dict[tuple[int, str], Column] = {}
        columns: dict[str, Column] = {}
        for column, reference, name in self._names:
            slot = reference.slot
            if name is None:
                columns[column] = self._absent(reference, len(partials))
                continue
            found = made.get((slot, name))
            if found is None:
                found = made[slot, name] = self._gather(slot, name, events[slot], partials)
            columns[column] = found
        return columns

    def _absent(self, reference: Reference, count: int) -> Column:
        if isinstance(reference, model.IsEmptySlot):
            there = np.full(count, _in_range(reference), dtype=np.bool_)
            return Column(AttributeType.BOOL, self._pool, values=there)
        return Column.nulls(column_type(reference), self._pool, count)

    def _gather(self, slot: int, name: str, events: SlotEvents, partials: Int64Array) -> Column:
        count = len(partials)
        if not events.from_before:
            return _source(events.batch, name, self._pool).take(events.rows)
        kept = self._kept[slot, name]
        if events.from_before == count:
            return kept.take(partials, self._pool)
        here = events.rows >= 0
        fresh = _source(events.batch, name, self._pool).take(events.rows[here])
        before = kept.take(partials[~here], self._pool)
        values = np.empty(count, dtype=kept.values.dtype)
        values[here], values[~here] = fresh.values, before.values
        if kept.type in _NULLS_INSIDE or (fresh.valid is None and before.valid is None):
            return Column(kept.type, self._pool, values=values)
        valid = np.ones(count, dtype=np.bool_)
        for rows, column in ((here, fresh), (~here, before)):
            if column.valid is not None:
                valid[rows] = column.valid
        return Column(kept.type, self._pool, values=values, valid=valid)

    def keep(self, slot: int, partials: Int64Array, batch: EventBatch, rows: Int64Array, room: int) -> None:
        """Store row `rows[i]` of `batch` as the event that `partials[i]`, one of `room`, has in `slot`."""
        for kept in self._of_slot[slot]:
            kept.put(partials, _source(batch, kept.name, self._pool), rows, room)

    def keep_values(
        self, slot: int, partials: Int64Array, values: Mapping[str, AnyArray], rows: Int64Array, room: int
    ) -> None:
        """Store events as `keep` does, from the values of each attribute; only codes may be null."""
        for kept in self._of_slot[slot]:
            kept.put_values(partials, values[kept.name][rows], room)

    def kept(self, slot: int, name: str) -> tuple[AnyArray, BoolArray | None]:
        """Return the stored values of the attribute `name` in `slot`, by partial match, and the mask of valid ones."""
        kept = self._kept[slot, name]
        return kept.values, kept.valid

    def answer(self, column: str) -> tuple[int, str] | None:
        """Return the slot and the attribute that the output `column` reads; None if it reads anything else."""
        reference = self._read[column]
        name = _name(reference)
        return None if name is None else (reference.slot, name)

    def snapshot(self, order: Int64Array) -> State:
        """Return the values stored for the partials `order`, in that order."""
        columns: list[State] = []
        for kept in self._kept.values():
            values, valid = kept.of(order)
            columns.append([Codes(values) if kept.type is AttributeType.STRING else values, valid])
        return columns

    def restore(self, state: State) -> None:
        for kept, (values, valid) in zip(self._kept.values(), state, strict=True):
            kept.values = values.array if isinstance(values, Codes) else values
            kept.valid = valid


def _name(reference: Reference) -> str | None:
    """Return the attribute that `reference` reads from a slot with one event.

    Return None when the reference has no event, or does not need one.
    """
    if isinstance(reference, model.IsEmptySlot) or not _in_range(reference):
        return None
    return reference.name if isinstance(reference, model.AttributeValue) else EVENT_TIMESTAMP


def _in_range(reference: Reference) -> bool:
    return reference.index is None or reference.index.offset == 0


def _source(batch: EventBatch, name: str, pool: StringPool) -> Column:
    if name == EVENT_TIMESTAMP:
        return Column(AttributeType.LONG, pool, values=batch.timestamps)
    return batch.columns[name]


def _empty(type_: AttributeType) -> AnyArray:
    return np.full(0, NULL_CODE if type_ is AttributeType.STRING else 0, dtype=DTYPES[type_])
