"""The benchmark of the manager's loop measures what a manager does for peers that it knows."""

from __future__ import annotations

import pytest

from benchmarks.manager_scale import World, measure
from cep_common.ids import SUPER_TENANT, PlanKey


def test_all_is_measured_and_nothing_is_refused() -> None:
    measures = measure(plans=6, hosts=2)
    assert len({what for what, _, _ in measures}) == len(measures) > 5


def test_a_message_that_the_manager_refuses_is_no_measure() -> None:
    world = World(plans=6, hosts=2)
    world.hear(world.worker(1))
    with pytest.raises(ValueError, match="the manager refuses register-task"):
        world.hear(world.task(PlanKey(SUPER_TENANT, "Unknown"), 0))


def test_a_worker_that_must_register_again_is_no_measure() -> None:
    world = World(plans=6, hosts=2)
    world.plane.remove_plan(world.keys[0], 0)
    with pytest.raises(ValueError, match="the manager refuses register-worker"):
        world.hear(world.worker(0, tuple(world.served(key) for key in world.keys)))
