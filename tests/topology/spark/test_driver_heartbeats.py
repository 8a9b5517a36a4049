"""The driver's loop without Spark: reports on topologies, the lengths of waits, and turns without work."""

from __future__ import annotations

import os
import queue
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cep_common.clock import ManualClock
from cep_common.ids import PlanKey
from cep_common.nodes.files import DRAINED_FILE
from cep_common.nodes.role_watch import RoleWatch
from cep_common.protocol.drivers import SubmitTopology
from tests.topology.spark.fake_managers import FakeManagers
from topology.checkpoint.coordination.views import CheckpointsView
from topology.driver.fencing import OrderFence
from topology.driver.lifecycle import Instruction, TopologyRuns
from topology.spark.driver_side import driver as driver_module
from topology.spark.driver_side.config import DriverConfig
from topology.spark.driver_side.driver import Driver
from topology.spark.driver_side.failures import TopologyFailures
from topology.spark.driver_side.registration import ManagerRegistration
from topology.spark.driver_side.reports import TopologyReports


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(driver_module, "checkpoint_settings", lambda *_: None)
    made: Any = object.__new__(Driver)  # one with a session needs Spark
    made._config, made._runs, made._fence = DriverConfig(), TopologyRuns((1,), 500, 4_000, 60_000), OrderFence()
    made._watch, made._inspection, made._checkpoints = SimpleNamespace(executors=()), None, None
    made._hosts = SimpleNamespace(reports=lambda: (), shape=lambda: ())
    made._web_url, made._started_ms = "", 0
    made._use, made._registration = None, ManagerRegistration(made._fence, ManualClock(0), (), 2_000)
    return made


def test_what_a_topology_has_come_to_is_told_in_the_turn_in_which_it_does(driver: Any) -> None:
    driver._checkpoints = SimpleNamespace(view_version=1, view=lambda *_: CheckpointsView())
    driver._failures, driver._last_reports, driver._topology_reports = TopologyFailures(), (), TopologyReports()
    driver._stirred, driver._moved, driver._view_version = False, False, 1
    driver._runs.submit(SubmitTopology(PlanKey(1, "p"), 1, "<query-plan/>", 1))
    assert [one.state for one in driver._reports()] == ["waiting"]
    driver._runs.on_time(0)
    assert [one.state for one in driver._reports()] == ["starting"]
    driver._runs.job_running(PlanKey(1, "p"), 1, 0)
    assert [one.state for one in driver._reports()] == ["running"]
    told = driver._reports()
    assert driver._reports() is told, "nothing has happened since"


def test_only_the_reports_of_changed_topologies_are_made_again() -> None:
    views = {"a": CheckpointsView(), "b": CheckpointsView()}
    checkpoints: Any = SimpleNamespace(view=lambda key, _epoch: views[key.plan])
    runs, reports = TopologyRuns((4,), 500, 4_000, 60_000), TopologyReports()
    for name in views:
        runs.submit(SubmitTopology(PlanKey(1, name), 1, "<query-plan/>", 1))
    first = reports.of(runs, checkpoints)
    views["b"] = CheckpointsView(failed=3)
    second = reports.of(runs, checkpoints)
    assert second[0] is first[0]
    assert (first[1].failed_checkpoints, second[1].failed_checkpoints) == (0, 3)
    views["z"] = views["a"]
    runs.rename(PlanKey(1, "z", "a"))
    assert [one.key.plan for one in reports.of(runs, checkpoints)] == ["z", "b"]
    runs.kill(PlanKey(1, "b"))
    assert [one.key.plan for one in reports.of(runs, checkpoints)] == ["z"]


def test_the_driver_waits_long_only_while_nothing_starts_or_ends_and_all_is_told(driver: Any) -> None:
    driver._clock, registration = ManualClock(10_000), driver._registration
    registration.due_ms, registration.changes_due_ms = 10_900, 0
    driver._moved, driver._hosts = False, SimpleNamespace(moves=lambda: False)
    assert driver._wait_ms() == driver_module.QUIET_TURN_MS
    registration.due_ms = 10_200
    assert driver._wait_ms() == 200, "it must not be late with its heartbeat"
    registration.due_ms = 9_000
    assert driver._wait_ms() == driver_module.TURN_MS, "nobody takes it: the loop must not spin"
    registration.due_ms, registration.changes_due_ms, registration.changes_wait = 10_900, 10_030, True
    assert driver._wait_ms() == 30
    registration.changes_wait, driver._hosts = False, SimpleNamespace(moves=lambda: True)
    assert driver._wait_ms() == 30
    registration.changes_due_ms = 0
    assert driver._wait_ms() == driver_module.TURN_MS


def test_topologies_that_did_not_end_in_time_are_not_said_to_have_ended(driver: Any) -> None:
    """The node would hand over, and the driver would no longer be fenced, while they run."""
    said: list[str] = []
    clock = ManualClock(1_000)
    driver._clock, driver._do, driver.drained = clock, lambda _: None, lambda: said.append("drained")
    driver._turn = lambda _: clock.advance(1_000)
    driver._runs = SimpleNamespace(runs={1: "runs"}, drain_all=list)
    driver._drain(FakeManagers())
    assert said == []
    driver._runs.runs = {}
    driver._drain(FakeManagers())
    assert said == ["drained"]


def test_a_driver_of_a_node_with_a_full_disk_ends_as_others_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = RoleWatch(str(tmp_path))
    driver_module._has_drained(tmp_path / "no folder", watch)
    assert "waits until Spark has ended" in caplog.text
    driver_module._has_drained(tmp_path, watch)
    assert (tmp_path / DRAINED_FILE).read_text(encoding="ascii") == str(os.getpid())


class CountedRuns(TopologyRuns):
    """Counts how often all topologies are looked at."""

    looks = 0

    def on_time(self, now_ms: int) -> list[Instruction]:
        self.looks += 1
        return super().on_time(now_ms)


class QuietHosts:
    """Stage hosts in which nothing happens."""

    socket = None

    def __init__(self) -> None:
        self.turns = 0
        self.of_tenants = {1: 1}

    def turn(self, *_: object, wanted: bool) -> None:
        self.turns += 1

    def tenants(self) -> dict[int, int]:
        return self.of_tenants

    def with_room(self) -> frozenset[int]:
        return frozenset(self.of_tenants)

    def stand_alone(self) -> list[PlanKey]:
        return []

    def shape(self) -> tuple[()]:
        return ()

    def reports(self) -> tuple[()]:
        return ()

    def moves(self) -> bool:
        return False


def test_topologies_are_looked_at_only_in_turns_in_which_something_can_have_happened(driver: Any) -> None:
    pushed: list[Any] = []
    client: Any = FakeManagers()
    client.pushed = lambda *_: [pushed.pop() for _ in range(len(pushed))]
    hosts, runs = QuietHosts(), CountedRuns((4,), 500, 4_000, 60_000)
    driver._clock, driver._hosts, driver._runs = ManualClock(0), hosts, runs
    driver._stopping, driver._endings = threading.Event(), queue.SimpleQueue()
    driver._wakeup = SimpleNamespace(handle=0, silence=lambda: None)
    driver._watch = SimpleNamespace(executors=(), lost=None, seen_ms=0, slots=lambda: (4,))
    driver._warming = SimpleNamespace(see=lambda *_: None)
    driver._checkpoints = SimpleNamespace(
        events=list, savepoints=tuple, view_version=1, view=lambda *_: CheckpointsView(), open_run=lambda *_: None
    )
    driver._failures, driver._topology_reports, driver._last_reports = TopologyFailures(), TopologyReports(), ()
    driver._slots_seen, driver._view_version, driver._moved, driver._stirred = None, -1, True, True
    driver._jobs, driver._opening = {}, {}

    def looks_of_a_turn() -> int:
        before, turns = runs.looks, hosts.turns
        driver._clock.advance(100)
        driver._turn(client)
        assert hosts.turns == turns + 1, "hosts are heard in each turn"
        return runs.looks - before

    looks_of_a_turn()
    assert [looks_of_a_turn() for _ in range(3)] == [0, 0, 0]
    pushed.append(SubmitTopology(PlanKey(1, "p"), 1, "<query-plan/>", 1))
    assert looks_of_a_turn() == 1
    assert [looks_of_a_turn() for _ in range(2)] == [1, 1], "it starts"
    runs.job_running(PlanKey(1, "p"), 1, 0)
    looks_of_a_turn()
    assert looks_of_a_turn() == 0, "it runs"
    hosts.of_tenants = {1: 2}
    assert [looks_of_a_turn(), looks_of_a_turn()] == [1, 0], "another stage host holds a slot"
    driver._watch.slots = lambda: (4, 4)
    assert [looks_of_a_turn(), looks_of_a_turn()] == [1, 0], "another executor has joined"
    assert driver._reading.slots_free == runs.slots_total - 1 - 2
