"""The overview: what it counts, who sees what of it, and how the page tells it."""

import msgspec
import pytest
from flask.testing import FlaskClient
from manager_world import (
    HEARTBEAT_MS,
    KEY,
    LEADER,
    LEASE_MS,
    FakeView,
    World,
    components,
    driver,
    plan,
    serves,
    task,
    topology,
    worker,
)

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.monitoring.latency import percentile_ms
from cep_manager.monitoring.cluster_model import ElectionView, ManagerInfo
from cep_manager.monitoring.overview.alerts import AlertContext
from cep_manager.monitoring.overview.plan_metrics import STEP_S, STEPS, Traffic, metrics_of_plan, traffic
from cep_manager.monitoring.overview.system_overview import SystemOverview, system_overview
from cep_manager.monitoring.worker_view import worker_details
from cep_manager.web.api.routes.overview import GOOD_FOR_MS, OverviewQuery
from cep_manager.web.app import create_app
from cep_manager.web.console.texts.overview import present_overview, spark

OTHER = PlanKey(7, "Theirs")
INFO = ManagerInfo("127.0.0.1", 8904, 1, 65_000, "0.1.0", "3.11", "sqlite:///manager.db", 3_000, 1_000)


def told(world: World, tenant: int = SUPER_TENANT, sees_system: bool = True) -> SystemOverview:
    election = ElectionView(leads=True, leader=LEADER, managers=(LEADER,))
    return system_overview(
        AlertContext(world.now_ms + 1_000_000, world.snapshot(), INFO, election), tenant, sees_system
    )


@pytest.fixture
def world() -> World:
    """A plan that takes 200 events a second and half as many beside, for two minutes; and one of another tenant."""
    world = World()
    world.active()
    for second in range(1, 121):
        world.now_ms += 1_000
        world.hear(driver(topology("running")), peer=b"driver")
        parts = [
            msgspec.structs.replace(one, latencies=((8, 198 * second), (20, 2 * second)))
            if one.kind == "receiver"
            else one
            for one in components(200 * second)
        ]
        world.hear(msgspec.structs.replace(task(), components=tuple(parts), up_ms=1_000 * second))
        world.hear(worker(serves(events=200 * second), revision=world.snapshot().revision))
    world.put(plan(key=OTHER))
    world.tick()
    return world


def test_rates_are_those_of_receivers_and_publishers(world: World) -> None:
    figure = metrics_of_plan(world.snapshot(), [KEY])
    assert figure.received_per_second == pytest.approx(300, rel=0.02)
    assert figure.emitted_per_second == pytest.approx(22, rel=0.02)
    assert figure.p50_ms == percentile_ms({8: 1}, 0.5)
    assert figure.p99_ms == pytest.approx(figure.p50_ms)
    assert figure.waiting_events == 12 + 3
    assert metrics_of_plan(world.snapshot(), [OTHER]).received_per_second == 0.0


def test_tasks_that_are_not_heard_any_more_receive_nothing(world: World) -> None:
    for _ in range(LEASE_MS // HEARTBEAT_MS):
        world.now_ms += HEARTBEAT_MS
        world.hear(driver(topology("failed")), peer=b"driver")
    figure = metrics_of_plan(world.snapshot(), [KEY])
    assert (figure.received_per_second, figure.emitted_per_second, figure.waiting_events) == (0.0, 0.0, 0)


def test_the_rates_of_a_lost_worker_are_those_of_now(world: World) -> None:
    live = worker_details(world.snapshot(), "worker-1")
    assert live.events_in_per_s == pytest.approx(300, rel=0.02)
    world.tick(LEASE_MS)
    lost = worker_details(world.snapshot(), "worker-1")
    assert (lost.state, lost.events_in_per_s, lost.events_out_per_s) == ("lost", 0.0, 0.0)
    assert {one.events_per_s for one in lost.plans[0].inflow} == {0.0}


def test_traffic_adds_up_to_what_was_counted_and_knows_when_counting_began(world: World) -> None:
    lately = traffic(world.snapshot(), [KEY, OTHER])
    assert len(lately.received_per_second) == STEPS
    known = [rate for rate in lately.received_per_second if rate is not None]
    assert sum(known) * STEP_S == pytest.approx(300 * 120, rel=0.01)
    assert len(known) == 120 // STEP_S
    assert lately.received_per_second[:5] == (None,) * 5


def test_the_super_tenant_sees_all_and_others_their_own(world: World) -> None:
    everything = told(world)
    assert (everything.tenant, everything.plans) == (None, {"deploying": 1, "active": 1})
    assert everything.system is not None
    assert [(one.tenant, one.plans, one.active) for one in everything.system.tenants] == [(-1234, 1, 1), (7, 1, 0)]
    theirs = told(world, tenant=7)
    assert (theirs.tenant, sum(theirs.plans.values()), theirs.metrics.received_per_second) == (7, 1, 0.0)
    bound = told(world, sees_system=False)
    assert (bound.tenant, bound.plans, bound.system) == (SUPER_TENANT, {"active": 1}, None)


def test_the_page_tells_it_in_words(world: World) -> None:
    page = present_overview(told(world))
    assert (page.health, page.health_tone, page.received) == ("No alerts", "good", "300")
    assert [(one.state, one.plans) for one in page.states] == [("deploying", 1), ("active", 1)]
    assert (page.slots_used, page.leader) == (1, "127.0.0.1:8904")
    world.put(plan(key=PlanKey(7, "Broken"), compiled="line 1: no"))
    page = present_overview(told(world))
    assert (page.health, page.health_tone) == ("1 alert", "bad")
    assert (page.alerts[0].page, page.alerts[0].part) == ("console.show_plan", {"name": "Broken", "tenant": 7})


def test_a_small_line_begins_where_counting_did_and_touches_its_highest() -> None:
    drawn = spark(Traffic(15, (), ()), (None, 0.0, 5.0, 10.0, 0.0))
    assert drawn.line == "M0.0 29.0 L40.0 15.5 L80.0 2.0 L120.0 29.0"
    assert drawn.ground.endswith("L120 30 L0 30 Z")
    assert drawn.words == "the last 1 min, between 0/s and 10/s"
    assert spark(Traffic(15, (), ()), (None, 3.0)).line == ""


@pytest.fixture
def client(world: World) -> FlaskClient:
    return create_app(FakeView(world), 2_000).test_client()


def test_the_page_shows_what_the_call_tells(client: FlaskClient) -> None:
    answer = client.get("/api/v1/overview").get_json()
    assert answer["metrics"]["received_per_second"] == pytest.approx(300, rel=0.02)
    assert answer["alerts"] == []
    page = client.get("/").get_data(as_text=True)
    assert "No alerts" in page
    assert '<path class="spark"' in page
    assert 'href="/plans?tenant=7"' in page


def test_many_who_ask_at_once_are_told_the_same_for_a_moment(world: World) -> None:
    recent, first = OverviewQuery(), world.snapshot()
    recent.keep(first, SUPER_TENANT, system=True, overview=told(world))
    assert recent.at(first, SUPER_TENANT, system=True) is not None
    assert recent.at(first, 7, system=True) is recent.at(first, SUPER_TENANT, system=False) is None
    for later_ms, known in ((GOOD_FOR_MS - 1, True), (GOOD_FOR_MS, False), (0, False)):
        later = msgspec.structs.replace(first, now_ms=first.now_ms + later_ms)
        assert (recent.at(later, SUPER_TENANT, system=True) is not None) is known


def test_what_was_told_is_kept_no_longer_than_it_is_good(world: World) -> None:
    recent, snapshot = OverviewQuery(), world.snapshot()
    for tenant in range(5):
        recent.keep(snapshot, tenant, system=False, overview=told(world))
        snapshot = msgspec.structs.replace(snapshot, now_ms=snapshot.now_ms + GOOD_FOR_MS // 2)
    assert sorted(tenant for tenant, _ in recent._overviews) == [3, 4]


def test_without_plans_the_page_offers_samples_that_open_in_the_editor() -> None:
    client = create_app(FakeView(World()), 2_000).test_client()
    for address in ("/", "/plans"):
        page = client.get(address).get_data(as_text=True)
        assert "No execution plans yet" in page
        assert 'href="/deploy?sample=filter"' in page
    assert "from Orders[amount &gt; 1000.0]" in client.get("/deploy?sample=filter").get_data(as_text=True)
    assert "ExecutionPlan" in client.get("/deploy?sample=../../etc/passwd").get_data(as_text=True)
