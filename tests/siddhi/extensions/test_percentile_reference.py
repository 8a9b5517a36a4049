"""`math:percentile` against a plain list that is sorted for each event."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from extension_runs import Run

_VALUES = (1.0, 2.5, -3.0, 7.0, 7.0, 1e300, math.inf, None)


def _expected(values: list[float | None], percent: float) -> float | None:
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return None
    place = percent * len(ordered) / 100
    whole = int(place)
    if place != whole:
        return ordered[max(math.floor(place + 0.5) - 1, 0)]
    return ordered[whole - 1] if whole == len(ordered) else (ordered[whole - 1] + ordered[whole]) / 2


@pytest.mark.parametrize("percent", [1.0, 25.0, 50.0, 90.0, 100.0])
@pytest.mark.parametrize("batch", [1, 7, 200])
def test_percentiles_of_groups_are_those_of_the_values_held(percent: float, batch: int) -> None:
    draw = random.Random(percent)  # noqa: S311
    run = Run(
        "define stream In (k string, v double); @info(name='q') from In#window.length(23) "
        f"select k, math:percentile(v, {percent}) as p group by k insert into Out;"
    )
    rows: list[tuple[str, Any]] = [(draw.choice("abc"), draw.choice(_VALUES)) for _ in range(200)]
    expected = []
    for end in range(1, 201):
        key = rows[end - 1][0]
        held = [value for other, value in rows[max(end - 23, 0) : end] if other == key]
        result = _expected(held, percent)
        expected.append(f"+{key},{'null' if result is None else result}")
    found: list[str] = []
    for start in range(0, 200, batch):
        run.send(*((0, list(row)) for row in rows[start : start + batch]))
        found += run.taken()
        if start % 3 == 0:
            run.restart()
    assert found == expected


def test_a_batch_window_begins_again_and_a_larger_group_moves() -> None:
    run = Run(
        "define stream In (v long); @info(name='q') from In#window.lengthBatch(300) "
        "select math:percentile(v, 50.0) as p, math:percentile(v, 100.0) as m insert into Out;"
    )
    run.send(*((0, [number % 300 + number // 300 * 1_000]) for number in range(900)))
    assert run.taken() == ["+149.5,299.0", "+1149.5,1299.0", "+2149.5,2299.0"]
