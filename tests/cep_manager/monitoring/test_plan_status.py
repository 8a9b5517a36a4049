"""The three parts of a plan's status."""

import msgspec
import pytest
from manager_world import (
    COMPILED,
    HEARTBEAT_MS,
    KEY,
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

from cep_common.protocol.tasks import ComponentState
from cep_manager.control.members import LOST_SHOWN_MS
from cep_manager.monitoring.status import InflowStatus, LostWorker, OutflowStatus, PlanStatus, plan_status
from cep_manager.plans.state import PlanState


@pytest.fixture
def world() -> World:
    made = World()
    made.active()
    return made


def status(world: World) -> PlanStatus:
    return plan_status(world.snapshot(), KEY)


def test_a_plan_with_everything_in_place_is_active_and_connected(world: World) -> None:
    found = status(world)
    assert found.topology.state is PlanState.ACTIVE
    assert found.inflow == (InflowStatus("worker-1", "10.0.0.3", 2, 2),)
    assert found.outflow == OutflowStatus(1, 1)
    assert found.connected


def test_a_plan_without_a_worker_is_not_connected(world: World) -> None:
    world.tick(LEASE_MS)
    found = status(world)
    assert found.inflow == ()
    assert found.outflow == OutflowStatus(0, 1)
    assert not found.connected


def test_a_lost_worker_is_told_of_and_holds_nobody_back(world: World) -> None:
    for _ in range(LEASE_MS // HEARTBEAT_MS):
        world.now_ms += HEARTBEAT_MS
        world.hear(driver(topology("running")), task(), worker(serves(), name="worker-2", process_id=301))
    found = status(world)
    assert found.lost_workers == (LostWorker("worker-1", "10.0.0.3", LEASE_MS),)
    assert found.inflow == (InflowStatus("worker-2", "10.0.0.3", 2, 2),)
    assert found.connected
    world.hear(worker(serves()))
    assert status(world).lost_workers == ()


def test_a_lost_worker_is_not_told_of_for_ever(world: World) -> None:
    world.tick(LEASE_MS)
    assert len(status(world).lost_workers) == 1
    world.tick(LOST_SHOWN_MS - LEASE_MS)
    assert status(world).lost_workers == ()


def test_every_worker_owes_its_inflow_connections_even_before_it_knows_the_plan(world: World) -> None:
    world.hear(worker(name="worker-2", process_id=301))
    found = status(world)
    assert found.inflow[1] == InflowStatus("worker-2", "10.0.0.3", 0, 2)
    assert not found.connected


def test_connections_of_an_older_epoch_do_not_count(world: World) -> None:
    world.put(plan(epoch=2))
    assert status(world).inflow == (InflowStatus("worker-1", "10.0.0.3", 0, 2),)
    assert status(world).outflow == OutflowStatus(0, 1)


def test_each_publisher_instance_needs_a_worker(world: World) -> None:
    stages = tuple(
        msgspec.structs.replace(one, parallel=2) if one.kind == "publisher" else one for one in COMPILED.components
    )
    world.put(plan(epoch=2, compiled=msgspec.structs.replace(COMPILED, components=stages)))
    world.hear(worker(serves(epoch=2)))
    assert status(world).outflow == OutflowStatus(1, 2)
    assert not status(world).connected


def test_a_plan_that_imports_and_exports_nothing_needs_no_connection(world: World) -> None:
    world.put(plan(epoch=2, compiled=msgspec.structs.replace(COMPILED, imported=(), exported=())))
    world.tick(LEASE_MS)
    assert status(world).connected


def test_time_in_a_state_tasks_and_restarts_are_told(world: World) -> None:
    world.hear(driver(topology("running", restarts=2)), task(attempt=2))
    world.now_ms += 500
    found = status(world).topology
    assert (found.since_ms, found.restarts, found.tasks_live, found.tasks_required) == (500, 2, 1, 1)


def test_the_latest_error_of_any_stage_is_shown_with_its_place(world: World) -> None:
    older, newer, *others = components()
    older = msgspec.structs.replace(older, last_error="first", last_error_ms=10)
    newer = msgspec.structs.replace(newer, last_error="second", last_error_ms=20)
    world.hear(msgspec.structs.replace(task(), components=(older, newer, *others)))
    assert status(world).topology.last_error == "lateness#0: second"


def test_a_workers_error_is_shown_when_no_stage_has_one(world: World) -> None:
    world.hear(worker(msgspec.structs.replace(serves(), last_error="disk full")))
    assert status(world).topology.last_error == "worker-1: disk full"


def test_every_task_is_told_with_its_place_and_what_it_uses(world: World) -> None:
    world.hear(msgspec.structs.replace(task(), memory_bytes=5_000_000, cpu_ms=750))
    (told,) = status(world).tasks
    assert (told.task, told.host, told.process_id, told.live) == (0, "10.0.0.2", 200, True)
    assert told.instances[0] == "EventReceiver#0"
    assert (told.memory_bytes, told.cpu_ms) == (5_000_000, 750)
    world.tick(LEASE_MS)
    assert not status(world).tasks[0].live


def test_what_parallel_instances_hold_is_added_up(world: World) -> None:
    first, second, *others = components()
    first = msgspec.structs.replace(
        first, held=(ComponentState("query", "q", rows=3, bytes=100), ComponentState("table", "T"))
    )
    second = msgspec.structs.replace(second, held=(ComponentState("query", "q", rows=4, groups=1, bytes=50),))
    world.hear(msgspec.structs.replace(task(), components=(first, second, *others)))
    assert status(world).state == (
        ComponentState("query", "q", rows=7, groups=1, bytes=150),
        ComponentState("table", "T"),
    )
