"""What a chain keeps of the events in its partial matches, and the columns of its matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from siddhi.analysis import model
from siddhi.engine.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.batch import DTYPES, Column, EventBatch
from siddhi.engine.kernels import grown
from siddhi.engine.pattern.references import Reference, column_type
from siddhi.engine.scope import EVENT_TIMESTAMP
from siddhi.engine.state import Codes, State
from siddhi.engine.strings import NULL_CODE, StringPool
from siddhi.language.ast import AttributeType


@dataclass(slots=True)
class _Kept:
    """One attribute of the events in one slot, by partial match."""

    type: AttributeType
    values: AnyArray
    valid: BoolArray


class ChainOutput:
    """The columns that a selection reads of a chain's slots, for events that are still in the batch and for those
    that were kept from earlier batches."""

    def __init__(self, machine: model.StateMachine, read: Mapping[str, Reference], pool: StringPool) -> None:
        self._read = read
        self._pool = pool
        self._last = len(machine.slots) - 1
        self._kept: dict[tuple[int, str], _Kept] = {}
        for reference in read.values():
            name = _name(reference)
            if reference.slot < self._last and name is not None:
                type_ = column_type(reference)
                self._kept[reference.slot, name] = _Kept(type_, _empty(type_), np.zeros(0, dtype=np.bool_))

    def no_rows(self) -> dict[str, Column]:
        """The columns of no match at all."""
        return {name: Column.nulls(column_type(reference), self._pool, 0) for name, reference in self._read.items()}

    def columns(
        self, batches: Sequence[EventBatch], references: Sequence[Int64Array], partials: Int64Array
    ) -> dict[str, Column]:
        """The column of each reference. The event of match i in slot s is row `references[s][i]` of `batches[s]`, or,
        where that is -1, the one kept for `partials[i]`."""
        made: dict[tuple[int, str], Column] = {}
        columns: dict[str, Column] = {}
        for column, reference in self._read.items():
            slot, name = reference.slot, _name(reference)
            if name is None:
                columns[column] = self._absent(reference, len(partials))
                continue
            if (slot, name) not in made:
                made[slot, name] = self._gather(slot, name, batches[slot], references[slot], partials)
            columns[column] = made[slot, name]
        return columns

    def _absent(self, reference: Reference, count: int) -> Column:
        if isinstance(reference, model.IsEmptySlot):
            there = np.full(count, _in_range(reference), dtype=np.bool_)
            return Column(AttributeType.BOOL, self._pool, values=there)
        return Column.nulls(column_type(reference), self._pool, count)

    def _gather(self, slot: int, name: str, batch: EventBatch, rows: Int64Array, partials: Int64Array) -> Column:
        here = rows >= 0
        if here.all():
            return _source(batch, name, self._pool).take(rows)
        kept = self._kept[slot, name]
        values, valid = np.empty(len(rows), dtype=kept.values.dtype), np.empty(len(rows), dtype=np.bool_)
        values[~here], valid[~here] = kept.values[partials[~here]], kept.valid[partials[~here]]
        if here.any():
            fresh = _source(batch, name, self._pool).take(rows[here])
            values[here] = fresh.values
            valid[here] = True if fresh.valid is None else fresh.valid
        if kept.type in (AttributeType.STRING, AttributeType.OBJECT):
            return Column(kept.type, self._pool, values=values)
        return Column(kept.type, self._pool, values=values, valid=None if valid.all() else valid)

    def keep(self, slot: int, partials: Int64Array, batch: EventBatch, rows: Int64Array) -> None:
        """Row `rows[i]` of `batch` is kept as the event that `partials[i]` has in `slot`."""
        if not len(partials):
            return
        room = int(partials.max()) + 1
        for (of_slot, name), kept in self._kept.items():
            if of_slot != slot:
                continue
            kept.values = grown(kept.values, room, None if kept.type is AttributeType.OBJECT else 0)
            kept.valid = grown(kept.valid, len(kept.values))
            column = _source(batch, name, self._pool).take(rows)
            kept.values[partials] = column.values
            kept.valid[partials] = True if column.valid is None else column.valid

    def snapshot(self, order: Int64Array) -> State:
        """What is kept for the partials `order`, in that order."""
        columns: list[State] = []
        for kept in self._kept.values():
            values = grown(
                kept.values, int(order.max(initial=-1)) + 1, None if kept.type is AttributeType.OBJECT else 0
            )
            valid = grown(kept.valid, len(values))
            picked = values[order]
            columns.append([Codes(picked) if kept.type is AttributeType.STRING else picked, valid[order]])
        return columns

    def restore(self, state: State) -> None:
        for kept, (values, valid) in zip(self._kept.values(), state, strict=True):
            kept.values = (values.array if isinstance(values, Codes) else values).copy()
            kept.valid = valid.copy()


def _name(reference: Reference) -> str | None:
    """The attribute that answers `reference` to a slot with one event; None when no event can be meant or is needed."""
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
