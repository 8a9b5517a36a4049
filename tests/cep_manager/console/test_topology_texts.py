"""The texts of a plan's pages."""

import msgspec
import pytest
from manager_world import KEY, FakeView, World, plan

from cep_common.monitoring.latency import bucket, upper_bound_ms
from cep_manager.graph.model import GraphConnection
from cep_manager.graph.topology_view.page import topology_view
from cep_manager.graph.topology_view.stages import histogram
from cep_manager.monitoring.status import PlanStatus, plan_status
from cep_manager.plans.compiled_plan import PlannedQuery
from cep_manager.plans.state import PlanState
from cep_manager.web.console.texts.formats import latency
from cep_manager.web.console.texts.highlight import siddhi_lines
from cep_manager.web.console.texts.metric_columns import COMPONENT_COLUMNS, METRICS, STAGE_TABLES
from cep_manager.web.console.texts.presenters import Line
from cep_manager.web.console.texts.topology import (
    actions,
    capacity_step,
    connection_texts,
    histogram_bars,
    plan_lines,
    query_text,
    stage_tables,
    summary,
)


@pytest.fixture
def view() -> FakeView:
    world = World()
    world.active(events=1_000)
    return FakeView(world)


def status(view: FakeView, **changes: object) -> PlanStatus:
    found = plan_status(view.world.snapshot(), KEY)
    return msgspec.structs.replace(found, topology=msgspec.structs.replace(found.topology, **changes))


def test_every_column_of_every_table_has_its_meaning() -> None:
    named = {name for _, _, columns in STAGE_TABLES for name in columns}
    named |= {name for columns in COMPONENT_COLUMNS.values() for name in columns}
    assert named <= METRICS.keys()
    assert {kind for _, kinds, _ in STAGE_TABLES for kind in kinds} == COMPONENT_COLUMNS.keys()


def test_stages_stand_in_the_table_of_their_kind(view: FakeView) -> None:
    tables = stage_tables(topology_view(view.overview(), KEY, "10m"))
    assert [(table.title, [stage.name for stage in table.stages]) for table in tables] == [
        ("Receivers", ["EventReceiver"]),
        ("Processors", ["lateness", "aircraft", "storms"]),
        ("Publishers", ["EventPublisher"]),
    ]


def test_the_summary_tells_where_how_much_and_how_safely_it_runs(view: FakeView) -> None:
    facts = dict(summary(topology_view(view.overview(), KEY, "10m")).facts)
    assert (facts["Workers"], facts["Hosts"], facts["Instances"]) == ("1 of 1", "10.0.0.2", "6 of 6")
    assert (facts["Delivery"], facts["Last checkpoint"], facts["Epoch"]) == ("at least once", "none", "1")
    assert facts["Id"] == "Storms-1234-1767225600"


def test_a_plan_that_cannot_be_compiled_says_why_on_top(view: FakeView) -> None:
    view.world.put(plan(epoch=2, compiled="line 3: nothing is defined"))
    text = summary(topology_view(view.overview(), KEY, "10m"))
    assert (text.state, text.problem) == ("failed", "line 3: nothing is defined")


def test_what_runs_can_be_deactivated_and_not_activated(view: FakeView) -> None:
    found = actions(status(view), stages=True)
    assert found["activate"].refusal == "The plan is active."
    assert {name for name, action in found.items() if not action.refusal} == set(found) - {"activate", "release"}
    assert {name for name, action in found.items() if action.permission == "EDIT"} == {"rename", "edit", "undeploy"}


def test_what_is_being_changed_waits_with_its_changes(view: FakeView) -> None:
    found = actions(status(view, state=PlanState.REBALANCING, change="rebalance"), stages=True)
    assert {name for name, action in found.items() if "wait until" in action.refusal} == {
        "rebalance",
        "restart",
        "savepoint",
        "rename",
    }


def test_what_waits_cannot_be_sampled_or_saved(view: FakeView) -> None:
    found = actions(status(view, state=PlanState.WAITING, intake=False), stages=False)
    assert "no running topology" in found["sample"].refusal
    assert "no running topology" in found["savepoint"].refusal
    assert found["rebalance"].refusal == "The plan's text cannot be compiled."
    assert (found["deactivate"].refusal, found["activate"].refusal) == ("The plan is deactivated.", "")


def test_a_connection_tells_from_whom_to_whom_and_when_it_is_held_back() -> None:
    inflow = GraphConnection(
        "inflow",
        "w1",
        "h1",
        "Departures",
        "EventReceiver#0",
        connected=True,
        events=12_345,
        waiting=3,
        events_per_second=7.5,
        under_way=64,
        window=64,
    )
    outflow = GraphConnection(
        "outflow",
        "w1",
        "h1",
        "EventPublisher#0",
        "EventPublisher#0",
        connected=True,
        events=None,
        waiting=0,
        under_way=5,
        window=1_000,
    )
    lost = msgspec.structs.replace(inflow, connected=False, peer="", under_way=0, window=0)
    told = connection_texts((inflow, outflow, lost))
    assert [(one.source, one.target) for one in told] == [
        ("w1 on h1", "EventReceiver#0"),
        ("EventPublisher#0", "w1 on h1"),
        ("w1 on h1", "no receiver yet"),
    ]
    assert [one.state for one in told] == [
        Line("", "backpressured: window full", "warn"),
        Line("", "established", "good"),
        Line("", "not connected", "wait"),
    ]
    assert [one.window for one in told] == ["64 of 64 (100\u202f%)", "5 of 1\u202f000 (0.5\u202f%)", "–"]
    assert [one.events for one in told] == ["12\u202f345", "–", "12\u202f345"]


def test_capacity_has_five_steps_that_end_at_fifths() -> None:
    assert [capacity_step(share) for share in (0, 0.19, 0.2, 0.5, 0.79, 0.8, 1.4)] == [0, 0, 1, 2, 3, 4, 4]


def test_the_picture_of_latencies_is_filled_by_its_highest_bar() -> None:
    fast = bucket(1_000_000)
    least, most = (latency(upper_bound_ms(fast + place)) for place in (1, 2))
    bars = histogram_bars(histogram({fast: 75, fast + 2: 25}), 300.0, 90.0)
    assert [(bar.x, bar.height) for bar in bars] == [(0, 90), (100, 0), (200, 30)]
    assert bars[0].hint == f"75 events (75\u202f%): up to {latency(upper_bound_ms(fast))}"
    assert bars[2].hint == f"25 events (25\u202f%): more than {least} and up to {most}"
    assert histogram_bars((), 300.0, 90.0) == ()


def test_a_query_is_found_in_the_plans_text_and_its_stage_beside_it() -> None:
    text = "define stream S (a int);\nfrom S\nselect a\ninsert into T;\n"
    query = PlannedQuery("all", 2, 4)
    assert query_text(text, query) == "from S\nselect a\ninsert into T;"
    lines = plan_lines(siddhi_lines(text), {"only": (query,)})
    assert [(line.number, line.stage, line.query) for line in lines][:3] == [
        (1, "", ""),
        (2, "only", "all"),
        (3, "", ""),
    ]
