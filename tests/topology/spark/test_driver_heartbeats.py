"""What the driver tells the manager of its topologies, and when it refers to what it has told; without Spark."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cep_common.clock import ManualClock
from cep_common.ids import Endpoint, PlanKey
from cep_common.nodes.files import DRAINED_FILE
from cep_common.nodes.role_watch import RoleWatch
from cep_common.protocol.drivers import DriverRegistered, RegisterDriver, SubmitTopology, TopologyReport
from topology.checkpoint.coordination.service import CheckpointsView
from topology.driver.fencing import OrderFence
from topology.driver.lifecycle import TopologyRuns
from topology.spark.driver_side import driver as driver_module
from topology.spark.driver_side.config import DriverConfig
from topology.spark.driver_side.driver import Driver
from topology.spark.driver_side.failures import TopologyFailures
from topology.spark.driver_side.reports import TopologyReports

WAITS, RUNS = (TopologyReport(PlanKey(1, "p"), 1, state) for state in ("waiting", "running"))


class FakeClient:
    """A manager that knows what it is told, as long as it `keeps` that."""

    def __init__(self) -> None:
        self.keeps = True
        self.heard: list[RegisterDriver] = []

    def request(self, message: RegisterDriver) -> DriverRegistered:
        self.heard.append(message)
        return DriverRegistered(1_000, 3_000, knows=message.number if self.keeps else 0)

    def managers(self) -> tuple[Endpoint, ...]:
        return ()

    def manager(self) -> Endpoint:
        return Endpoint("127.0.0.1", 1)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(driver_module, "checkpoint_settings", lambda *_: None)
    made: Any = object.__new__(Driver)  # one with a session needs Spark
    made._config, made._runs, made._fence = DriverConfig(), TopologyRuns((1,), 500, 4_000, 60_000), OrderFence()
    made._watch, made._inspection, made._checkpoints = SimpleNamespace(executors=()), None, None
    made._hosts = SimpleNamespace(reports=lambda: (), shape=lambda: ())
    made._web_url, made._started_ms = "", 0
    made._content, made._number, made._known_number = None, 0, 0
    return made


def test_topologies_are_told_when_they_change_and_referred_to_otherwise(driver: Any) -> None:
    client = FakeClient()
    for reports in ((WAITS,), (WAITS,), (WAITS,), (RUNS,), (RUNS,)):
        driver._register(client, reports, (), 0)
    assert [(one.whole, one.number, one.topologies) for one in client.heard] == [
        (True, 1, (WAITS,)),
        (False, 1, ()),
        (False, 1, ()),
        (True, 2, (RUNS,)),
        (False, 2, ()),
    ]


def test_a_manager_that_does_not_know_them_is_told_all_of_them_at_once(driver: Any) -> None:
    client = FakeClient()
    driver._register(client, (RUNS,), (), 0)
    client.keeps = False  # another one leads
    driver._register(client, (RUNS,), (), 1_000)
    assert driver._next_beat_ms == 1_000, "at once"
    driver._register(client, (RUNS,), (), 1_000)
    driver._register(client, (RUNS,), (), 2_000)
    assert [one.whole for one in client.heard] == [True, False, True, True], "one that keeps nothing is told each time"
    assert driver._next_beat_ms == 3_000


def test_what_a_topology_has_come_to_is_told_in_the_turn_in_which_it_does(driver: Any) -> None:
    driver._checkpoints = SimpleNamespace(view_version=1, view=lambda *_: CheckpointsView())
    driver._failures, driver._last_reports, driver._topology_reports = TopologyFailures(), (), TopologyReports()
    driver._stirred, driver._moved, driver._view_version, driver._next_beat_ms = False, False, 1, 60_000
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
    driver._clock, driver._next_beat_ms, driver._next_news_ms = ManualClock(10_000), 10_900, 0
    driver._moved, driver._news_waits, driver._hosts = False, False, SimpleNamespace(moves=lambda: False)
    assert driver._wait_ms() == driver_module.QUIET_TURN_MS
    driver._next_beat_ms = 10_200
    assert driver._wait_ms() == 200, "it must not be late with its heartbeat"
    driver._next_beat_ms = 9_000
    assert driver._wait_ms() == driver_module.TURN_MS, "nobody takes it: the loop must not spin"
    driver._next_beat_ms, driver._next_news_ms, driver._news_waits = 10_900, 10_030, True
    assert driver._wait_ms() == 30
    driver._news_waits, driver._hosts = False, SimpleNamespace(moves=lambda: True)
    assert driver._wait_ms() == 30
    driver._next_news_ms = 0
    assert driver._wait_ms() == driver_module.TURN_MS


def test_topologies_that_did_not_end_in_time_are_not_said_to_have_ended(driver: Any) -> None:
    """The node would hand over, and the driver would no longer be fenced, while they run."""
    said: list[str] = []
    clock = ManualClock(1_000)
    driver._clock, driver._do, driver.drained = clock, lambda _: None, lambda: said.append("drained")
    driver._turn = lambda _: clock.advance(1_000)
    driver._runs = SimpleNamespace(runs={1: "runs"}, drain_all=list)
    driver._drain(FakeClient())
    assert said == []
    driver._runs.runs = {}
    driver._drain(FakeClient())
    assert said == ["drained"]


def test_a_driver_of_a_node_with_a_full_disk_ends_as_others_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = RoleWatch(str(tmp_path))
    driver_module._has_drained(tmp_path / "no folder", watch)
    assert "waits until Spark has ended" in caplog.text
    driver_module._has_drained(tmp_path, watch)
    assert (tmp_path / DRAINED_FILE).read_text(encoding="ascii") == str(os.getpid())
