"""The contents of a table at each moment of a step in which some queries write it and others read it.

    unit      0        1        2              what an event of unit 2's time, or later than unit 1, sees:
    row A   7 ──► 8        ──► 9               A = 8; a look asks for the first change at or behind its own moment,
    row B       inserted                       and takes the row as it was before that

All writes are carried out before anyone looks. Moments are (order, clock, place of the query in the graph).
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.jit.arrays import INT64, BoolArray, Int64Array
from siddhi.engine.jit.kernels import kernel_array, state_kernel
from siddhi.engine.operators.tables.pairs import Pairs
from siddhi.engine.operators.tables.write_kernels import LOG_AT, LOG_NEXT, LOG_PLACE, LOG_ROW, LOG_WAS

ORDER, CLOCK, RANK = range(3)


@state_kernel
def count_before(moments, orders, clocks, rank, counts):  # type: ignore[no-untyped-def]
    """Return for each event, in order, how many of `moments` precede it."""
    unit, units = 0, moments.shape[1]
    for event in range(len(orders)):
        order, clock = orders[event], clocks[event]
        while unit < units and (
            moments[ORDER, unit] < order
            or (
                moments[ORDER, unit] == order
                and (moments[CLOCK, unit] < clock or (moments[CLOCK, unit] == clock and moments[RANK, unit] < rank))
            )
        ):
            unit += 1
        counts[event] = unit


@state_kernel
def see(log, count, heads, cursors, alive, times, probes, places, kept, seen):  # type: ignore[no-untyped-def]
    """Write which rows of pairs (event, row) existed at the events' `times`, and the positions of their values then.

    Return their number. Events are in order, so that each change is visited once.
    """
    for number in range(count):
        cursors[log[LOG_ROW, number]] = heads[log[LOG_ROW, number]]
    found = 0
    for pair in range(len(places)):
        place, time = places[pair], times[probes[pair]]
        change = cursors[place] if heads[place] >= 0 else -1
        while change >= 0 and log[LOG_AT, change] < time:
            change = log[LOG_NEXT, change]
        if heads[place] >= 0:
            cursors[place] = change
        there = alive[place] if change < 0 else log[LOG_WAS, change] != 0
        if there:
            kept[found] = probes[pair]
            seen[found] = place if change < 0 else log[LOG_PLACE, change]
            found += 1
    return found


@state_kernel
def undo(log, count, heads, cells, valid, alive):  # type: ignore[no-untyped-def]
    """Restore the previous values of rows from their recorded changes, the last change first."""
    for number in range(count - 1, -1, -1):
        place, copy = log[LOG_ROW, number], log[LOG_PLACE, number]
        heads[place] = -1
        if log[LOG_WAS, number] == 0:
            alive[place] = False
            continue
        alive[place] = True
        if copy != place:
            for line in range(cells.shape[0]):
                cells[line, place] = cells[line, copy]
            for line in range(valid.shape[0]):
                valid[line, place] = valid[line, copy]


@state_kernel
def forget(log, count, heads):  # type: ignore[no-untyped-def]
    """Discard the records of the rows."""
    for number in range(count):
        heads[log[LOG_ROW, number]] = -1


class History:
    """The recorded changes of a step. `rank` is the position of the reading query.

    Before the step there were `count_before` rows at the first `used_before` positions.
    """

    def __init__(
        self,
        moments: Int64Array,
        log: Int64Array,
        count: int,
        heads: Int64Array,
        cursors: Int64Array,
        gone: Int64Array,
        *,
        used_before: int,
        count_before: int,
    ) -> None:
        self._moments = moments
        self._log = log
        self._count = count
        self._heads = heads
        self._cursors = cursors
        self.gone = gone
        self.used_before = used_before
        self.count_before = count_before
        self.rank = 0

    def seen(self, pairs: Pairs, events: EventBatch, alive: BoolArray) -> Pairs:
        """Return those of `pairs` of `events` and rows whose rows existed then, with their values at that time."""
        times: Int64Array = np.empty(events.size, INT64)
        orders, clocks = kernel_array(events.orders), kernel_array(events.clocks)
        count_before(self._moments, orders, clocks, self.rank, times)
        kept: Int64Array = np.empty(len(pairs.probes), INT64)
        places: Int64Array = np.empty(len(pairs.probes), INT64)
        probes = kernel_array(pairs.probes)
        rows = kernel_array(pairs.places)
        count = see(self._log, self._count, self._heads, self._cursors, alive, times, probes, rows, kept, places)
        return pairs._replace(probes=kept[:count], places=places[:count], whole=False)

    def undo(self, cells: Int64Array, valid: BoolArray, alive: BoolArray) -> None:
        """Restore the values of all rows from before the step."""
        undo(self._log, self._count, self._heads, cells, valid, alive)

    def close(self) -> None:
        """End the step."""
        forget(self._log, self._count, self._heads)
