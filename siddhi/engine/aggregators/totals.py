"""sum, avg, count and stdDev: accumulators of which every row changes a few numbers."""

from __future__ import annotations

import numpy as np

from siddhi.engine.aggregators.moves import (
    ADD,
    AVERAGE,
    CELL,
    CLEAR,
    GROUP_SHIFT,
    KIND,
    LINE,
    MASK,
    NULLS,
    REMOVE,
    ROW_MASK,
    ROW_SHIFT,
    SOURCE,
    WRITE,
    called,
    is_null,
    real_argument,
    whole_argument,
)


@called
def follow_whole_sums(moves, count, aim, wide, narrow, valid, cells, out, out_valid, written):  # type: ignore[no-untyped-def]
    """Sums of int and long, which wrap as Java's."""
    total, source, line, mask = aim[CELL], aim[SOURCE], aim[LINE], aim[MASK]
    for number in range(count):
        move = moves[number]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & ROW_MASK
        if move & CLEAR:
            cells[group, total] = 0
            cells[group, total + 1] = 0
        counts = not is_null(valid, mask, row)
        if counts and move & ADD:
            cells[group, total] += whole_argument(source, line, row, wide, narrow)
            cells[group, total + 1] += 1
        elif counts and move & REMOVE:
            cells[group, total] -= whole_argument(source, line, row, wide, narrow)
            cells[group, total + 1] -= 1
        if move & WRITE:
            held = cells[group, total + 1] != 0 or (counts and move & ADD)
            out[written] = cells[group, total]
            out_valid[written] = held
            if not held:
                aim[NULLS] = 1
            written += 1


@called
def follow_real_sums(moves, count, aim, wide, reals, narrow, valid, cells, totals, out, out_valid, written):  # type: ignore[no-untyped-def]
    """Sums as double and averages: totals go up and down by each value, nothing is summed anew."""
    total, source, line, mask = aim[CELL], aim[SOURCE], aim[LINE], aim[MASK]
    mean = aim[KIND] == AVERAGE
    for number in range(count):
        move = moves[number]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & ROW_MASK
        if move & CLEAR:
            totals[group, total] = 0.0
            cells[group, total + 1] = 0
        counts = not is_null(valid, mask, row)
        if counts and move & ADD:
            totals[group, total] += real_argument(source, line, row, wide, reals, narrow)
            cells[group, total + 1] += 1
        elif counts and move & REMOVE:
            totals[group, total] -= real_argument(source, line, row, wide, reals, narrow)
            cells[group, total + 1] -= 1
        if move & WRITE:
            size = cells[group, total + 1]
            if mean:
                held = size != 0
                out[written] = totals[group, total] / size if held else 0.0
            else:
                held = size != 0 or (counts and move & ADD)
                out[written] = totals[group, total]
            out_valid[written] = held
            if not held:
                aim[NULLS] = 1
            written += 1


@called
def follow_counts(moves, count, aim, cells, out, out_valid, written):  # type: ignore[no-untyped-def]
    """How many rows are held, nulls too."""
    cell = aim[CELL]
    for number in range(count):
        move = moves[number]
        group = move >> GROUP_SHIFT
        if move & CLEAR:
            cells[group, cell] = 0
        if move & ADD:
            cells[group, cell] += 1
        elif move & REMOVE:
            cells[group, cell] -= 1
        if move & WRITE:
            out[written] = cells[group, cell]
            out_valid[written] = True
            written += 1


@called
def follow_deviations(  # type: ignore[no-untyped-def] # noqa: PLR0912 - one loop, compiled as a whole
    moves, count, aim, wide, reals, narrow, valid, cells, moments, out, out_valid, written
):
    """Welford's running update of (sum, mean, squared distances) with its inverse for leaving values; the fourth cell
    counts."""
    cell, source, line, mask = aim[CELL], aim[SOURCE], aim[LINE], aim[MASK]
    for number in range(count):
        move = moves[number]
        group, row = move >> GROUP_SHIFT, (move >> ROW_SHIFT) & ROW_MASK
        if move & CLEAR:
            for part in range(3):
                moments[group, cell + part] = 0.0
            cells[group, cell + 3] = 0
        if move & (ADD | REMOVE) and not is_null(valid, mask, row):
            value = real_argument(source, line, row, wide, reals, narrow)
            old = moments[group, cell + 1]
            if move & ADD:
                cells[group, cell + 3] += 1
                size = cells[group, cell + 3]
                if size == 1:
                    moments[group, cell] = value
                    moments[group, cell + 1] = value
                    moments[group, cell + 2] = 0.0
                else:
                    moments[group, cell] += value
                    moments[group, cell + 1] = moments[group, cell] / size
                    moments[group, cell + 2] += (value - old) * (value - moments[group, cell + 1])
            else:
                cells[group, cell + 3] -= 1
                size = cells[group, cell + 3]
                if size == 0:
                    for part in range(3):
                        moments[group, cell + part] = 0.0
                else:
                    moments[group, cell] -= value
                    moments[group, cell + 1] = moments[group, cell] / size
                    moments[group, cell + 2] -= (value - old) * (value - moments[group, cell + 1])
        if move & WRITE:
            size = cells[group, cell + 3]
            out[written] = 0.0 if size <= 1 else np.sqrt(moments[group, cell + 2] / size)
            out_valid[written] = size != 0
            if size == 0:
                aim[NULLS] = 1
            written += 1
