"""A running plan is changed: the new topology beside the former one, in its place, or not at all."""

import msgspec
import pytest
from manager_world import COMPILED, DEPLOYED_MS, KEY, LEASE_MS, World, driver, plan, task, topology

from cep_common.protocol.drivers import KillTopology, RegisterDriver, RunState, SubmitTopology, TopologyReport
from cep_common.protocol.registry import Rejected
from cep_common.protocol.tasks import TaskRegistered
from cep_manager.control.instructions import PushToDriver, RaiseEpoch, SettleChange
from cep_manager.plans.record import PlanRecord
from cep_manager.plans.state import ChangeKind, PlanState

SLOTS = 4


@pytest.fixture
def world() -> World:
    """The plan runs under epoch 1 and is changed under epoch 2; the driver has got both."""
    made = World()
    made.active()
    made.taken(PushToDriver)
    change(made, 2)
    return made


def change(world: World, epoch: int, kind: ChangeKind = "update", workers: int | None = None) -> None:
    compiled = msgspec.structs.replace(COMPILED, state_shape=f"shape {epoch}")
    changed = plan(epoch=epoch, text=f"text {epoch}", compiled=compiled, change=kind, workers=workers)
    world.put(changed)
    world.tick()


def drives(*reports: TopologyReport, free: int = 2) -> RegisterDriver:
    return msgspec.structs.replace(driver(*reports), slots_free=free)


def pushed(world: World) -> list[SubmitTopology | KillTopology]:
    return [push.message for push in world.taken(PushToDriver)]  # type: ignore[attr-defined]


def record(world: World) -> PlanRecord:
    return world.snapshot().plans[KEY]


def settled(world: World) -> list[tuple[int, int, str]]:
    """Changes that were settled: their epochs, and the epoch and text that are in force then."""
    return [(one.epoch, one.in_force.epoch, one.in_force.text) for one in world.taken(SettleChange)]  # type: ignore[attr-defined]


def test_the_new_topology_starts_beside_the_former_one_whose_tasks_go_on(world: World) -> None:
    assert pushed(world) == [SubmitTopology(KEY, 2, COMPILED.query_plan, 1, beside=True, deployed_ms=DEPLOYED_MS)]
    world.hear(drives(topology("running"), topology("starting", epoch=2)), task(epoch=1), task(epoch=2))
    found = record(world)
    assert (found.state, found.epoch, found.text) == (PlanState.UPDATING, 1, plan().stored.text)
    assert found.reason == "epoch 2 is to take over: the driver is starting its tasks"
    assert [one.latest.epoch for one in world.snapshot().tasks[KEY]] == [1]


def test_it_takes_over_when_its_tasks_have_the_state_and_the_former_one_is_killed(world: World) -> None:
    pushed(world)
    revision = world.snapshot().revision
    world.hear(drives(topology("running"), topology("running", epoch=2)))
    assert record(world).epoch == 1
    world.hear(task(epoch=2))
    assert record(world).epoch == 1, "first it gets the state of the former one"
    world.hear(task(epoch=2, step="restored"))
    assert (record(world).state, record(world).epoch, record(world).text) == (PlanState.ACTIVE, 2, "text 2")
    assert pushed(world) == [KillTopology(KEY, 1)]
    assert settled(world) == [(2, 2, "text 2")]
    assert world.snapshot().revision > revision
    assert world.hear(task(epoch=1, step="given")).code == "stale-epoch"  # type: ignore[attr-defined]
    assert record(world).interruption == ""


@pytest.mark.parametrize(
    ("state", "restarts", "reason"),
    [("failed", 0, "no such window"), ("restarting", 3, "a stage process died")],
)
def test_when_it_cannot_start_the_former_one_just_goes_on_and_the_status_says_why(
    world: World, state: RunState, restarts: int, reason: str
) -> None:
    pushed(world)
    world.hear(drives(topology("running"), topology(state, 2, reason, restarts)))
    found = record(world)
    assert (found.state, found.epoch, found.change_error) == (PlanState.ACTIVE, 1, reason)
    assert pushed(world) == [KillTopology(KEY, 2)]
    assert settled(world) == [(2, 1, plan().stored.text)]


def test_more_workers_than_the_cluster_has_slots_change_nothing(world: World) -> None:
    change(world, 3, "rebalance", workers=SLOTS + 1)
    pushed(world)
    world.hear(drives(topology("running"), topology("waiting", epoch=3)))
    assert record(world).epoch == 1
    assert record(world).change_error == "it needs 5 slots, the cluster has 4 in all"


def test_without_room_for_both_the_former_one_makes_room_and_comes_back_if_that_was_in_vain(world: World) -> None:
    pushed(world)
    world.hear(drives(topology("running"), topology("waiting", epoch=2), free=0))
    assert pushed(world) == [KillTopology(KEY, 1, drain=True)], "the new one starts from its last checkpoint"
    assert (record(world).epoch, record(world).text) == (2, "text 2")
    world.hear(drives(topology("failed", 2, "no such window")))
    assert (record(world).text, record(world).change_error) == (plan().stored.text, "no such window")
    assert settled(world) == [(2, 1, plan().stored.text)]
    assert world.taken(RaiseEpoch) == [RaiseEpoch(KEY)]
    world.plane.epoch_raised(KEY, 3, world.now_ms)
    world.tick()
    assert pushed(world)[-1:] == [SubmitTopology(KEY, 3, COMPILED.query_plan, 1, deployed_ms=DEPLOYED_MS)]


def test_a_plan_that_delivers_exactly_once_does_not_end_for_a_form_that_the_cluster_has_no_slots_for() -> None:
    world = World()
    world.put(plan(compiled=msgspec.structs.replace(COMPILED, delivery="exactly-once")))
    world.hear(driver(topology("running")), task())
    world.taken(PushToDriver)
    change(world, 2, "rebalance", workers=SLOTS + 1)
    world.hear(drives(topology("running")), task())
    assert not [one for one in pushed(world) if isinstance(one, SubmitTopology)]
    found = record(world)
    assert (found.state, found.epoch) == (PlanState.ACTIVE, 1)
    assert found.change_error == "it needs 5 slots, the cluster has 4 in all"


def test_a_plan_that_delivers_exactly_once_takes_a_last_checkpoint_before_its_new_form_begins() -> None:
    world = World()
    world.put(plan(compiled=msgspec.structs.replace(COMPILED, delivery="exactly-once")))
    world.hear(driver(topology("running")), task())
    world.taken(PushToDriver)
    change(world, 2)
    world.hear(drives(topology("running")), task())
    assert pushed(world) == [SubmitTopology(KEY, 2, COMPILED.query_plan, 1, deployed_ms=DEPLOYED_MS)], (
        "the driver ends the former one first"
    )
    assert (record(world).epoch, record(world).text) == (2, "text 2")


def test_a_topology_that_makes_room_is_not_disturbed_while_it_takes_its_last_checkpoint(world: World) -> None:
    world.hear(drives(topology("running"), topology("waiting", epoch=2), free=0), task())
    pushed(world)
    assert record(world).epochs() == (2,)
    for state in ("running", "stopping"):
        answer = world.hear(drives(topology(state), topology("waiting", epoch=2), free=0), task())  # type: ignore[arg-type]
        assert isinstance(answer, TaskRegistered)
        assert not [one for one in pushed(world) if isinstance(one, KillTopology) and not one.drain]
    assert world.snapshot().tasks.get(KEY, ()) == ()
    answer = world.hear(drives(topology("waiting", epoch=2), free=0), task())
    assert isinstance(answer, Rejected), "its driver has ended it"


def test_without_room_for_both_the_change_is_settled_once_it_runs(world: World) -> None:
    world.hear(drives(topology("running"), topology("waiting", epoch=2), free=0))
    assert settled(world) == []
    world.hear(drives(topology("running", epoch=2)), task(epoch=2))
    assert record(world).state is PlanState.ACTIVE
    assert settled(world) == [(2, 2, "text 2")]


def test_a_driver_that_died_meanwhile_gets_the_changed_plan(world: World) -> None:
    world.tick(LEASE_MS)
    world.hear(driver(process_id=101))
    assert record(world).text == "text 2"
    assert world.taken(RaiseEpoch) == [RaiseEpoch(KEY)]


def test_a_second_change_takes_the_place_of_the_first_and_the_former_topology_runs_on(world: World) -> None:
    pushed(world)
    change(world, 3)
    assert pushed(world) == [
        KillTopology(KEY, 2),
        SubmitTopology(KEY, 3, COMPILED.query_plan, 1, beside=True, deployed_ms=DEPLOYED_MS),
    ]
    assert record(world).epochs() == (1, 3)


def test_a_plan_whose_tasks_take_several_slots_each_takes_over_like_any_other() -> None:
    world = World()
    world.active()
    compiled = msgspec.structs.replace(COMPILED, cores=2, state_shape="another")
    world.put(plan(epoch=2, text="text 2", compiled=compiled, change="update"))
    world.tick()
    world.hear(drives(topology("running"), topology("running", epoch=2), free=1), task(epoch=2, step="restored"))
    assert (record(world).state, record(world).epoch) == (PlanState.ACTIVE, 2)


def test_another_plan_of_the_name_is_no_former_topology_that_goes_on_until_the_change_is_made() -> None:
    """The database was replaced; the driver is still ending what it ran before, under the same epoch."""
    world = World()
    foreign = msgspec.structs.replace(topology("running"), deployed_ms=DEPLOYED_MS - 1)
    world.put(plan(epoch=1))
    world.hear(drives(foreign))
    change(world, 2)
    assert record(world).trial is None, "there is nothing to continue"
    world.tick()
    pushed(world)
    world.hear(drives(foreign, topology("running", epoch=2)))
    assert (record(world).epoch, record(world).text) == (2, "text 2")


def test_another_plan_of_the_name_does_not_speak_for_the_new_topology(world: World) -> None:
    world.hear(drives(topology("running"), msgspec.structs.replace(topology("failed", 2), deployed_ms=DEPLOYED_MS - 1)))
    assert record(world).trial is not None
    assert record(world).change_error == ""
