"""`#reorder:kslack`."""

from __future__ import annotations

from extension_runs import Run


def reordered(arguments: str) -> Run:
    return Run(
        "@app:playback define stream In (t long, v string); "
        f"@info(name='q') from In[t >= 0]#reorder:kslack({arguments}) select t, v insert into Out;"
    )


def test_events_are_held_back_as_long_as_the_latest_came_late() -> None:
    run = reordered("t")
    run.send((0, [1, "a"]), (1, [4, "b"]), (2, [3, "c"]), (3, [5, "d"]))
    run.restart()
    run.send((4, [9, "e"]), (5, [8, "f"]), (6, [20, "g"]))
    assert run.taken() == ["+1,a", "+4,b", "+3,c", "+5,d", "+8,f"]


def test_no_event_is_held_back_longer_than_the_maximum() -> None:
    run = reordered("t, 1 hour, 2L")
    run.send((0, [10, "a"]), (1, [1, "b"]), (2, [12, "c"]), (3, [14, "d"]))
    assert run.taken() == ["+10,a", "+1,b", "+12,c"]


def test_events_older_than_one_let_out_are_dropped_if_wished() -> None:
    run = reordered("t, 1 hour, 2L, true")
    run.send((0, [10, "a"]), (1, [1, "b"]), (2, [9, "c"]), (3, [11, "d"]))
    assert run.taken() == ["+10,a", "+11,d"]


def test_a_timer_lets_out_what_is_held_back() -> None:
    run = reordered("t, 100")
    run.send((0, [10, "a"]), (1, [12, "b"]), (2, [11, "c"]), (3, [13, "d"]))
    assert run.taken() == ["+10,a", "+12,b", "+11,c"]
    run.advance(99)
    assert run.taken() == []
    run.advance(100)
    assert run.taken() == ["+13,d"]


def test_each_instance_of_a_partition_has_its_own_order_and_its_own_duplicates() -> None:
    run = Run(
        "@app:playback define stream In (k string, t long); partition with (k of In) begin "
        "from In#unique:deduplicate(t, 1 hour) select k, t insert into #Once; "
        "@info(name='q') from #Once#reorder:kslack(t) select k, t insert into Out; end;"
    )
    run.send((0, ["a", 5]), (1, ["b", 3]), (2, ["b", 5]), (3, ["a", 4]), (4, ["a", 5]), (5, ["a", 6]))
    assert run.taken() == ["+a,5", "+b,3", "+b,5", "+a,4"]
