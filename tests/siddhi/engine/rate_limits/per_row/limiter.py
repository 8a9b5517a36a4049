"""Common code of output rate limits."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.batch_state import restore_batch, snapshot_batch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.state_size import StateSize, held_bytes
from siddhi.engine.columnar.state_tree import State
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import Operator
from siddhi.engine.operators.selection.selector import GROUP, last_of_each_group
from siddhi.language.ast import AttributeType


class Limiter(Operator):
    """An operator after a query's selection that limits the rate of its output."""

    @abstractmethod
    def groups_in_use(self) -> Int64Array:
        """Return the groups with stored state, in any order, with or without repetitions."""

    @abstractmethod
    def renumber_groups(self, numbers: Int64Array) -> None:
        """Rename group g to `numbers[g]`, -1 for a removed group; no row of a removed group waits."""


class RateLimiter(Limiter):
    """Emits the output of a query later, or not at all; timestamps do not change.

    Rows of grouped queries have their group in the column `GROUP`, which the limiter removes. `held` are the waiting
    rows.
    """

    def __init__(self, pool: StringPool) -> None:
        self.pool = pool
        self.held: EventBatch | None = None

    def with_held(self, batch: EventBatch) -> EventBatch:
        """Return the rows that wait, followed by `batch`."""
        if self.held is None or not self.held.size:
            return batch
        return EventBatch.concat([self.held, batch]) if batch.size else self.held

    def state_size(self) -> StateSize:
        return StateSize(rows=0 if self.held is None else self.held.size, bytes=held_bytes(self))

    def snapshot(self) -> State:
        return [snapshot_batch(self.held), self.own_state()]

    def restore(self, state: State) -> None:
        held, own = state
        self.held = restore_batch(held, self.pool)
        self.restore_own(own)

    def groups_in_use(self) -> Int64Array:
        waiting = np.zeros(0, dtype=np.int64) if self.held is None else groups_of(self.held)
        return np.concatenate([waiting, self.own_groups()])

    def own_groups(self) -> Int64Array:
        """Return the groups in use, as `groups_in_use` does, of the state besides the waiting rows."""
        return np.zeros(0, dtype=np.int64)

    def renumber_groups(self, numbers: Int64Array) -> None:
        if self.held is not None and GROUP in self.held.columns:
            groups = Column(AttributeType.LONG, self.pool, values=numbers[groups_of(self.held)])
            self.held = self.held.with_columns({**self.held.columns, GROUP: groups})
        self.renumber_own(numbers)

    def renumber_own(self, numbers: Int64Array) -> None:
        """Renumber groups, as `renumber_groups` does, in the state besides the waiting rows."""

    def own_state(self) -> State:
        """Return the state of the limiter besides the waiting rows."""
        return None

    def restore_own(self, state: State) -> None:
        """Restore the state that `own_state` returned."""


def groups_of(batch: EventBatch) -> Int64Array:
    """Return each row's group, 0 for all when there is no grouping."""
    column = batch.columns.get(GROUP)
    groups: Int64Array = np.zeros(batch.size, dtype=np.int64) if column is None else column.values
    return groups


def without_groups(batch: EventBatch) -> EventBatch:
    """Return `batch` without the column `GROUP`."""
    if GROUP not in batch.columns:
        return batch
    return batch.with_columns({name: column for name, column in batch.columns.items() if name != GROUP})


def last_of_groups(blocks: Int64Array, groups: Int64Array) -> Int64Array:
    """Return the position of the last row of each group in each block, by first appearance.

    Blocks are non-decreasing numbers.
    """
    if len(blocks) == 0:
        return blocks
    count = int(groups.max()) + 1
    out = np.empty(len(blocks), dtype=np.int64)
    seen, slots = np.zeros(count + 1, dtype=np.int64), np.zeros(count, dtype=np.int64)
    used = last_of_each_group(np.arange(len(blocks)), blocks.copy(), groups.copy(), seen, slots, out)
    picked: Int64Array = out[:used]
    return picked


def released(batch: EventBatch, orders: Int64Array, clocks: Int64Array, chunks: Int64Array) -> EventBatch:
    """Return the rows of `batch` as they are released at `orders` and `clocks` in `chunks`."""
    plain = without_groups(batch)
    return EventBatch(plain.timestamps, plain.kinds, orders, clocks, plain.columns, chunks, plain.partitions)
