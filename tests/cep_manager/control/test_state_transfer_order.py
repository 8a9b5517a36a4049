"""State goes from a running topology to the one that takes its place: who is told what, and when."""

import msgspec
import pytest
from manager_world import COMPILED, KEY, World, driver, plan, task, topology

from cep_common.ids import Endpoint
from cep_common.protocol.drivers import KillTopology, RegisterDriver
from cep_common.protocol.tasks import RegisterTask, StateSource, StateTransfer, TaskRegistered
from cep_manager.control.deployment import state_transfer
from cep_manager.control.instructions import PushToDriver
from cep_manager.plans.record import PlanRecord
from cep_manager.plans.state import PlanState

DOOR = Endpoint("10.0.0.2", 15_100)
INSTANCES = [component.instance for component in task().components]


def rebalance(world: World, workers: int = 2, playback: bool = False) -> None:
    compiled = msgspec.structs.replace(COMPILED, playback=playback)
    world.put(plan(epoch=2, compiled=compiled, change="rebalance", workers=workers))
    world.tick()


def both(trial_state: str = "running") -> RegisterDriver:
    reports = (topology("running"), topology(trial_state, epoch=2))  # type: ignore[arg-type]
    return msgspec.structs.replace(driver(*reports), slots_free=1)


@pytest.fixture
def world() -> World:
    """The plan runs in one task and is to run in two; the driver runs both topologies."""
    made = World()
    made.active()
    rebalance(made)
    made.taken(PushToDriver)
    made.hear(both())
    return made


def reports(epoch: int, number: int = 0, step: StateTransfer = "") -> RegisterTask:
    door = DOOR if step == "given" else None
    return msgspec.structs.replace(task(epoch=epoch, number=number), state_transfer=step, state_endpoint=door)


def told(world: World, message: RegisterTask) -> tuple[str, tuple[StateSource, ...]]:
    answer = world.hear(message)
    assert isinstance(answer, TaskRegistered)
    return answer.order, answer.sources


def record(world: World) -> PlanRecord:
    return world.snapshot().plans[KEY]


def test_a_topology_that_is_to_take_over_stands_by_and_the_former_one_works_until_both_are_whole(world: World) -> None:
    assert told(world, reports(2)) == ("stand-by", ())
    assert told(world, reports(1)) == ("work", ())
    assert told(world, reports(2, 1)) == ("stand-by", ())
    assert told(world, reports(1)) == ("pause", ())
    assert record(world).reason == (
        "epoch 2 is to take over: state is being moved: 0 of the former tasks have stopped processing, "
        "0 of 2 new ones have their state"
    )


def test_state_goes_from_the_former_tasks_to_the_new_ones_which_then_take_over(world: World) -> None:
    world.hear(reports(2), reports(2, 1), reports(1))
    assert told(world, reports(1, step="quiet")) == ("give", ())
    assert told(world, reports(2)) == ("stand-by", ())
    assert told(world, reports(1, step="given")) == ("give", ())
    sources = tuple(StateSource(1, instance, DOOR) for instance in INSTANCES)
    assert told(world, reports(2)) == ("stand-by", sources)
    assert told(world, reports(2, step="restored"))[0] == "stand-by"
    assert record(world).epoch == 1
    told(world, reports(2, 1, "restored"))
    assert (record(world).epoch, record(world).state) == (2, PlanState.ACTIVE)
    assert [push.message for push in world.taken(PushToDriver)] == [KillTopology(KEY, 1)]  # type: ignore[attr-defined]
    assert told(world, reports(2, step="restored")) == ("work", ())


def test_a_topology_that_has_just_taken_over_can_itself_be_followed_at_once(world: World) -> None:
    world.hear(reports(2, step="restored"), reports(2, 1, "restored"))
    assert record(world).epoch == 2
    world.put(plan(epoch=3, change="rebalance", workers=1))
    assert told(world, reports(2, step="restored")) == ("work", ())


def test_tasks_are_heard_often_while_a_plan_is_changed(world: World) -> None:
    answer = world.hear(reports(1))
    assert isinstance(answer, TaskRegistered)
    assert answer.heartbeat_ms == 100


def test_the_former_topology_works_on_when_its_state_cannot_be_moved_in_time(world: World) -> None:
    world.hear(reports(2), reports(2, 1), reports(1))
    for _ in range(state_transfer.LONGEST_MS // 1_000):
        world.now_ms += 1_000
        world.hear(both(), reports(2), reports(2, 1), reports(1))
    assert record(world).epoch == 1
    assert record(world).change_error.startswith("its state could not be moved within 30 s: ")
    assert told(world, reports(1)) == ("work", ())


def test_a_manager_that_comes_back_keeps_tasks_paused_whose_state_may_have_been_fetched() -> None:
    world = World()
    former = plan(epoch=1, sent_before=True)
    changed = plan(epoch=2, sent_before=True, change="rebalance", workers=2)
    world.put(msgspec.structs.replace(changed, former=former))
    assert told(world, reports(1, step="given")) == ("give", ())
    world.hear(both(), reports(2, step="restored"))
    assert record(world).epoch == 1
    told(world, reports(2, 1, "restored"))
    assert record(world).epoch == 2


def test_an_edit_that_leaves_the_stages_as_they_are_moves_their_state_too() -> None:
    world = World()
    world.active()
    world.put(plan(epoch=2, text="with another sink", change="update"))
    world.tick()
    world.hear(both(), reports(2))
    assert told(world, reports(1)) == ("pause", ())


@pytest.mark.parametrize("why", ["other stages", "event time"])
def test_state_is_moved_to_other_stages_and_under_event_time_too(why: str) -> None:
    world = World()
    world.active()
    if why == "event time":
        rebalance(world, workers=1, playback=True)
    else:
        compiled = msgspec.structs.replace(COMPILED, state_shape="another")
        world.put(plan(epoch=2, compiled=compiled, change="update"))
    world.tick()
    world.hear(both(), reports(2))
    assert record(world).epoch == 1
    assert told(world, reports(1)) == ("pause", ())


def test_a_former_topology_that_dies_meanwhile_has_no_state_to_wait_for(world: World) -> None:
    world.hear(reports(2), reports(2, 1), reports(1))
    dead = msgspec.structs.replace(both(), topologies=(topology("restarting"), topology("running", epoch=2)))
    world.hear(dead)
    assert record(world).epoch == 2
