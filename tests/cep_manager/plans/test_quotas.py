"""What tenants may use: plans, slots, events."""

from __future__ import annotations

import msgspec
import pytest
from manager_world import COMPILED, DEPLOYED_MS, World, driver, plan, topology, worker

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import RegisterDriver, SubmitTopology, TopologyReport
from cep_common.protocol.registry import TenantLimit
from cep_manager.config import Quota, QuotasConfig
from cep_manager.control.instructions import PushToDriver
from cep_manager.errors import QuotaError
from cep_manager.plans.quotas import check_plans, check_workers, share_of_events

ONE, TWO, THREE = (PlanKey(7, name) for name in ("One", "Two", "Three"))
OTHER = PlanKey(8, "One")


def submitted(world: World) -> list[PlanKey]:
    pushed = [one.message for one in world.taken(PushToDriver)]
    return [message.key for message in pushed if isinstance(message, SubmitTopology)]


def test_a_plan_waits_for_the_slots_of_its_tenant_and_is_not_overtaken() -> None:
    world = World(QuotasConfig(tenants={7: Quota(slots=2)}))
    world.put(plan(ONE))
    two_workers = plan(TWO, compiled=msgspec.structs.replace(COMPILED, workers=2))
    world.put(two_workers)
    world.put(plan(THREE))
    world.put(plan(OTHER))
    world.hear(driver(), peer=b"driver")
    assert submitted(world) == [ONE, OTHER]
    waiting = world.snapshot().plans[TWO]
    assert waiting.state.value == "waiting"
    assert waiting.reason == "needs 2 slots; tenant 7 may use 2, its other plans use 1 of them"
    world.instructions += world.plane.remove_plan(ONE, world.now_ms)
    world.tick()
    assert submitted(world) == [TWO]


def test_what_the_text_says_of_tasks_is_told_to_the_driver_and_their_cores_count_as_slots() -> None:
    world = World(QuotasConfig(tenants={7: Quota(slots=4)}))
    compiled = msgspec.structs.replace(COMPILED, workers=2, cores=2, memory_bytes=2**30, labels=("ssd",))
    world.put(plan(ONE, compiled=compiled))
    world.put(plan(TWO))
    world.hear(driver(), peer=b"driver")
    (pushed,) = [one.message for one in world.taken(PushToDriver)]
    assert pushed == SubmitTopology(
        ONE, 1, COMPILED.query_plan, 2, cores=2, memory_bytes=2**30, labels=("ssd",), deployed_ms=DEPLOYED_MS
    )
    assert world.snapshot().plans[TWO].reason == "needs 1 slots; tenant 7 may use 4, its other plans use 4 of them"
    with pytest.raises(QuotaError, match="asks for 2 topology workers of 2 cores, tenant 7 may use 3 slots in all"):
        check_workers(Quota(slots=3), ONE, 2, 2)


def test_a_plan_that_was_submitted_keeps_its_slots() -> None:
    world = World(QuotasConfig(slots=1))
    world.put(plan(ONE))
    world.hear(driver(), peer=b"driver")
    world.hear(driver(topology("running", key=ONE)), peer=b"driver")
    world.put(plan(TWO))
    world.tick(500)
    assert submitted(world) == [ONE]


def test_more_plans_or_workers_than_the_quota_are_refused() -> None:
    check_plans(Quota(plans=2), THREE, [ONE, OTHER])
    with pytest.raises(QuotaError, match="tenant 7 has 2 plans deployed and may have 2"):
        check_plans(Quota(plans=2), THREE, [ONE, TWO, OTHER])
    check_workers(Quota(slots=2), ONE, 2)
    with pytest.raises(QuotaError, match="asks for 3 topology workers, tenant 7 may use 2 slots in all"):
        check_workers(Quota(slots=2), ONE, 3)
    check_plans(Quota(), THREE, [ONE, TWO])
    check_workers(Quota(), ONE, 1_000)


def test_live_workers_share_what_a_tenant_may_send() -> None:
    quotas = QuotasConfig(tenants={7: Quota(events_per_s=1_000), 9: Quota(events_per_s=5)})
    assert share_of_events(quotas, [ONE, TWO, OTHER], workers=3) == (TenantLimit(7, 333),)
    assert share_of_events(quotas, [PlanKey(9, "One")], workers=8) == (TenantLimit(9, 1),)
    world = World(quotas)
    world.put(plan(ONE))
    world.hear(worker(name="first"))
    answer = world.hear(worker(name="second"))
    assert answer.limits == (TenantLimit(7, 500),)  # type: ignore[attr-defined]


def test_a_plan_that_the_quota_could_never_hold_does_not_keep_others_waiting() -> None:
    world = World(QuotasConfig(slots=2))
    world.put(plan(ONE, compiled=msgspec.structs.replace(COMPILED, workers=3)))
    world.put(plan(TWO))
    world.hear(driver(), peer=b"driver")
    assert submitted(world) == [TWO]
    assert world.snapshot().plans[ONE].state.value == "waiting"


def changing(slots: int, workers: int, others: int) -> World:
    """The driver runs ONE with a slot and TWO with `others`; ONE is to have so many workers."""
    world = World(QuotasConfig(slots=slots))
    world.put(plan(ONE))
    world.put(plan(TWO, compiled=msgspec.structs.replace(COMPILED, workers=others)))
    world.hear(driver(), peer=b"driver")
    world.hear(both(), peer=b"driver")
    world.taken(PushToDriver)
    world.put(plan(ONE, epoch=2, change="rebalance", workers=workers))
    world.tick()
    return world


def both(*more: TopologyReport) -> RegisterDriver:
    reports = driver(topology("running", key=ONE), topology("running", key=TWO), *more)
    return msgspec.structs.replace(reports, slots_total=20, slots_free=10)


def orders(world: World) -> list[tuple[PlanKey, int, bool]]:
    """What the driver is told to submit: plan, epoch, and whether beside the former topology."""
    pushed = [one.message for one in world.taken(PushToDriver)]
    assert all(isinstance(message, SubmitTopology) for message in pushed)
    return [(message.key, message.epoch, message.beside) for message in pushed]


def test_a_change_runs_beside_the_former_topology_while_the_quota_has_slots_for_both_and_both_count() -> None:
    world = changing(slots=4, workers=2, others=1)
    assert orders(world) == [(ONE, 2, True)]
    world.put(plan(THREE))
    world.hear(both(topology("starting", key=ONE, epoch=2)), peer=b"driver")
    assert orders(world) == []
    assert world.snapshot().plans[THREE].reason == "needs 1 slots; tenant 7 may use 4, its other plans use 4 of them"


def test_a_change_that_fits_alone_takes_the_place_of_the_former_topology_at_once_whoever_waits() -> None:
    world = changing(slots=3, workers=1, others=2)
    assert orders(world) == [(ONE, 2, False)]
    record = world.snapshot().plans[ONE]
    assert (record.epoch, record.change()) == (2, "rebalance")
    larger = changing(slots=4, workers=2, others=2)
    assert orders(larger) == [(ONE, 2, False)]


def test_a_change_that_needs_more_than_others_leave_waits_and_the_former_topology_goes_on() -> None:
    world = changing(slots=4, workers=3, others=2)
    assert orders(world) == []
    record = world.snapshot().plans[ONE]
    assert (record.epoch, record.change()) == (1, "rebalance")
    assert record.trial is not None
    assert record.trial.reason == "needs 3 slots; tenant 7 may use 4, its other plans use 2 of them"
    world.instructions += world.plane.remove_plan(TWO, world.now_ms)
    world.taken(PushToDriver)
    world.tick()
    assert orders(world) == [(ONE, 2, True)]


def test_a_plan_that_is_restarted_keeps_its_slots_though_another_one_waits_for_them() -> None:
    world = World(QuotasConfig(slots=2))
    world.put(plan(ONE, compiled=msgspec.structs.replace(COMPILED, workers=2), sent_before=True))
    world.put(plan(TWO, sent_before=True))
    world.hear(driver(topology("running", key=TWO)), peer=b"driver")
    world.instructions += world.plane.epoch_raised(ONE, 2, world.now_ms)
    world.tick()
    assert submitted(world) == []
    world.instructions += world.plane.restart_plan(TWO, 2, world.now_ms)
    world.tick()
    assert orders(world) == [(TWO, 2, False)]
    assert world.snapshot().plans[ONE].reason == "needs 2 slots; tenant 7 may use 2, its other plans use 1 of them"
