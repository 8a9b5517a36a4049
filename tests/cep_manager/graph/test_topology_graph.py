"""The live graph: nodes of the query plan and of the workers, what flows between them, and how fast."""

import pytest
from manager_world import COMPILED, KEY, LEASE_MS, World, driver, plan, serves, task, topology, worker

from cep_manager.graph.model import GraphEdge, GraphNode, TopologyGraph
from cep_manager.graph.stages import component_layers
from cep_manager.graph.topology_graph import topology_graph


@pytest.fixture
def world() -> World:
    made = World()
    made.active(events=1_000)
    return made


def graph(world: World) -> TopologyGraph:
    return topology_graph(world.snapshot(), KEY)


def node(found: TopologyGraph, name: str) -> GraphNode:
    return next(one for one in found.nodes if one.id == name)


def edge(found: TopologyGraph, source: str, target: str, stream: str) -> GraphEdge:
    return next(one for one in found.edges if (one.source, one.target, one.stream) == (source, target, stream))


def test_the_graph_has_its_full_shape_before_anything_runs() -> None:
    world = World()
    world.put(plan())
    found = graph(world)
    assert [(one.id, one.layer, one.state) for one in found.nodes] == [
        ("source::Arrivals", 0, "expected"),
        ("source::Departures", 0, "expected"),
        ("EventReceiver#0", 1, "expected"),
        ("lateness#0", 2, "expected"),
        ("lateness#1", 2, "expected"),
        ("aircraft#0", 2, "expected"),
        ("storms#0", 3, "expected"),
        ("EventPublisher#0", 4, "expected"),
        ("sink::KnockOns", 5, "expected"),
        ("sink::AirportStorms", 5, "expected"),
    ]
    assert not any(one.connected for one in found.edges)
    ends = {one.source for one in found.edges} | {one.target for one in found.edges}
    assert ends == {one.id for one in found.nodes}


def test_counts_and_places_come_from_the_tasks_reports(world: World) -> None:
    storms = node(graph(world), "storms#0")
    assert (storms.state, storms.host, storms.task, storms.process_id) == ("live", "10.0.0.2", 0, 200)
    assert (storms.received, storms.emitted, storms.waiting) == (110, 10, 12)


def test_edges_carry_what_the_ends_can_tell(world: World) -> None:
    found = graph(world)
    into_one = edge(found, "EventReceiver#0", "lateness#1", "Departures")
    from_one = edge(found, "lateness#0", "storms#0", "Late")
    outside = edge(found, "source:worker-1:Departures", "EventReceiver#0", "Departures")
    published = edge(found, "EventPublisher#0", "sink:worker-1:KnockOns", "KnockOns")
    assert [one.events for one in (into_one, from_one, outside, published)] == [500, 100, 1_000, 100]
    assert all(one.connected for one in found.edges)


def test_rates_are_taken_over_the_reports_of_the_last_seconds(world: World) -> None:
    for step in (1, 2):
        world.now_ms += 1_000
        events = 1_000 + 400 * step
        world.hear(driver(topology("running")), task(events=events), worker(serves(events=events)))
    found = graph(world)
    assert node(found, "source:worker-1:Departures").emitted_per_second == pytest.approx(400)
    assert node(found, "EventReceiver#0").received_per_second == pytest.approx(600)
    assert edge(found, "lateness#0", "storms#0", "Late").events_per_second == pytest.approx(40)
    assert node(found, "aircraft#0").busy == pytest.approx(0.2)


def test_a_restarted_task_counts_anew_and_shows_no_negative_rate(world: World) -> None:
    world.now_ms += 1_000
    world.hear(task(events=10, process_id=201))
    receiver = node(graph(world), "EventReceiver#0")
    assert (receiver.received, receiver.received_per_second) == (15, 0.0)


def test_a_silent_task_keeps_its_nodes_and_has_no_rate(world: World) -> None:
    world.now_ms += 1_000
    world.hear(task(events=5_000))
    world.tick(LEASE_MS)
    storms = node(graph(world), "storms#0")
    assert (storms.state, storms.received_per_second, storms.busy) == ("silent", 0.0, 0.0)
    assert not edge(graph(world), "lateness#0", "storms#0", "Late").connected


def test_connections_tell_both_ends(world: World) -> None:
    rows = [(one.direction, one.what, one.peer, one.connected, one.events) for one in graph(world).connections]
    assert rows == [
        ("inflow", "Arrivals", "EventReceiver#0", True, 500),
        ("inflow", "Departures", "EventReceiver#0", True, 1_000),
        ("outflow", "EventPublisher#0", "EventPublisher#0", True, 110),
    ]


def test_each_worker_has_ends_of_its_own(world: World) -> None:
    world.hear(worker(serves(linked=False), name="worker-2", process_id=301))
    found = graph(world)
    assert node(found, "source:worker-2:Arrivals").state == "live"
    assert not edge(found, "source:worker-2:Arrivals", "EventReceiver#0", "Arrivals").connected


def test_the_publisher_stands_behind_the_deepest_stage() -> None:
    assert component_layers(COMPILED) == {
        "EventReceiver": 1,
        "lateness": 2,
        "aircraft": 2,
        "storms": 3,
        "EventPublisher": 4,
    }


def test_a_plan_that_cannot_be_compiled_has_no_nodes() -> None:
    world = World()
    world.put(plan(compiled="broken"))
    assert graph(world).nodes == ()
