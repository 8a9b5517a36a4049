"""Sums and averages apply their moves, and read only the values in these."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.jit.bits import address_of
from siddhi.engine.operators.aggregates.moves import (
    ADD,
    AVERAGE,
    CLEAR,
    GROUP_SHIFT,
    REAL,
    REMOVE,
    ROW_SHIFT,
    SUM,
    WRITE,
)
from siddhi.engine.operators.aggregates.totals import follow_totals

NOWHERE = 8
"""An address at which nothing lies: to read there ends the process."""


def follow(kind: int, told: list[tuple[int, int, int]], values_at: int, cells: Int64Array) -> list[float | None]:
    """Return the results of a sum or an average of float64 for moves (group, row, operations), None for null."""
    moves = np.array([group << GROUP_SHIFT | row << ROW_SHIFT | doing for group, row, doing in told])
    plan = np.array([[kind, 1, 0, 0, 1]])
    lines = np.array([[REAL, values_at, 0]])
    out, valid = np.zeros((1, len(told)), np.int64), np.zeros((1, len(told)), np.bool_)
    follow_totals(moves, len(moves), plan, 0, lines, cells, out, valid, 0)
    written = sum(doing & WRITE != 0 for _, _, doing in told)
    totals = out.view(np.float64)[0, :written].tolist()
    return [total if there else None for total, there in zip(totals, valid[0], strict=False)]


@pytest.mark.parametrize(
    ("kind", "slid", "stood"),
    [(SUM, [2.0, 5.0, 3.0, 10.0], [10.0, None]), (AVERAGE, [2.0, 2.5, 3.0, 5.0], [5.0, None])],
)
def test_groups_are_written_also_when_their_values_are_gone(
    kind: int, slid: list[float], stood: list[float | None]
) -> None:
    values, cells = np.array([2.0, 3.0, 7.0]), np.zeros((3, 5), np.int64)
    told = [
        (1, 0, CLEAR | ADD | WRITE),
        (1, 1, ADD | WRITE),
        (1, 0, REMOVE),
        (1, 0, WRITE),
        (1, 2, ADD | WRITE),
    ]
    assert follow(kind, told, address_of(values), cells) == slid
    assert follow(kind, [(1, 0, WRITE), (2, 0, WRITE)], NOWHERE, cells) == stood


SMALL = [
    1.0,
    1.0,
    math.nan,
    4.0,
    math.inf,
    8.0,
    math.inf,
    -math.inf,
    16.0,
    2.0,
    -3.0,
    -3.0,
    math.nan,
    -math.inf,
] + 6 * [0.5]
HUGE = [1e308, 1.5e308, 1e308, -1e308, -1.7e308, -1.7e308, math.inf, 1e308, 1e308, 1e307, -1e307] + 6 * [
    1e308,
    -1.5e308,
]


@pytest.mark.parametrize("kind", [SUM, AVERAGE])
@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize(("numbers", "error"), [(SMALL, 0.0), (HUGE, 1e294)])
def test_totals_are_those_of_the_rows_held(kind: int, length: int, numbers: list[float], error: float) -> None:
    values, cells = np.array(numbers), np.zeros((1, 5), np.int64)
    told, right = [], []
    for row in range(len(values)):
        if row >= length:
            told.append((0, row - length, REMOVE))
        told.append((0, row, ADD | WRITE))
        held = numbers[max(row - length + 1, 0) : row + 1]
        right.append(exact_total(held) / (len(held) if kind == AVERAGE else 1))
    assert follow(kind, told, address_of(values), cells) == pytest.approx(right, rel=1e-12, abs=error, nan_ok=True)


def exact_total(held: list[float]) -> float:
    """Return the sum of `held`, infinite when it is beyond the range of a float."""
    if not all(map(math.isfinite, held)):
        return sum(value for value in held if not math.isfinite(value))
    whole = sum(map(Fraction, held), Fraction(0))
    try:
        return float(whole)
    except OverflowError:
        return math.inf if whole > 0 else -math.inf
