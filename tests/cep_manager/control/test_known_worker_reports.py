"""A worker of many plans tells of those with which something has happened; of the others what it told before holds."""

from __future__ import annotations

import msgspec
from manager_world import KEY, World, driver, plan, receiver, serves, task, topology, worker

from cep_common.ids import PlanKey
from cep_common.protocol.registry import RegisterWorker, WorkerRegistered
from cep_manager.history.counter_history import WINDOWS_S, Track

OTHER = PlanKey(KEY.tenant, "Other")
WHOLE = msgspec.structs.replace(worker(serves(events=3), serves(key=OTHER)), number=4)


def running() -> World:
    world = World()
    for key in (KEY, OTHER):
        world.put(plan(key=key))
    world.hear(driver(topology("running"), topology("running", key=OTHER)), peer=b"driver")
    world.hear(task(), receiver(), task(key=OTHER))
    return world


def heard(world: World, message: RegisterWorker) -> WorkerRegistered:
    answer = world.hear(message)
    assert isinstance(answer, WorkerRegistered)
    return answer


def test_what_a_heartbeat_leaves_out_is_as_it_was() -> None:
    world = running()
    assert heard(world, WHOLE).knows == 4
    assert heard(world, msgspec.structs.replace(WHOLE, plans=(), base=4)).knows == 4
    (known,) = world.snapshot().workers
    assert known.latest.plans == WHOLE.plans

    changed = serves(key=OTHER, events=9)
    assert heard(world, msgspec.structs.replace(WHOLE, plans=(changed,), number=5, base=4)).knows == 5
    (known,) = world.snapshot().workers
    assert known.latest.plans == (WHOLE.plans[0], changed)


def test_a_manager_that_does_not_know_it_asks_for_all() -> None:
    refers = msgspec.structs.replace(WHOLE, plans=(), base=4)
    world = running()
    assert heard(world, refers).knows == 0
    assert world.snapshot().workers == ()
    heard(world, WHOLE)
    assert heard(world, msgspec.structs.replace(refers, base=3)).knows == 0
    assert heard(world, msgspec.structs.replace(refers, process_id=999)).knows == 0
    assert heard(world, WHOLE).knows == 4


def test_what_comes_after_a_long_silence_has_not_come_all_the_time() -> None:
    track = Track(0)
    track.grow({("delivered", "Alerts"): 1}, 1_000)
    hour_ms = 3_600_000
    track.grow({("delivered", "Alerts"): 1_000}, hour_ms)
    assert track.history.within(WINDOWS_S[0], hour_ms) == {("delivered", "Alerts"): 1_000}
