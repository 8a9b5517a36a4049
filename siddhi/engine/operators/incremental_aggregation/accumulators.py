"""The values that an aggregation stores in each slot: counts, sums, extremes, distinct values, latest values.

Every event is added to one slot of each duration at once. So each bucket is up to date at any time, whatever its size;
a late event is simply added to its own bucket; and a sum is built in the order of the events, regardless of batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from siddhi.engine.columnar.column import DTYPES, Column
from siddhi.engine.columnar.hashing import KeyTable, key_bits
from siddhi.engine.columnar.state_tree import Codes, State
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import AnyArray, BoolArray, Int64Array
from siddhi.engine.jit.kernels import grown, kernel, kernel_array, kernel_mask
from siddhi.engine.operators.expressions.evaluation import as_type
from siddhi.language.ast import AttributeType

_EARLIEST = np.iinfo(np.int64).min
_WHOLE = (AttributeType.INT, AttributeType.LONG)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Events to be added to slots: `slots` int64 (n, levels), all below `slot_count`.

    `times_ms` determine the latest event of a slot; `columns` contain the values to aggregate.
    """

    slots: Int64Array
    slot_count: int
    times_ms: Int64Array
    columns: Mapping[str, Column]


class Measure(ABC):
    """A value that each slot has."""

    @abstractmethod
    def column(self, slots: Int64Array) -> Column:
        """Return the values of `slots`."""


class Accumulator(ABC):
    """State with a value for each slot."""

    @abstractmethod
    def add(self, rows: Arrivals) -> None:
        """Add the rows to their slots, one after the other."""

    @abstractmethod
    def keep(self, slots: Int64Array) -> None:
        """Keep only these slots, which become slots 0, 1 and so on."""

    @abstractmethod
    def snapshot(self, slot_count: int) -> State:
        """Return the state of the first `slot_count` slots, which shares no array with this object."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Replace the state by one from `snapshot`."""


@kernel
def _count(slots, counts):  # type: ignore[no-untyped-def]
    for row in range(slots.shape[0]):
        for level in range(slots.shape[1]):
            counts[slots[row, level]] += 1


class Counts(Accumulator, Measure):
    """`count`: the number of events, including those with nulls."""

    def __init__(self, pool: StringPool) -> None:
        self.pool = pool
        self.counts: Int64Array = np.zeros(8, dtype=np.int64)

    def add(self, rows: Arrivals) -> None:
        self.counts = grown(self.counts, rows.slot_count)
        _count(rows.slots, self.counts)

    def column(self, slots: Int64Array) -> Column:
        return Column(AttributeType.LONG, self.pool, values=self.counts[slots])

    def keep(self, slots: Int64Array) -> None:
        self.counts = self.counts[slots]

    def snapshot(self, slot_count: int) -> State:
        return self.counts[:slot_count].copy()

    def restore(self, state: State) -> None:
        self.counts = state


@kernel
def _add_up(slots, values, valid, items, known):  # type: ignore[no-untyped-def]
    for row in range(slots.shape[0]):
        if len(valid) == 0 or valid[row]:
            for level in range(slots.shape[1]):
                slot = slots[row, level]
                items[slot] += values[row]
                known[slot] = True


@kernel
def _find_extremes(slots, values, valid, largest, items, known):  # type: ignore[no-untyped-def]
    for row in range(slots.shape[0]):
        if len(valid) == 0 or valid[row]:
            value = values[row]
            for level in range(slots.shape[1]):
                slot = slots[row, level]
                better = value > items[slot] if largest else value < items[slot]
                if better or not known[slot]:
                    items[slot] = value
                    known[slot] = True


class _NumberPerSlot(Accumulator, Measure):
    """One number for each slot, null until a value that is not null arrives. `argument` names the aggregated column."""

    def __init__(self, argument: str, argument_type: AttributeType, type_: AttributeType, pool: StringPool) -> None:
        self.argument = argument
        self.type = type_
        self.pool = pool
        self.items: AnyArray = np.zeros(8, dtype=np.int64 if argument_type in _WHOLE else np.float64)
        self.known: BoolArray = np.zeros(8, dtype=np.bool_)

    def add(self, rows: Arrivals) -> None:
        self.items = grown(self.items, rows.slot_count)
        self.known = grown(self.known, rows.slot_count, fill=False)
        column = rows.columns[self.argument]
        self._take_in(rows.slots, kernel_array(column.values, self.items.dtype), kernel_mask(column.valid))

    @abstractmethod
    def _take_in(self, slots: Int64Array, values: AnyArray, valid: BoolArray) -> None: ...

    def column(self, slots: Int64Array) -> Column:
        known = self.known[slots]
        values = as_type(self.items[slots], self.type)
        return Column(self.type, self.pool, values=values, valid=None if known.all() else known)

    def keep(self, slots: Int64Array) -> None:
        self.items, self.known = self.items[slots], self.known[slots]

    def snapshot(self, slot_count: int) -> State:
        return [self.items[:slot_count].copy(), self.known[:slot_count].copy()]

    def restore(self, state: State) -> None:
        self.items, self.known = state


class Sums(_NumberPerSlot):
    """`sum`: whole numbers as longs, others as doubles."""

    def _take_in(self, slots: Int64Array, values: AnyArray, valid: BoolArray) -> None:
        _add_up(slots, values, valid, self.items, self.known)


class Minima(_NumberPerSlot):
    """`min`."""

    def _take_in(self, slots: Int64Array, values: AnyArray, valid: BoolArray) -> None:
        _find_extremes(slots, values, valid, False, self.items, self.known)  # noqa: FBT003 - kernels take no keywords


class Maxima(_NumberPerSlot):
    """`max`."""

    def _take_in(self, slots: Int64Array, values: AnyArray, valid: BoolArray) -> None:
        _find_extremes(slots, values, valid, True, self.items, self.known)  # noqa: FBT003 - kernels take no keywords


class Averages(Measure):
    """`avg`: the sum divided by the count of all events, including nulls.

    An integer, truncated, if the values are integers.
    """

    def __init__(self, sums: Sums, counts: Counts) -> None:
        self.sums = sums
        self.counts = counts

    def column(self, slots: Int64Array) -> Column:
        sums, known = self.sums.items[slots], self.sums.known[slots]
        counts = self.counts.counts[slots]
        if sums.dtype == np.float64:
            averages = sums / counts
        else:
            floors = sums // counts
            averages = (floors + ((sums < 0) & (floors * counts != sums))).astype(np.float64)
        return Column(AttributeType.DOUBLE, self.sums.pool, values=averages, valid=None if known.all() else known)


class DistinctCounts(Accumulator, Measure):
    """`distinctCount`: the number of distinct values, where null counts as a value."""

    def __init__(self, argument: str, pool: StringPool) -> None:
        self.argument = argument
        self.pool = pool
        self.counts: Int64Array = np.zeros(8, dtype=np.int64)
        self.codes = False
        self._seen = KeyTable(2)

    def add(self, rows: Arrivals) -> None:
        self.counts = grown(self.counts, rows.slot_count)
        column = rows.columns[self.argument]
        self.codes = column.type in (AttributeType.STRING, AttributeType.OBJECT)
        pairs = np.column_stack([rows.slots.ravel(), np.repeat(_bits(column), rows.slots.shape[1])])
        before = self._seen.count
        self._seen.ids(pairs)
        np.add.at(self.counts, self._seen.keys[before:, 0], 1)

    def column(self, slots: Int64Array) -> Column:
        return Column(AttributeType.LONG, self.pool, values=self.counts[slots])

    def keep(self, slots: Int64Array) -> None:
        new_slots = np.full(len(self.counts), -1, dtype=np.int64)
        new_slots[slots] = np.arange(len(slots))
        self.counts = self.counts[slots]
        keys = self._seen.keys.copy()
        keys[:, 0] = new_slots[keys[:, 0]]
        self._seen.restore(keys[keys[:, 0] >= 0])

    def snapshot(self, slot_count: int) -> State:
        keys = self._seen.keys
        values = keys[:, 1].copy()
        return [self.counts[:slot_count].copy(), keys[:, 0].copy(), Codes(values) if self.codes else values]

    def restore(self, state: State) -> None:
        self.counts, slots, values = state
        self.codes = isinstance(values, Codes)
        self._seen.restore(np.column_stack([slots, values.array if isinstance(values, Codes) else values]))


def _bits(column: Column) -> Int64Array:
    """Return numbers that are equal exactly where the values are."""
    if column.type is AttributeType.OBJECT:
        return column.pool.codes(None if value is None else repr(value) for value in column.values)
    if column.type is AttributeType.STRING:
        return column.values
    return key_bits(column.values, column.valid)


@kernel
def _find_latest(slots, times, latest, winners, touched):  # type: ignore[no-untyped-def]
    """Write the row of the latest event of each slot into `winners` (-1 before).

    Slots that have one are written into `touched`; return their number.
    """
    count = 0
    for row in range(slots.shape[0]):
        for level in range(slots.shape[1]):
            slot = slots[row, level]
            if times[row] >= latest[slot]:
                latest[slot] = times[row]
                if winners[slot] < 0:
                    touched[count] = slot
                    count += 1
                winners[slot] = row
    return count


class LatestValues(Accumulator):
    """The values of the latest event by time; among events of the same time, of the last arrival."""

    def __init__(self, types: Mapping[str, AttributeType], pool: StringPool) -> None:
        self.types = types
        self.pool = pool
        self.latest: Int64Array = np.full(8, _EARLIEST, dtype=np.int64)
        self._winners: Int64Array = np.full(8, -1, dtype=np.int64)
        self._values: dict[str, AnyArray] = {name: np.zeros(8, dtype=DTYPES[t]) for name, t in types.items()}
        self._valid: dict[str, BoolArray] = {name: np.ones(8, dtype=np.bool_) for name in types}

    def add(self, rows: Arrivals) -> None:
        self.latest = grown(self.latest, rows.slot_count, _EARLIEST)
        self._winners = grown(self._winners, len(self.latest), -1)
        touched = np.empty(rows.slots.size, dtype=np.int64)
        used = _find_latest(rows.slots, kernel_array(rows.times_ms), self.latest, self._winners, touched)
        touched = touched[:used]
        events = self._winners[touched]
        self._winners[touched] = -1
        for name in self.types:
            column = rows.columns[name]
            self._values[name] = grown(self._values[name], rows.slot_count)
            self._valid[name] = grown(self._valid[name], rows.slot_count, fill=True)
            self._values[name][touched] = column.values[events]
            self._valid[name][touched] = True if column.valid is None else column.valid[events]

    def column(self, name: str, slots: Int64Array) -> Column:
        """Return the values of column `name` of `slots`."""
        type_ = self.types[name]
        valid = self._valid[name][slots]
        if type_ in (AttributeType.STRING, AttributeType.OBJECT) or valid.all():
            return Column(type_, self.pool, values=self._values[name][slots])
        return Column(type_, self.pool, values=self._values[name][slots], valid=valid)

    def keep(self, slots: Int64Array) -> None:
        self.latest = self.latest[slots]
        self._winners = np.full(len(self.latest), -1, dtype=np.int64)
        self._values = {name: values[slots] for name, values in self._values.items()}
        self._valid = {name: valid[slots] for name, valid in self._valid.items()}

    def snapshot(self, slot_count: int) -> State:
        columns = {}
        for name, type_ in self.types.items():
            values = self._values[name][:slot_count].copy()
            columns[name] = [
                Codes(values) if type_ is AttributeType.STRING else values,
                self._valid[name][:slot_count].copy(),
            ]
        return {"latest": self.latest[:slot_count].copy(), "columns": columns}

    def restore(self, state: State) -> None:
        self.latest = state["latest"]
        self._winners = np.full(len(self.latest), -1, dtype=np.int64)
        for name, (values, valid) in state["columns"].items():
            self._values[name] = values.array if isinstance(values, Codes) else values
            self._valid[name] = valid


class Latest(Measure):
    """One column of the latest values."""

    def __init__(self, values: LatestValues, name: str) -> None:
        self.values = values
        self.name = name

    def column(self, slots: Int64Array) -> Column:
        return self.values.column(self.name, slots)
