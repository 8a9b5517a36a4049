"""What the console says, word for word."""

import msgspec
import pytest
from manager_world import KEY, LEASE_MS, PROBLEM, FakeView, World, driver, plan, serves, task, topology, worker

from cep_common.ids import PlanKey
from cep_manager.plans.state import PlanState
from cep_manager.web.console.texts.formats import count, duration, iso, plural, utc
from cep_manager.web.console.texts.highlight import siddhi_lines, xml_lines
from cep_manager.web.console.texts.presenters import (
    STATE_TONES,
    Line,
    present_cluster,
    present_plan,
    present_problem,
)


@pytest.fixture
def view() -> FakeView:
    world = World()
    world.active(events=12_345)
    return FakeView(world)


def test_a_plan_in_order(view: FakeView) -> None:
    row = present_plan(view.plan(KEY))
    assert msgspec.to_builtins(row) == {
        "name": "Storms",
        "tenant": -1234,
        "description": "Airports where many flights leave late",
        "epoch": 1,
        "updated": "2026-01-01 00:00:00 UTC",
        "updated_iso": "2026-01-01T00:00:00Z",
        "status": {
            "state": "active",
            "tone": "good",
            "reason": "",
            "facts": "for 0 ms · 1 of 1 task alive",
            "interruption": "",
            "change_error": "",
            "state_left": (),
            "last_error": "",
            "inflow": ({"label": "worker-1 on 10.0.0.3", "text": "all established", "tone": "good"},),
            "outflow": {"label": "", "text": "all established", "tone": "good"},
        },
    }


def test_a_plan_in_trouble(view: FakeView) -> None:
    view.world.hear(driver(topology("restarting", reason="task 0 died", restarts=2)))
    view.world.hear(worker(serves(linked=False)))
    status = present_plan(view.plan(KEY)).status
    assert (status.state, status.tone, status.reason) == ("restarting", "warn", "task 0 died")
    assert status.facts == "for 0 ms · 0 of 1 task alive · 2 restarts"
    assert status.inflow == (Line("worker-1 on 10.0.0.3", "0/2 established", "wait"),)
    assert status.outflow == Line("", "0/1 established", "wait")


def test_a_plan_that_came_back_still_tells_what_happened(view: FakeView) -> None:
    view.world.hear(driver(topology("restarting", reason="task 0 died", restarts=1)))
    view.world.now_ms += 12_000
    view.world.hear(driver(topology("running", restarts=1)), task(attempt=1))
    assert present_plan(view.plan(KEY)).status.interruption == "task 0 died, 12 s ago"


def test_every_state_has_a_tone_and_only_work_under_way_and_rest_share_theirs() -> None:
    assert set(STATE_TONES) == set(PlanState)
    shared = {tone for tone in STATE_TONES.values() if list(STATE_TONES.values()).count(tone) > 1}
    assert shared == {"busy", "idle", "bad"}, "failed and degraded are both red"


def test_the_cluster_with_everything_alive(view: FakeView) -> None:
    text = present_cluster(view.cluster())
    assert text.driver is not None
    assert text.driver.slots == "1 used, 3 free of 4 slots"
    assert text.driver.state == Line("", "alive for 0 ms", "good")
    assert [(row.name, row.http, row.ingress, row.plans, row.state.text) for row in text.workers] == [
        ("worker-1", "http://10.0.0.3:9763", "10.0.0.3:9611", "Storms[-1234]", "alive")
    ]
    assert [(row.topology, row.number, row.where, row.state.tone) for row in text.tasks] == [
        ("Storms[-1234]", 0, "10.0.0.2, process 200", "good")
    ]
    assert dict(text.facts)["Endpoints"] == "1 receiver, 0 workers"


def test_the_cluster_after_everything_fell_silent(view: FakeView) -> None:
    view.world.tick(LEASE_MS)
    text = present_cluster(view.cluster())
    assert text.driver is not None
    assert text.driver.state == Line("", "silent for 3 s", "bad")
    assert text.driver_missing == "the driver driver-1 on 10.0.0.1 (process 100) is silent"
    assert text.workers == ()
    assert text.tasks[0].state == Line("", "silent for 3 s", "bad")
    assert dict(text.facts)["Endpoints"] == "0 receivers, 0 workers, 1 silent"


def test_a_topology_that_nobody_wants_is_marked(view: FakeView) -> None:
    view.world.hear(driver(topology("running", key=PlanKey(1, "Stray"))))
    text = present_cluster(view.cluster())
    assert text.driver is not None
    assert text.driver.topologies == (("Stray[1]", 1, Line("", "running", "good"), "no longer needed; being stopped"),)


def test_a_worker_that_lags_behind_the_plan_list_is_marked(view: FakeView) -> None:
    view.world.put(plan(key=PlanKey(-1234, "Another")))
    assert present_cluster(view.cluster()).workers[0].state == Line("", "alive, applying the latest plans", "busy")


def test_a_driver_cannot_smuggle_a_script_in_as_its_address(view: FakeView) -> None:
    view.world.hear(msgspec.structs.replace(driver(), web_url="javascript:alert(1)"))
    text = present_cluster(view.cluster())
    assert text.driver is not None
    assert text.driver.web_url == ""


def test_a_problem_is_shown_without_saying_anything_twice() -> None:
    text = present_problem(PROBLEM)
    assert text.snippet == "    from Departure\n         ^^^^^^^^^"
    assert text.place == "Line 2, column 6 · unknown-stream"
    assert text.hint == "did you mean 'Departures'?"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (185_000, "3 min 5 s"),
        (7_800_000, "2 h 10 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_durations_are_told_in_their_two_largest_units(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def test_numbers_and_times() -> None:
    assert count(1_234_567) == "1\u202f234\u202f567"
    assert (plural(1, "task", "tasks"), plural(0, "task", "tasks")) == ("1 task", "0 tasks")
    assert (utc(0), iso(0)) == ("1970-01-01 00:00:00 UTC", "1970-01-01T00:00:00Z")


PLAN = """-- a 'comment'
@Plan:name('P') /* two
lines */ define stream S (a int);
from S[a > 5] select a insert into T;"""


def test_highlighting_never_changes_the_text() -> None:
    for lines, text in (
        (siddhi_lines(PLAN), PLAN),
        (xml_lines('<a b="c">x</a>\n<!-- d -->'), '<a b="c">x</a>\n<!-- d -->'),
    ):
        assert "\n".join("".join(piece for _, piece in line) for line in lines) == text


def test_pieces_of_a_plan_are_told_apart() -> None:
    lines = siddhi_lines(PLAN)
    assert lines[0] == [("comment", "-- a 'comment'")]
    assert ("annotation", "@Plan:name") in lines[1]
    assert ("string", "'P'") in lines[1]
    assert lines[2][0] == ("comment", "lines */")
    assert {("keyword", "define"), ("keyword", "stream"), ("type", "int")} <= set(lines[2])
    assert {("keyword", "from"), ("number", "5"), ("keyword", "select")} <= set(lines[3])
