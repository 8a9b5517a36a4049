"""What many plans cost the control loop: its work grows with their number, not with its square."""

from __future__ import annotations

import pytest
from manager_world import KEY, World, driver, plan, receiver, request, serves, task, topology, worker

from cep_common.ids import PlanKey
from cep_common.protocol.registry import Message
from cep_manager.plans.state import PlanState


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
