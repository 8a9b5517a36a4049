"""When each of many wants to be called next."""

from __future__ import annotations

from topology.stages.hosts.wake_times import WakeTimes


def test_those_are_due_whose_time_has_come_and_once() -> None:
    times: WakeTimes[str] = WakeTimes()
    for name, wake_ms in (("late", 300), ("soon", 100), ("now", 50)):
        times.set(name, wake_ms)
    assert times.next_ms(1_000) == 50
    assert times.next_ms(20) == 20, "no later than asked for"
    assert list(times.take_due(100)) == ["now", "soon"]
    assert not times.take_due(299)
    assert list(times.take_due(300)) == ["late"]
    assert times.next_ms(1_000) == 1_000


def test_another_time_replaces_the_former_one_and_who_is_removed_is_not_due() -> None:
    times: WakeTimes[str] = WakeTimes()
    times.set("a", 100)
    times.set("a", 500)
    times.set("b", 100)
    times.remove("b")
    assert not times.take_due(499)
    times.set("a", 400)
    assert list(times.take_due(400)) == ["a"]
    assert not times.take_due(1_000)
