"""A plan that is undeployed processes what was accepted, whatever dies meanwhile, and only then goes."""

from __future__ import annotations

import msgspec
import pytest
from manager_world import COMPILED, KEY, LEASE_MS, World, driver, plan, serves, task, topology, worker

from cep_common.protocol.drivers import KillTopology
from cep_common.protocol.registry import ListPlans, PlansListed, RegisterWorker, WorkerPlanReport
from cep_common.protocol.tasks import TaskRegistered
from cep_common.protocol.worker_reports import ConnectorReport, PartitionReport, PreparedResultsReport, WalReport
from cep_manager.control.deployment.draining import (
    CONFIRM_MS,
    SETTLE_MS,
    Unprocessed,
    awaited_workers,
    unprocessed,
)
from cep_manager.control.instructions import PushToDriver, RemoveDrained
from cep_manager.control.members import ClusterMember
from cep_manager.monitoring.status import plan_status
from cep_manager.plans.compiled_plan import CarriedTopic
from cep_manager.plans.record import PlanRecord, PlanToRun
from cep_manager.plans.state import PlanState


def has(
    events: int, accepts_events: bool = False, secured: bool = True, prepared: PreparedResultsReport | None = None
) -> WorkerPlanReport:
    """A worker with so many waiting events."""
    report = serves()
    first, *others = (msgspec.structs.replace(one, waiting_events=0) for one in report.inflow)
    inflow = (msgspec.structs.replace(first, waiting_events=events // 2, in_flight_rows=events - events // 2), *others)
    write_ahead_logs = (WalReport("Arrivals", 100, 1_000, 1, secured=secured),)
    return msgspec.structs.replace(
        report, inflow=inflow, accepts_events=accepts_events, write_ahead_logs=write_ahead_logs, prepared=prepared
    )


def hear(world: World, report: WorkerPlanReport, name: str = "worker-1") -> None:
    world.hear(worker(report, name=name, revision=world.snapshot().revision))


def record(world: World) -> PlanRecord:
    return world.snapshot().plans[KEY]


def keep_alive(world: World, after_ms: int = 500, step: str = "") -> object:
    world.tick(after_ms)
    world.hear(driver(topology("running")), peer=b"driver")
    return world.hear(task(step=step))  # type: ignore[arg-type]


def confirm(world: World) -> None:
    """The stages are at rest, and the worker reports several times that nothing is left."""
    since_ms = record(world).through_since_ms
    assert since_ms is not None
    while world.now_ms - since_ms < CONFIRM_MS:
        keep_alive(world, step="quiet")
        assert world.taken(RemoveDrained) == []
        hear(world, has(0))
    world.tick(10)


def drained(to_run: PlanToRun | None = None) -> World:
    """The plan runs, worker-1 has 100 of its events, and it is being undeployed."""
    world = World()
    world.active()
    if to_run is not None:
        world.put(to_run)
        world.hear(driver(topology("running")), task())
    hear(world, has(100, accepts_events=True))
    world.instructions += world.plane.drain_plan(KEY, ("worker-1",), world.now_ms)
    world.tick()
    world.taken(PushToDriver)
    return world


def test_it_stays_in_the_list_takes_nothing_in_and_says_what_waits() -> None:
    world = drained()
    listed = world.plane._list_plans()
    assert isinstance(listed, PlansListed)
    assert [(one.key, one.intake) for one in listed.plans] == [(KEY, False)]
    hear(world, has(100))
    status = plan_status(world.snapshot(), KEY)
    assert (status.topology.state, status.topology.undeploying) == (
        PlanState.DRAINING, "100 accepted events wait for its topology",
    )  # fmt: skip
    assert status.unprocessed.events == 100
    assert world.taken(RemoveDrained) == []


def test_it_goes_when_nothing_waits_and_its_stages_are_at_rest() -> None:
    world = drained()
    hear(world, has(0))
    answer = keep_alive(world)
    assert isinstance(answer, TaskRegistered)
    assert (answer.order, world.taken(RemoveDrained)) == ("pause", [])
    hear(world, has(0))
    keep_alive(world, step="quiet")
    world.tick(10)
    assert record(world).drain_reason == "nothing waits; worker worker-1 must confirm it with a later report"
    confirm(world)
    assert world.taken(RemoveDrained) == [RemoveDrained(KEY)]
    world.tick()
    assert world.taken(RemoveDrained) == [], "it is asked for once"
    world.plane.not_removed(KEY, "disk full")
    world.tick()
    assert world.taken(RemoveDrained) == [RemoveDrained(KEY)]
    world.instructions += world.plane.remove_plan(KEY, world.now_ms, drain=True)
    (kill,) = (one.message for one in world.taken(PushToDriver))  # type: ignore[attr-defined]
    assert isinstance(kill, KillTopology)
    assert kill.drain
    listed = world.hear(ListPlans())
    assert isinstance(listed, PlansListed)
    assert [one.drained for one in listed.removed] == [True], "what workers still have on the disk was processed"


def test_stages_work_again_when_a_worker_comes_back_with_events() -> None:
    world = drained()
    hear(world, has(0))
    assert keep_alive(world).order == "pause"  # type: ignore[attr-defined]
    hear(world, has(7), name="worker-2")
    assert keep_alive(world, step="quiet").order == "work"  # type: ignore[attr-defined]
    assert world.taken(RemoveDrained) == []


def test_a_killed_worker_is_waited_for_until_it_has_handed_over_what_it_accepted() -> None:
    world = drained()
    hear(world, has(40))
    for _ in range(200):
        keep_alive(world, step="quiet")
    assert "worker-1" not in {one.latest.worker for one in world.snapshot().workers}
    found = plan_status(world.snapshot(), KEY)
    assert found.topology.undeploying == (
        "worker worker-1 is away with 40 accepted events: start it again, or undeploy with discard to drop them"
    )
    assert (found.unprocessed.away_events, found.unprocessed.away) == (40, ("worker-1",))
    assert world.taken(RemoveDrained) == []
    world.hear(worker(process_id=301, revision=world.snapshot().revision))
    assert world.taken(RemoveDrained) == [], "it has not looked into its log yet"
    hear(world, has(0))
    keep_alive(world, step="quiet")
    world.tick(10)
    confirm(world)
    assert world.taken(RemoveDrained) == [RemoveDrained(KEY)]


def test_what_stages_gave_after_a_report_of_their_worker_is_waited_for() -> None:
    world = drained()
    hear(world, has(0))
    assert keep_alive(world).order == "pause"  # type: ignore[attr-defined]
    # All is acknowledged, as it is on the worker's disk, but its last report is of before.
    keep_alive(world, after_ms=100, step="quiet")
    world.tick(100)
    assert world.taken(RemoveDrained) == []
    hear(world, has(0, prepared=PreparedResultsReport(104_000, 1_768_000, 1, released_events=104_000)))
    for _ in range(3 * CONFIRM_MS // 500):
        keep_alive(world, step="quiet")
        hear(world, has(0, prepared=PreparedResultsReport(9, 90, 1, released_events=9)))
    assert record(world).drain_reason == "9 results wait for their sinks"
    assert world.taken(RemoveDrained) == []
    hear(world, has(0))
    world.tick(10)
    confirm(world)
    assert world.taken(RemoveDrained) == [RemoveDrained(KEY)]


def test_every_worker_confirms_that_nothing_is_left() -> None:
    world = drained()
    hear(world, has(0))
    hear(world, has(0), name="worker-2")
    keep_alive(world)
    keep_alive(world, step="quiet")
    for _ in range(CONFIRM_MS // 500):
        keep_alive(world, step="quiet")
        hear(world, has(0))
    world.tick(10)
    assert record(world).drain_reason == "nothing waits; worker worker-2 must confirm it with a later report"
    assert world.taken(RemoveDrained) == []
    hear(world, has(0), name="worker-2")
    world.tick(10)
    assert world.taken(RemoveDrained) == [RemoveDrained(KEY)]


def test_a_worker_that_was_killed_before_is_waited_for_too() -> None:
    world = World()
    world.active()
    hear(world, has(5, accepts_events=True), name="worker-2")
    for _ in range(150):
        keep_alive(world)
        hear(world, has(0, accepts_events=True))
    assert [one.latest.worker for one in world.snapshot().away_workers] == ["worker-2"]
    assert [one.latest.worker for one in world.snapshot().lost_workers] == []


def test_a_worker_that_has_not_stopped_the_intake_may_still_accept_events() -> None:
    world = drained()
    hear(world, has(0, accepts_events=True))
    keep_alive(world, step="quiet")
    assert world.taken(RemoveDrained) == []
    assert record(world).drain_reason == "its intake at worker worker-1 is about to stop"


def test_exactly_once_results_are_with_their_sinks_before_it_goes() -> None:
    compiled = msgspec.structs.replace(COMPILED, delivery="exactly-once")
    world = drained(plan(epoch=2, compiled=compiled))

    def told(*, secured: bool, prepared: PreparedResultsReport) -> str:
        report = msgspec.structs.replace(has(0, secured=secured, prepared=prepared), epoch=2)
        hear(world, report)
        world.tick(100)
        return record(world).drain_reason

    assert told(secured=False, prepared=PreparedResultsReport(9, 90, 1)) == "the last events wait for their checkpoint"
    assert (
        told(secured=True, prepared=PreparedResultsReport(9, 90, 1, released_events=4))
        == "4 results wait for their sinks"
    )
    assert world.taken(RemoveDrained) == []
    told(secured=True, prepared=PreparedResultsReport(5, 50, 1))
    assert world.taken(RemoveDrained) == []
    # The checkpoint that holds its last events has released results of them since.
    told(secured=True, prepared=PreparedResultsReport(5, 50, 1, released_events=5))
    world.tick(CONFIRM_MS)
    told(secured=True, prepared=PreparedResultsReport(5, 50, 1, released_events=5))
    assert world.taken(RemoveDrained) == []
    told(secured=True, prepared=PreparedResultsReport(0, 0, 0))
    world.tick(CONFIRM_MS)
    told(secured=True, prepared=PreparedResultsReport(0, 0, 0))
    assert world.taken(RemoveDrained) == [RemoveDrained(KEY)]


def test_results_that_sinks_do_not_take_are_waited_for_at_least_once_too() -> None:
    world = drained()
    hear(world, has(0, prepared=PreparedResultsReport(9, 90, 1, released_events=9)))
    keep_alive(world, step="quiet")
    keep_alive(world, step="quiet")
    assert record(world).drain_reason == "9 results wait for their sinks"
    waiting = has(0)
    first, *others = waiting.outflow
    first = msgspec.structs.replace(first, waiting_events=5)
    hear(world, msgspec.structs.replace(waiting, outflow=(first, *others)))
    keep_alive(world, step="quiet")
    assert record(world).drain_reason == "5 results wait for their sinks"
    hear(world, has(0))
    keep_alive(world, step="quiet")
    world.tick(10)
    confirm(world)
    assert world.taken(RemoveDrained)


@pytest.mark.parametrize("secured", [True, False])
def test_a_plan_that_does_not_run_goes_when_its_topology_has_left_nothing(secured: bool) -> None:
    world = drained()
    world.tick(2 * LEASE_MS)
    world.hear(driver(topology("failed", reason="it broke")), peer=b"driver")
    world.plane._members.forget_tasks(KEY, (1,))
    hear(world, has(0, secured=secured))
    assert world.taken(RemoveDrained) == []
    world.tick(CONFIRM_MS)
    hear(world, has(0, secured=secured))
    world.tick(10)
    assert (world.taken(RemoveDrained) == [RemoveDrained(KEY)]) is secured


def test_a_manager_that_comes_to_lead_goes_on_and_hears_all_workers_first() -> None:
    world = World()
    world.put(plan(sent_before=True, draining=("worker-1",)))
    world.hear(driver(topology("running")), peer=b"driver")
    assert record(world).accepts_events() is False
    hear(world, has(0))
    keep_alive(world, step="quiet")
    assert world.taken(RemoveDrained) == []
    assert record(world).drain_reason == "not all workers have reported yet"
    for _ in range(2 * LEASE_MS // 500):
        hear(world, has(0))
        keep_alive(world, step="quiet")
    assert world.taken(RemoveDrained) == [RemoveDrained(KEY)]


def test_it_is_kept_after_all_when_it_is_activated() -> None:
    world = drained()
    world.instructions += world.plane.drain_plan(KEY, None, world.now_ms)
    hear(world, has(0, accepts_events=True))
    keep_alive(world)
    assert (record(world).state, record(world).accepts_events()) == (PlanState.ACTIVE, True)
    assert world.taken(RemoveDrained) == []


def test_a_change_under_way_ends_when_the_plan_is_undeployed() -> None:
    world = World()
    world.active()
    world.put(plan(epoch=2, text="other", change="update"))
    world.tick()
    world.instructions += world.plane.drain_plan(KEY, ("worker-1",), world.now_ms)
    assert (record(world).trial, record(world).change_error) == (None, "the plan is being undeployed")


def test_plans_that_cannot_run_are_listed_so_that_workers_keep_what_they_accepted() -> None:
    world = World()
    world.put(plan(compiled="it can no longer be compiled"))
    listed = world.plane._list_plans()
    assert isinstance(listed, PlansListed)
    assert (listed.plans, listed.kept) == ((), (KEY,))


def test_a_plan_of_a_name_that_was_used_before_does_not_wait_for_the_events_of_the_other() -> None:
    away: ClusterMember[RegisterWorker] = ClusterMember(
        0, 0, worker(has(3_900, prepared=PreparedResultsReport(7, 1_000, 0)))
    )
    assert unprocessed(KEY, (), [away]) == Unprocessed(3_900, 7, 3_900, ("worker-1",))
    assert unprocessed(KEY, (), [away], first_epoch=1).events == 3_900
    assert unprocessed(KEY, (), [away], first_epoch=2) == Unprocessed()
    assert awaited_workers(KEY, (), [away], first_epoch=1) == ("worker-1",)
    assert awaited_workers(KEY, (), [away], first_epoch=2) == ()


def test_topics_between_groups_are_read_to_their_end_before_stages_come_to_rest() -> None:
    topic = CarriedTopic("Late", "Storms.Late", "between", "", 1)
    world = drained(plan(compiled=msgspec.structs.replace(COMPILED, topics=(topic,))))

    def told(lag: int, waiting: int = 0) -> str:
        read = PartitionReport("Storms.Late", 0, 90, 90, 90 + lag)
        source = ConnectorReport("source", "kafka", KEY.tenant, KEY.plan, "Late", partitions=(read,))
        report = worker(has(waiting), revision=world.snapshot().revision)
        world.hear(msgspec.structs.replace(report, connectors=(source,)))
        answer = keep_alive(world, step="quiet")
        return answer.order  # type: ignore[attr-defined, no-any-return]

    assert told(lag=10) == "work"
    assert record(world).drain_reason == "10 messages between its groups are not read yet"
    assert told(lag=0) == "work"
    assert record(world).drain_reason == "nothing waits; its groups may still exchange events"
    for _ in range(SETTLE_MS // 500 - 2):
        assert told(lag=0) == "work"
    assert told(lag=0, waiting=3) == "work", "a group has sent more meanwhile"
    for _ in range(SETTLE_MS // 500 - 1):
        assert told(lag=0) == "work"
        assert world.taken(RemoveDrained) == []
    told(lag=0)
    for _ in range(CONFIRM_MS // 500 + 1):
        assert world.taken(RemoveDrained) == []
        told(lag=0)
    assert world.taken(RemoveDrained) == [RemoveDrained(KEY)]


@pytest.mark.parametrize("partitions", [(), (0,), (1,)])
def test_a_partition_between_groups_that_no_worker_reads_may_hold_messages(partitions: tuple[int, ...]) -> None:
    topic = CarriedTopic("Late", "Storms.Late", "between", "", 2)
    world = drained(plan(compiled=msgspec.structs.replace(COMPILED, topics=(topic,))))

    def told(read: tuple[int, ...]) -> None:
        reports = tuple(PartitionReport("Storms.Late", one, 90, 90, 90) for one in read)
        source = ConnectorReport("source", "kafka", KEY.tenant, KEY.plan, "Late", partitions=reports)
        world.hear(msgspec.structs.replace(worker(has(0), revision=world.snapshot().revision), connectors=(source,)))
        keep_alive(world, step="quiet")

    for _ in range(2 * SETTLE_MS // 500):
        told(partitions)
    assert record(world).drain_reason.startswith("no worker reads all partitions of the topic Storms.Late at present")
    for _ in range((SETTLE_MS + CONFIRM_MS) // 500 + 3):
        told((0, 1))
    assert world.taken(RemoveDrained)


def test_exactly_once_nothing_settles_before_a_checkpoint_holds_all() -> None:
    topic = CarriedTopic("Late", "Storms.Late", "between", "", 1)
    compiled = msgspec.structs.replace(COMPILED, delivery="exactly-once", topics=(topic,))
    world = drained(plan(epoch=2, compiled=compiled))

    def told(*, secured: bool, lag: int = 0) -> str:
        read = PartitionReport("Storms.Late", 0, 90, 90, 90 + lag)
        source = ConnectorReport("source", "kafka", KEY.tenant, KEY.plan, "Late", partitions=(read,))
        report = worker(msgspec.structs.replace(has(0, secured=secured), epoch=2), revision=world.snapshot().revision)
        world.hear(msgspec.structs.replace(report, connectors=(source,)))
        world.tick(500)
        return record(world).drain_reason

    for _ in range(2 * SETTLE_MS // 500):
        assert told(secured=False) == "the last events wait for their checkpoint"
    for _ in range(SETTLE_MS // 500 - 1):
        assert told(secured=True) == "nothing waits; its groups may still exchange events"
    assert told(secured=True, lag=4) == "4 messages between its groups are not read yet"
    assert world.taken(RemoveDrained) == []
    for _ in range((SETTLE_MS + CONFIRM_MS) // 500 + 1):
        told(secured=True)
    assert world.taken(RemoveDrained)
