"""A plan's page and its stages' pages, as the server gives them."""

import html
import re
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from flask.testing import FlaskClient
from manager_world import COMPILED, KEY, FakeView, World, components, plan, task

from cep_common.clock import ManualClock
from cep_common.protocol.tasks import SampledEvent
from cep_common.security.access import AccessRole
from cep_common.security.config import ServerSecurity
from cep_common.security.tokens import TokenFile
from cep_common.security.web import Gate
from cep_manager.plans.compiled_plan import PlannedQuery
from cep_manager.plans.scaling import Scaling
from cep_manager.plans.stored_plan import PlanSettings
from cep_manager.scaling.model import PlanScaling, StageScaling
from cep_manager.web.app import create_app


@pytest.fixture
def view() -> FakeView:
    world = World()
    world.active(events=1_000)
    return FakeView(world)


@pytest.fixture
def client(view: FakeView) -> FlaskClient:
    return create_app(view, 10_000).test_client()


def text_of(client: FlaskClient, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_data(as_text=True)


def test_the_page_has_all_stages_with_links_that_keep_the_window(client: FlaskClient) -> None:
    page = text_of(client, "/plans/Storms?window=3h")
    for stage in ("EventReceiver", "lateness", "aircraft", "storms", "EventPublisher"):
        assert f'href="/plans/Storms/components/{stage}?window=3h"' in page
    assert 'href="/plans/Storms?window=3h" aria-current="true"' in page
    assert 'data-refresh="/fragments/plans/Storms?window=3h"' in page


@pytest.mark.parametrize("address", ["/plans/Storms", "/plans/Storms/components/lateness", "/fragments/plans/Storms"])
def test_a_window_that_is_none_is_refused(client: FlaskClient, address: str) -> None:
    answer = client.get(f"{address}?window=5m")
    assert answer.status_code == 400
    assert "window must be one of 10m, 3h, 1d, all" in answer.get_data(as_text=True)


def test_stages_that_follow_the_load_are_shown_with_each_change_and_its_reason(
    client: FlaskClient, view: FakeView
) -> None:
    assert 'id="scaling"' not in text_of(client, "/plans/Storms")
    stage = StageScaling("lateness", 2, 1, 4, 0.62, 41_500.0, 120, 2, "busiest instance 62%")
    grown = Scaling(1_767_225_600_000, "lateness", 1, 2, 30_000.0, "busiest instance 92% for 30 s → 2 instances")
    failed = msgspec.structs.replace(grown, at_ms=1_767_225_000_000, problem="no <b>slots</b>")
    view.scaled = PlanScaling(KEY.plan, KEY.tenant, (stage,), (grown, failed))
    for address in ("/plans/Storms", "/fragments/plans/Storms"):
        page = text_of(client, address)
        assert '<td class="number nowrap">1 to 4</td>' in page
        assert "busiest instance 92% for 30 s → 2 instances" in page
        assert "no &lt;b&gt;slots" in page
    answer = client.get("/api/v1/plans/Storms/scaling").get_json()
    assert (answer["stages"][0]["busiest"], answer["history"][0]["instances_after"]) == (0.62, 2)
    assert client.get("/api/v1/plans/Nothing/scaling").status_code == 404


def test_every_head_of_a_stages_table_says_what_it_means(client: FlaskClient) -> None:
    page = text_of(client, "/fragments/plans/Storms")
    assert 'title="Share of the last 10 minutes that the busiest instance spent working' in page
    assert page.count("<summary>What these numbers mean</summary>") == 3


def test_what_cannot_be_done_is_off_and_says_why(client: FlaskClient, view: FakeView) -> None:
    view.world.put(plan(epoch=2, settings=PlanSettings(intake=False)))
    page = text_of(client, "/fragments/plans/Storms/head")
    assert 'id="do-sample" aria-disabled="true"' in page
    assert 'popovertarget="ask-activate"' in page
    assert 'id="ask-sample"' not in page
    assert "accepts no events" in page


def test_a_stages_page_has_its_instances_streams_and_queries(client: FlaskClient, view: FakeView) -> None:
    queries = (PlannedQuery("late", 1, 1),)
    stages = tuple(
        msgspec.structs.replace(one, queries=queries) if one.name == "lateness" else one for one in COMPILED.components
    )
    view.world.put(plan(epoch=2, text="from <b>S</b>;", compiled=msgspec.structs.replace(COMPILED, components=stages)))
    page = text_of(client, "/plans/Storms/components/lateness")
    assert page.count("not running") == 2
    assert 'href="/plans/Storms/components/EventReceiver?window=10m"' in page
    assert 'href="/plans/Storms?window=10m#line-1"' in page
    assert "&lt;b&gt;" in page
    assert "<b>S</b>" not in page
    assert "→ lateness" in text_of(client, "/plans/Storms")


def test_a_stage_that_is_not_there_is_a_page_that_says_so(client: FlaskClient) -> None:
    answer = client.get("/plans/Storms/components/gales")
    assert answer.status_code == 404
    assert "no stage named gales" in answer.get_data(as_text=True)


def test_sampling_is_begun_shown_and_ended_from_a_stages_page(client: FlaskClient, view: FakeView) -> None:
    address = "/plans/Storms/components/lateness"
    form = {"component": "lateness", "percent": "25", "for_s": "30"}
    answer = client.post("/plans/Storms/sample", data=form)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{address}#samples")
    assert "25 of 100 events, for 30 s more" in text_of(client, address)
    seen = (SampledEvent("lateness#0", "out", "Late", 1_767_225_600_000, '{"origin": "<b>ORD</b>"}'),)
    view.world.hear(msgspec.structs.replace(task(events=1_000), samples=seen))
    page = text_of(client, address)
    assert "&lt;b&gt;ORD&lt;/b&gt;" in page
    assert "<b>ORD" not in page
    client.post("/plans/Storms/sample", data={**form, "percent": "0"})
    page = text_of(client, address)
    assert "of 100 events, for" not in page
    assert "&lt;b&gt;ORD" in page


def test_all_stages_are_sampled_from_the_plans_page(client: FlaskClient, view: FakeView) -> None:
    answer = client.post("/plans/Storms/sample", data={"percent": "10", "for_s": "60"})
    assert answer.headers["Location"] == "/plans/Storms?notice=sample"
    assert len(view.world.snapshot().samples[KEY].running(0)) == 5


def test_an_error_is_escaped_placed_and_marked_as_recent(client: FlaskClient, view: FakeView) -> None:
    failed = tuple(
        msgspec.structs.replace(one, errors=1, last_error="<i>bad</i>", last_error_ms=view.now_ms - 60_000)
        if one.instance == "storms#0"
        else one
        for one in components(1_000)
    )
    view.world.hear(msgspec.structs.replace(task(events=1_000), components=failed))
    page = text_of(client, "/fragments/plans/Storms")
    assert "&lt;i&gt;bad&lt;/i&gt;" in page
    assert "storms#0 on 10.0.0.2, task 0, process 200" in page
    assert page.count('class="stage-error recent"') == 1


def test_a_plan_is_drained_or_what_waits_is_dropped_and_counted(client: FlaskClient, view: FakeView) -> None:
    client.post("/plans/Storms/undeploy", data={})
    answer = client.post("/plans/Storms/undeploy", data={"discard": "yes"})
    assert view.undeployed == [KEY, KEY]
    assert view.done == [(KEY, "discard")]
    page = client.get(answer.headers["Location"]).get_data(as_text=True)
    assert "Storms was undeployed. 1,234 accepted events were dropped; sinks have 30 s for 0 results." in page


def test_a_plan_is_restarted_from_the_savepoint_that_was_chosen(client: FlaskClient, view: FakeView) -> None:
    client.post("/plans/Storms/restart", data={"from": "before-upgrade"})
    assert view.done == [(KEY, "restart from before-upgrade")]


def test_the_rest_calls_of_the_page_answer_what_it_shows(client: FlaskClient) -> None:
    told = client.get("/api/v1/plans/Storms/components?window=all").get_json()
    assert told["stages"][0]["name"] == "EventReceiver"
    assert told["window"] == "all"
    one = client.get("/api/v1/plans/Storms/components/aircraft").get_json()
    assert [stream["stream"] for stream in one["inputs"]] == ["Arrivals", "Departures"]
    assert client.get("/api/v1/plans/Storms/components/gales").get_json()["code"] == "unknown-component"
    assert client.get("/api/v1/plans/Storms/topology.mmd").get_data(as_text=True).startswith("flowchart LR")
    begun = client.post("/api/v1/plans/Storms/sample", json={"component": "aircraft", "percent": 5})
    assert begun.get_json()["orders"] == [{"component": "aircraft", "percent": 5.0, "left_ms": 60_000}]
    assert client.get("/api/v1/plans/Storms/samples?component=storms").get_json()["orders"] == []
    assert client.post("/api/v1/plans/Storms/sample", json={"percent": 101}).status_code == 400


def test_a_stage_may_bear_any_name(client: FlaskClient, view: FakeView) -> None:
    hostile = "<img src=x>/\"two\" & 'three'?#0"
    stages = tuple(
        msgspec.structs.replace(one, name=hostile) if one.name == "lateness" else one for one in COMPILED.components
    )
    view.world.put(plan(epoch=2, compiled=msgspec.structs.replace(COMPILED, components=stages)))
    page = text_of(client, "/plans/Storms")
    assert "<img src=x>" not in page
    address = next(one for one in re.findall(r'href="(/plans/Storms/components/[^"]+)"', page) if "img" in one)
    page = text_of(client, html.unescape(address))
    assert "<img src=x>" not in page
    assert hostile in html.unescape(page)
    told = client.get(f"/api/v1/plans/Storms/components/{quote(hostile, safe='')}").get_json()
    assert told["stage"]["name"] == hostile
    assert "<img" not in client.get("/api/v1/plans/Storms/topology.mmd").get_data(as_text=True)


@pytest.mark.parametrize(
    ("role", "may_operate", "may_edit"),
    [(AccessRole.VIEWER, False, False), (AccessRole.OPERATOR, True, False), (AccessRole.EDITOR, True, True)],
)
def test_what_a_role_may_not_do_is_off_and_says_so(
    view: FakeView, tmp_path: Path, role: AccessRole, may_operate: bool, may_edit: bool
) -> None:
    path = tmp_path / "tokens"
    token = TokenFile(path).create("somebody", role, None, 0)
    client = create_app(view, 1_000, Gate(ServerSecurity(tokens=str(path)), "127.0.0.1", ManualClock())).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    page = text_of(client, "/fragments/plans/Storms/head")
    for name, allowed in (("rebalance", may_operate), ("sample", may_operate), ("undeploy", may_edit)):
        assert (f'id="do-{name}" aria-disabled="true" title="Your role may not do this."' in page) is not allowed
        assert (f'id="ask-{name}"' in page) is allowed
    assert (
        "Your role may not start sampling." in text_of(client, "/plans/Storms/components/storms")
    ) is not may_operate
    answer = client.post("/plans/Storms/sample", data={"percent": "10", "for_s": "60"})
    assert answer.status_code == (303 if may_operate else 403)
