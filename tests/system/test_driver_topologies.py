"""What the driver does with topologies on real Spark in local mode: slots, epochs, limits, refusals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from driver_desk import Desk, driver_at_desk, lives

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import KillTopology, RegisterDriver
from cep_common.protocol.registry import Rejected

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

SLOTS = 3
FENCED_S = 5.0
"""A heartbeat, and what a task needs to end."""


@pytest.fixture(scope="module")
def running_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with driver_at_desk(tmp_path_factory.mktemp("driver"), {"CEP_DRIVER__SPARK__MASTER": f"local[{SLOTS}]"}) as desk:
        yield desk


@pytest.fixture
def desk(running_desk: Desk) -> Iterator[Desk]:
    running_desk.clear()
    yield running_desk
    if running_desk.driver.poll() is None:
        running_desk.clear()


def test_two_topologies_that_fit_alone_but_not_together_take_turns(desk: Desk) -> None:
    desk.submit("First", workers=2)
    desk.submit("Second", workers=2)
    desk.until_started("First", workers=2)
    desk.until(lambda: desk.state("Second") == "waiting" and desk.reason("Second"))
    assert desk.reason("Second") == "needs 2 free slots, 1 of 3 are free"

    desk.kill("First")

    desk.until_started("Second", workers=2)
    assert desk.state("First") == "gone"
    assert_every_slot_was_accounted_for(desk.history)


def test_orders_of_a_manager_that_led_before_are_not_followed(desk: Desk) -> None:
    desk.submit("Plan")
    desk.until_started("Plan")
    desk.token += 2
    desk.submit("Next")
    desk.until_started("Next")

    desk.push(KillTopology(PlanKey(-1234, "Plan")), token=desk.token - 1)
    desk.submit("Last")  # when this has come, the order before it has come too
    desk.until_started("Last")

    assert desk.state("Plan") == "running"
    desk.kill("Plan")
    desk.until(lambda: desk.state("Plan") == "gone")


def test_an_epoch_starts_beside_the_former_one_and_runs_on_when_that_is_killed(desk: Desk) -> None:
    desk.submit("Plan", epoch=1)
    (former,) = desk.until_started("Plan", epoch=1)
    desk.submit("Plan", epoch=2, beside=True)
    (latter,) = desk.until_started("Plan", epoch=2)
    assert desk.state("Plan", epoch=1) == "running"

    desk.kill("Plan", epoch=1)

    desk.until(lambda: desk.state("Plan", epoch=1) == "gone" and not lives(former))
    desk.tasks.clear()
    desk.until(lambda: desk.processes("Plan", epoch=2))
    assert desk.processes("Plan", epoch=2) == [latter], "the same process beats on"
    report = desk.report("Plan", epoch=2)
    assert report is not None
    assert (report.state, report.restarts) == ("running", 0)
    assert_every_slot_was_accounted_for(desk.history)


def test_slots_are_held_until_a_topology_that_is_killed_has_ended(desk: Desk) -> None:
    desk.submit("Large", epoch=1, workers=3)
    former = desk.until_started("Large", epoch=1, workers=3)

    desk.submit("Large", epoch=2, workers=3)

    latter = desk.until_started("Large", epoch=2, workers=3)
    assert not set(former) & set(latter)
    assert not any(lives(process) for process in former)
    assert_every_slot_was_accounted_for(desk.history)
    assert any(one.state == "stopping" for report in desk.history for one in report.topologies)


def test_a_task_of_an_epoch_that_is_over_ends_within_a_heartbeat_or_two(desk: Desk) -> None:
    desk.submit("Plan")
    (former,) = desk.until_started("Plan")

    desk.stale.add(("Plan", 1))
    try:
        desk.until(lambda: not lives(former), FENCED_S)
    finally:
        desk.stale.clear()


def test_a_task_says_what_it_uses_and_one_that_holds_too_much_is_stopped_while_others_run_on(desk: Desk) -> None:
    desk.submit("Light")
    (light,) = desk.until_started("Light")
    used = desk.tasks["Light", 1, 0]
    assert 20_000_000 < used.memory_bytes < 1_000_000_000
    assert used.cpu_ms < 60_000

    desk.submit("Heavy", memory_bytes=used.memory_bytes // 4)

    desk.until(lambda: desk.state("Heavy") == "restarting")
    assert desk.reason("Heavy").startswith("task 0 held ")
    assert desk.reason("Heavy").endswith("is the limit: raise it, or keep less state")
    assert desk.state("Light") == "running"
    assert lives(light)


def test_what_cannot_be_had_here_is_refused_with_the_reason(desk: Desk) -> None:
    desk.submit("Labelled", labels=("gpu",))
    desk.submit("Wide", workers=1, cores=SLOTS + 1)
    desk.submit("Fits", workers=1, cores=SLOTS)

    desk.until_started("Fits")

    assert (desk.state("Labelled"), desk.reason("Labelled")) == (
        "failed",
        "wants hosts labelled gpu; local mode cannot choose hosts by label",
    )
    assert (desk.state("Wide"), desk.reason("Wide")) == (
        "waiting",
        "needs 4 slots (1 tasks of 4 each), the cluster has 3 in all",
    )
    assert desk.latest is not None
    assert desk.latest.slots_free == 0


def test_what_failed_of_an_undeployed_plan_is_not_told_of_the_next_of_its_name(desk: Desk) -> None:
    desk.submit("Undeployed", epoch=1)
    desk.until_started("Undeployed", epoch=1)
    desk.submit("Undeployed", epoch=2, beside=True, labels=("gpu",))
    desk.until(lambda: desk.state("Undeployed", epoch=2) == "failed")
    assert [one.code for one in desk.report("Undeployed", epoch=1).failures] == ["refused"]

    desk.push(KillTopology(PlanKey(-1234, "Undeployed"), forget=2))
    desk.submit("Undeployed", epoch=3)  # before the former one has ended

    desk.until(lambda: desk.state("Undeployed", epoch=3) != "gone")
    assert desk.report("Undeployed", epoch=3).failures == ()


def test_a_driver_that_was_replaced_ends_itself_and_says_why(running_desk: Desk) -> None:
    """Stands last: the driver is gone afterwards."""
    running_desk.submit("Plan")
    (task,) = running_desk.until_started("Plan")
    running_desk.refusal = Rejected("driver-replaced", "the driver process 7 took over")

    running_desk.until(lambda: running_desk.driver.poll() is not None)
    running_desk.until(lambda: not lives(task))

    assert running_desk.driver.returncode == 2, "a supervisor does not start it again"
    assert "cep: the driver process 7 took over" in running_desk.log.read_text()


def assert_every_slot_was_accounted_for(history: list[RegisterDriver]) -> None:
    for report in history:
        needed = {"First": 2, "Second": 2, "Large": 3}
        held = [one for one in report.topologies if one.state in ("starting", "running", "stopping")]
        assert sum(needed.get(one.key.plan, 1) for one in held) == SLOTS - report.slots_free, report
