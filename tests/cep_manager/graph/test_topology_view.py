"""What a plan's page and a stage's page tell."""

import msgspec
import pytest
from manager_world import KEY, FakeView, World, components, plan, serves, task, worker

from cep_common.monitoring.latency import bucket
from cep_common.protocol.error_records import ErrorRecord
from cep_common.protocol.tasks import ComponentState, QueryReport, RegisterTask
from cep_common.protocol.worker_reports import PublisherReport
from cep_manager.errors import UnknownComponentError
from cep_manager.graph.topology_view.component import component_view
from cep_manager.graph.topology_view.mermaid import mermaid
from cep_manager.graph.topology_view.model import ComponentView, StageError, TopologyView
from cep_manager.graph.topology_view.page import topology_view
from cep_manager.graph.topology_view.stages import RECENT_MS

MINUTE_MS = 60_000


def reporting(events: int, up_ms: int, error_ms: int = 0) -> RegisterTask:
    """The task after `events`, with latencies, state and an error in one of its stages."""
    told = {one.instance: one for one in components(events)}
    slow, fast = bucket(40_000_000), bucket(1_000_000)
    change = msgspec.structs.replace
    told["EventReceiver#0"] = change(told["EventReceiver#0"], latencies=((fast, 98), (slow, 2)), stay_ms=178)
    told["aircraft#0"] = change(
        told["aircraft#0"],
        busy_ms=up_ms // 4,
        held=(
            ComponentState("query", "knockOns", rows=40, bytes=4_096),
            ComponentState("strings", "all", rows=2, bytes=100),
        ),
        errors=1 if error_ms else 0,
        last_error="division by <zero>" if error_ms else "",
        last_error_ms=error_ms,
    )
    return change(task(), components=tuple(told.values()), up_ms=up_ms)


@pytest.fixture
def view() -> FakeView:
    world = World()
    world.active()
    return FakeView(world)


def page(view: FakeView, window: str = "10m") -> TopologyView:
    return topology_view(view.overview(), KEY, window)  # type: ignore[arg-type]


def stage_page(view: FakeView, name: str) -> ComponentView:
    return component_view(view.overview(), KEY, name, "10m")


def test_each_stage_is_told_with_rates_capacity_latencies_and_state(view: FakeView) -> None:
    view.world.now_ms = 200_000
    view.world.hear(reporting(1_000, up_ms=100_000))
    stages = {one.name: one for one in page(view).stages}
    assert list(stages) == ["EventReceiver", "lateness", "aircraft", "storms", "EventPublisher"]
    assert (stages["lateness"].executors, stages["lateness"].tasks) == (2, 2)
    aircraft = stages["aircraft"].counts
    assert (aircraft.received, aircraft.emitted, aircraft.transferred) == (1_500, 100, 100)
    assert aircraft.received_per_second == pytest.approx(1_500 / 200, rel=0.01)
    assert aircraft.capacity == pytest.approx(25_000 / 200_000, rel=0.01)
    assert (aircraft.state_rows, aircraft.state_bytes) == (42, 4_196)
    assert aircraft.p99_ms is None
    assert stages["storms"].counts.queued == 12
    receiver = stages["EventReceiver"].counts
    assert (receiver.p50_ms, receiver.p99_ms) == (pytest.approx(1, rel=0.1), pytest.approx(40, rel=0.1))
    assert receiver.transferred == 500 + 2 * 1_000  # two stages take the departures


def test_an_error_is_told_with_its_place_and_is_recent_for_half_an_hour(view: FakeView) -> None:
    view.world.hear(reporting(10, up_ms=1_000, error_ms=view.now_ms - RECENT_MS))
    error = next(one.counts.last_error for one in page(view).stages if one.name == "aircraft")
    at_ms = view.now_ms - RECENT_MS
    assert error == StageError("division by <zero>", "aircraft#0", "10.0.0.2", 0, 200, at_ms, RECENT_MS, recent=False)
    view.now_ms -= 1
    assert next(one.counts.last_error.recent for one in page(view).stages if one.counts.last_error is not None)


def test_a_stages_page_has_the_errors_of_its_own_instances_by_kind(view: FakeView) -> None:
    failure = ErrorRecord("poison-event", "division by 0", first_ms=1_000, last_ms=5_000, count=7)
    failed = tuple(
        msgspec.structs.replace(one, failures=(failure,)) if one.instance == "aircraft#0" else one
        for one in components(10)
    )
    view.world.hear(msgspec.structs.replace(task(), components=failed))
    (group,) = stage_page(view, "aircraft").errors
    assert (group.code, group.text, group.count, group.last_ms) == ("poison-event", "division by 0", 7, 5_000)
    assert [(place.instance, place.host) for place in group.places] == [("aircraft#0", "10.0.0.2")]
    assert stage_page(view, "storms").errors == ()


def test_the_windows_are_told_the_shortest_first(view: FakeView) -> None:
    view.world.hear(reporting(1_000, up_ms=100_000))
    windows = page(view, "all").windows
    assert [one.window for one in windows] == ["10m", "3h", "1d", "all"]
    assert (windows[0].received, windows[0].emitted) == (1_500, 110)
    assert windows[3].p99_ms == pytest.approx(40, rel=0.1)
    assert page(view, "all").window == "all"


def test_connections_tell_how_full_their_windows_are(view: FakeView) -> None:
    report = serves(events=100)
    inflow = msgspec.structs.replace(report.inflow[1], in_flight_rows=64, window_rows=64)
    links = (PublisherReport("EventPublisher#0", 5, 100),)
    full = msgspec.structs.replace(report, inflow=(report.inflow[0], inflow), links=links)
    view.world.hear(worker(full, revision=view.world.snapshot().revision))
    told = {one.what: (one.under_way, one.window) for one in page(view).connections}
    assert told == {"Arrivals": (0, 0), "Departures": (64, 64), "EventPublisher#0": (5, 100)}
    edges = {(one.stream, one.under_way, one.window) for one in view.graph(KEY).edges if one.window}
    assert edges == {("Departures", 64, 64), ("KnockOns", 5, 100), ("AirportStorms", 5, 100)}


def test_a_stages_page_tells_where_its_events_come_from_and_go_to(view: FakeView) -> None:
    told = stage_page(view, "lateness")
    assert [(one.stream, one.producers) for one in told.inputs] == [("Departures", ("EventReceiver",))]
    assert [(one.stream, one.consumers) for one in told.outputs] == [("Late", ("storms",))]
    assert [one.name for one in told.instances] == ["lateness#0", "lateness#1"]
    assert {one.state for one in told.instances} == {"live"}
    assert [one.event_stream for one in stage_page(view, "EventReceiver").inputs] == [
        "Arrivals:1.0.0",
        "Departures:1.0.0",
    ]
    assert stage_page(view, "EventReceiver").inputs[0].producers == ()
    assert [one.event_stream for one in stage_page(view, "EventPublisher").outputs] == [
        "KnockOns:1.0.0",
        "AirportStorms:1.0.0",
    ]


def test_the_work_of_a_query_is_added_up_over_its_instances(view: FakeView) -> None:
    work = QueryReport("late", events=50, busy_us=200, latencies=((bucket(2_000_000), 50),))
    told = tuple(
        msgspec.structs.replace(one, queries=(work,)) if one.component == "lateness" else one for one in components(100)
    )
    view.world.hear(msgspec.structs.replace(task(), components=told))
    (query,) = stage_page(view, "lateness").work
    assert (query.query, query.events, query.busy_us, query.mean_us) == ("late", 100, 400, 4.0)
    assert query.p99_ms == pytest.approx(2, rel=0.1)
    assert stage_page(view, "storms").work == ()


def test_a_receivers_latencies_are_bars_without_a_gap(view: FakeView) -> None:
    view.world.hear(reporting(100, up_ms=1_000))
    bars = stage_page(view, "EventReceiver").latencies
    assert (bars[0].events, bars[-1].events, sum(bar.events for bar in bars)) == (98, 2, 100)
    ends = [bar.to_ms for bar in bars]
    assert ends == sorted(ends)
    assert bars[-1].to_ms == pytest.approx(41, rel=0.19)


def test_instances_that_no_task_has_told_of_are_expected(view: FakeView) -> None:
    view.world.put(plan(epoch=2))
    assert {one.state for one in stage_page(view, "lateness").instances} == {"expected"}
    assert page(view).executors == 0


def test_a_stage_that_is_not_there_is_refused_by_the_names_that_are(view: FakeView) -> None:
    with pytest.raises(UnknownComponentError, match="no stage named lates; there are: EventReceiver, lateness"):
        stage_page(view, "lates")


def test_a_plan_that_cannot_be_compiled_has_a_page_without_stages(view: FakeView) -> None:
    view.world.put(plan(epoch=2, compiled="broken"))
    told = page(view)
    assert (told.stages, told.connections, told.status.topology.reason) == ((), (), "broken")


def test_mermaid_draws_every_node_and_edge_and_is_not_broken_by_names(view: FakeView) -> None:
    graph = view.graph(KEY)
    text = mermaid(graph)
    assert text.startswith("flowchart LR\n")
    assert text.count("|") == 2 * len(graph.edges)
    assert 'n2[["EventReceiver#35;0 · capacity 0.000 · 10.0.0.2"]]' in text
    hostile = msgspec.structs.replace(graph.nodes[0], label='"]; <script>')
    assert "<script>" not in mermaid(msgspec.structs.replace(graph, nodes=(hostile, *graph.nodes[1:])))
