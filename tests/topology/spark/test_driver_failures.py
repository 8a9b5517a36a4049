"""What ended topologies is told of, within bounds."""

from __future__ import annotations

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import TopologyReport
from topology.spark.driver_side.failures import MOST_IN_ALL, TopologyFailures
from topology.spark.reasons import Ending

KEY = PlanKey(-1234, "Storms")


def running(key: PlanKey = KEY) -> TopologyReport:
    return TopologyReport(key, 1, "running")


def test_failures_of_a_plan_are_added_to_each_of_its_topologies_until_it_is_forgotten() -> None:
    failures = TopologyFailures()
    failures.note(KEY, Ending("task 1 was silent", "recalled"), 5_000)
    failures.note(KEY, Ending("task 0 was silent", "recalled"), 6_000)
    (told,) = failures.added_to([running()])
    assert [(one.code, one.text, one.count, one.first_ms) for one in told.failures] == [
        ("recalled", "task 0 was silent", 2, 5_000)
    ]
    failures.note(KEY, Ending("ValueError: no such thing", "ValueError"), 7_000)
    assert [(one.code, one.text) for one in failures.added_to([running()])[0].failures][1:] == [
        ("ValueError", "no such thing")
    ]
    failures.forget(KEY)
    assert failures.added_to([running()]) == (running(),)


def test_with_very_many_failures_the_newest_are_told() -> None:
    failures = TopologyFailures()
    keys = [PlanKey(-1234, f"Plan{number}") for number in range(MOST_IN_ALL + 6)]
    for number, key in enumerate(keys):
        failures.note(key, Ending("broken", "ValueError"), number)
    told = failures.added_to(map(running, keys))
    assert [bool(report.failures) for report in told] == [False] * 6 + [True] * MOST_IN_ALL
