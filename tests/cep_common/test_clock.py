"""Clocks that are handed in."""

from __future__ import annotations

import time

import pytest

from cep_common.clock import ManualClock, SystemClock


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(100)
    clock.advance(5)
    clock.advance(0)
    assert (clock.now_ms(), clock.monotonic_ms()) == (105, 105)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


def test_the_system_clock_tells_the_machines_times_in_milliseconds() -> None:
    before = time.time() * 1000
    assert before - 1 <= SystemClock().now_ms() <= time.time() * 1000
    assert abs(SystemClock().monotonic_ms() - time.monotonic() * 1000) < 1000
