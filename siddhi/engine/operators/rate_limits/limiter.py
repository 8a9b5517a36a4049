"""Common code of output rate limits, which are written for n partition instances; without a partition there is one.

A query with a limiter after its selection is either grouped, so that its rows have their group in the column `GROUP`,
or not: then all rows of an instance are one group.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.slot_store import SlotStore
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.jit.arrays import INT64, Int64Array
from siddhi.engine.jit.kernels import kernel_array, state_kernel
from siddhi.engine.operators.base.choices import Execution
from siddhi.engine.operators.base.operator import Operator
from siddhi.engine.operators.base.per_instance import came_together
from siddhi.engine.operators.selection.selector import GROUP
from siddhi.language.ast import AttributeType

UNSET = int(np.iinfo(np.int64).min)
"""The value of a time that is not set."""
SLOT, ORDER, CLOCK, CHUNK, WHOSE, DUE, TURN = range(7)
"""The lines of the output of a loop: the position of each row, its order, clock and chunk, its instance, the tick that
emitted it, and its turn: odd for output of a run of rows, even for output of ticks before that run."""
OUT_LINES = 7


@dataclass(frozen=True, slots=True)
class LimitedRows:
    """Properties of the rows that a limiter processes.

    `attributes` are those of the rows; `grouped` means that rows have their group. In a partition `ranks` gives the
    instances' ranks among those whose timers are due at one time.
    """

    attributes: Mapping[str, AttributeType]
    grouped: bool
    pool: StringPool
    partitioned: bool = False
    ranks: Callable[[], Int64Array] | None = None


class Limiter(Operator):
    """An operator after a query's selection that limits the rate of its output."""

    execution = Execution.COMPILED

    def __init__(self, rows: LimitedRows) -> None:
        self.limited = rows

    @abstractmethod
    def groups_in_use(self) -> Int64Array:
        """Return the groups with stored state, in any order, with or without repetitions."""

    @abstractmethod
    def renumber_groups(self, numbers: Int64Array) -> None:
        """Rename group g to `numbers[g]`, -1 for a removed group; no row of a removed group waits."""

    def open(self, instances: Int64Array, clocks: Int64Array) -> None:
        """Open these partition instances at `clocks`, from which ticks count."""

    def instances_of(self, batch: EventBatch) -> Int64Array:
        """Return each row's partition instance."""
        if not self.limited.partitioned or batch.partitions is None:
            return np.zeros(batch.size, INT64)
        return kernel_array(batch.partitions)

    def groups_of(self, batch: EventBatch, instances: Int64Array) -> Int64Array:
        """Return each row's group: its instance where the query has no groups."""
        if not self.limited.grouped:
            return instances
        return kernel_array(batch.columns[GROUP].values)

    def in_turn(self, out: Int64Array, batch: EventBatch) -> Int64Array:
        """Return the output for `batch` in the order of time.

        Instances with output at the same time are ordered by rank. If events of several instances came in one chunk,
        each run of rows has its turn. Ticks between runs are ordered by the first tick of each instance, then by rank.
        """
        ranks, whose = self.limited.ranks, out[WHOSE]
        if ranks is None or len(whose) < 2 or (whose == whose[0]).all():
            return out
        turns = ranks()[whose]
        if not came_together(batch):
            return out[:, np.lexsort((turns, out[CLOCK], out[ORDER]))]
        by_ticks = out[TURN] & 1 == 0
        lines = np.lexsort((out[DUE], whose, out[CLOCK], out[ORDER], out[TURN]))
        changes = chunks_of((out[TURN, lines], out[ORDER, lines], out[CLOCK, lines], whose[lines]), len(whose))
        first: Int64Array = np.empty(len(whose), INT64)
        first[lines] = out[DUE, lines[np.searchsorted(changes, changes)]]
        ties = (np.where(by_ticks, line, 0) for line in (turns, first, out[CLOCK], out[ORDER]))
        return out[:, np.lexsort((*ties, out[TURN]))]


def without_groups(batch: EventBatch) -> EventBatch:
    """Return `batch` without the column `GROUP`."""
    if GROUP not in batch.columns:
        return batch
    return batch.with_columns({name: column for name, column in batch.columns.items() if name != GROUP})


def taken(store: SlotStore, batch: EventBatch, base: int, places: Int64Array, name: str) -> Column:
    """Return a column of the rows at `places`: slots of `store` or, from `base` on, rows of `batch`."""
    old = places < base
    if old.all():
        return store.taken(name, places)
    if not old.any():
        return batch.columns[name].take(places - base)
    kept = store.taken(name, places[old])
    positions = np.where(old, np.cumsum(old) - 1, places - base + len(kept))
    return Column.concat([kept, batch.columns[name]]).take(positions)


def times_of(store: SlotStore, batch: EventBatch, base: int, places: Int64Array) -> Int64Array:
    """Return the timestamps of the rows at `places`, as `taken` does."""
    old = places < base
    if old.all():
        return store.timestamps[places]
    times: Int64Array = np.empty(len(places), INT64)
    times[old] = store.timestamps[places[old]]
    times[~old] = batch.timestamps[places[~old] - base]
    return times


def chunks_of(changes: Sequence[Int64Array], size: int) -> Int64Array:
    """Return chunk numbers that increase where one of the lines `changes` does."""
    chunks: Int64Array = np.zeros(size, INT64)
    if size > 1:
        new = changes[0][1:] != changes[0][:-1]
        for line in changes[1:]:
            new |= line[1:] != line[:-1]
        np.cumsum(new, out=chunks[1:])
    return chunks


def in_lists(heads: Int64Array, links: Int64Array) -> Int64Array:
    """Return the contents of linked lists, one after the other: `heads` (-1: empty), and the neighbours in `links`."""
    listed: Int64Array = np.empty(len(links), INT64)
    return listed[: _walk(kernel_array(heads.copy()), kernel_array(links.copy()), listed)]


@state_kernel
def _walk(heads, links, out):  # type: ignore[no-untyped-def]
    count = 0
    for head in heads:
        place = head
        while place >= 0:
            out[count] = place
            count += 1
            place = links[place]
    return count
