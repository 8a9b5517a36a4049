"""What needs attention: each check finds what it is there for, and nothing when all is well."""

from collections.abc import Callable

import msgspec
import pytest
from alert_world import INFO, NOW_MS, found, picture
from manager_world import (
    COMPILED,
    KEY,
    LEADER,
    LEASE_MS,
    World,
    components,
    driver,
    plan,
    serves,
    task,
    topology,
    worker,
)

from cep_common.ids import SUPER_TENANT, Endpoint, PlanKey
from cep_common.protocol.drivers import (
    CheckpointReport,
    CheckpointSettings,
    SavepointReport,
    StageHostReport,
    TopologyReport,
)
from cep_common.protocol.error_records import ErrorRecord
from cep_common.protocol.registry import InflowReport, WorkerPlanReport
from cep_common.protocol.tasks import StreamCount
from cep_common.protocol.worker_reports import (
    ConnectorReport,
    PartitionReport,
    PreparedResultsReport,
    PublisherReport,
    WalReport,
)
from cep_manager.election.messages import LeaderChange
from cep_manager.history.topic_lags import GROWS_MS, SAMPLE_MS
from cep_manager.log_line import LogLine
from cep_manager.monitoring.cluster_model import ElectionView
from cep_manager.monitoring.overview.alerts import RECENT_MS, Alert, AlertSeverity, in_order, system_alerts
from cep_manager.monitoring.overview.plan_alerts import BUSY, LASTING_MS, plan_alerts
from cep_manager.monitoring.status import plan_status
from cep_manager.plans.compiled_plan import ScaledStage
from cep_manager.plans.folder import FileProblem
from cep_manager.plans.state import PlanState
from query_plan.xml import read_checkpoint_interval

SETTINGS = CheckpointSettings("file:///checkpoints", interval_ms=10_000, pause_ms=1_000, timeout_ms=5_000, retained=3)


@pytest.fixture
def world() -> World:
    """Everything runs and has run for a minute."""
    world = World()
    world.active()
    beat(world, minutes=1)
    return world


def beat(world: World, minutes: int, **changed: object) -> None:
    """All are heard for so long, with `changed` in the worker's report of the plan."""
    report = msgspec.structs.replace(serves(), **changed)
    for _ in range(minutes * 60):
        world.now_ms += 1_000
        world.hear(driver(topology("running")), peer=b"driver")
        world.hear(task(), worker(report, revision=world.snapshot().revision))


def test_nothing_is_found_when_all_is_well(world: World) -> None:
    assert found(picture(world)) == {}


def test_a_plan_that_cannot_be_run_comes_first_with_its_reason(world: World) -> None:
    world.put(plan(key=PlanKey(SUPER_TENANT, "Broken"), compiled="line 2: no such stream"))
    (first, *_) = in_order(plan_alerts(picture(world), None, system=True))
    assert (first.severity, first.code, first.name) == (AlertSeverity.CRITICAL, "plan-failed", "Broken")
    assert "no such stream" in first.what
    assert "Edit the plan" in first.advice


def test_a_plan_that_waits_for_slots_says_what_to_do(world: World) -> None:
    world.hear(driver(topology("waiting", reason="needs 2 slots, 1 is free")), peer=b"driver")
    one = found(picture(world))["plan-waits"]
    assert (one.what, one.severity) == ("It waits: needs 2 slots, 1 is free", AlertSeverity.CRITICAL)
    assert one.since_ms == NOW_MS


def test_a_restart_is_a_warning_until_it_lasts(world: World) -> None:
    lost = driver(topology("restarting", reason="task 0 died", restarts=1))
    world.hear(lost, peer=b"driver")
    assert found(picture(world))["plan-restarts"].severity is AlertSeverity.WARNING
    for _ in range(LASTING_MS // 1_000):
        world.now_ms += 1_000
        world.hear(lost, worker(serves()), peer=b"driver")
    one = found(picture(world))["plan-restarts"]
    assert (one.severity, one.since_ms) == (AlertSeverity.CRITICAL, NOW_MS - LASTING_MS)


def test_a_silent_driver_is_told_once_and_not_again_by_each_plan(world: World) -> None:
    world.tick(LEASE_MS)
    told = found(picture(world))
    assert told["no-driver"].severity is AlertSeverity.CRITICAL
    assert told["no-driver"].since_ms == NOW_MS - LEASE_MS
    assert "plan-waits" not in told


def test_whoever_does_not_see_the_system_is_told_that_their_plan_waits(world: World) -> None:
    world.tick(LEASE_MS)
    told = found(picture(world), SUPER_TENANT, system=False)
    assert "is silent" in told["plan-waits"].what
    assert "no-driver" not in told
    assert found(picture(world), 7, system=False) == {}


def test_silent_workers_are_told_and_that_none_is_left(world: World) -> None:
    world.tick(LEASE_MS)
    told = found(picture(world))
    assert (told["worker-silent"].name, told["worker-silent"].since_ms) == ("worker-1", NOW_MS - LEASE_MS)
    assert told["no-worker"].severity is AlertSeverity.CRITICAL


def test_a_worker_that_left_in_order_is_no_failure_and_needs_nobody(world: World) -> None:
    world.hear(msgspec.structs.replace(worker(serves()), leaving=True))
    world.taken(LogLine)
    world.tick(LEASE_MS)
    snapshot = world.snapshot()
    assert (snapshot.workers, snapshot.lost_workers) == ((), ())
    assert [one.code for one in snapshot.errors.get(None, ())] == ["driver-lost"]
    assert "worker-silent" not in found(picture(world))
    assert LogLine("info", f"worker left worker=worker-1 silent_ms={LEASE_MS}") in world.taken(LogLine)


def test_connections_are_told_only_when_they_lack_for_long(world: World) -> None:
    beat(world, 1, inflow=(InflowReport("Arrivals", connected=False), InflowReport("Departures", connected=True)))
    assert "worker-1 1/2" in found(picture(world))["inflow"].what
    fresh = World()
    fresh.active()
    fresh.hear(worker(serves(linked=False), revision=fresh.snapshot().revision))
    assert found(picture(fresh)) == {}


@pytest.mark.parametrize(("busy", "told"), [(BUSY + 0.02, True), (BUSY - 0.02, False)])
def test_a_stage_that_cannot_take_more_is_told(world: World, busy: float, told: bool) -> None:
    parts = [
        msgspec.structs.replace(one, busy_ms=int(120_000 * busy)) if one.instance == "aircraft#0" else one
        for one in components()
    ]
    world.hear(msgspec.structs.replace(task(attempt=1), components=tuple(parts), up_ms=120_000))
    world.now_ms += 60_000
    snapshot = world.snapshot()
    history = snapshot.histories[KEY]["aircraft#0"]
    lived_ms = snapshot.now_ms - history.since_ms
    assert lived_ms == 120_000
    assert ("capacity" in found(picture(world))) is told


@pytest.mark.parametrize(("most", "said"), [(2, "has its maximum of 2 instances"), (4, "is close to its limit")])
def test_a_busy_stage_that_follows_the_load_is_told_with_what_keeps_it_from_growing(most: int, said: str) -> None:
    world = World()
    world.put(plan(compiled=msgspec.structs.replace(COMPILED, scaled=(ScaledStage("lateness", 2, most),))))
    world.hear(driver(), peer=b"driver")
    world.hear(driver(topology("running")), peer=b"driver")
    parts = [
        msgspec.structs.replace(one, busy_ms=119_000) if one.instance == "lateness#1" else one for one in components()
    ]
    world.hear(task(attempt=0))
    world.now_ms += 60_000
    world.hear(msgspec.structs.replace(task(attempt=1), components=tuple(parts), up_ms=120_000))
    world.now_ms += 60_000
    alerts = found(picture(world))
    assert "capacity" not in alerts
    assert said in alerts["scaling-limit"].what
    assert ("Raise max" in alerts["scaling-limit"].advice) is (most == 2)


def _waits(world: World) -> dict[str, object]:
    return {"links": (PublisherReport("EventPublisher#0", 100, 100, waits=True),)}


def _full(world: World) -> dict[str, object]:
    full = InflowReport(
        "Departures",
        connected=True,
        sent_events=10,
        waiting_events=500,
        receiver="EventReceiver#0",
        in_flight_rows=64,
        window_rows=64,
    )
    return {"inflow": (InflowReport("Arrivals", connected=True), full)}


@pytest.mark.parametrize(
    ("code", "severity", "changed"),
    [
        ("publisher-waits", AlertSeverity.WARNING, _waits),
        ("back-pressure", AlertSeverity.NOTICE, _full),
        (
            "log-problem",
            AlertSeverity.CRITICAL,
            lambda _: {"write_ahead_logs": (WalReport("Arrivals", 1, 9, 1, problem="disk full"),)},
        ),
        ("log-full", AlertSeverity.WARNING, lambda _: {"write_ahead_logs": (WalReport("Arrivals", 85, 100, 1),)}),
        (
            "log-lost",
            AlertSeverity.WARNING,
            lambda _: {"write_ahead_logs": (WalReport("Arrivals", 1, 100, 1, lost_events=3),)},
        ),
        (
            "damaged-files",
            AlertSeverity.WARNING,
            lambda _: {"write_ahead_logs": (WalReport("A", 1, 100, 1, damaged_file_bytes=3),)},
        ),
        (
            "damaged-files",
            AlertSeverity.WARNING,
            lambda _: {"prepared": PreparedResultsReport(0, 0, 0, damaged_file_bytes=3)},
        ),
        (
            "prepared-results-lost",
            AlertSeverity.WARNING,
            lambda _: {"prepared": PreparedResultsReport(0, 0, 0, lost_events=3)},
        ),
        (
            "results-waiting",
            AlertSeverity.WARNING,
            lambda _: {"prepared": PreparedResultsReport(5, 100, oldest_ms=61_000)},
        ),
        (
            "errors",
            AlertSeverity.WARNING,
            lambda _: {"errors": (ErrorRecord("sink", "refused", 1, NOW_MS - 1_000, 4),)},
        ),
    ],
)
def test_what_workers_tell_of_a_plan_is_found(
    world: World, code: str, severity: AlertSeverity, changed: Callable[[World], dict[str, object]]
) -> None:
    world.hear(worker(msgspec.structs.replace(serves(), **changed(world)), revision=world.snapshot().revision))
    told = found(picture(world))
    assert set(told) == {code}
    assert told[code].severity is severity


def test_a_source_or_sink_that_fails_is_told_for_its_plan_alone(world: World) -> None:
    world.put(plan(key=PlanKey(7, "Storms")))
    fails = ConnectorReport("sink", "rdbms", SUPER_TENANT, "Storms", "KnockOns", "no such host")
    world.hear(
        msgspec.structs.replace(worker(serves(), revision=world.snapshot().revision), connectors=(fails,)),
    )
    told = [one for one in plan_alerts(picture(world), None, system=True) if one.code == "connector"]
    assert [(one.tenant, "no such host" in one.what) for one in told] == [(SUPER_TENANT, True)]


def checkpoints(world: World, *reports: CheckpointReport, current: bool = False) -> dict[str, Alert]:
    running = TopologyReport(KEY, 1, "running", checkpoints=reports, current=current)
    world.hear(msgspec.structs.replace(driver(running), checkpointing=SETTINGS), peer=b"driver")
    return found(picture(world))


def test_a_checkpoint_that_failed_is_told_until_one_gets_through(world: World) -> None:
    failed = CheckpointReport(3, "failed", NOW_MS - 4_000, 1_000, error="the store is full")
    one = checkpoints(world, CheckpointReport(2, "complete", NOW_MS - 20_000), failed)["checkpoint-failed"]
    assert ("the store is full" in one.what, one.since_ms) == (True, NOW_MS - 3_000)
    assert checkpoints(world, failed, CheckpointReport(4, "complete", NOW_MS - 1_000, 10)) == {}
    taking = CheckpointReport(4, "taking", NOW_MS - 10)
    assert "checkpoint-failed" in checkpoints(world, failed, taking)


def test_what_another_plan_of_the_name_left_in_the_store_is_told_of_until_it_is_deleted(world: World) -> None:
    """Whatever has started again meanwhile: the driver's process, the plan, or the manager."""
    former = [SavepointReport(KEY, name, "stored") for name in ("former-7", "former-12", "before")]
    others = SavepointReport(PlanKey(7, KEY.plan), "former-3", "stored")
    for savepoints, newest in ((former, "former-12"), (former[:1], "former-7"), ([former[2], others], "")):
        world.hear(
            msgspec.structs.replace(driver(TopologyReport(KEY, 1, "running")), savepoints=tuple(savepoints)),
            peer=b"driver",
        )
        told = found(picture(world))
        assert set(told) == ({"former-checkpoints"} if newest else set())
        assert not newest or f"savepoint {newest}" in told["former-checkpoints"].what


def test_checkpoints_that_stay_out_are_told(world: World) -> None:
    old = CheckpointReport(2, "complete", NOW_MS - 39_000)
    assert "checkpoint-old" in checkpoints(world, old)
    assert checkpoints(world, msgspec.structs.replace(old, began_ms=NOW_MS - 37_000)) == {}


@pytest.mark.parametrize(("interval_ms", "told"), [(0, False), (300_000, False), (1_000, True)])
def test_checkpoints_stay_out_only_by_the_measure_of_the_plans_own_interval(
    world: World, monkeypatch: pytest.MonkeyPatch, interval_ms: int, told: bool
) -> None:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<query-plan name="P" checkpointIntervalMs="{interval_ms}">'
    monkeypatch.setattr(
        "cep_manager.monitoring.overview.plan_alerts.read_checkpoint_interval", lambda _: read_checkpoint_interval(text)
    )
    old = CheckpointReport(2, "complete", NOW_MS - 39_000)
    assert ("checkpoint-old" in checkpoints(world, old)) == told


def test_an_idle_plan_whose_checkpoints_hold_all_that_it_has_needs_no_newer_one(world: World) -> None:
    old = CheckpointReport(2, "complete", NOW_MS - 39_000)
    assert "checkpoint-old" in checkpoints(world, old)
    assert checkpoints(world, old, current=True) == {}


def test_a_checkpoint_store_that_cannot_be_used_is_told_also_when_no_plan_needs_it(world: World) -> None:
    for problem, codes in (("no such bucket", ["checkpoint-store"]), ("", [])):
        settings = msgspec.structs.replace(SETTINGS, problem=problem)
        world.hear(msgspec.structs.replace(driver(), checkpointing=settings), peer=b"driver")
        told = [one for one in system_alerts(picture(world)) if one.code == "checkpoint-store"]
        assert [one.code for one in told] == codes
        assert all(problem in one.what for one in told)


def test_errors_of_stages_are_one_finding_for_half_an_hour(world: World) -> None:
    records = {
        "lateness#0": ErrorRecord("division", "by zero", 1, NOW_MS - 61_000, 2),
        "aircraft#0": ErrorRecord("type", "no number", 1, NOW_MS - 1_000, 3),
    }
    parts = [
        msgspec.structs.replace(one, failures=(records[one.instance],)) if one.instance in records else one
        for one in components()
    ]
    world.hear(msgspec.structs.replace(task(), components=tuple(parts)))
    assert found(picture(world))["errors"].what == "5 errors, the newest at aircraft#0: no number"
    world.hear(task(attempt=1))
    assert "errors" in found(picture(world)), "a task that was started again has forgotten them, the manager has not"
    assert found(picture(world, now_ms=NOW_MS + RECENT_MS)) == {}


def failing_sink(waiting: int = 7, **changed: object) -> ConnectorReport:
    report = ConnectorReport("sink", "http", KEY.tenant, KEY.plan, "KnockOns", "status 503", waiting)
    return msgspec.structs.replace(report, since_ms=NOW_MS - 90_000, **changed)


def hear_sinks(world: World, report: WorkerPlanReport, *sinks: ConnectorReport, name: str = "worker-1") -> None:
    told = worker(report, name=name, revision=world.snapshot().revision)
    world.hear(msgspec.structs.replace(told, connectors=sinks))


def test_a_dead_sink_is_one_finding_whatever_follows_from_it(world: World) -> None:
    """Neither waiting publishers nor prepared results nor a checkpoint that did not get through is another cause."""
    held = PreparedResultsReport(1_234, 70_000, 95_000, released_events=1_234, maximum_bytes=65_536, full=True)
    report = msgspec.structs.replace(
        serves(), prepared=held, links=(PublisherReport("EventPublisher#0", 9, 9, waits=True),)
    )
    sink = ErrorRecord("sink", "answered 503", 1, NOW_MS - 1_000, 14, "sink http of KnockOns")
    hear_sinks(world, msgspec.structs.replace(report, errors=(sink,)), failing_sink())
    abandoned = CheckpointReport(3, "abandoned", NOW_MS - 4_000, 1_000, error="not all tasks had reported")
    told = checkpoints(world, CheckpointReport(2, "complete", NOW_MS - 90_000), abandoned)
    assert set(told) == {"connector"}
    one = told["connector"]
    assert (one.severity, one.since_ms) == (AlertSeverity.CRITICAL, NOW_MS - 90_000)
    assert one.what == (
        "The http sink of KnockOns at worker-1 fails: status 503; the log of undelivered results is full "
        "(results.max_undelivered_bytes: 65,536), and sources wait; 1,234 results wait for it"
    )
    assert "raise results.max_undelivered_bytes" in one.advice
    assert "checkpoints continue" in one.advice
    assert "store" not in one.what + one.advice
    assert plan_status(world.snapshot(), KEY).topology.state is PlanState.DEGRADED


def test_a_sink_that_is_dead_at_two_workers_is_one_finding_and_goes_when_it_answers(world: World) -> None:
    for name in ("worker-1", "worker-2"):
        hear_sinks(world, serves(), failing_sink(), name=name)
    one = found(picture(world))["connector"]
    assert "at worker-1, worker-2 fails" in one.what
    assert "14 results wait" in one.what
    for name in ("worker-1", "worker-2"):
        hear_sinks(world, serves(), failing_sink(0, error=""), name=name)
    assert "connector" not in found(picture(world))
    assert plan_status(world.snapshot(), KEY).topology.state is PlanState.ACTIVE


def test_a_checkpoint_that_its_tasks_did_not_take_in_time_is_not_blamed_on_the_store(world: World) -> None:
    abandoned = CheckpointReport(3, "abandoned", NOW_MS - 4_000, 1_000, error="not all tasks had reported")
    assert "store" not in checkpoints(world, abandoned)["checkpoint-failed"].advice


def test_a_restart_is_listed_for_half_an_hour_after_the_plan_runs_again(world: World) -> None:
    world.hear(driver(topology("restarting", reason="task 0 was silent for 2500 ms", restarts=1)), peer=b"driver")
    world.hear(driver(topology("running", restarts=1)), peer=b"driver")
    world.hear(task(attempt=1))
    one = found(picture(world))["plan-interrupted"]
    assert one.what == "It was interrupted and runs again: task 0 was silent for 2500 ms"
    assert one.severity is AlertSeverity.NOTICE
    later = msgspec.structs.replace(world.snapshot(), now_ms=world.now_ms + RECENT_MS)
    assert "plan-interrupted" not in found(picture(world, snapshot=later))


def test_processes_that_failed_and_are_back_are_listed(world: World) -> None:
    world.tick(LEASE_MS)
    assert "process-failed" not in found(picture(world)), "each is an alert of its own while it is away"
    again = msgspec.structs.replace(driver(topology("running")), process_id=4_711)
    world.hear(again, peer=b"driver")
    told = [one for one in system_alerts(picture(world, now_ms=world.now_ms)) if one.code == "process-failed"]
    assert [one.subject for one in told] == ["driver"]
    assert "fell silent" in told[0].what
    later = picture(world, now_ms=world.now_ms + 2 * RECENT_MS)
    assert "process-failed" not in {one.code for one in system_alerts(later)}


def test_changes_of_leader_are_listed(world: World) -> None:
    other = Endpoint("10.0.0.9", 8904)
    changes = tuple(
        LeaderChange(NOW_MS - age_ms, token, LEADER.control, other)
        for token, age_ms in enumerate((RECENT_MS + 1, 9_000, 5_000))
    )
    election = ElectionView(leads=True, leader=LEADER, managers=(LEADER,), changes=changes)
    one = found(picture(world, election=election))["leader-changed"]
    assert "changed 2 times" in one.what
    assert one.since_ms == NOW_MS - 5_000


def test_what_concerns_the_system_alone(world: World) -> None:
    silent = msgspec.structs.replace(LEADER, role="silent", silent_ms=9_000)
    told = found(
        picture(
            world,
            manager=msgspec.structs.replace(INFO, insecure=True),
            election=ElectionView(leads=True, leader=LEADER, managers=(LEADER, silent), problem="database is locked"),
            file_problems=(FileProblem("late.siddhiql", "line 1: no plan"),),
        )
    )
    assert set(told) == {"database", "manager-silent", "insecure", "file"}
    assert told["database"].severity is AlertSeverity.CRITICAL
    assert told["manager-silent"].since_ms == NOW_MS - 9_000
    assert told["file"].name == "late.siddhiql"


def test_the_worst_stands_first_and_then_what_began_last() -> None:
    def one(severity: AlertSeverity, name: str, since_ms: int | None) -> Alert:
        return Alert(severity, "code", "plan", name, "", "", since_ms)

    alerts = [
        one(AlertSeverity.NOTICE, "a", 9),
        one(AlertSeverity.WARNING, "b", None),
        one(AlertSeverity.WARNING, "c", 5),
        one(AlertSeverity.CRITICAL, "d", 1),
        one(AlertSeverity.WARNING, "e", 7),
    ]
    assert [each.name for each in in_order(alerts)] == ["d", "e", "c", "b", "a"]


def test_a_change_that_came_to_nothing_is_told(world: World) -> None:
    record = msgspec.structs.replace(world.snapshot().plans[KEY], change_error="task 0 died", compiled=COMPILED)
    snapshot = msgspec.structs.replace(world.snapshot(), plans={KEY: record})
    assert "task 0 died" in found(picture(world, snapshot=snapshot))["change-failed"].what


def test_metric_tables_that_cannot_be_written_are_told(world: World) -> None:
    told = picture(world, metric_tables_problem="they cannot be used: gone")
    alert = found(told)["metric-tables"]
    assert (alert.severity, alert.what) == (AlertSeverity.WARNING, "they cannot be used: gone")


@pytest.mark.parametrize(
    ("code", "told", "what"),
    [
        ("first-event", {"awaits": ("Departures",)}, "Departures"),
        ("late-events", {"late": (StreamCount("Departures", 3),)}, "3 of Departures"),
        (
            "behind",
            {"awaits": ("worker-1/Departures",), "behind_ms": LASTING_MS},
            "the data waiting at worker-1/Departures",
        ),
    ],
)
def test_what_holds_time_back_and_what_came_too_late_is_found(
    world: World, code: str, told: dict[str, object], what: str
) -> None:
    parts = [msgspec.structs.replace(components()[0], **told), *components()[1:]]
    world.hear(msgspec.structs.replace(task(), components=tuple(parts)))
    assert what in found(picture(world))[code].what


def test_a_script_function_whose_calls_were_stopped_is_named_beside_the_events_that_failed(world: World) -> None:
    now_ms = picture(world).now_ms
    text = "function share: it took more than 500 ms of processor time for one event"
    failures = tuple(
        ErrorRecord(code, said, now_ms, now_ms, count=3)
        for code, said in (("script-stopped", text), ("events-dropped", f"stream A, query q: '{text}'"))
    )
    parts = [msgspec.structs.replace(components()[0], errors=6, failures=failures), *components()[1:]]
    world.hear(msgspec.structs.replace(task(), components=tuple(parts)))
    alerts = found(picture(world))
    assert alerts["script-stopped"].what == f"3 calls were stopped: {text}"
    assert alerts["script-stopped"].severity == AlertSeverity.WARNING
    assert alerts["errors"].what.startswith("3 errors, the newest at")
    assert "script-stopped" not in found(picture(world, now_ms=now_ms + RECENT_MS))


def test_a_plan_that_keeps_a_shared_stage_host_busy_is_named_and_its_neighbour_is_not(world: World) -> None:
    other = PlanKey(SUPER_TENANT, "Quiet")
    world.put(plan(key=other))
    hosts = (StageHostReport("d-1", SUPER_TENANT, "up", plans=2),)
    both = driver(topology("running"), topology("running", key=other))
    world.hear(msgspec.structs.replace(both, stage_hosts=hosts), peer=b"driver")
    for second in range(6):
        world.now_ms += 1_000
        for key, share in ((KEY, 0.7), (other, 0.1)):
            used_ms = int(share * 1_000 * second)
            message = msgspec.structs.replace(task(key=key), stage_host="d-1", cpu_ms=used_ms, up_ms=1_000 * second)
            world.hear(message)
    one = found(picture(world))["noisy-plan"]
    assert (one.name, one.severity) == ("Storms", AlertSeverity.WARNING)
    assert "70% of the time of stage host d-1, in which 1 other plan" in one.what
    world.hear(msgspec.structs.replace(both, stage_hosts=(msgspec.structs.replace(hosts[0], plans=1),)), peer=b"driver")
    assert "noisy-plan" not in found(picture(world)), "it has the host for itself"


def test_a_topic_whose_lag_grows_is_told(world: World) -> None:
    for number in range(GROWS_MS // SAMPLE_MS + 1):
        world.now_ms += SAMPLE_MS
        read = PartitionReport("departures", 0, 100, 100, 100 + 1_500 * number)
        source = ConnectorReport("source", "kafka", KEY.tenant, KEY.plan, "Departures", partitions=(read,))
        hear_sinks(world, serves(), source)
    alert = found(picture(world))["topic-lag"]
    assert alert.what == (
        "Topic departures is read more slowly than it is written: 15,000 messages wait, 0 did 5 min ago"
    )
    assert alert.since_ms == NOW_MS - GROWS_MS
