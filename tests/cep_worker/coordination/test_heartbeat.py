"""When the worker speaks with a manager."""

from __future__ import annotations

from cep_worker.coordination.heartbeat import HeartbeatTimer, RetryTimer


def test_a_pace_is_due_at_once_and_then_exactly_at_its_interval() -> None:
    pace = HeartbeatTimer(interval_ms=100)
    assert pace.due(5)
    assert pace.wait_ms(5) == 0
    pace.done(5)
    assert not pace.due(104)
    assert pace.wait_ms(104) == 1
    assert pace.due(105)


def test_a_change_makes_a_pace_due_now() -> None:
    pace = HeartbeatTimer(interval_ms=100)
    pace.done(5)
    pace.at_once()
    assert pace.due(6)


def test_a_manager_may_change_the_pace() -> None:
    pace = HeartbeatTimer(interval_ms=100)
    pace.done(0)
    pace.interval_ms = 10
    assert pace.due(10)


def test_what_is_missing_is_asked_for_again_exactly_at_the_interval() -> None:
    tries = RetryTimer(interval_ms=50)
    assert tries.due(["a", "b"], 0) == ["a", "b"]
    assert tries.due(["a", "b", "c"], 49) == ["c"]
    assert tries.due(["a", "b", "c"], 50) == ["a", "b"]


def test_what_was_there_and_is_lost_is_asked_for_at_once() -> None:
    tries = RetryTimer(interval_ms=50)
    assert tries.due(["a"], 0) == ["a"]
    assert tries.due([], 10) == []
    assert tries.due(["a"], 11) == ["a"]
