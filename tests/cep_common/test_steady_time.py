"""The time of day of a process does not jump with the host's clock."""

from __future__ import annotations

import logging

import pytest

from cep_common.clock import FOLLOWED_MS, HELD_MS, SteadyTime

HOUR_MS = 3_600_000


class Host:
    """A host whose clock is wrong by `wrong_ms`."""

    def __init__(self) -> None:
        self.elapsed_ms = 5_000
        self.wrong_ms = 0
        self.time = SteadyTime(lambda: 1_700_000_000_000 + self.elapsed_ms + self.wrong_ms, lambda: self.elapsed_ms)

    def run(self, milliseconds: int) -> list[int]:
        """What the process's time advances by, second by second."""
        steps = []
        for _ in range(milliseconds // 1_000):
            before = self.time.now_ms()
            self.elapsed_ms += 1_000
            steps.append(self.time.now_ms() - before)
        return steps


@pytest.mark.parametrize("wrong_ms", [10 * HOUR_MS, -10 * HOUR_MS, 87_600 * HOUR_MS, -87_600 * HOUR_MS])
def test_a_clock_that_jumps_and_comes_back_changes_nothing(wrong_ms: int, caplog: pytest.LogCaptureFixture) -> None:
    host = Host()
    with caplog.at_level(logging.WARNING):
        for jump in (wrong_ms, 0, wrong_ms, 0):
            host.wrong_ms = jump
            assert set(host.run(6_000)) == {1_000}
            assert host.time.deviation_ms == jump
    assert host.time.now_ms() == 1_700_000_000_000 + host.elapsed_ms
    assert caplog.text.count(f"jumped by {wrong_ms} ms") == 2, "once for each jump"
    assert caplog.text.count("is right again") == 2


@pytest.mark.parametrize("wrong_ms", [10 * HOUR_MS, -10 * HOUR_MS])
def test_what_the_host_means_is_taken_over_in_time_and_told(wrong_ms: int, caplog: pytest.LogCaptureFixture) -> None:
    host = Host()
    host.wrong_ms = wrong_ms
    steps = host.run(HELD_MS + 2_000)
    assert [step for step in steps if step != 1_000] == [1_000 + wrong_ms]
    assert host.time.deviation_ms == 0
    assert "adopts its time" in caplog.text


def test_a_clock_that_is_adjusted_slowly_is_followed() -> None:
    host = Host()
    for _ in range(100):
        host.wrong_ms += FOLLOWED_MS // 2
        host.run(1_000)
    assert host.time.now_ms() == 1_700_000_000_000 + host.elapsed_ms + host.wrong_ms
    assert host.time.deviation_ms == 0
