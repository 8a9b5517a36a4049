"""All aggregates of a selection, one after the other."""

from __future__ import annotations

import numpy as np

from siddhi.engine.aggregators.distinct import follow_distincts
from siddhi.engine.aggregators.extremes import follow_extremes, follow_records
from siddhi.engine.aggregators.moves import (
    AVERAGE,
    COUNT,
    DEVIATION,
    DISTINCT,
    EXTREME,
    KIND,
    REAL,
    RECORD,
    SOURCE,
    SUM,
    WIDE,
    called,
    kernel,
)
from siddhi.engine.aggregators.totals import follow_counts, follow_deviations, follow_real_sums, follow_whole_sums


@called
def accumulate(moves, count, plan, wide, narrow, valid, cells, nodes, table, pool, out, out_valid, written):  # type: ignore[no-untyped-def] # noqa: C901 - a table of kinds
    """The first `count` moves have gone through every aggregate; `written` writes had been made before them.

    `pool` must have a node and an entry left for every added row and aggregate that needs one.
    """
    reals, totals, items, real_out = (
        wide.view(np.float64),
        cells.view(np.float64),
        nodes.view(np.float64),
        out.view(np.float64),
    )
    for number in range(len(plan)):
        aim, line, valid_line = plan[number], out[number], out_valid[number]
        real_line = real_out[number]
        kind, source = aim[KIND], aim[SOURCE]
        if kind == SUM and source != REAL:
            follow_whole_sums(moves, count, aim, wide, narrow, valid, cells, line, valid_line, written)
        elif kind in (SUM, AVERAGE):
            follow_real_sums(
                moves, count, aim, wide, reals, narrow, valid, cells, totals, real_line, valid_line, written
            )
        elif kind == COUNT:
            follow_counts(moves, count, aim, cells, line, valid_line, written)
        elif kind == DEVIATION:
            follow_deviations(
                moves, count, aim, wide, reals, narrow, valid, cells, totals, real_line, valid_line, written
            )
        elif kind == EXTREME and source == REAL:
            follow_extremes(moves, count, aim, reals, valid, cells, nodes, items, pool, real_line, valid_line, written)
        elif kind == EXTREME and source == WIDE:
            follow_extremes(moves, count, aim, wide, valid, cells, nodes, nodes, pool, line, valid_line, written)
        elif kind == EXTREME:
            follow_extremes(moves, count, aim, narrow, valid, cells, nodes, nodes, pool, line, valid_line, written)
        elif kind == RECORD and source == REAL:
            follow_records(moves, count, aim, reals, valid, cells, totals, real_line, valid_line, written)
        elif kind == RECORD and source == WIDE:
            follow_records(moves, count, aim, wide, valid, cells, cells, line, valid_line, written)
        elif kind == RECORD:
            follow_records(moves, count, aim, narrow, valid, cells, cells, line, valid_line, written)
        elif kind == DISTINCT:
            follow_distincts(
                moves, count, aim, number, len(plan), wide, narrow, valid, cells, table, pool, line, valid_line, written
            )


@kernel
def follow(moves, plan, wide, narrow, valid, cells, nodes, table, pool, out, out_valid):  # type: ignore[no-untyped-def]
    """`accumulate` for moves that are known beforehand."""
    accumulate(moves, len(moves), plan, wide, narrow, valid, cells, nodes, table, pool, out, out_valid, 0)
