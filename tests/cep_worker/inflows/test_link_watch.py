"""What a link learns of its server from times."""

from __future__ import annotations

import pytest

from cep_worker.inflows.link_watch import SET_MS, STALLED_MS, ServerClock, StallDetector, clock_ahead_ms


@pytest.mark.parametrize(("server_ms", "ahead_ms"), [(110, 0), (0, 0), (150, 30), (40, -60)])
def test_clocks_differ_only_where_that_is_certain(server_ms: int, ahead_ms: int) -> None:
    assert clock_ahead_ms(100, 120, server_ms) == ahead_ms


def test_a_servers_lead_is_that_of_the_newest_answer_and_follows_a_clock_that_is_set() -> None:
    clock = ServerClock()
    clock.tick(0, 100)
    clock.ask(100)
    clock.answer(120, 150)
    assert clock.ahead_ms == 30
    clock.tick(1_000, 1_100 + SET_MS)  # so far clocks may drift
    assert clock.ahead_ms == 30
    clock.tick(2_000, 2_100 + 2 * SET_MS + 1)
    assert clock.ahead_ms == 30 - SET_MS - 1
    clock.ask(5_000)
    clock.answer(5_020, 5_010)
    assert clock.ahead_ms == 0


def test_a_server_stalls_once_the_same_frame_has_filled_its_window_for_long() -> None:
    stall = StallDetector()
    assert not stall.tick(0, 7)
    assert not stall.tick(STALLED_MS - 1, 7)
    assert not stall.stalled
    assert stall.tick(STALLED_MS, 7)
    assert not stall.tick(STALLED_MS + 1, 7), "told once"
    assert stall.stalled
    assert not stall.tick(STALLED_MS + 2, 8), "it has taken a frame"
    assert not stall.stalled
    assert stall.tick(2 * STALLED_MS + 2, 8)
    assert not stall.tick(2 * STALLED_MS + 3, None), "it has room"
    assert not stall.stalled
