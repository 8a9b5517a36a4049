"""Far times fall on whole seconds; near ones, and those of deadlines, stay as they are."""

from __future__ import annotations

import pytest

from topology.stages.tasks.aligned_times import ALIGN_MS, FAR_MS, aligned
from topology.stages.tasks.task import Pace


@pytest.mark.parametrize("now_ms", [0, 1, 999, 123_456])
def test_a_far_time_comes_at_most_a_second_early_and_never_late(now_ms: int) -> None:
    for away_ms in (FAR_MS, FAR_MS + 1, 30_000, 30_999):
        found_ms = aligned(now_ms + away_ms, now_ms)
        assert found_ms % ALIGN_MS == 0
        assert 0 <= now_ms + away_ms - found_ms < ALIGN_MS
    for away_ms in (0, 1, 250, FAR_MS - 1):
        assert aligned(now_ms + away_ms, now_ms) == now_ms + away_ms


def test_tasks_that_rest_tick_together() -> None:
    paces = [Pace(idle_tick_ms=30_000) for _ in range(50)]
    for number, pace in enumerate(paces):
        assert pace.ticks(60_001 + 19 * number)
    assert {pace.next_tick_ms for pace in paces} == {90_000}
    assert not paces[0].ticks(89_999)
    assert paces[0].ticks(90_000)
    busy = Pace(idle_tick_ms=30_000, worked=True)
    assert busy.ticks(60_001)
    assert busy.next_tick_ms == 60_251, "one that works is not aligned"
