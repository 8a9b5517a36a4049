"""Which worker may speak under a name, and what is told of the others."""

import msgspec
import pytest
from alert_world import found, picture
from manager_world import KEY, LEASE_MS, World, serves, worker

from cep_common.protocol.registry import ListPlans, PlansListed, RegisterWorker, Rejected, RemovedPlan, WorkerRegistered
from cep_common.protocol.worker_reports import OrphanReport
from cep_manager.control.control_plane import ControlPlane


@pytest.fixture
def world() -> World:
    world = World()
    world.active()
    return world


def of(identity: str, instance: str = "i", waiting: int = 0, **other: object) -> RegisterWorker:
    report = serves()
    inflow = tuple(msgspec.structs.replace(one, waiting_events=waiting) for one in report.inflow)
    registered = worker(msgspec.structs.replace(report, inflow=inflow))
    return msgspec.structs.replace(registered, identity=identity, instance=instance, **other)


def test_a_second_folder_of_a_name_is_refused_while_the_first_lives(world: World) -> None:
    assert isinstance(world.hear(of("a")), WorkerRegistered)
    refusal = world.hear(of("b", host="elsewhere", process_id=77))
    assert isinstance(refusal, Rejected)
    assert refusal.code == "worker-exists"
    assert "give each worker a name of its own" in refusal.reason
    assert isinstance(world.hear(of("a")), WorkerRegistered), "the first one continues"
    told = found(picture(world))["worker-name-taken"]
    assert "process 77 on elsewhere" in told.what
    world.tick(LEASE_MS)
    assert isinstance(world.hear(of("b")), WorkerRegistered)


def test_of_a_folder_and_its_copy_the_one_that_was_there_goes_on(world: World) -> None:
    world.hear(of("a", "first"))
    assert isinstance(world.hear(of("a", "second")), WorkerRegistered), "it may have been started again"
    world.tick(LEASE_MS // 3)
    assert isinstance(world.hear(of("a", "first")), WorkerRegistered)
    for _ in range(3):
        refusal = world.hear(of("a", "second", process_id=77))
        assert isinstance(refusal, Rejected)
        assert "has a copy of its folder" in refusal.reason
        assert isinstance(world.hear(of("a", "first")), WorkerRegistered)
        world.tick(LEASE_MS // 3)
    assert "process 77" in found(picture(world))["worker-copied"].what


def test_a_process_that_comes_back_long_after_it_was_replaced_is_refused(world: World) -> None:
    world.hear(of("a", "first"))
    world.tick(LEASE_MS)
    world.hear(of("a", "second"))
    for _ in range(12):
        world.tick(LEASE_MS // 3)
        world.hear(of("a", "second"))
    world.hear(of("a", "third"))
    assert isinstance(world.hear(of("a", "first")), Rejected)
    for _ in range(12):
        world.tick(LEASE_MS // 3)
        world.hear(of("a", "third"))
    assert isinstance(world.hear(of("a", "second")), Rejected)
    assert isinstance(world.hear(of("a", "third")), WorkerRegistered)
    world.tick(9 * LEASE_MS)
    assert isinstance(world.hear(of("a", "second")), WorkerRegistered), "nobody else is left"


def test_a_worker_that_comes_back_without_what_it_had_is_told_of(world: World) -> None:
    world.hear(of("a", waiting=40))
    world.tick(LEASE_MS)
    world.hear(of("b"))
    told = found(picture(world))["worker-other-folder"]
    assert "80 events that it had accepted are not there" in told.what
    assert [one.latest.identity for one in world.snapshot().away_workers] == ["a"]
    world.tick(9 * LEASE_MS)
    world.hear(of("c", copy_of="a"))
    assert world.snapshot().away_workers == (), "a restored folder has what the former one had"
    assert "worker-other-folder" not in found(picture(world))


def test_a_drained_plan_waits_for_the_folder_that_has_its_events(world: World) -> None:
    world.hear(of("a", waiting=40))
    world.tick(LEASE_MS)
    world.plane.drain_plan(KEY, ("worker-1",), world.now_ms)
    world.hear(of("b"))
    assert "with 80 accepted events" in world.snapshot().plans[KEY].drain_reason


def test_a_worker_of_another_system_does_nothing_here() -> None:
    world = World()
    world.plane = ControlPlane(1_000, LEASE_MS, 1, 1_000, quotas=world.plane._quotas, system="ours")
    answer = world.hear(of("a", system="theirs", refused_system="ours"))
    assert isinstance(answer, WorkerRegistered)
    assert answer.system == "ours"
    assert world.snapshot().workers == ()
    told = found(picture(world))["worker-other-system"]
    assert "serves another system (theirs)" in told.what
    assert "cep wal adopt worker-1" in told.advice
    world.hear(of("a", system="ours"))
    assert len(world.snapshot().workers) == 1
    assert "worker-other-system" not in found(picture(world))


def test_plans_that_people_undeploy_are_named_to_workers(world: World) -> None:
    created_ms = world.snapshot().plans[KEY].stored.created_ms
    world.plane.remove_plan(KEY, world.now_ms)
    listed = world.hear(ListPlans())
    assert isinstance(listed, PlansListed)
    assert (listed.plans, listed.removed) == ((), (RemovedPlan(KEY, created_ms),))


def test_what_workers_have_set_aside_is_told_of(world: World) -> None:
    aside = OrphanReport("4f2a", "log", -1234, "Gone", 12, since_ms=1_000, until_ms=86_401_000, stream="Departures")
    world.hear(of("a", orphans=(aside,)))
    told = found(picture(world))["orphaned-events"]
    assert "12 accepted events of Departures of the plan Gone (tenant -1234) are set aside" in told.what
    assert "cep wal restore 4f2a" in told.advice
    assert "1970-01-02 00:00 UTC" in told.advice
