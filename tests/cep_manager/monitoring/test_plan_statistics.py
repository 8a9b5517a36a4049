"""A plan's statistics by window, and the call that gives them."""

from __future__ import annotations

import msgspec
import pytest
from manager_world import KEY, FakeView, World, driver, plan, task, topology
from storm_world import PER_SECOND, running_view

from cep_common.monitoring.latency import bucket
from cep_common.protocol.tasks import ComponentState, QueryReport
from cep_manager.monitoring.plan_statistics import Activity, PlanStatistics, WindowStatistics, plan_statistics
from cep_manager.plans.stored_plan import PlanSettings
from cep_manager.web.app import create_app


@pytest.fixture(scope="module")
def statistics() -> PlanStatistics:
    return plan_statistics(running_view().world.snapshot(), KEY)


def component(window: WindowStatistics, name: str) -> tuple[Activity, tuple[Activity, ...]]:
    found = next(one for one in window.components if one.all.name == name)
    return found.all, found.instances


def test_each_window_tells_what_came_and_went_in_it(statistics: PlanStatistics) -> None:
    assert [window.window_s for window in statistics.windows] == [600, 10_800, 86_400, None]
    ten_minutes, *_, all_time = statistics.windows
    assert (ten_minutes.received, ten_minutes.emitted, ten_minutes.dropped) == (90_000, 6_600, 60)
    assert (ten_minutes.covered_ms, all_time.covered_ms) == (600_000, 1_200_000)
    assert (all_time.received, all_time.emitted) == (180_000, 13_200)


def test_latencies_are_told_as_percentiles(statistics: PlanStatistics) -> None:
    latency = statistics.windows[0].latency
    assert (latency.events, latency.mean_ms) == (90_000, 3.0)
    assert latency.p50_ms == pytest.approx(2.0, rel=0.1)
    assert latency.p95_ms == pytest.approx(2.0, rel=0.1)
    assert plan_statistics(running_view().world.snapshot(), KEY).windows[3].latency.p99_ms == pytest.approx(2, rel=0.1)


def test_a_stage_is_told_as_a_whole_and_by_instance(statistics: PlanStatistics) -> None:
    whole, instances = component(statistics.windows[0], "lateness")
    assert [one.name for one in instances] == ["lateness#0", "lateness#1"]
    assert whole.received_per_second == PER_SECOND
    assert [one.received_per_second for one in instances] == [PER_SECOND / 2] * 2
    assert (whole.capacity, whole.execute_ms, whole.bundle_ms, whole.stay_ms) == (0.12, 1.2, 6.0, 2.0)
    assert (instances[0].dropped, instances[1].dropped) == (60, 0)


def test_a_plan_that_has_not_run_has_no_figures() -> None:
    world = World()
    world.put(plan())
    window = plan_statistics(world.snapshot(), KEY).windows[0]
    assert (window.received, window.covered_ms, window.latency.p99_ms) == (0, 0, None)
    whole, instances = component(window, "storms")
    assert (whole.execute_ms, whole.received_per_second, instances) == (None, 0.0, ())


def test_the_call_gives_them_for_a_plan_that_is_deployed() -> None:
    client = create_app(running_view(), 1_000).test_client()
    told = client.get("/api/v1/plans/Storms/statistics").get_json()
    assert (told["plan"], told["epoch"], len(told["windows"])) == ("Storms", 1, 4)
    assert client.get("/api/v1/plans/None/statistics").status_code == 404
    assert client.get("/api/v1/plans/Storms/statistics?tenant=7").status_code == 404
    assert create_app(FakeView(World()), 1_000).test_client().get("/api/v1/plans/Storms/statistics").status_code == 404


def test_queries_are_told_at_level_detail_those_of_a_stages_instances_together() -> None:
    world = World()
    world.put(plan(settings=PlanSettings(statistics="detail")))
    counted = QueryReport("late", 100, 2_000, ((bucket(5_000_000), 100),))
    held = (ComponentState("query", "late", rows=3, bytes=64),)
    parts = tuple(
        msgspec.structs.replace(one, queries=(counted,), held=held) if one.component == "lateness" else one
        for one in task(events=100).components
    )
    world.hear(driver(topology("running")), msgspec.structs.replace(task(), components=parts))
    told = plan_statistics(world.snapshot(), KEY)
    assert told.level == "detail"
    (query,) = told.queries
    assert (query.query, query.component, query.events, query.mean_us) == ("late", "lateness", 200, 20.0)
    assert query.p99_ms == pytest.approx(5, rel=0.05)
    assert (query.state_rows, query.state_bytes) == (6, 128)


def test_queries_are_not_told_of_plans_that_count_less() -> None:
    world = World()
    world.put(plan())
    assert plan_statistics(world.snapshot(), KEY).queries == ()
