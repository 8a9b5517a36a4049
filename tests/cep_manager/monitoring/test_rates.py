"""Rates are right from the first value that is shown, whatever counters do."""

from __future__ import annotations

import msgspec
import pytest
from manager_world import KEY, World, driver, plan, serves, task, topology, worker

from cep_manager.control.members import ClusterMember, Timed, heard
from cep_manager.graph.ends import sink_nodes, source_nodes
from cep_manager.monitoring.overview.plan_metrics import metrics_of_plan
from cep_manager.monitoring.rates import per_second
from cep_manager.monitoring.status import worker_reports
from cep_manager.monitoring.worker_view import worker_details


def member(*counts: int | None) -> ClusterMember[object]:
    """A member that has told of these counts, a second apart."""
    timed = [Timed(1_000 * number, count) for number, count in enumerate(counts)]
    return ClusterMember(0, timed[-1].at_ms, timed[-1].report, tuple(timed[:-1]))  # type: ignore[type-var, arg-type]


@pytest.mark.parametrize(
    ("counts", "rate"),
    [
        ((0, 500, 1_000), 500.0),
        ((163_000,), 0.0),
        ((None, 163_000, 163_500), 500.0),  # a report that does not tell of it is not one that counted nothing
        ((163_000, 0, 500), 250.0),  # it began to count again
        ((163_000, 162_000, 162_500), 250.0),  # a publisher sends again
    ],
)
def test_a_rate_is_the_growth_between_reports(counts: tuple[int | None, ...], rate: float) -> None:
    assert per_second(member(*counts), lambda count: count) == rate  # type: ignore[arg-type, return-value, type-var]


def test_a_task_that_counts_from_the_start_again_in_the_same_process_begins_a_new_member() -> None:
    first = msgspec.structs.replace(task(events=163_000), up_ms=60_000)
    following = heard(heard(None, first, b"", 0), msgspec.structs.replace(task(events=500), up_ms=100), b"", 9)
    assert (following.since_ms, following.earlier) == (9, ())


def test_after_an_edit_the_first_rates_are_those_of_the_new_epoch() -> None:
    """Inflows outlive an edit, and count on: the first report under the new epoch made 163,000 events of a second."""
    world = World()
    world.active(events=163_000)
    world.put(plan(epoch=2))
    world.hear(driver(topology("running", epoch=2)), peer=b"driver")
    world.hear(task(epoch=2))
    for number in range(1, 4):
        world.now_ms += 1_000
        world.hear(worker(serves(epoch=2, events=163_000 + 500 * number), revision=world.snapshot().revision))
        snapshot = world.snapshot()
        reports = worker_reports(snapshot, KEY, 2)
        assert reports
        compiled = snapshot.plans[KEY].compiled
        assert compiled is not None
        sources = {one.stream: one.emitted_per_second for one in source_nodes(compiled, reports)}
        sinks = {one.stream: one.received_per_second for one in sink_nodes(compiled, reports, 9)}
        assert sources["Departures"] in (0.0, pytest.approx(500, rel=0.02))
        assert sinks["KnockOns"] in (0.0, pytest.approx(50, rel=0.02))
        details = worker_details(snapshot, "worker-1")
        assert details.events_in_per_s <= 751
        assert metrics_of_plan(snapshot, [KEY]).emitted_per_second <= 56
