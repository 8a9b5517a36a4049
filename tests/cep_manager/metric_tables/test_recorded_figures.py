"""What is recorded of plans: rows and points from two looks at a running system."""

from __future__ import annotations

import itertools
from statistics import stdev
from typing import Any

import msgspec
import pytest
from manager_world import KEY, NO_QUOTAS, World, driver, plan, task, topology
from storm_world import PER_SECOND, working_task

from cep_common.ids import PlanKey
from cep_common.monitoring.latency import bucket
from cep_common.protocol.tasks import ComponentState, QueryReport
from cep_manager.monitoring.metric_tables.distribution import spread
from cep_manager.monitoring.metric_tables.meter import Meter
from cep_manager.monitoring.metric_tables.model import MetricRow
from cep_manager.monitoring.metric_tables.names import of_part, of_plan, source_of
from cep_manager.monitoring.metric_tables.readings import PlanReader
from cep_manager.monitoring.metric_tables.recording import Recording
from cep_manager.monitoring.metric_tables.tables import LONGEST_NAME
from cep_manager.plans.stored_plan import PlanSettings

NOON_MS = 1_767_225_600_000
PREFIX = "org.wso2.siddhi.SiddhiApps.Storms"


def running_world(level: str = "basic") -> World:
    world = World(NO_QUOTAS)
    world.put(plan(settings=PlanSettings(statistics=level)))
    world.hear(driver(), peer=b"driver")
    world.hear(driver(topology("running")), peer=b"driver")
    return world


def looks(world: World, *seconds: int, late_ms: int = 0) -> list[tuple[list[MetricRow], Any]]:
    """Rows and point of a look at each of these seconds, `late_ms` after the task was heard."""
    recording = Recording()
    found = []
    for second in seconds:
        world.now_ms = second * 1_000
        world.hear(working_task(second))
        world.now_ms += late_ms
        rows, points = recording.take(PlanReader().read(world.snapshot()), world.now_ms, NOON_MS + world.now_ms)
        found.append((rows, points[KEY]))
    return found


def row(rows: list[MetricRow], name: str) -> MetricRow:
    (found,) = [one for one in rows if one.name == f"{PREFIX}.{name}"]
    return found


def test_rates_are_those_between_the_heartbeats_however_late_the_look_is() -> None:
    (_, first), (rows, point) = looks(running_world(), 600, 615, late_ms=900)
    assert (first.received, point.received, point.emitted) == (None, 1.5 * PER_SECOND, pytest.approx(11))
    meter = row(rows, "throughput")
    assert (meter.kind, meter.source, meter.at_ms) == ("meter", "Storms[-1234]", NOON_MS + 615_000)
    assert meter.values["count"] == 615 * 1.5 * PER_SECOND
    assert meter.values["m1_rate"] == meter.values["mean_rate"] == 150.0
    assert row(rows, "Siddhi.Streams.Late.throughput").values["mean_rate"] == pytest.approx(11)
    assert row(rows, "Siddhi.Stages.lateness.throughput").values["count"] == 61_500


def test_a_stage_is_recorded_from_when_it_is_first_heard_on() -> None:
    world, recording = running_world(), Recording()
    told = []
    for second, missing in ((600, "storms"), (615, ""), (630, "")):
        world.now_ms = second * 1_000
        seen = working_task(second)
        kept = tuple(one for one in seen.components if one.component != missing)
        world.hear(msgspec.structs.replace(seen, components=kept))
        rows, _ = recording.take(PlanReader().read(world.snapshot()), world.now_ms, NOON_MS + world.now_ms)
        told.append([one for one in rows if one.name == f"{PREFIX}.Siddhi.Stages.storms.throughput"])
    assert [len(rows) for rows in told] == [0, 1, 1]
    assert told[1][0].at_ms == NOON_MS + 615_000


def test_latencies_are_those_of_the_events_since_the_last_look() -> None:
    (_, first), (rows, point) = looks(running_world(), 600, 615)
    assert (first.latency_p99, point.latency_p50) == (None, pytest.approx(2, rel=0.1))
    timer = row(rows, "latency")
    assert (timer.kind, timer.values["duration_unit"], timer.values["count"]) == ("timer", "milliseconds", 92_250)
    assert timer.values["p999"] == timer.values["max"] == pytest.approx(40, rel=0.1)
    assert timer.values["m1_rate"] == 150


def test_capacity_is_the_share_of_the_interval_that_the_busiest_instance_worked() -> None:
    _, (rows, point) = looks(running_world(), 600, 615)
    assert point.capacity == 0.12
    assert row(rows, "Siddhi.Stages.lateness.capacity").values == {"value": "0.12"}
    assert float(row(rows, "capacity").values["value"]) == 0.12


def test_state_queues_errors_and_checkpoints_are_told() -> None:
    world = running_world()
    _, (rows, point) = looks(world, 600, 1_000)
    assert (point.state_rows, point.queue) == (12, 12)
    assert row(rows, "memory").values == {"value": "4196"}
    assert row(rows, "Siddhi.Stages.storms.errors").kind == "counter"
    assert row(rows, "Siddhi.Stages.lateness.dropped").values == {"count": 100}


def test_a_plan_that_counts_nothing_is_told_by_what_waits_alone() -> None:
    _, (rows, point) = looks(running_world("off"), 600, 615)
    assert (point.received, point.latency_p99, point.capacity, point.state_rows, point.queue) == (*[None] * 4, 12)
    assert {one.kind for one in rows} == {"gauge", "counter"}


def test_queries_are_told_at_level_detail() -> None:
    world = running_world("detail")
    recording = Recording()
    for second in (1, 2):
        told = (QueryReport("late", 100 * second, 5_000 * second, ((bucket(5_000_000), 100 * second),)),)
        seen = task(events=second)
        held = (ComponentState("window", "Late", rows=12, bytes=4_096),)
        parts = [
            msgspec.structs.replace(one, queries=told, held=held) if one.component == "storms" else one
            for one in seen.components
        ]
        world.now_ms = second * 1_000
        world.hear(msgspec.structs.replace(seen, components=tuple(parts), up_ms=second * 1_000))
        rows, _ = recording.take(PlanReader().read(world.snapshot()), world.now_ms, NOON_MS + world.now_ms)
    assert row(rows, "Siddhi.Windows.Late.memory").values == {"value": "4096"}
    timer = row(rows, "Siddhi.Queries.late.latency")
    assert (timer.values["count"], timer.values["p50"]) == (200, pytest.approx(5, rel=0.1))


def test_a_plan_that_was_deployed_anew_counts_from_its_new_beginning() -> None:
    meter = Meter(1_000, 10_000, 0)
    assert meter.update(50, 15_000, 10_000) == 10
    assert meter.rates()["mean_rate"] == 10


def test_rates_follow_a_change_as_fast_as_their_window_is_long() -> None:
    meter = Meter(0, 0, 0)
    for second in range(15, 61, 15):
        meter.update(1_000 * second, second * 1_000, 0)
    rates = meter.rates()
    assert rates["m1_rate"] == pytest.approx(1_000 * (1 - 1 / 2.718281828), rel=1e-6)
    assert rates["m1_rate"] > rates["m5_rate"] > rates["m15_rate"] > 0
    assert rates["mean_rate"] == 1_000


def test_a_spread_keeps_fractions() -> None:
    told = spread({0.25: 50, 0.5: 49, 4.5: 1})
    assert (told["min"], told["mean"], told["max"]) == (0.25, 0.415, 4.5)
    assert (told["p50"], told["p99"], told["p999"]) == (0.25, 0.5, 4.5)
    assert told["stddev"] == pytest.approx(stdev([0.25] * 50 + [0.5] * 49 + [4.5]))


def test_names_that_are_too_long_stay_different() -> None:
    first, second = (of_part(KEY, "Queries", "q" * 300 + end, "latency") for end in "ab")
    assert first != second
    assert len(first) == len(second) == LONGEST_NAME


def test_rows_of_a_renamed_plan_go_on_under_its_first_name() -> None:
    renamed = PlanKey(KEY.tenant, "Renamed", KEY.plan)
    assert source_of(renamed) == source_of(KEY) == KEY.topology()
    assert of_plan(renamed, "latency") == of_plan(KEY, "latency")
    assert of_part(renamed, "Queries", "late", "latency") == of_part(KEY, "Queries", "late", "latency")


def test_a_plan_of_which_nothing_was_heard_gives_the_same_points_without_another_reading() -> None:
    world = running_world()
    reader, kept, new = PlanReader(), Recording(keeps_rows=False), Recording()
    readings = []
    for second in (600, 615, 630, 645, 660, 675, 690):
        world.now_ms = second * 1_000
        if second in (600, 615, 675):
            world.hear(working_task(second))
        snapshot = world.snapshot()
        readings += reader.read(snapshot)
        rows, points = kept.take(readings[-1:], world.now_ms, NOON_MS + world.now_ms)
        _, expected = new.take(PlanReader().read(snapshot), world.now_ms, NOON_MS + world.now_ms)
        assert points == expected, second
        assert rows == []
    same = [one is other for one, other in itertools.pairwise(readings)]
    assert same == [False, False, True, True, False, False], "a silent task is another source"
