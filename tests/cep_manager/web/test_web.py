"""REST API and console over a made-up cluster, through Flask's test client."""

import json
import re

import msgspec
import pytest
from flask.testing import FlaskClient
from manager_world import COMPILED, KEY, LEASE_MS, PROBLEM, WARNING, FakeView, World, plan

from cep_common.errors import CepError
from cep_common.ids import PlanKey
from cep_common.protocol.registry import StreamBinding
from cep_manager.errors import (
    BadRequestError,
    ManagerError,
    ManagerUnavailableError,
    PlanExistsError,
    PlanStoreError,
    QuotaError,
)
from cep_manager.events.model import TailFilter
from cep_manager.plans.stored_plan import PlanSettings
from cep_manager.web.api.failures import HTTP_STATUS, status_of
from cep_manager.web.app import create_app

BODY_BYTES = 2_000
EVENT_PAGES = ["/events", "/events/imported/Arrivals:1.0.0", "/events/exported/KnockOns:1.0.0"]
PAGES = [
    "/",
    "/plans",
    "/deploy",
    "/deploy?plan=Storms",
    "/plans/Storms",
    "/plans/Storms/undeploy",
    "/event-flow",
    "/cluster",
    *EVENT_PAGES,
]
FRAGMENTS = ["/fragments/overview", "/fragments/plans", "/fragments/plans/Storms", "/fragments/cluster"]
READS = [
    "/api/v1/plans",
    "/api/v1/plans/Storms",
    "/api/v1/plans/Storms/status",
    "/api/v1/plans/Storms/query-plan",
    "/api/v1/plans/Storms/topology",
    "/api/v1/language",
    "/api/v1/overview",
    "/api/v1/event-flow",
    "/api/v1/event-streams",
    "/api/v1/cluster",
    "/api/v1/health",
]


@pytest.fixture
def view() -> FakeView:
    world = World()
    world.active(events=1_000)
    return FakeView(world)


@pytest.fixture
def client(view: FakeView) -> FlaskClient:
    return create_app(view, BODY_BYTES).test_client()


# ---- REST -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", READS)
def test_everything_that_can_be_read_is_answered(client: FlaskClient, address: str) -> None:
    assert client.get(address).status_code == 200


def test_the_list_gives_each_plans_status_in_three_parts(client: FlaskClient) -> None:
    (found,) = client.get("/api/v1/plans").get_json()["plans"]
    assert (found["plan"], found["topology"], found["epoch"]) == ("Storms", "Storms[-1234]", 1)
    assert found["status"]["topology"]["state"] == "active"
    assert found["status"]["inflow"] == [{"worker": "worker-1", "host": "10.0.0.3", "established": 2, "required": 2}]
    assert found["status"]["outflow"] == {"connected": 1, "required": 1}
    assert found["status"]["connected"] is True


def test_the_graph_gives_nodes_edges_and_connections(client: FlaskClient) -> None:
    found = client.get("/api/v1/plans/Storms/topology").get_json()
    assert {node["kind"] for node in found["nodes"]} == {"source", "receiver", "processor", "publisher", "sink"}
    assert {
        "source",
        "target",
        "stream",
        "connected",
        "events",
        "events_per_second",
        "grouping",
        "under_way",
        "window",
    } == (set(found["edges"][0]))
    assert len(found["connections"]) == 3


def test_a_tenant_sees_its_own_plans_only(client: FlaskClient, view: FakeView) -> None:
    view.world.put(plan(key=PlanKey(7, "Theirs")))
    assert [one["plan"] for one in client.get("/api/v1/plans").get_json()["plans"]] == ["Storms"]
    assert [one["plan"] for one in client.get("/api/v1/plans?tenant=7").get_json()["plans"]] == ["Theirs"]
    assert [one["plan"] for one in client.get("/api/v1/plans", headers={"tenant": "7"}).get_json()["plans"]] == [
        "Theirs"
    ]
    assert client.get("/api/v1/plans/Storms?tenant=7").status_code == 404


def test_deploying_answers_created_or_done(client: FlaskClient, view: FakeView) -> None:
    assert client.post("/api/v1/plans", data="text").status_code == 201
    assert client.post("/api/v1/plans?replace=true&tenant=7", data="again").status_code == 200
    assert client.put("/api/v1/plans/Storms", data="other").status_code == 201
    assert view.deployed == [(-1234, "text", False), (7, "again", True), (-1234, "other", True)]


def test_a_refused_text_comes_back_with_its_problems(client: FlaskClient) -> None:
    answer = client.post("/api/v1/plans", data="broken")
    assert answer.status_code == 422
    body = answer.get_json()
    assert body["code"] == "plan-invalid"
    (problem,) = body["details"]["problems"]
    assert (problem["line"], problem["column"], problem["code"]) == (2, 6, PROBLEM.code)


def test_validation_tells_problems_and_warnings_and_deploys_nothing(client: FlaskClient, view: FakeView) -> None:
    good = client.post("/api/v1/validate", data="odd").get_json()
    assert (good["valid"], good["problems"], good["warnings"][0]["code"]) == (True, [], WARNING.code)
    bad = client.post("/api/v1/validate", data="broken").get_json()
    assert (bad["valid"], bad["problems"][0]["code"]) == (False, PROBLEM.code)
    assert view.deployed == []


def test_a_preview_has_the_graph_the_query_plan_and_words(client: FlaskClient, view: FakeView) -> None:
    found = client.post("/api/v1/preview?tenant=7", data="text").get_json()
    assert found["query_plan"].startswith("<query-plan")
    assert {node["state"] for node in found["graph"]["nodes"]} == {"expected"}
    assert found["graph"]["tenant"] == 7
    assert client.post("/api/v1/preview", data="broken").status_code == 422
    assert view.deployed == []


def test_what_an_edit_would_keep_is_told_and_nothing_deployed(client: FlaskClient, view: FakeView) -> None:
    address = f"/api/v1/plans/{KEY.plan}/edit-preview"
    found = client.post(address, data="text").get_json()
    assert (found["kept"], found["reset"], found["parts"][0]["held"]["rows"]) == (0, 1, 12)
    assert found["streams"] == [
        {"stream": "Departures", "waiting_events": 7, "fate": "mapped", "reason": "by name; null: gate"}
    ]
    assert client.post(address, data="broken").status_code == 422
    assert client.post("/api/v1/plans/Nobody/edit-preview", data="text").status_code == 404
    assert view.deployed == []


def test_how_queries_run_is_told_of_texts_and_of_deployed_plans(client: FlaskClient, view: FakeView) -> None:
    found = client.get(f"/api/v1/plans/{KEY.plan}/explanation").get_json()
    assert found == client.post("/api/v1/explain", data="text").get_json()
    (query,) = found["stages"][0]["queries"]
    assert query["operators"][0]["ruled_out"] == [{"operator": "FastOperator", "reason": "<b>no</b>"}]
    assert query["warnings"] == ["SlowOperator works event by event in Python"]
    assert client.post("/api/v1/explain", data="broken").status_code == 422
    assert client.get("/api/v1/plans/Nobody/explanation").status_code == 404
    shown = client.get(f"/plans/{KEY.plan}/operators").get_data(as_text=True)
    assert "SlowOperator works event by event in Python" in shown
    assert "&lt;b&gt;no&lt;/b&gt;" in shown
    assert client.get("/plans/Nobody/operators").status_code == 404
    assert view.deployed == []


def test_a_trial_takes_events_by_name_or_in_order(client: FlaskClient, view: FakeView) -> None:
    events = [{"stream": "S", "data": {"a": 1}}, {"stream": "S", "data": [2], "timestamp": 5}]
    answer = client.post("/api/v1/try", json={"text": "text", "events": events, "wait_ms": 10})
    assert answer.get_json()["outputs"][0]["rows"][0]["values"] == ["<b>ORD</b>"]
    (trial,) = view.tried
    assert [(one.data, one.timestamp) for one in trial.events] == [({"a": 1}, None), ([2], 5)]
    assert (trial.text, trial.wait_ms, trial.start_ms) == ("text", 10, None)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": "t"},
        {"text": "t", "events": [1]},
        {"text": "t", "events": [], "more": 1},
        {"text": "t", "events": [{"stream": "S", "data": 1}]},
    ],
)
def test_a_trial_that_cannot_be_understood_is_refused(client: FlaskClient, view: FakeView, body: object) -> None:
    answer = client.post("/api/v1/try", json=body)
    assert (answer.status_code, answer.get_json()["code"]) == (400, "bad-request")
    assert view.tried == []


def test_a_stream_is_watched_by_server_sent_events_until_its_end(client: FlaskClient, view: FakeView) -> None:
    answer = client.get("/api/v1/event-streams/KnockOns:1.0.0/tail?attribute=tailnum&operator=contains&value=N1")
    assert answer.mimetype == "text/event-stream"
    beat, first, last = answer.get_data(as_text=True).strip().split("\n\n")
    assert beat == ": watching"
    report = json.loads(first.removeprefix("data: "))
    assert (report["events"][0]["tailnum"], report["seen"]) == ("<b>x</b>", 10)
    assert last.startswith("event: ended\ndata: {")
    answer.close()
    (tail,) = view.tails
    assert (tail.closed, tail.wanted) == (True, TailFilter("tailnum", "contains", "N1"))


def test_a_look_at_a_stream_is_one_report(client: FlaskClient, view: FakeView) -> None:
    found = client.get("/api/v1/event-streams/KnockOns:1.0.0/look?wait_ms=10").get_json()
    assert (found["seen"], found["ended"]) == (10, "")
    assert view.tails[0].closed
    for query in ("wait_ms=5001", "wait_ms=x", "attribute=a&operator=like"):
        assert client.get(f"/api/v1/event-streams/KnockOns:1.0.0/look?{query}").status_code == 400
    assert client.get("/api/v1/event-streams/Arrivals:1.0.0/tail").status_code == 404
    assert len(view.tails) == 1


def test_events_are_handed_to_a_worker_with_the_senders_own_authorisation(client: FlaskClient, view: FakeView) -> None:
    headers = {"Authorization": "Bearer mine", "Content-Type": "application/x-ndjson"}
    answer = client.post("/api/v1/event-streams/Arrivals:1.0.0/events", data="{}", headers=headers)
    assert answer.get_json() == {"stream": "Arrivals:1.0.0", "accepted": 1, "worker": "worker-1"}
    assert view.sent == [("Arrivals:1.0.0", b"{}", "application/x-ndjson", "Bearer mine")]
    refused = client.post("/api/v1/event-streams/Arrivals:1.0.0/events", data="broken")
    assert (refused.status_code, refused.get_json()["code"]) == (422, "events-refused")
    assert refused.get_json()["details"]["problems"][0]["problem"] == "must be a number"


def test_undeploying_answers_how_many_events_wait_or_were_dropped(client: FlaskClient, view: FakeView) -> None:
    answer = client.delete("/api/v1/plans/Storms")
    told = answer.get_json()
    assert (answer.status_code, told["draining"], told["waiting_events"]) == (202, True, 1_234)
    answer = client.delete("/api/v1/plans/Storms?discard=true")
    told = answer.get_json()
    assert (answer.status_code, told["draining"], told["discarded_events"]) == (200, False, 1_234)
    assert view.undeployed == [KEY, KEY]
    assert view.done == [(KEY, "discard")]


@pytest.mark.parametrize(
    ("method", "address", "data", "status", "code"),
    [
        ("GET", "/api/v1/plans/None", None, 404, "unknown-plan"),
        ("GET", "/api/v1/plans/None/status", None, 404, "unknown-plan"),
        ("GET", "/api/v1/plans/None/topology", None, 404, "unknown-plan"),
        ("GET", "/api/v1/plans/None/query-plan", None, 404, "unknown-plan"),
        ("DELETE", "/api/v1/plans/None", None, 404, "unknown-plan"),
        ("POST", "/api/v1/plans", "clash", 409, "plan-exists"),
        ("GET", "/api/v1/plans?tenant=seven", None, 400, "bad-request"),
        ("POST", "/api/v1/plans?replace=perhaps", "text", 400, "bad-request"),
        ("POST", "/api/v1/plans", b"\xff\xfe", 400, "bad-request"),
        ("POST", "/api/v1/plans", "x" * (BODY_BYTES + 1), 413, "body-too-large"),
        ("GET", "/api/v1/nothing", None, 404, "not-found"),
        ("POST", "/api/v1/cluster", "", 405, "method-not-allowed"),
    ],
)
def test_every_failure_has_the_same_form(
    client: FlaskClient, method: str, address: str, data: str | bytes | None, status: int, code: str
) -> None:
    answer = client.open(address, method=method, data=data)
    body = answer.get_json()
    assert (answer.status_code, body["code"]) == (status, code)
    assert set(body) == {"code", "message", "details"}
    assert body["message"]


@pytest.mark.parametrize("error", [PlanStoreError("database is locked"), ManagerUnavailableError("no loop")])
def test_what_may_heal_is_answered_with_503(client: FlaskClient, view: FakeView, error: ManagerError) -> None:
    view.failure = error
    answer = client.get("/api/v1/plans")
    assert (answer.status_code, answer.get_json()["message"]) == (503, error.message)


def test_an_unexpected_error_is_logged_once_and_tells_the_client_nothing(
    client: FlaskClient, view: FakeView, caplog: pytest.LogCaptureFixture
) -> None:
    view.failure = RuntimeError("a secret path")
    client.application.config["PROPAGATE_EXCEPTIONS"] = False
    answer = client.get("/api/v1/plans")
    assert (answer.status_code, answer.get_json()["code"]) == (500, "internal")
    assert b"secret" not in answer.data
    assert len(caplog.records) == 1


def test_people_are_told_of_every_failure_on_a_page(client: FlaskClient, view: FakeView) -> None:
    client.application.config["PROPAGATE_EXCEPTIONS"] = False
    refused = client.post("/cluster")
    too_large = client.post("/deploy", data={"text": "x" * (BODY_BYTES + 1)})
    view.failure = RuntimeError("a secret path")
    failed = client.get("/plans")
    for answer, status, words in (
        (refused, 405, "this address does not support that method"),
        (too_large, 413, "http.body_bytes"),
        (failed, 500, "the manager failed; its log says more"),
    ):
        page = answer.get_data(as_text=True)
        assert (answer.status_code, answer.mimetype) == (status, "text/html")
        assert "This cannot be shown" in page
        assert words in page
    assert "GET" in refused.headers["Allow"]
    assert b"secret" not in failed.data


def test_every_error_of_the_manager_has_a_status() -> None:
    assert {kind for kind in ManagerError.__subclasses__() if kind not in HTTP_STATUS} == set()
    assert status_of(CepError("anything else")) == 500


def test_health_is_503_when_the_loop_is_gone(client: FlaskClient, view: FakeView) -> None:
    view.healthy = False
    answer = client.get("/api/v1/health")
    assert (answer.status_code, answer.get_json()["ok"]) == (503, False)


# ---- console --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", PAGES + FRAGMENTS)
def test_every_page_is_shown_and_brings_nothing_from_elsewhere(client: FlaskClient, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 200
    text = answer.get_data(as_text=True)
    assert re.findall(r"(?:src|href|action)=\"(?:https?:)?//(?!10\.0\.0\.)", text) == []
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", text) == []


@pytest.mark.parametrize("address", PAGES)
def test_pages_forbid_inline_code_and_framing(client: FlaskClient, address: str) -> None:
    policy = client.get(address).headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_every_asset_that_a_page_asks_for_is_there(client: FlaskClient) -> None:
    assets = {
        asset for page in PAGES for asset in re.findall(r"/static/[\w.]+", client.get(page).get_data(as_text=True))
    }
    for asset in [asset for asset in assets if asset.endswith(".js")]:
        modules = re.findall(
            r'^import .* from "\./([\w./]+)";$', client.get(asset).get_data(as_text=True), re.MULTILINE
        )
        assets |= {f"/static/{module}" for module in modules}
    assert "/static/vendor/codemirror.js" in assets
    assert {"/static/console.css", "/static/refresh.js", "/static/graph.js", "/static/icon.svg"} <= assets
    assert {client.get(asset).status_code for asset in assets} == {200}


def test_the_list_tells_the_status_in_words(client: FlaskClient, view: FakeView) -> None:
    page = client.get("/plans").get_data(as_text=True)
    assert "active" in page
    assert page.count("all established") == 2
    view.world.tick(LEASE_MS)
    page = client.get("/fragments/plans").get_data(as_text=True)
    assert "the driver driver-1 on 10.0.0.1 (process 100) is silent" in page
    assert "silent for 3 s" in page
    assert "0/1 established" in page


def test_an_empty_list_says_what_to_do() -> None:
    page = create_app(FakeView(World()), BODY_BYTES).test_client().get("/plans").get_data(as_text=True)
    assert "No execution plans yet" in page
    assert 'href="/deploy"' in page


def test_deploying_by_the_form_leads_to_the_plan(client: FlaskClient, view: FakeView) -> None:
    answer = client.post("/deploy", data={"text": "line\r\nline", "action": "deploy"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/plans/Storms?notice=deployed")
    assert view.deployed == [(-1234, "line\nline", False)]
    assert "Storms was deployed." in client.get(answer.headers["Location"]).get_data(as_text=True)


def test_the_form_keeps_a_refused_text_and_shows_the_caret(client: FlaskClient) -> None:
    answer = client.post("/deploy", data={"text": "broken <text>", "action": "deploy"})
    page = answer.get_data(as_text=True)
    assert answer.status_code == 422
    assert "broken &lt;text&gt;" in page
    assert "         ^^^^^^^^^" in page
    assert "Line 2, column 6" in page
    assert "did you mean &#39;Departures&#39;?" in page


def test_the_query_plan_of_a_text_is_shown_as_text(client: FlaskClient) -> None:
    page = client.post("/fragments/query-plan", data="text").get_data(as_text=True)
    assert "Storms: 3 execution groups" in page
    assert "&lt;query-plan" in page
    assert client.post("/fragments/query-plan", data="broken").status_code == 422


def test_the_form_validates_without_deploying(client: FlaskClient, view: FakeView) -> None:
    assert "Storms is valid" in client.post("/deploy", data={"text": "odd", "action": "validate"}).get_data(
        as_text=True
    )
    assert "1 problem" in client.post("/deploy", data={"text": "broken", "action": "validate"}).get_data(as_text=True)
    assert view.deployed == []


def test_a_name_clash_says_how_to_replace(client: FlaskClient) -> None:
    answer = client.post("/deploy", data={"text": "clash", "action": "deploy"})
    assert answer.status_code == 409
    assert "Replace the deployed plan" in answer.get_data(as_text=True)
    assert client.post("/deploy", data={"text": "clash", "action": "deploy", "replace": "yes"}).status_code == 303


def test_the_cluster_page_leads_to_plans_of_their_own_tenant(client: FlaskClient) -> None:
    assert 'href="/plans/Storms?tenant=-1234"' in client.get("/cluster?tenant=7").get_data(as_text=True)


def test_undeploying_asks_once_and_says_what_is_lost(client: FlaskClient, view: FakeView) -> None:
    page = client.get("/plans/Storms/undeploy").get_data(as_text=True)
    assert "the state of its windows and patterns is lost" in page
    assert "its checkpoints. Its savepoints stay." in page
    assert re.search(r'<input type="checkbox" name="discard" value="yes">', page)
    assert "At this moment 3 accepted events wait." in page
    assert view.undeployed == []
    answer = client.post("/plans/Storms/undeploy")
    assert answer.headers["Location"] == "/plans?notice=draining&plan=Storms"
    assert view.undeployed == [KEY]


@pytest.mark.parametrize(
    ("action", "form", "done", "notice"),
    [
        ("deactivate", {}, "deactivate", "its state is kept"),
        ("activate", {}, "activate", "was activated"),
        ("trace", {}, "trace", "is traced"),
        ("untrace", {}, "untrace", "no longer traced"),
        ("restart", {}, "restart", "is restarted"),
        ("rebalance", {"workers": "3"}, "rebalance to 3", "is being rebalanced"),
        ("rebalance", {"workers": "1", "host": "own"}, "rebalance to 1 in own", "is being rebalanced"),
        ("rename", {"name": " Gales "}, "rename to Gales", "was renamed"),
    ],
)
def test_the_life_cycle_is_in_the_plans_page(
    client: FlaskClient, view: FakeView, action: str, form: dict[str, str], done: str, notice: str
) -> None:
    view.world.put(plan(epoch=2, settings=PlanSettings(intake=action != "activate", trace=action == "untrace")))
    page = client.get("/plans/Storms").get_data(as_text=True)
    assert f'action="/plans/Storms/{action}"' in page
    answer = client.post(f"/plans/Storms/{action}", data=form)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/plans/Storms?notice={action}")
    assert view.done == [(KEY, done)]
    assert notice in client.get(answer.headers["Location"]).get_data(as_text=True)


def test_a_number_that_is_none_is_refused_in_words(client: FlaskClient, view: FakeView) -> None:
    answer = client.post("/plans/Storms/rebalance", data={"workers": "two"})
    assert answer.status_code == 400
    assert "workers must be a whole number" in answer.get_data(as_text=True)
    answer = client.post("/plans/Storms/rebalance", data={"workers": "2", "host": "mine"})
    assert answer.status_code == 400
    assert "host must be one of own, shared" in answer.get_data(as_text=True)
    assert view.done == []


def test_an_edited_plan_is_renamed_when_that_is_ticked(client: FlaskClient, view: FakeView) -> None:
    page = client.get("/deploy?plan=Storms").get_data(as_text=True)
    assert 'name="edited" value="Storms"' in page
    client.post("/deploy", data={"text": "text", "action": "deploy", "edited": "Storms", "rename": "yes"})
    assert view.done == [(KEY, "rename Storms")]


@pytest.mark.parametrize(
    ("error", "edited", "ticked", "advice"),
    [
        (BadRequestError("the text is of a plan named Gales"), "Storms", {}, "Tick “Rename Storms” to do so."),
        (PlanExistsError("deployed with another text"), "Storms", {}, "Tick “Replace the deployed plan” to do so."),
        (PlanExistsError("Gales is deployed already"), "Storms", {"rename": "yes"}, None),
        (QuotaError("tenant 7 may use 4 slots in all"), "", {"replace": "yes"}, None),
        (PlanStoreError("the plan store cannot be used"), "", {}, None),
    ],
)
def test_a_refused_text_stays_on_the_page_with_what_would_help(
    client: FlaskClient, view: FakeView, error: CepError, edited: str, ticked: dict[str, str], advice: str | None
) -> None:
    view.failure = error
    answer = client.post("/deploy", data={"text": "my long text", "action": "deploy", "edited": edited, **ticked})
    page = answer.get_data(as_text=True)
    assert answer.status_code == status_of(error)
    assert "my long text" in page
    assert error.message in page
    assert re.findall("Tick “[^”]*” to do so.", page) == ([advice] if advice else [])


def test_links_stay_with_the_tenant(client: FlaskClient, view: FakeView) -> None:
    view.world.put(plan(key=PlanKey(7, "Theirs")))
    page = client.get("/plans?tenant=7").get_data(as_text=True)
    assert 'href="/plans/Theirs?tenant=7"' in page
    assert 'data-refresh="/fragments/plans?tenant=7"' in page


def test_what_users_write_is_shown_as_text(client: FlaskClient, view: FakeView) -> None:
    view.world.put(plan(epoch=2, text="<script>alert(1)</script>", compiled="<img src=x>"))
    for address in ("/plans", "/plans/Storms", "/deploy?plan=Storms"):
        page = client.get(address).get_data(as_text=True)
        assert "<script>alert" not in page
        assert "<img src=x>" not in page
    assert "the query plan" not in page
    assert "no query plan" in client.get("/plans/Storms").get_data(as_text=True)


def test_names_of_attributes_stay_text_and_values_for_scripts_stay_data(client: FlaskClient, view: FakeView) -> None:
    hostile = (("\"><script>alert(1)</script>'", "string"),)
    bindings = (StreamBinding("S", "<img src=x>:1.0.0", hostile),)
    compiled = msgspec.structs.replace(COMPILED, imported=bindings, exported=bindings)
    view.world.put(plan(key=PlanKey(KEY.tenant, "<b>Hostile</b>"), compiled=compiled))
    name = "%3Cimg%20src%3Dx%3E:1.0.0"
    for address in ("/events", f"/events/imported/{name}", f"/events/exported/{name}"):
        page = client.get(address).get_data(as_text=True)
        assert "alert(1)" in page
        assert "<script>alert" not in page
        assert "<img" not in page.partition("</header>")[2]
        assert "<b>Hostile" not in page


def test_a_page_that_is_not_there_is_said_in_a_page(client: FlaskClient) -> None:
    for address in ("/plans/None", "/nothing"):
        answer = client.get(address)
        assert answer.status_code == 404
        assert answer.mimetype == "text/html"
        assert "This cannot be shown" in answer.get_data(as_text=True)


def test_a_page_says_when_the_manager_cannot_answer(client: FlaskClient, view: FakeView) -> None:
    view.failure = ManagerUnavailableError("the control loop does not run")
    for address in ("/plans", "/fragments/plans"):
        answer = client.get(address)
        assert answer.status_code == 503
        assert "the control loop does not run" in answer.get_data(as_text=True)


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
@pytest.mark.parametrize(
    ("method", "address"),
    [
        ("POST", "/api/v1/plans"),
        ("DELETE", "/api/v1/plans/Storms"),
        ("POST", "/deploy"),
        ("POST", "/plans/Storms/undeploy"),
        ("POST", "/plans/Storms/restart"),
        ("POST", "/api/v1/try"),
        ("POST", "/api/v1/event-streams/Arrivals:1.0.0/events"),
    ],
)
def test_other_sites_cannot_change_anything(
    client: FlaskClient, view: FakeView, headers: dict[str, str], method: str, address: str
) -> None:
    answer = client.open(address, method=method, headers=headers, data={"text": "text", "action": "deploy"})
    assert (answer.status_code, answer.get_json()["code"]) == (403, "cross-site")
    assert (view.deployed, view.undeployed, view.tried, view.sent) == ([], [], [], [])


def test_the_consoles_own_pages_and_scripts_may(client: FlaskClient, view: FakeView) -> None:
    own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/api/v1/plans", data="text", headers=own).status_code == 201
    assert client.post("/api/v1/plans", data="text").status_code == 201
