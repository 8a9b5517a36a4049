"""What many plans cost the control loop: its work grows with their number, not with its square."""

from __future__ import annotations

import pytest
from manager_world import KEY, LEASE_MS, World, driver, plan, receiver, request, serves, task, topology, worker

from cep_common.ids import PlanKey
from cep_common.protocol.registry import Message
from cep_manager.plans.state import PlanState
from cep_manager.plans.stored_plan import SettingsPatch


class Counted:
    """Counts how often keys of plans are hashed or compared."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        for name in ("__hash__", "__eq__"):
            monkeypatch.setattr(PlanKey, name, self._counting(getattr(PlanKey, name)))

    def _counting(self, original):
        def counting(*arguments: object) -> object:
            self.calls += 1
            return original(*arguments)

        return counting

    def take(self) -> int:
        calls, self.calls = self.calls, 0
        return calls


def busy_world(plans: int, counted: Counted) -> dict[str, int]:
    """So many plans are deployed and run; how many calls each kind of work took, for one plan on average."""
    world = World()
    keys = [PlanKey(KEY.tenant, f"Plan{number}") for number in range(plans)]
    counted.take()
    taken: dict[str, int] = {}
    for key in keys:
        world.put(plan(key=key))
    taken["put"] = counted.take()
    world.hear(driver(*(topology("running", key=key) for key in keys)))
    world.hear(worker(*(serves(key=key) for key in keys)))
    taken["tick"] = counted.take()
    for number, key in enumerate(keys):
        messages = task(key=key), receiver(port=20_000 + number, key=key), request(key=key)
        for message in messages:
            world.plane.handle(b"peer", message, world.now_ms)
    taken["messages"] = counted.take()
    world.tick()
    assert {record.state for record in world.snapshot().plans.values()} == {PlanState.ACTIVE}
    counted.take()
    world.tick()
    taken["steady tick"] = counted.take()
    return {name: calls // plans for name, calls in taken.items()}


def test_work_for_a_plan_does_not_grow_with_the_number_of_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    few, many = busy_world(20, counted), busy_world(160, counted)
    assert {name: calls for name, calls in many.items() if calls > 1.5 * few[name] + 5} == {}


def test_heartbeats_of_plans_that_run_are_no_news_and_a_loss_is() -> None:
    world = World()
    world.active()

    def is_news(message: Message) -> bool:
        world.tick()
        world.plane.handle(b"peer", message, world.now_ms)
        return world.plane.news

    is_news(driver(topology("running")))
    same = (driver(topology("running")), task(), receiver(), worker(serves()))
    assert [message.TYPE for message in same if is_news(message)] == []
    assert is_news(task(process_id=201)), "another process"
    assert is_news(driver(topology("running", restarts=1))), "another attempt"
    assert is_news(worker(serves(), process_id=301)), "another worker"


def test_ticks_look_at_no_plan_while_there_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.active()
    world.tick()
    counted = Counted(monkeypatch)
    for _ in range(LEASE_MS // 2 // 10 - 1):
        world.tick(10)
    assert counted.take() == 0
    world.tick(10)
    assert counted.take() > 0, "all plans are looked at twice in a lease"


def test_a_silent_task_is_missed_as_soon_as_its_lease_ends_also_without_news() -> None:
    world = World()
    world.active()
    heard_ms = world.now_ms
    while world.snapshot().plans[KEY].state is PlanState.ACTIVE:
        world.hear(driver(topology("running")), peer=b"driver")
        world.hear(worker(serves(), revision=world.snapshot().revision))
        world.tick(10)
        assert world.now_ms <= heard_ms + LEASE_MS + 10


def test_a_command_is_followed_at_once() -> None:
    world = World()
    world.active()
    world.tick()
    world.instructions += world.plane.change_settings(KEY, SettingsPatch(intake=False))
    world.tick(10)
    assert world.snapshot().plans[KEY].state is PlanState.INACTIVE
