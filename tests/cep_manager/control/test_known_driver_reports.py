"""A driver of many plans tells of them when something has changed; its other heartbeats refer to what it told."""

from __future__ import annotations

import msgspec
from manager_world import HEARTBEAT_MS, KEY, LEASE_MS, World, driver, plan, task, topology

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import DriverRegistered, RegisterDriver, RunName, SavepointReport, TopologyReport
from cep_manager.plans.state import PlanState

WHOLE = msgspec.structs.replace(driver(topology("running")), number=3)
REFERS = msgspec.structs.replace(driver(), number=3, whole=False)


def heard(world: World, message: RegisterDriver) -> DriverRegistered:
    answer = world.hear(message, peer=b"driver")
    assert isinstance(answer, DriverRegistered)
    return answer


def test_a_heartbeat_that_refers_to_what_was_told_keeps_the_plan_active() -> None:
    world = World()
    world.put(plan())
    heard(world, driver())
    assert heard(world, WHOLE).knows == 3
    for _ in range(5 * LEASE_MS // HEARTBEAT_MS):
        world.now_ms += HEARTBEAT_MS
        world.hear(task())
        assert heard(world, REFERS).knows == 3
    snapshot = world.snapshot()
    assert snapshot.plans[KEY].state is PlanState.ACTIVE
    assert snapshot.driver is not None
    assert snapshot.driver.latest.topologies == WHOLE.topologies


def test_what_the_manager_does_not_know_must_be_told() -> None:
    for unknown in (World(), World()):
        unknown.put(plan())
        assert heard(unknown, REFERS).knows == 0
        assert unknown.snapshot().driver is None, "half a report is none"
    world = World()
    world.put(plan())
    heard(world, WHOLE)
    assert heard(world, msgspec.structs.replace(REFERS, number=4)).knows == 0
    assert heard(world, msgspec.structs.replace(REFERS, process_id=101)).knows == 0
    assert heard(world, msgspec.structs.replace(WHOLE, number=4)).knows == 4


def test_a_driver_with_a_former_name_must_tell_all_until_it_has_the_new_one() -> None:
    world = World()
    world.put(plan())
    heard(world, WHOLE)
    key = PlanKey(KEY.tenant, "Renamed", KEY.id or KEY.plan)
    world.instructions += world.plane.rename_plan(plan(key=key))
    assert heard(world, REFERS).knows == 0, "the order to rename may be lost"
    assert heard(world, WHOLE).knows == 0
    renamed = msgspec.structs.replace(WHOLE.topologies[0], key=key)
    assert heard(world, msgspec.structs.replace(WHOLE, topologies=(renamed,), number=4)).knows == 4


def test_an_incremental_report_changes_only_what_it_names() -> None:
    world = World()
    world.put(plan())
    other, gone = PlanKey(KEY.tenant, "Other"), PlanKey(KEY.tenant, "Gone")
    whole = msgspec.structs.replace(
        WHOLE, topologies=(*WHOLE.topologies, *(TopologyReport(key, 1, "running") for key in (other, gone)))
    )
    heard(world, whole)
    restarted = msgspec.structs.replace(WHOLE.topologies[0], restarts=1)
    new = TopologyReport(PlanKey(KEY.tenant, "New"), 1, "starting")
    change = msgspec.structs.replace(REFERS, number=4, base=3, topologies=(restarted, new), gone=(RunName(gone, 1),))
    assert heard(world, change).knows == 4
    latest = known(world)
    assert latest.topologies == (restarted, whole.topologies[1], new)
    assert heard(world, msgspec.structs.replace(REFERS, number=4)).knows == 4
    assert known(world).topologies == latest.topologies
    assert heard(world, change).knows == 0, "its base is no longer the latest report"
    assert heard(world, msgspec.structs.replace(change, number=5, base=4, process_id=101)).knows == 0


def test_savepoints_of_an_incremental_report_count_only_where_they_differ() -> None:
    world = World()
    world.put(plan())
    saved = SavepointReport(KEY, "before-the-upgrade", "stored", 7)
    heard(world, msgspec.structs.replace(WHOLE, savepoints=(saved,)))
    heard(world, msgspec.structs.replace(REFERS, number=4, base=3, topologies=(topology("failed"),)))
    assert known(world).savepoints == (saved,)
    heard(world, msgspec.structs.replace(REFERS, number=5, base=4, differ=True))
    assert known(world).savepoints == ()


def known(world: World) -> RegisterDriver:
    driver_known = world.snapshot().driver
    assert driver_known is not None
    return driver_known.latest
