"""The groups of rows, and when a group restarts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from siddhi.analysis import model
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.hashing import NULL_KEY, KeyTable, key_bits
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.columnar.state_tree import Codes, NotByKeyError, State
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import BoolArray, Int64Array
from siddhi.engine.jit.kernels import grown, kernel_array, regrouped, state_kernel
from siddhi.engine.operators.base.operator import OperatorContext
from siddhi.engine.operators.base.scope import column_of
from siddhi.language.ast import AttributeType

NULL_TEXT = "null"
"""Represents null in a key of strings."""


@state_kernel
def _mark_fresh(kinds, groups, partitions, epochs, group_epochs, held, counts, fresh):  # type: ignore[no-untyped-def]
    """Start the next epoch of its partition; the first row of a group in an epoch restarts the group.

    With `counts`, the stored rows of each group in its epoch are counted, and a group without any restarts.
    """
    for row in range(len(kinds)):
        partition = partitions[row] if len(partitions) else 0
        group = groups[row]
        if kinds[row] == RESET:
            epochs[partition] += 1
            continue
        if group_epochs[group] != epochs[partition]:
            group_epochs[group] = epochs[partition]
            held[group] = 0
            fresh[row] = True
        if counts and kinds[row] == CURRENT:
            fresh[row] = held[group] == 0
            held[group] += 1
        elif counts and kinds[row] == EXPIRED and held[group] > 0:
            held[group] -= 1


class Groups:
    """Dense group ids for the values of `group by` (one group without), within each partition instance.

    The key of a whole event is its timestamp. A null string is the same group as the text "null", as Siddhi joins keys
    as text. With `counts` a group without rows is like new: it restarts and may be removed.
    """

    def __init__(
        self,
        keys: tuple[model.AttributeValue | model.EventReference, ...],
        context: OperatorContext,
        *,
        several: bool,
        counts: bool = False,
    ) -> None:
        self.columns = [
            (
                column_of(key, several=several),
                key.type if isinstance(key, model.AttributeValue) else AttributeType.LONG,
            )
            for key in keys
        ]
        self.pool = context.pool
        self.partitioned = context.partitioned
        self.table = KeyTable(len(keys) + self.partitioned)
        self._epochs: Int64Array = np.zeros(8, dtype=np.int64)
        self._group_epochs: Int64Array = np.zeros(8, dtype=np.int64)
        self._held: Int64Array = np.zeros(8, dtype=np.int64)
        self._was_reset = False
        self.counts = counts

    @property
    def count(self) -> int:
        return self.table.count if self.table.width else 1

    def ids(self, batch: EventBatch) -> Int64Array:
        """Return the group id of each row."""
        if not self.table.width:
            return np.zeros(batch.size, dtype=np.int64)
        parts = [] if batch.partitions is None else [batch.partitions]
        parts.extend(self._bits(batch, name, type_) for name, type_ in self.columns)
        return self.table.ids(parts[0].reshape(-1, 1) if len(parts) == 1 else np.column_stack(parts))

    def _bits(self, batch: EventBatch, name: str, type_: AttributeType) -> Int64Array:
        column = batch.columns[name]
        if type_ is AttributeType.STRING:
            codes: Int64Array = column.values
            nulls = codes < 0
            return np.where(nulls, self.pool.code(NULL_TEXT), codes) if nulls.any() else codes
        if type_ is AttributeType.OBJECT:
            return self.pool.codes(None if value is None else repr(value) for value in column.values)
        return key_bits(column.values, column.valid)

    def fresh(self, batch: EventBatch, groups: Int64Array) -> BoolArray | None:
        """Return where a group restarts, None when none ever does."""
        if not self.counts and not self._was_reset:
            if not (batch.kinds == RESET).any():
                return None
            self._was_reset = True
        partitions = np.zeros(0, dtype=np.int64) if batch.partitions is None else batch.partitions
        self._epochs = grown(self._epochs, int(partitions.max()) + 1 if len(partitions) else 1)
        self._group_epochs, self._held = grown(self._group_epochs, self.count), grown(self._held, self.count)
        fresh: BoolArray = np.zeros(batch.size, dtype=np.bool_)
        kinds, groups, partitions = kernel_array(batch.kinds), kernel_array(groups), kernel_array(partitions)
        lines = (self._epochs, self._group_epochs, self._held)
        _mark_fresh(kinds, groups, partitions, *lines, self.counts, fresh)
        return fresh

    def empty(self) -> BoolArray:
        """Return which groups have no rows, if rows are counted."""
        count = self.count
        epochs, held = grown(self._group_epochs, count)[:count], grown(self._held, count)[:count]
        partitions = self.table.keys[:, 0] if self.partitioned else np.zeros(count, dtype=np.int64)
        now = grown(self._epochs, int(partitions.max(initial=0)) + 1)[partitions]
        without: BoolArray = (held == 0) | (epochs != now)
        return without

    def keep(self, kept: Int64Array) -> None:
        """Keep only the groups `kept` (ascending), and number them from 0 in this order."""
        self._group_epochs, self._held = regrouped(self._group_epochs, kept), regrouped(self._held, kept)
        self.table.restore(self.table.keys[kept])

    def of_partitions(self, partitions: Int64Array) -> BoolArray:
        """Return which groups belong to one of these partition instances."""
        found: BoolArray = np.isin(self.table.keys[:, 0], partitions)
        return found

    def key(self, name: str) -> pa.Array:
        """Return the value of the key that is the input attribute `name`, for each group, as `key_values` does."""
        place = [column for column, _ in self.columns].index(name)
        return key_values(self.table.keys[:, int(self.partitioned) + place], self.columns[place][1], self.pool)

    def joined(self, states: Sequence[State], ids: Sequence[Int64Array]) -> State:
        """Return one state of all `states`, as operators do; there must be a key.

        The groups of each are numbered after those of the state before. Raise `NotByKeyError` when two states have the
        same group. A group that was about to restart still will.
        """
        columns, group_epochs, held = [], [], []
        for (parts, epochs, of_groups, rows, _), numbers in zip(states, ids, strict=True):
            own = [_array(part) for part in parts]
            count = len(own[0])
            partitions = own[0] if self.partitioned else np.zeros(count, dtype=np.int64)
            now = grown(epochs, int(partitions.max(initial=-1)) + 1)[partitions]
            group_epochs.append(np.where(grown(of_groups, count)[:count] == now, 0, -1))
            held.append(grown(rows, count)[:count])
            columns.append([numbers[own[0]], *own[1:]] if self.partitioned else own)
        whole = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
        if len(np.unique(np.column_stack(whole), axis=0)) < len(whole[0]):
            raise NotByKeyError
        kinds = [isinstance(part, Codes) for part in states[0][0]]
        return [
            [Codes(part) if coded else part for part, coded in zip(whole, kinds, strict=True)],
            np.zeros(max((int(numbers.max(initial=-1)) for numbers in ids), default=-1) + 1, dtype=np.int64),
            np.concatenate(group_epochs),
            np.concatenate(held),
            any(state[4] for state in states),
        ]

    def snapshot(self) -> State:
        keys = self.table.keys
        parts: list[State] = [keys[:, 0].copy()] if self.partitioned else []
        for place, (_, type_) in enumerate(self.columns, start=int(self.partitioned)):
            part = keys[:, place].copy()
            parts.append(Codes(part) if type_ in (AttributeType.STRING, AttributeType.OBJECT) else part)
        count = self.count
        group_epochs, held = grown(self._group_epochs, count)[:count], grown(self._held, count)[:count]
        lines = [self._epochs[: _used(self._epochs)].copy(), group_epochs.copy(), held.copy()]
        return [parts, *lines, self._was_reset]

    def restore(self, state: State) -> None:
        parts, self._epochs, self._group_epochs, self._held, self._was_reset = state
        arrays = [_array(part) for part in parts]
        if arrays:
            self.table.restore(np.column_stack(arrays))


def _used(epochs: Int64Array) -> int:
    """Return the length of `epochs` up to the last that differs from a new one."""
    return int(np.flatnonzero(epochs).max(initial=-1)) + 1


def _array(part: State) -> Int64Array:
    array: Int64Array = part.array if isinstance(part, Codes) else part
    return array


def key_values(bits: Int64Array, type_: AttributeType, pool: StringPool) -> pa.Array:
    """Return the keys with these `bits`: floats and doubles as numbers, all others as texts."""
    if type_ is AttributeType.STRING:
        return pool.decode(bits)
    null = bits == NULL_KEY
    if type_ in (AttributeType.FLOAT, AttributeType.DOUBLE):
        reals = pa.array(bits.view(np.float64), mask=null)
        return reals.cast(pa.float32()) if type_ is AttributeType.FLOAT else reals
    numbers = pa.array(bits, mask=null)
    return (numbers.cast(pa.bool_()) if type_ is AttributeType.BOOL else numbers).cast(pa.utf8())
