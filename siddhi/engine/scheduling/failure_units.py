"""Distinguish rows with the same root while a node processes them.

A failure is identified by its order, the position of its cause in the step. One cause may send several chunks to a
node: two queries insert into one stream, a window emits an event with those it expires, timers fire between two roots.
So that only the failed chunk is dropped, each gets its own order while the node runs, as if each had its own root with
the clock of the true one:

    order       3  3  3    4     5          the same chunks          3  5  7    12    17
    chunk       a  b  c    d     e          distinguished            a  b  c    d     e
    clocks      1000  1400  2600            clocks of the roots      1000 1400 1400 1400 … 2600

A timer's chunk of clock c is between two roots that came just before c, so that the node's own timers go in front of it
and behind it as before, and share their order with no row that came in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.jit.arrays import BoolArray, Int64Array
from siddhi.engine.operators.base.operator import MergedRows, Step


def unit_starts(batch: EventBatch, *, keyed: bool) -> BoolArray:
    """Return where a row, from the second on, begins another unit than the row before it.

    Rows of a unit fail together. In a `keyed` stream, whose events enter a partition, they are the rows of one chunk
    outside.
    """
    marks = batch.chunks if batch.units is None else batch.units
    if keyed and batch.units is None:
        marks = batch.orders
    if marks is None:
        return np.ones(max(batch.size - 1, 0), dtype=np.bool_)
    orders = batch.orders
    starts: BoolArray = (marks[1:] != marks[:-1]) | (orders[1:] != orders[:-1])
    return starts


def with_units(batch: EventBatch) -> EventBatch:
    """Return `batch` with unit numbers that remain valid when chunks are counted differently.

    Return it unchanged when no cause produced several chunks.
    """
    if batch.size < 2 or batch.units is not None:
        return batch
    starts = unit_starts(batch, keyed=False)
    orders = batch.orders
    if not (starts & (orders[1:] == orders[:-1])).any():
        return batch
    return batch.with_units(np.append(0, np.cumsum(starts)))


def distinguish_units(
    inputs: Sequence[EventBatch],
    keyed: Sequence[bool],
    ranks: Sequence[int],
    timer_ranks: Sequence[int] | None,
    step: Step,
) -> tuple[list[EventBatch], Step] | None:
    """Return the inputs with an order for each unit, and the matching step.

    Return None when the orders distinguish the units already.
    """
    filled = [place for place, batch in enumerate(inputs) if batch.size]
    if not filled or (len(filled) == 1 and inputs[filled[0]].size == 1 and inputs[filled[0]].orders.item(0) & 1):
        return None  # true for most events that arrive one by one
    starts = {place: unit_starts(inputs[place], keyed=keyed[place]) for place in filled}
    unique = not _ambiguous([inputs[place] for place in filled], [starts[place] for place in filled])
    if unique and not any(inputs[place].whole_units for place in filled):
        return None
    merged = MergedRows(inputs, ranks, timer_ranks)
    sources, rows = merged.sources, merged.rows
    begins = np.ones(merged.size, dtype=np.bool_)
    begins[1:] = sources[1:] != sources[:-1]
    for place, start in starts.items():
        of_source = sources == place
        begins[of_source] |= np.append(True, start)[rows[of_source]]
    (firsts,) = begins.nonzero()
    orders, apart = _ordered(merged.orders[firsts], merged.clocks[firsts], step)
    by_row = orders[np.cumsum(begins) - 1]
    units = [place for place in filled if inputs[place].whole_units]
    if units:
        apart.units = np.unique(by_row[np.isin(sources, units)])
    told = [
        batch.with_orders(by_row[sources == place]) if place in starts else batch for place, batch in enumerate(inputs)
    ]
    return told, apart


def _ambiguous(batches: Sequence[EventBatch], starts: Sequence[BoolArray]) -> bool:
    """Return whether several units have the same order, or one has the order of a timer of the node."""
    for batch, start in zip(batches, starts, strict=True):
        orders = batch.orders
        if (start & (orders[1:] == orders[:-1])).any() or not (orders & 1).all():
            return True
    if len(batches) == 1:
        return False
    orders = np.concatenate([np.unique(batch.orders) for batch in batches])
    return len(np.unique(orders)) < len(orders)


def _ordered(orders: Int64Array, clocks: Int64Array, step: Step) -> tuple[Int64Array, Step]:
    """Return an order for each of the units with these orders and clocks, and the step with their roots.

    Orders and clocks are non-decreasing.
    """
    roots, of_timer = orders // 2, orders & 1 == 0
    count = len(step.clocks)
    timers = np.bincount(roots[of_timer], minlength=count)
    events = np.maximum(np.bincount(roots[~of_timer], minlength=count), 1)
    bases: Int64Array = np.cumsum(2 * timers + events) - (2 * timers + events)
    starts = np.flatnonzero(np.append(True, orders[1:] != orders[:-1]))
    number = np.arange(len(orders)) - np.repeat(starts, np.diff(np.append(starts, len(orders))))
    places = bases[roots] + np.where(of_timer, 2 * number, 2 * timers[roots] + number)
    line = np.repeat(step.clocks, 2 * timers + events)
    for beside in (0, 1):
        line[places[of_timer] + beside] = clocks[of_timer] - 1
    told: Int64Array = np.where(of_timer, 2 * places + 2, 2 * places + 1)
    return told, step.apart(np.maximum.accumulate(line), told, bases, bases + 2 * timers)
