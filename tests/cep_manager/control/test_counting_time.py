"""When counters were read counts, not when a heartbeat brought them."""

import msgspec
from manager_world import KEY, World, plan, task


def test_counters_are_taken_for_as_old_as_they_are() -> None:
    world = World()
    world.put(plan())
    world.now_ms = 10_000
    world.hear(msgspec.structs.replace(task(events=100), up_ms=2_000, counted_ago_ms=250))
    assert {history.heard_ms for history in world.snapshot().histories[KEY].values()} == {9_750}
