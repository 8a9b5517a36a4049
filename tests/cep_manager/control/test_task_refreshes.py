"""One heartbeat of a stage host renews all of its tasks that stand as they were registered, and no others."""

from __future__ import annotations

import msgspec
from manager_world import HEARTBEAT_MS, KEY, LEASE_MS, World, driver, plan, receiver, serves, task, topology, worker

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.registry import RegisterEndpoint, WorkerRegistered
from cep_common.protocol.tasks import RefreshedTask, RefreshTasks, TaskRegistered, TasksRefreshed
from cep_manager.plans.state import PlanState
from cep_manager.plans.stored_plan import SettingsPatch

REFERENCE = RefreshedTask(KEY, 1, 0, 0)
HOSTED = msgspec.structs.replace(task(), stage_host="host-1")


def running() -> World:
    """A plan whose one task is in a stage host, and has registered since the plan is active."""
    world = World()
    world.active()
    world.hear(HOSTED)
    world.hear(HOSTED)
    assert world.snapshot().plans[KEY].state is PlanState.ACTIVE
    return world


def refresh(world: World, *tasks: RefreshedTask, version: int = 1) -> TasksRefreshed:
    answer = world.hear(RefreshTasks("host-1", version, tasks))
    assert isinstance(answer, TasksRefreshed)
    return answer


def test_a_heartbeat_of_the_host_keeps_tasks_and_receivers_alive() -> None:
    world = running()
    refresh(world, REFERENCE)
    for _ in range(10 * LEASE_MS // HEARTBEAT_MS):
        world.now_ms += HEARTBEAT_MS
        world.hear(driver(topology("running")), peer=b"driver")
        world.hear(worker(serves(), revision=world.snapshot().revision))
        assert refresh(world) == TasksRefreshed(HEARTBEAT_MS, LEASE_MS)
    snapshot = world.snapshot()
    assert snapshot.plans[KEY].state is PlanState.ACTIVE
    assert snapshot.tasks[KEY][0].live(world.now_ms, LEASE_MS)
    assert snapshot.tasks[KEY][0].latest.up_ms >= 9 * LEASE_MS
    assert {one.instance for one in snapshot.endpoints if one.role == "receiver"} == {"EventReceiver#0"}


def test_without_it_they_are_lost() -> None:
    world = running()
    refresh(world, REFERENCE)
    world.now_ms += 4 * LEASE_MS
    world.hear(driver(topology("running")), peer=b"driver")
    assert world.snapshot().plans[KEY].state is not PlanState.ACTIVE


def test_tasks_that_were_heard_late_go_on_without_registering_again() -> None:
    world = running()
    refresh(world, REFERENCE)
    world.now_ms += 3 * LEASE_MS
    world.hear(driver(topology("running")), peer=b"driver")
    assert world.snapshot().plans[KEY].state is not PlanState.ACTIVE

    assert refresh(world) == TasksRefreshed(HEARTBEAT_MS, LEASE_MS)
    world.hear(driver(topology("running")), peer=b"driver")
    world.hear(worker(serves(), revision=world.snapshot().revision))

    record = world.snapshot().plans[KEY]
    assert record.state is PlanState.ACTIVE, record.reason


def test_another_manager_asks_for_the_tasks_and_then_for_their_registrations() -> None:
    world = running()
    assert not refresh(world, version=7).known
    other = World()
    other.put(plan())
    other.hear(driver(topology("running")), peer=b"driver")
    assert not refresh(other, version=7).known
    assert refresh(other, REFERENCE, version=7).again == (0,)
    other.hear(HOSTED, receiver())
    other.hear(HOSTED)
    assert refresh(other, version=7).again == ()


def test_a_task_for_which_there_is_an_order_must_register() -> None:
    world = running()
    assert refresh(world, REFERENCE).again == ()
    world.instructions += world.plane.change_settings(KEY, SettingsPatch(statistics="detail"))
    assert refresh(world).again == (0,)
    answer = world.hear(HOSTED)
    assert isinstance(answer, TaskRegistered)
    assert answer.statistics == "detail"
    assert refresh(world).again == ()


def test_a_task_of_another_attempt_or_of_a_plan_that_is_gone_must_register() -> None:
    world = running()
    assert refresh(world, msgspec.structs.replace(REFERENCE, attempt=1)).again == (0,)
    assert refresh(world, REFERENCE, version=2).again == ()
    world.instructions += world.plane.remove_plan(KEY, world.now_ms)
    assert refresh(world, version=2).again == (0,)


def test_a_task_whose_receiver_was_forgotten_must_register() -> None:
    world = running()
    assert refresh(world, REFERENCE).again == ()
    world.plane._registry.forget_receivers(KEY, 1)
    assert refresh(world).again == (0,), "nobody else would register it"
    world.hear(HOSTED, receiver())
    assert refresh(world).again == ()


def test_nothing_is_kept_of_the_tasks_of_a_plan_that_is_gone() -> None:
    world = running()
    refresh(world, REFERENCE)
    assert world.plane._refreshes._answered
    world.instructions += world.plane.remove_plan(KEY, world.now_ms)
    world.now_ms += HEARTBEAT_MS
    refresh(world, msgspec.structs.replace(REFERENCE, key=PlanKey(1, "another")), version=2)
    world.tick()
    assert not world.plane._refreshes._answered, "the host continues without the plan"


def test_the_heartbeat_of_a_worker_renews_its_endpoints() -> None:
    world = running()
    mine = RegisterEndpoint("worker", KEY, 1, "worker-1", Endpoint("10.0.0.3", 15_000, "a"), ("EventPublisher#0",))
    answer = world.hear(worker(serves()))
    assert isinstance(answer, WorkerRegistered)
    assert answer.again == (0,), "it is not registered yet"
    world.hear(mine)
    for _ in range(10 * LEASE_MS // HEARTBEAT_MS):
        world.now_ms += HEARTBEAT_MS
        answer = world.hear(worker(serves()))
        assert isinstance(answer, WorkerRegistered)
        assert answer.again == ()
    (known,) = [one for one in world.snapshot().endpoints if one.role == "worker"]
    assert known.heard_ms == world.now_ms
    answer = world.hear(worker(serves(linked=False)))
    assert isinstance(answer, WorkerRegistered)
    assert answer.again == (0,), "other publishers are linked than it is registered with"
