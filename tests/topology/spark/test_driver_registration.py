"""When a driver registers with the managers, what it reports each time, and what their answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from cep_common.clock import ManualClock
from cep_common.errors import RequestRejectedError
from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.drivers import RegisterDriver, RunName, SavepointReport, TopologyReport
from tests.topology.spark.fake_managers import FakeManagers
from topology.driver.fencing import OrderFence
from topology.spark.driver_side.registration import RETRY_MS, DriverStatus, ManagerRegistration
from topology.spark.driver_side.reports import RegistrationReport
from topology.spark.errors import DriverReplacedError

WAITS, RUNS = (TopologyReport(PlanKey(1, "p"), 1, state) for state in ("waiting", "running"))


def message_of(part: RegistrationReport) -> RegisterDriver:
    return RegisterDriver(
        driver="d",
        host="h",
        process_id=1,
        master="local",
        slots_total=1,
        slots_free=1,
        topologies=part.topologies,
        savepoints=part.savepoints,
        number=part.number,
        whole=part.whole,
        base=part.base,
        gone=part.gone,
        differ=part.differ,
    )


class Registering:
    """A registration with fake managers."""

    def __init__(self) -> None:
        self.clock, self.fence, self.managers = ManualClock(0), OrderFence(), FakeManagers()
        self.registration = ManagerRegistration(self.fence, self.clock, (), 2_000)

    def send(self, *topologies: TopologyReport, savepoints: tuple[SavepointReport, ...] = (), now_ms: int = 0) -> None:
        managers: Any = self.managers
        self.registration.send(managers, DriverStatus(topologies, savepoints, ()), message_of, now_ms)


@pytest.fixture
def one() -> Registering:
    return Registering()


def test_topologies_are_reported_when_they_change_and_referred_to_otherwise(one: Registering) -> None:
    for report in (WAITS, WAITS, WAITS, RUNS, RUNS):
        one.send(report)
    assert [(heard.whole, heard.number, heard.topologies) for heard in one.managers.heard] == [
        (True, 1, (WAITS,)),
        (False, 1, ()),
        (False, 1, ()),
        (False, 2, (RUNS,)),
        (False, 2, ()),
    ]
    assert [heard.base for heard in one.managers.heard] == [0, 0, 0, 1, 0]


def test_only_changes_since_the_report_that_the_manager_has_are_reported(one: Registering) -> None:
    others = tuple(TopologyReport(PlanKey(1, name), 1, "running") for name in ("q", "r"))
    saved = SavepointReport(PlanKey(1, "p"), "s", "stored")
    one.send(WAITS, *others)
    one.send(RUNS, *others)
    one.send(RUNS, others[1])
    one.send(RUNS, others[1], savepoints=(saved,))
    renamed = TopologyReport(PlanKey(1, "z", "p"), 1, "running")
    one.send(renamed, others[1], savepoints=(saved,))
    heard = one.managers.heard[1:]
    assert all(not each.whole and each.base == each.number - 1 for each in heard)
    said = [(each.topologies, each.gone, each.savepoints if each.differ else None) for each in heard]
    assert said == [
        ((RUNS,), (), None),
        ((), (RunName(PlanKey(1, "q"), 1),), None),
        ((), (), (saved,)),
        ((renamed,), (), None),
    ]
    assert said[3][0][0].key.plan == "z"


def test_after_a_registration_without_an_answer_the_next_one_is_whole(one: Registering) -> None:
    one.send(WAITS)
    one.managers.answers = False
    one.send(RUNS)
    assert not one.registration.is_registered()
    assert one.registration.due_ms == RETRY_MS
    one.managers.answers = True
    one.send(RUNS)
    assert one.registration.is_registered()
    assert [(heard.whole, heard.topologies) for heard in one.managers.heard] == [
        (True, (WAITS,)),
        (False, (RUNS,)),
        (True, (RUNS,)),
    ]


def test_a_manager_that_does_not_know_the_topologies_gets_all_of_them_at_once(one: Registering) -> None:
    one.send(RUNS)
    one.managers.keeps = False  # another one leads
    one.send(RUNS, now_ms=1_000)
    assert one.registration.due_ms == 1_000, "at once"
    one.send(RUNS, now_ms=1_000)
    one.send(RUNS, now_ms=2_000)
    assert [heard.whole for heard in one.managers.heard] == [True, False, True, True], "each time, if it keeps nothing"
    assert one.registration.due_ms == 3_000


def test_a_registration_is_due_for_a_heartbeat_and_at_once_after_a_change(one: Registering) -> None:
    waits, runs = (DriverStatus((report,), (), ()) for report in (WAITS, RUNS))
    assert one.registration.is_due(waits, 0), "the first one"
    one.send(WAITS)
    assert not one.registration.is_due(waits, 999)
    assert one.registration.is_due(waits, 1_000), "a heartbeat"
    assert one.registration.is_due(runs, 1), "a change"
    one.registration.changes_due_ms = 50
    assert not one.registration.is_due(runs, 49), "the last registration took long"
    assert one.registration.changes_wait
    assert one.registration.is_due(runs, 50)
    assert not one.registration.changes_wait
    one.managers.answers = False
    one.send(RUNS)
    assert not one.registration.is_due(runs, 499), "without an answer changes wait for the next attempt"


def test_changes_wait_twice_as_long_as_the_last_registration_took(one: Registering) -> None:
    request = one.managers.request

    def slow(message: RegisterDriver) -> Any:
        one.clock.advance(100)
        return request(message)

    one.managers.request = slow  # type: ignore[method-assign]
    one.send(WAITS)
    assert one.registration.changes_due_ms == 300


def test_managers_of_another_system_and_former_leaders_are_left(one: Registering) -> None:
    one.managers.token, one.managers.system = 5, "ours"
    one.send(WAITS)
    assert one.registration.managers == (Endpoint("127.0.0.1", 1),)
    one.managers.system = "theirs"
    one.send(RUNS)
    assert (one.fence.foreign, one.managers.left) == (True, 1)
    one.managers.token, one.managers.system = 4, "ours"
    one.send(RUNS)
    assert (one.fence.foreign, one.managers.left) == (False, 2)
    assert one.registration.due_ms == RETRY_MS
    assert (one.fence.token, one.fence.system) == (5, "ours")


def test_a_driver_that_was_replaced_ends(one: Registering) -> None:
    one.managers.refusal = RequestRejectedError("driver-replaced", "another process has taken over")
    with pytest.raises(DriverReplacedError, match="another process has taken over"):
        one.send(WAITS)
