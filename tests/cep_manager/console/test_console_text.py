"""Numbers as people read them, word for word; and the list of plans."""

import html
import re
import sys

import pytest
from flask.testing import FlaskClient
from manager_world import KEY, FakeView, World, driver, plan, topology, worker

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.protocol.registry import WorkerPlanReport
from cep_manager.monitoring.overview.plan_list import PlanFilter, plan_page
from cep_manager.plans.rule_sets.origin import RuleOrigin
from cep_manager.plans.stored_plan import PlanSettings
from cep_manager.web.app import create_app
from cep_manager.web.console.texts.formats import FILTERS, coded, latency, percent, rate, sentence, short, size
from cep_manager.web.console.texts.plan_list import present_plans


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0\u202fms"),
        (0.0852, "85.2\u202fµs"),
        (0.9996, "1\u202fms"),
        (4.254, "4.25\u202fms"),
        (999.4, "999\u202fms"),
        (999.6, "1\u202fs"),
        (2_500, "2.5\u202fs"),
        (61_000, "1 min 1 s"),
    ],
)
def test_latencies_are_told_to_three_digits(milliseconds: float, text: str) -> None:
    assert latency(milliseconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (7, "7"),
        (99.96, "100"),
        (999, "999"),
        (999.6, "1\u202fk"),
        (12_345, "12.3\u202fk"),
        (4.56e6, "4.56\u202fM"),
    ],
)
def test_numbers_are_told_to_three_digits(number: float, text: str) -> None:
    assert short(number) == text
    assert rate(number) == f"{text}/s"


def test_sizes_count_in_powers_of_two_and_shares_in_hundredths() -> None:
    assert [size(n) for n in (512, 1_536, 20 << 20)] == ["512\u202fB", "1.5\u202fKiB", "20\u202fMiB"]
    assert [percent(n) for n in (0, 0.004, 0.05, 0.93, 1.2)] == [f"{n}\u202f%" for n in ("0", "0.4", "5", "93", "120")]


def test_what_is_not_known_is_a_dash() -> None:
    assert {FILTERS[name](None) for name in FILTERS if name not in ("utc", "iso", "coded", "sentence")} == {"–"}


def test_what_stands_in_backquotes_is_code_and_all_else_stays_text() -> None:
    assert coded("start `cep <driver>` & wait") == "start <code>cep &lt;driver&gt;</code> &amp; wait"


def test_a_sentence_begins_large_and_leaves_names_as_they_are() -> None:
    assert sentence("driver Alpha on Host-B is silent") == "Driver Alpha on Host-B is silent"
    assert sentence("") == ""


@pytest.fixture
def view() -> FakeView:
    world = World()
    world.active(events=1_000)
    world.put(plan(key=PlanKey(SUPER_TENANT, "Broken"), compiled="line 3: no such stream"))
    world.put(plan(key=PlanKey(SUPER_TENANT, "Queued")))
    waiting = topology("waiting", reason="needs 2 slots", key=PlanKey(SUPER_TENANT, "Queued"))
    world.hear(driver(topology("running"), waiting), peer=b"driver")
    return FakeView(world)


@pytest.fixture
def client(view: FakeView) -> FlaskClient:
    return create_app(view, 2_000).test_client()


def test_plans_at_work_stand_apart_from_those_that_are_not_with_the_reason(view: FakeView) -> None:
    snapshot = view.overview().snapshot
    lists = present_plans(snapshot, plan_page(snapshot, SUPER_TENANT, PlanFilter(), 0, 50))
    assert lists.tally == "1 active plan, 2 inactive"
    (storms,) = lists.active
    assert (storms.name, storms.state, storms.reason, storms.tasks) == ("Storms", "active", "", "1/1")
    assert [(line.text, line.tone) for line in (*storms.inflow, storms.outflow)] == [("all established", "good")] * 2
    assert [(one.name, one.state, one.reason) for one in lists.inactive] == [
        ("Broken", "failed", "line 3: no such stream"),
        ("Queued", "waiting", "needs 2 slots"),
    ]


def many(count: int) -> World:
    """So many plans, of which a worker tells; half of them belong to a rule set."""
    world = World()
    reports = []
    for number in range(count):
        key = PlanKey(SUPER_TENANT, f"P{number:04}")
        origin = RuleOrigin("weather", f"{number}.siddhiql").text() if number % 2 else ""
        world.put(plan(key=key, settings=PlanSettings(origin=origin)))
        reports.append(WorkerPlanReport(key=key, epoch=1))
    world.hear(driver())
    world.hear(worker(*reports))
    return world


def test_a_long_list_is_filtered_and_paged_by_the_manager() -> None:
    client = create_app(FakeView(many(120)), 2_000).test_client()
    first = client.get("/plans").get_data(as_text=True)
    assert first.count('id="row-') == 50
    assert "1–50 of 120" in first
    assert "Page 1 of 3" in first
    last = client.get("/fragments/plans?page=9").get_data(as_text=True)
    assert (last.count('id="row-'), "101–120 of 120" in last) == (20, True)
    found = client.get("/fragments/plans?q=p000+weather&rule_set=weather").get_data(as_text=True)
    assert re.findall(r'id="row-(\w+)"', found) == ["P0001", "P0003", "P0005", "P0007", "P0009"]
    assert "5 that match" in found
    assert "No plan matches" in client.get("/plans?state=failed").get_data(as_text=True)
    assert client.get("/plans?page=x&q=%00").status_code == 200


def test_the_list_of_the_api_is_filtered_and_paged() -> None:
    client = create_app(FakeView(many(9)), 2_000).test_client()
    found = client.get("/api/v1/plans?rule_set=weather&offset=1&limit=2").get_json()
    assert ([one["plan"] for one in found["plans"]], found["total"]) == (["P0003", "P0005"], 4)
    assert client.get("/api/v1/plans?limit=0").status_code == 400


def calls_for_a_page(plans: int) -> int:
    """Count the calls of functions that a page of the list of so many plans takes."""
    client = create_app(FakeView(many(plans)), 2_000).test_client()
    client.get("/fragments/plans?page=2")  # compiles the templates
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        client.get("/fragments/plans?page=2")
    finally:
        sys.setprofile(None)
    return calls


def test_the_work_for_a_page_does_not_grow_with_the_square_of_all_plans() -> None:
    few, many_more = calls_for_a_page(200), calls_for_a_page(800)
    assert few > 1_000
    assert many_more < 4 * few


def test_many_plans_are_changed_at_once(client: FlaskClient, view: FakeView) -> None:
    answer = client.post("/plan-list/deactivate", data={"plan": ["Storms", "Queued"], "state": "active"})
    assert (answer.status_code, answer.headers["Location"]) == (
        303,
        "/plans?notice=all-deactivate&plans=2&state=active",
    )
    assert [(key.plan, what) for key, what in view.done] == [("Storms", "deactivate"), ("Queued", "deactivate")]
    assert "2 plans were deactivated" in client.get(answer.headers["Location"]).get_data(as_text=True)
    view.done.clear()
    client.post("/plan-list/activate", data={"all": "yes", "q": "queued"})
    assert [(key.plan, what) for key, what in view.done] == [("Queued", "activate")]
    assert client.post("/plan-list/activate").status_code == 400
    told = client.post("/plan-list/activate", data={"plan": ["Storms", "None"]}).get_data(as_text=True)
    assert "1 of 2 plans were activated." in told
    assert "no plan named None" in told


def test_many_plans_are_undeployed_after_a_question(client: FlaskClient, view: FakeView) -> None:
    asked = client.post("/plan-list/undeploy", data={"all": "yes"}).get_data(as_text=True)
    assert "Undeploy 3 plans?" in asked
    assert view.undeployed == []
    names = html.unescape(re.findall(r'name="plans" value="([^"]*)"', asked)[0])
    client.post("/plan-list/undeploy", data={"plans": names, "confirmed": "yes"})
    assert sorted(key.plan for key in view.undeployed) == ["Broken", "Queued", "Storms"]


@pytest.mark.parametrize(
    ("action", "form", "done"),
    [
        ("deactivate", {}, "deactivate"),
        ("trace", {}, "trace"),
        ("savepoint", {}, "savepoint "),
        ("statistics", {"level": "detail"}, "statistics detail"),
    ],
)
def test_deeds_of_the_list_lead_back_to_it(
    client: FlaskClient, view: FakeView, action: str, form: dict[str, str], done: str
) -> None:
    assert f'action="/plans/Storms/{action}"' in client.get("/plans").get_data(as_text=True)
    answer = client.post(f"/plans/Storms/{action}", data={**form, "back": "plans"})
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/plans?plan=Storms&notice={action}")
    assert view.done == [(KEY, done)]
    assert '<p class="notice" role="status">' in client.get(answer.headers["Location"]).get_data(as_text=True)


def test_a_level_that_is_none_is_refused(client: FlaskClient, view: FakeView) -> None:
    assert client.post("/plans/Storms/statistics", data={"level": "all"}).status_code == 400
    assert view.done == []


def test_a_plan_that_takes_no_events_can_be_activated(client: FlaskClient, view: FakeView) -> None:
    view.world.put(plan(epoch=2, settings=PlanSettings(intake=False)))
    page = client.get("/plans").get_data(as_text=True)
    assert 'action="/plans/Storms/activate"' in page
    assert 'action="/plans/Storms/deactivate"' not in page
