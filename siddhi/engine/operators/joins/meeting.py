"""Join the rows of one side with the rows that the other side stores, all at once.

    rows        a   b   c            pairs    (a, 1) (a, 4) (c, 1)        what comes out
    held        1 … 4                         b meets nothing             a1 a4 | b null (outer join) | c1

The pairs of one row are a chunk; those of the rows of one chunk leave the query together.
"""

from __future__ import annotations

import numpy as np

from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.kinds import CURRENT, EXPIRED, RESET
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.operators.base.operator import Step
from siddhi.engine.operators.filters import drop_rows
from siddhi.engine.operators.joins.side import Fetch, JoinFailures, Side, with_nulls
from siddhi.engine.operators.tables.pairs import Pairs

_PASSING_BY = np.array([CURRENT, EXPIRED, RESET], dtype=np.int8)


def meet_held(side: Side, other: Side, rows: EventBatch, step: Step, *, only_current: bool) -> EventBatch | None:
    """Return the output of `rows`, which `side` releases in `step`, joined with the rows of `other`.

    Return None when there is none. With `only_current` the output for expired rows and resets is not read.
    """
    if only_current and not rows.only_current:
        rows = rows.take((rows.kinds == CURRENT).nonzero()[0])
    if not rows.size:
        return None
    passes_by = side.bare and not only_current
    if passes_by and other.held.aggregates:  # a row is evaluated on arrival and again when it leaves
        rows, passes_by = _coming_and_going(rows, side), False
    events = None
    if not rows.only_current:
        (events,) = (rows.kinds <= EXPIRED).nonzero()
    pairs, fetch, failures = other.held.meet(side, rows, events)
    if failures is not None:
        rows, pairs = _without_failed(rows, pairs, failures, step)
        if not rows.size:
            return None
    if pairs.whole and not passes_by:
        return _one_to_one(side, other, rows, pairs, fetch)
    if side.keeps_unmatched or not rows.only_current:
        pairs = _with_unmatched(side, rows, pairs)
    if passes_by:
        return _come_and_go(side, other, rows, pairs, fetch)
    if not len(pairs.probes):
        return None
    out = rows.take(pairs.probes, [name for _, name in side.selected])
    met = out.with_columns(_columns(side, other, out, pairs.places, fetch))
    return met.with_chunks(pairs.probes, out.chunks)


def _without_failed(rows: EventBatch, pairs: Pairs, failures: JoinFailures, step: Step) -> tuple[EventBatch, Pairs]:
    """Return the remaining rows and their pairs.

    A row that fails removes its whole chunk.
    """
    left = drop_rows(rows, failures.events, failures.reasons, step)
    kept = left[pairs.probes]
    places = np.cumsum(left) - 1
    return rows.take(np.flatnonzero(left)), Pairs(places[pairs.probes[kept]], pairs.places[kept])


def _one_to_one(side: Side, other: Side, rows: EventBatch, pairs: Pairs, fetch: Fetch) -> EventBatch:
    """Return each of `rows` paired with its only match."""
    columns = {column: rows.columns[name] for column, name in side.selected}
    for column, name in other.selected:
        columns[column] = fetch(name, pairs.places)
    met = rows.with_columns(columns)
    return met if rows.chunks is None else met.with_chunks(None, rows.chunks)


def _with_unmatched(side: Side, rows: EventBatch, pairs: Pairs) -> Pairs:
    """Return `pairs`, and rows without a match paired with nulls (position -1).

    Resets, and in outer joins all others.
    """
    lonely = np.full(rows.size, side.keeps_unmatched)
    lonely[pairs.probes] = False
    if not rows.only_current:
        lonely |= rows.kinds == RESET
    (alone,) = lonely.nonzero()
    probes = np.concatenate([pairs.probes, alone])
    order = np.argsort(probes, kind="stable")
    return Pairs(probes[order], np.append(pairs.places, np.full(len(alone), -1))[order])


def _coming_and_going(rows: EventBatch, side: Side) -> EventBatch:
    """Return events of a side without a window in the order of its output.

    Each arrives, expires if the query reads that, and is reset.
    """
    kinds = _PASSING_BY[[0, 2]] if side.hides_expired else _PASSING_BY
    passing = rows.with_chunks(rows.chunk_ids()).take(np.repeat(np.arange(rows.size), len(kinds)))
    passing = passing.with_kinds(np.tile(kinds, rows.size))
    timestamps = np.where(passing.kinds == EXPIRED, passing.clocks, passing.timestamps)
    return passing.with_timestamps(timestamps)


def _come_and_go(side: Side, other: Side, rows: EventBatch, pairs: Pairs, fetch: Fetch) -> EventBatch:
    """Return the output of events of a side without a window, which arrive, expire and are reset at once.

    Each event gives its pairs twice, then a reset.
    """
    numbers = np.concatenate([3 * pairs.probes, 3 * pairs.probes + 1, np.arange(2, 3 * rows.size, 3)])
    places = np.concatenate([pairs.places, pairs.places, np.full(rows.size, -1)])
    order = np.argsort(numbers, kind="stable")
    numbers, places = numbers[order], places[order]
    probes = numbers // 3
    kinds = _PASSING_BY[numbers % 3]
    out = rows.take(probes, [name for _, name in side.selected])
    timestamps = np.where(kinds == EXPIRED, out.clocks, out.timestamps)
    columns = _columns(side, other, out, places, fetch)
    deliveries = rows.chunk_ids()[probes]
    return EventBatch(timestamps, kinds, out.orders, out.clocks, columns, numbers, out.partitions, deliveries)


def _columns(side: Side, other: Side, out: EventBatch, places: Int64Array, fetch: Fetch) -> dict[str, Column]:
    """Return the selected columns of both sides.

    Those of the other side are taken from the rows at `places`, null for -1.
    """
    columns = {column: out.columns[name] for column, name in side.selected}
    missing = places < 0
    lonely = np.count_nonzero(missing)
    for column, name in other.selected:
        if lonely == len(places):
            columns[column] = Column.nulls(other.types[name], other.pool, len(places))
        elif lonely:
            columns[column] = with_nulls(fetch(name, np.where(missing, 0, places)), missing)
        else:
            columns[column] = fetch(name, places)
    return columns
