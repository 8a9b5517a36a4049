"""The checkpoints of a plan are remembered for longer than the driver tells of them."""

from __future__ import annotations

import msgspec
import pytest
from manager_world import KEY, World, driver, plan, topology

from cep_common.protocol.drivers import CheckpointReport, CheckpointSettings
from cep_manager.checkpoints.view import CheckpointList, SavepointList, Spread, checkpoint_list, checkpoint_overview
from cep_manager.history.checkpoint_history import MOST_CHECKPOINTS, UNTOLD
from cep_manager.web.console.texts.checkpoints import present_checkpoints
from query_plan.builder import build
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse

TEXT = """@Plan:name('Storms')
@Import('Departures:1.0.0') define stream Departures (tailnum string, delay int);
@Export('KnockOns:1.0.0') define stream KnockOns (tailnum string);
from Departures select tailnum insert into KnockOns;
"""


def told(world: World) -> CheckpointList:
    return checkpoint_list(world.snapshot(), KEY, 1)


def world_with(*reports: CheckpointReport) -> World:
    world = World()
    world.active()
    tell(world, *reports)
    return world


def tell(world: World, *reports: CheckpointReport) -> None:
    running = msgspec.structs.replace(topology("running"), checkpoints=reports)
    world.hear(driver(running), peer=b"driver")


def complete(number: int, duration_ms: int = 20, size_bytes: int = 1_000) -> CheckpointReport:
    return CheckpointReport(number, "complete", number * 1_000, duration_ms, size_bytes, 10, tasks=2, acknowledged=2)


def test_checkpoints_stay_when_the_driver_does_not_tell_of_them_any_more() -> None:
    world = world_with(complete(1), CheckpointReport(2, "failed", 2_000, error="full"))
    tell(world, complete(3))
    assert [(one.checkpoint, one.state) for one in told(world).checkpoints] == [
        (1, "complete"), (2, "failed"), (3, "complete"),
    ]  # fmt: skip


def test_what_was_being_taken_becomes_what_came_of_it() -> None:
    world = world_with(CheckpointReport(1, "taking", 1_000))
    tell(world, complete(1))
    assert [one.state for one in told(world).checkpoints] == ["complete"]


def test_a_checkpoint_whose_end_nobody_told_counts_as_abandoned_once_a_later_one_has_begun() -> None:
    world = world_with(CheckpointReport(1, "taking", 1_000))
    tell(world, CheckpointReport(2, "taking", 2_000))
    assert [(one.state, one.error) for one in told(world).checkpoints] == [("abandoned", UNTOLD), ("taking", "")]
    assert told(world).summary.abandoned == 1


def test_numbers_that_begin_again_in_another_store_are_newer_than_what_was_before() -> None:
    world = world_with(*(complete(number) for number in range(1, MOST_CHECKPOINTS + 1)))
    world.put(plan(epoch=2))
    began_ms = (MOST_CHECKPOINTS + 10) * 1_000
    again = [CheckpointReport(1, "complete", began_ms, 20), CheckpointReport(2, "taking", began_ms + 1_000)]
    running = msgspec.structs.replace(topology("running", epoch=2), checkpoints=tuple(again))
    world.hear(driver(running), peer=b"driver")
    found = told(world)
    assert [(one.checkpoint, one.epoch, one.state) for one in found.checkpoints[-3:]] == [
        (MOST_CHECKPOINTS, 1, "complete"), (1, 2, "complete"), (2, 2, "taking"),
    ]  # fmt: skip
    assert (found.last_complete, len(found.checkpoints)) == (1, MOST_CHECKPOINTS)


def test_what_the_driver_says_is_being_taken_is_though_its_clock_was_set_back() -> None:
    world = world_with(complete(5))
    tell(world, complete(5), CheckpointReport(6, "taking", 1_000))
    assert {one.checkpoint: one.state for one in told(world).checkpoints} == {5: "complete", 6: "taking"}


def test_checkpoints_of_a_plan_that_was_undeployed_are_none_of_the_next_of_its_name() -> None:
    world = world_with(complete(1))
    world.instructions += world.plane.remove_plan(KEY, world.now_ms)
    tell(world, complete(1), complete(2))
    assert world.snapshot().checkpoints == {}
    world.put(plan(epoch=2))
    tell(world, complete(1), complete(2))
    assert world.snapshot().checkpoints == {}
    running = msgspec.structs.replace(topology("running", epoch=2), checkpoints=(complete(3),))
    world.hear(driver(running), peer=b"driver")
    world.put(plan(epoch=3, text="another"))
    world.hear(driver(running), peer=b"driver")
    assert [one.checkpoint for one in told(world).checkpoints] == [3]


def test_a_manager_that_begins_to_lead_learns_of_earlier_epochs_too() -> None:
    world = World()
    world.put(plan(epoch=2, sent_before=True))
    tell(world, complete(1))
    assert [one.checkpoint for one in told(world).checkpoints] == [1]


def test_only_the_newest_are_remembered() -> None:
    world = World()
    world.active()
    for number in range(1, MOST_CHECKPOINTS + 20, 8):
        tell(world, *(complete(one) for one in range(number, number + 8)))
    numbers = [one.checkpoint for one in told(world).checkpoints]
    assert len(numbers) == MOST_CHECKPOINTS
    assert numbers[-1] == max(numbers)


def test_the_summary_tells_how_those_that_are_complete_spread() -> None:
    durations = [*range(1, 100), 5_000]
    world = World()
    world.active()
    for number, duration_ms in enumerate(durations, 1):
        tell(world, complete(number, duration_ms))
    summary = told(world).summary
    assert (summary.complete, summary.duration_ms) == (100, Spread(1, round(sum(durations) / 100), 50, 99, 5_000))
    assert told(world_with(CheckpointReport(1, "failed", 0))).summary.duration_ms is None


def test_the_overview_tells_of_each_plan_what_came_last_and_what_went_wrong_last() -> None:
    world = world_with(
        complete(1), CheckpointReport(2, "failed", 2_000, error="full"), CheckpointReport(3, "taking", 3)
    )
    settings = CheckpointSettings("/var/cep", 10_000, 500, 60_000, 3)
    snapshot = world.snapshot()
    known = msgspec.structs.replace(snapshot.driver.latest, checkpointing=settings)
    world.hear(known, peer=b"driver")
    overview = checkpoint_overview(world.snapshot(), KEY.tenant)
    (row,) = overview.plans
    assert overview.settings == settings
    assert (row.newest.checkpoint, row.newest_problem.error, row.taking) == (1, "full", 3)
    assert checkpoint_overview(world.snapshot(), 7).plans == ()


@pytest.mark.parametrize(("minutes", "interval_ms"), [(0, 0), (1, 60_000), (5, 300_000)])
def test_the_history_of_a_plan_says_how_its_own_checkpoints_are_taken_and_kept(minutes: int, interval_ms: int) -> None:
    config = f"""@Plan:config(siddhi.persistence.snapshot.time.interval.minutes='{minutes}',
        siddhi.persistence.snapshot.revisions.to.keep='7')"""
    world = world_with(complete(1))
    usual = CheckpointSettings("/var/cep", 10_000, 500, 60_000, 3)
    world.hear(msgspec.structs.replace(world.snapshot().driver.latest, checkpointing=usual), peer=b"driver")
    assert told(world).settings == usual
    snapshot = world.snapshot()
    record = snapshot.plans[KEY]
    own = msgspec.structs.replace(record.compiled, query_plan=write_xml(build(analyse(parse(config + TEXT)))))
    plans = {KEY: msgspec.structs.replace(record, compiled=own)}
    settings = checkpoint_list(msgspec.structs.replace(snapshot, plans=plans), KEY, 1).settings
    assert settings == msgspec.structs.replace(usual, interval_ms=interval_ms, retained=7)


def test_a_plan_without_checkpoints_by_time_says_that_its_own_setting_may_be_the_reason() -> None:
    world = world_with()
    settings = CheckpointSettings("/var/cep", 0, 500, 60_000, 3)
    world.hear(msgspec.structs.replace(world.snapshot().driver.latest, checkpointing=settings), peer=b"driver")
    page = present_checkpoints(told(world), SavepointList(KEY.plan, KEY.tenant, ()))
    assert "@Plan:config" in page.nothing
    assert "checkpoint.interval_ms" in page.nothing
