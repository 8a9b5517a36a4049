"""What a component instance counts of its own work."""

from cep_common.latency import bucket
from topology.stages.contract import Statistics

MS = 1_000_000


def test_an_event_that_is_worked_on_at_once_stays_as_long_as_the_work_takes() -> None:
    statistics = Statistics("late", "processor")
    statistics.worked(10, started_ns=100 * MS, now_ns=103 * MS)
    report = statistics.report("late#0", ())
    assert (report.busy_ms, report.bundles, report.stay_ms) == (3, 1, 30)


def test_an_event_that_waits_stays_until_it_is_let_go() -> None:
    statistics = Statistics("merged", "processor")
    statistics.queued_events = 4
    statistics.worked(4, started_ns=0, now_ns=1 * MS)
    statistics.queued_events = 0
    statistics.worked(0, started_ns=20 * MS, now_ns=21 * MS)
    report = statistics.report("merged#0", ())
    assert report.stay_ms == 4 * 21
    assert (report.busy_ms, report.bundles) == (2, 1)


def test_a_receiver_counts_events_by_how_long_they_took() -> None:
    statistics = Statistics("EventReceiver", "receiver")
    statistics.gone_on(100, came_ns=0, now_ns=2 * MS)
    statistics.gone_on(1, came_ns=0, now_ns=500 * MS)
    report = statistics.report("EventReceiver#0", ())
    assert report.latencies == ((bucket(2 * MS), 100), (bucket(500 * MS), 1))
    assert report.stay_ms == 700


def test_errors_are_counted_and_the_newest_is_kept() -> None:
    statistics = Statistics("EventPublisher", "publisher")
    statistics.error("first", 1)
    statistics.error("second", 2)
    report = statistics.report("EventPublisher#0", ())
    assert (report.errors, report.last_error, report.last_error_ms) == (2, "second", 2)
