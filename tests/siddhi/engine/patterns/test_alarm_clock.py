"""The alarms of many machines, against a check of all of them."""

from __future__ import annotations

import numpy as np
import pytest

from siddhi.engine.operators.patterns.machine.alarm_clock import AlarmClock


@pytest.mark.parametrize("seed", range(5))
def test_it_knows_the_first_alarms_whatever_was_noted_before(seed: int) -> None:
    draw = np.random.default_rng(seed)
    clock = AlarmClock()
    noted: dict[int, int] = {}
    for _ in range(3_000):
        key, due = int(draw.integers(0, 40)), int(draw.integers(0, 100))
        if draw.random() < 0.3:
            clock.note(key, None)
            noted.pop(key, None)
        else:
            clock.note(key, due)
            noted[key] = due
        time = int(draw.integers(0, 100))
        assert sorted(clock.until(time)) == sorted(key for key, due in noted.items() if due <= time)
        assert clock.next_due() == min(noted.values(), default=None)
