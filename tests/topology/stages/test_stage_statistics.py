"""What a component instance counts of its own work."""

from cep_common.ids import PlanKey
from cep_common.monitoring.latency import bucket
from cep_common.protocol.codec import decode, encode
from cep_common.protocol.tasks import RegisterTask
from topology.stages.contract import InstanceStatistics

MS = 1_000_000


def test_an_event_that_is_worked_on_at_once_stays_as_long_as_the_work_takes() -> None:
    statistics = InstanceStatistics("late", "processor")
    statistics.worked(10, started_ns=100 * MS, now_ns=103 * MS)
    report = statistics.report("late#0", ())
    assert (report.busy_ms, report.bundles, report.stay_ms) == (3, 1, 30)


def test_an_event_that_waits_stays_until_it_is_let_go() -> None:
    statistics = InstanceStatistics("merged", "processor")
    statistics.queued_events = 4
    statistics.worked(4, started_ns=0, now_ns=1 * MS)
    statistics.queued_events = 0
    statistics.worked(0, started_ns=20 * MS, now_ns=21 * MS)
    report = statistics.report("merged#0", ())
    assert report.stay_ms == 4 * 21
    assert (report.busy_ms, report.bundles) == (2, 1)


def test_a_receiver_counts_events_by_how_long_they_took() -> None:
    statistics = InstanceStatistics("EventReceiver", "receiver")
    statistics.gone_on(100, came_ns=0, now_ns=2 * MS)
    statistics.gone_on(1, came_ns=0, now_ns=500 * MS)
    report = statistics.report("EventReceiver#0", ())
    assert report.latencies == ((bucket(2 * MS), 100), (bucket(500 * MS), 1))
    assert report.stay_ms == 700


def test_errors_are_counted_and_the_newest_is_kept() -> None:
    statistics = InstanceStatistics("EventPublisher", "publisher")
    assert statistics.error("refused", "first 17", 1)
    assert not statistics.error("refused", "first 18", 2, count=5)
    statistics.error("refused", "second", 3)
    report = statistics.report("EventPublisher#0", ())
    assert (report.errors, report.last_error, report.last_error_ms) == (7, "second", 3)
    assert [(one.text, one.count, one.first_ms, one.last_ms) for one in report.failures] == [
        ("first 18", 6, 1, 2), ("second", 1, 3, 3),
    ]  # fmt: skip


def test_an_error_of_a_script_whose_text_is_no_utf_8_is_told_with_the_next_heartbeat() -> None:
    statistics = InstanceStatistics("scripts", "processor")
    statistics.error("script", "ValueError: " + chr(0xD800), 1)
    report = statistics.report("scripts#0", ())
    assert report.last_error == "ValueError: \\ud800"
    message = RegisterTask(
        key=PlanKey(1, "P"), epoch=1, task=0, host="h", process_id=1, components=(report,), memory_bytes=1, cpu_ms=1,
        up_ms=1,
    )  # fmt: skip
    assert decode(encode(message)).message == message


def test_at_level_off_nothing_grows_but_errors() -> None:
    statistics = InstanceStatistics("late", "processor", level="off")
    statistics.took("In", 10)
    statistics.gave("Out", 10)
    statistics.worked(10, started_ns=0, now_ns=3 * MS)
    statistics.gone_on(10, came_ns=0, now_ns=3 * MS)
    statistics.error("refused", "no room", 1)
    report = statistics.report("late#0", ())
    assert (report.received, report.emitted, report.latencies) == ((), (), ())
    assert (report.busy_ms, report.stay_ms, report.bundles, report.errors) == (0, 0, 0, 1)


def test_what_waited_while_nothing_was_counted_does_not_count_afterwards() -> None:
    statistics = InstanceStatistics("late", "processor", queued_events=5, level="off")
    statistics.worked(5, started_ns=0, now_ns=1 * MS)
    statistics.level = "basic"
    statistics.worked(0, started_ns=900 * MS, now_ns=901 * MS)
    assert statistics.report("late#0", ()).stay_ms == 0
    statistics.worked(0, started_ns=910 * MS, now_ns=911 * MS)
    assert statistics.report("late#0", ()).stay_ms == 5 * 10


def test_the_work_of_a_query_is_counted_by_events_and_time() -> None:
    statistics = InstanceStatistics("late", "processor", level="detail")
    statistics.queried("q", 4, 2 * MS)
    statistics.queried("q", 0, 1 * MS)
    (work,) = statistics.report("late#0", ()).queries
    assert (work.query, work.events, work.busy_us, work.latencies) == ("q", 4, 3_000, ((bucket(2 * MS), 4),))
