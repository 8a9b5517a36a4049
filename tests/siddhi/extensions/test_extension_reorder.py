"""`#reorder:kslack` and `#reorder:akslack`."""

from __future__ import annotations

from collections import deque

import pytest
from extension_runs import Run

from siddhi.analysis.analyser import analyse
from siddhi.errors import SiddhiAnalysisError
from siddhi.extensions.reorder.akslack import covered, least_coverage
from siddhi.language.parser import parse


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


def test_events_can_be_put_in_order_by_what_is_calculated_and_one_without_it_fails() -> None:
    run = reordered("math:parseLong(v) / 10L")
    run.send((0, [0, "10"]), (1, [1, "40"]), (2, [2, None]), (3, [3, "30"]), (4, [4, "50"]))
    assert run.taken() == ["+0,10", "+1,40", "+3,30"]


def test_no_event_is_held_back_longer_than_the_maximum() -> None:
    run = reordered("t, 1 hour, 2L")
    run.send((0, [10, "a"]), (1, [1, "b"]), (2, [12, "c"]), (3, [14, "d"]))
    assert run.taken() == ["+10,a", "+1,b", "+12,c"]


def test_events_older_than_one_let_out_are_dropped_if_wished() -> None:
    run = reordered("t, 1 hour, 2L, true")
    run.send((0, [10, "a"]), (1, [1, "b"]), (2, [9, "c"]), (3, [11, "d"]))
    assert run.taken() == ["+10,a", "+11,d"]


@pytest.mark.parametrize("arguments", ["t, true", "t, 1000L, true", "t, 1 hour, true"])
def test_whether_old_events_are_dropped_may_follow_any_argument(arguments: str) -> None:
    events = ((0, [10, "a"]), (1, [9, "b"]), (2, [20, "c"]), (3, [8, "d"]), (4, [40, "e"]))
    for written, late in ((arguments, False), (arguments.replace("true", "false"), True)):
        run = reordered(written)
        run.send(*events)
        assert ("+8,d" in run.taken()) is late


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


def adapting(arguments: str) -> Run:
    return Run(
        "@app:playback define stream In (t long, v double); "
        f"@info(name='q') from In#reorder:akslack({arguments}) select t insert into Out;"
    )


def test_akslack_is_kslack_until_the_first_batch_is_full() -> None:
    run = adapting("t, v, 15L")
    run.send((0, [1, 1.0]), (1, [4, 2.0]), (2, [3, 1.0]), (3, [5, 3.0]), (4, [9, 1.0]))
    assert run.taken() == ["+1", "+4", "+3", "+5"]


def test_akslack_holds_less_back_where_the_value_hardly_differs() -> None:
    events = [(n, [1000 + 10 * n - (n * 37 % 400 if n % 9 == 4 else 0), 5.0]) for n in range(400)]
    held = {}
    for name, arguments in (("kslack", "t"), ("akslack", "t, v, 20L")):
        run = Run(
            "@app:playback define stream In (t long, v double); "
            f"@info(name='q') from In#reorder:{name}({arguments}) select t insert into Out;"
        )
        run.send(*events[:250])
        run.restart()
        run.send(*events[250:])
        out = [int(row[1:]) for row in run.taken()]
        held[name] = len(events) - len(out)
    assert held["akslack"] < held["kslack"]


@pytest.mark.parametrize("arguments", ["t, v, true", "t, v, 20L, true", "t, v, 20L, 1 hour, true"])
def test_akslack_takes_that_flag_behind_any_argument_too(arguments: str) -> None:
    text = f"define stream In (t long, v double); from In#reorder:akslack({arguments}) select t insert into Out;"
    assert analyse(parse(text)).elements


def test_the_limits_of_akslack_are_those_of_kslack() -> None:
    run = adapting("t, v, 100, -1L, 2L, true, 0.03, 0.95")
    run.send((0, [10, 1.0]), (1, [1, 1.0]), (2, [9, 1.0]), (3, [11, 1.0]))
    assert run.taken() == ["+10", "+11"]
    run = adapting("t, v, 100, 50")
    run.send((0, [10, 1.0]), (1, [12, 1.0]), (2, [11, 1.0]))
    run.advance(50)
    assert run.taken() == ["+10", "+12", "+11"]


@pytest.mark.parametrize(
    "arguments",
    ["t", "t, v, 0", "t, v, 20, 5, 5, true, 0.03, 1.0", "t, v, 20, 5, 5, true, -0.1, 0.9", "v, t"],
)
def test_wrong_arguments_of_akslack_are_refused(arguments: str) -> None:
    text = f"define stream In (t long, v double); from In#reorder:akslack({arguments}) select t insert into Out;"
    with pytest.raises(SiddhiAnalysisError):
        analyse(parse(text))


def test_the_least_coverage_is_a_root_of_its_quadratic_and_none_when_nothing_is_known() -> None:
    sample = [4.0, 5.0, 6.0, 5.5, 4.5]
    least = least_coverage(sample, 0.03, 1.96)
    spread = 1.96**2 * (5.0**2 + 0.5**2) / (5 * 5.0**2)
    assert (1 + spread) * least**2 + (0.06 - 2 - spread) * least + 0.97**2 == pytest.approx(0.0)
    assert 0.0 < least < 1.0
    assert least_coverage([], 0.03, 1.96) == 0.0
    assert least_coverage([1.0, -1.0], 0.03, 1.96) == 0.0


def test_what_came_behind_the_end_of_a_window_is_not_covered() -> None:
    assert covered(deque([1, 2, 5, 3, 4]), 4) == 0.5
    assert covered(deque([1, 2, 3]), 4) == 1.0
    assert covered(deque([9]), 4) == 1.0
