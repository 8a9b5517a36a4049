"""Loads of stages from what tasks have counted and what waits at workers."""

from __future__ import annotations

import msgspec
import pytest
from manager_world import KEY, World, components, serves, task, worker

from cep_common.protocol.registry import InflowReport
from cep_manager.scaling.decision import StageLoad
from cep_manager.scaling.load_meter import LoadMeter

BEGAN_MS = 1_000_000


class Metered:
    """The stage `lateness` of two instances; a second passes between two heartbeats."""

    def __init__(self) -> None:
        self.world = World()
        self.world.active()
        self.meter = LoadMeter(10_000)
        self.busy = [0, 0]
        self.events = 0
        self.began_ms = BEGAN_MS

    def beat(
        self, *busy_ms: int, events: int = 0, attempt: int = 0, ago_ms: int = 0, waiting: int = 0
    ) -> list[StageLoad]:
        self.world.now_ms += 1_000
        self.busy = [before + more for before, more in zip(self.busy, busy_ms, strict=True)]
        self.events += events
        parts = {one.instance: one for one in components(self.events)}
        for index, busy in enumerate(self.busy):
            name = f"lateness#{index}"
            parts[name] = msgspec.structs.replace(parts[name], busy_ms=busy)
        report = task(attempt=attempt)
        report = msgspec.structs.replace(report, components=tuple(parts.values()), counted_ago_ms=ago_ms)
        inflow = (InflowReport("Departures", connected=True, waiting_events=waiting),)
        served = msgspec.structs.replace(serves(), inflow=inflow)
        self.world.hear(report)
        self.world.hear(worker(served, revision=self.world.snapshot().revision))
        return self.measure()

    def measure(self, snapshot_age_ms: int = 0) -> list[StageLoad]:
        snapshot = msgspec.structs.replace(self.world.snapshot(), now_ms=self.world.now_ms - snapshot_age_ms)
        return list(self.meter.measure(snapshot, snapshot.record(KEY), "lateness", 2, self.began_ms))


def test_the_load_of_an_interval_is_what_was_counted_in_it() -> None:
    metered = Metered()
    assert metered.beat(300, 100, events=1_000) == []
    (load,) = metered.beat(900, 250, events=4_000, waiting=70)
    assert load == StageLoad(BEGAN_MS + metered.world.now_ms, 1_000, (0.9, 0.25), 4_000.0, 70)
    assert metered.measure() == [load], "nothing was counted since"
    assert [one.busy for one in metered.beat(100, 2_000)] == [(0.9, 0.25), (0.1, 1.0)]


def test_counters_that_are_older_than_their_report_belong_to_their_own_time() -> None:
    metered = Metered()
    metered.beat(0, 0)
    (load,) = metered.beat(250, 100, ago_ms=500)
    assert (load.length_ms, load.busy) == (500, (0.5, 0.2))


def test_the_age_of_a_snapshot_changes_no_load() -> None:
    metered = Metered()
    metered.beat(300, 100)
    metered.measure(snapshot_age_ms=900)
    (load,) = metered.beat(300, 100)
    assert (load.length_ms, load.busy) == (1_000, (0.3, 0.1))
    assert metered.measure(snapshot_age_ms=900) == [load]


@pytest.mark.parametrize("step_ms", [400_000, -400_000])
def test_a_step_of_the_time_of_day_is_no_interval_without_load(step_ms: int) -> None:
    metered = Metered()
    metered.beat(300, 100)
    metered.beat(300, 100)
    metered.began_ms += step_ms
    loads = metered.beat(300, 100)
    assert [(one.length_ms, one.busy) for one in loads] == [(1_000, (0.3, 0.1))] * 2
    assert loads[-1].at_ms == BEGAN_MS + step_ms + metered.world.now_ms


def test_a_task_that_was_started_again_is_measured_from_its_beginning() -> None:
    metered = Metered()
    metered.beat(300, 100)
    metered.beat(300, 100)
    assert metered.beat(300, 100, attempt=1) == []
    assert [one.busy for one in metered.beat(300, 100, attempt=1)] == [(0.3, 0.1)]


def test_loads_are_kept_as_long_as_decisions_look_back_and_forgotten_with_their_plan() -> None:
    metered = Metered()
    loads = [metered.beat(300, 100) for _ in range(20)][-1]
    assert loads[0].at_ms - loads[0].length_ms <= BEGAN_MS + metered.world.now_ms - 10_000
    assert len(loads) == 12
    metered.meter.keep([])
    assert metered.measure() == []
