"""The pages of checkpoints, exceptions and workers, and the same over REST."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ailing_world import HOSTILE, NOW_MS, ailing_world
from flask.testing import FlaskClient
from manager_world import KEY, FakeView, World, driver, plan, task

from cep_cli.monitor.status_text import plan_status
from cep_common.clock import ManualClock
from cep_common.protocol.registry import RegisterWorker
from cep_common.security.access import AccessRole
from cep_common.security.config import ServerSecurity
from cep_common.security.tokens import TokenFile
from cep_common.security.web import Gate
from cep_manager.errors import PlanStoreError
from cep_manager.plans.state import PlanState
from cep_manager.web.app import create_app

PAGES = (
    "/checkpoints",
    "/plans/Storms/checkpoints",
    "/exceptions",
    "/plans/Storms/exceptions",
    "/workers",
    "/workers/worker-1",
)


@pytest.fixture
def view() -> FakeView:
    made = FakeView(ailing_world())
    made.now_ms = NOW_MS
    return made


@pytest.fixture
def client(view: FakeView) -> FlaskClient:
    return create_app(view, 2_000).test_client()


def text_of(client: FlaskClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


# ---- what all of them have in common --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES)
def test_a_page_and_its_fragment_show_the_same_and_let_no_markup_in(client: FlaskClient, path: str) -> None:
    whole, part = client.get(path), client.get(f"/fragments{path}")
    assert (whole.status_code, part.status_code) == (200, 200)
    assert part.text.strip() in whole.text
    assert "<script>alert" not in whole.text
    assert "<b>'" not in whole.text


@pytest.mark.parametrize("path", PAGES)
def test_a_failure_of_the_manager_is_told_in_place(client: FlaskClient, view: FakeView, path: str) -> None:
    view.failure = PlanStoreError("the plan store cannot be used")
    for address in (path, f"/fragments{path}"):
        answer = client.get(address)
        assert answer.status_code == 503
        assert "the plan store cannot be used" in answer.text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/checkpoints", "No plans, so no checkpoints"),
        ("/exceptions", "No exceptions"),
        ("/workers", "No worker is alive"),
    ],
)
def test_where_there_is_nothing_the_page_says_what_would_be_there(path: str, words: str) -> None:
    assert words in text_of(create_app(FakeView(World()), 2_000).test_client(), path)


@pytest.mark.parametrize("path", ["/plans/No/checkpoints", "/plans/No/exceptions", "/workers/nobody"])
def test_what_is_not_there_is_said_to_be_missing(client: FlaskClient, path: str) -> None:
    assert client.get(path).status_code == 404


def client_of(view: FakeView, path: Path, role: AccessRole, tenant: int | None = None) -> FlaskClient:
    """A client that shows a token of that role in every request."""
    token = TokenFile(path).create("somebody", role, tenant, 0)
    made = create_app(view, 2_000, Gate(ServerSecurity(tokens=str(path)), "127.0.0.1", ManualClock())).test_client()
    made.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return made


def test_what_a_role_may_not_do_is_not_offered_and_refused(view: FakeView, tmp_path: Path) -> None:
    offered = {
        AccessRole.SENDER: set(),
        AccessRole.VIEWER: set(),
        AccessRole.OPERATOR: {"take-savepoint", "restart-before"},
        AccessRole.EDITOR: {"take-savepoint", "restart-before", "delete-before", "clear-checkpoints"},
    }
    for role, buttons in offered.items():
        client = client_of(view, tmp_path / f"{role}.json", role)
        page = client.get("/plans/Storms/checkpoints").text
        assert {name for name in offered[AccessRole.EDITOR] if f'id="{name}"' in page} == buttons
        for path, button in (
            ("savepoints", "take-savepoint"),
            ("savepoints/before/restart", "restart-before"),
            ("savepoints/before/delete", "delete-before"),
            ("checkpoints/clear", "clear-checkpoints"),
        ):
            expected = 303 if button in buttons else 403
            assert client.post(f"/plans/Storms/{path}").status_code == expected


def test_who_belongs_to_one_tenant_sees_its_plans_errors_and_nothing_of_processes(
    view: FakeView, tmp_path: Path
) -> None:
    view.world.tick(after_ms=10_000)
    client = client_of(view, tmp_path / "tokens.json", AccessRole.VIEWER, KEY.tenant)
    page = client.get("/exceptions").text
    assert "events-dropped" in page
    assert "fell silent" not in page
    assert "/logs?" not in page
    assert [client.get(path).status_code for path in ("/workers", "/workers/worker-1")] == [403, 403]
    assert client.get("/api/v1/exceptions/processes").status_code == 403
    assert client.get("/exceptions?tenant=7").status_code == 403


# ---- checkpoints ----------------------------------------------------------------------------------------------------


def test_all_plans_tell_their_last_checkpoint_and_what_came_to_nothing(client: FlaskClient) -> None:
    text = text_of(client, "/checkpoints")
    assert "Storms missing: 1 the last abandoned 13" in text
    assert "every 10 s" in text
    assert "s3://bucket/checkpoints" in text


def test_a_plans_history_tells_how_each_checkpoint_ended_and_why(client: FlaskClient) -> None:
    text = text_of(client, "/plans/Storms/checkpoints")
    for line in (
        "14 abandoned missing: 1 interval",
        "13 complete savepoint before",
        "12 failed task 1:",
        "15 being taken",
    ):
        assert line in text
    assert "2 of 2" in text
    assert "1 failed, 1 abandoned" in text
    assert "Duration 200 ms 300 ms 200 ms 400 ms 400 ms" in text
    page = client.get("/plans/Storms/checkpoints").text
    assert len(re.findall(r'class="bar (?:complete|failed|abandoned|taking)"', page)) == 5
    assert "style=" not in page


def test_a_plan_without_checkpoints_says_why() -> None:
    world = World()
    world.active()
    client = create_app(FakeView(world), 2_000).test_client()
    assert "No checkpoints yet No driver is registered" in text_of(client, "/plans/Storms/checkpoints")


def test_savepoints_are_taken_deleted_and_begun_from_and_checkpoints_removed(
    client: FlaskClient, view: FakeView
) -> None:
    page = client.get("/plans/Storms/checkpoints").text
    assert page.count("data-confirm=") == 4  # restart from, delete, delete, remove
    for path, form in (
        ("savepoints", {"savepoint": " now "}),
        ("savepoints/before/delete", {}),
        ("savepoints/before/restart", {}),
        ("checkpoints/clear", {}),
    ):
        answer = client.post(f"/plans/Storms/{path}", data=form)
        assert answer.status_code == 303
        assert 'role="status">' in client.get(answer.headers["Location"]).text
    assert view.done == [
        (KEY, "savepoint now"),
        (KEY, "delete savepoint before"),
        (KEY, "restart from before"),
        (KEY, "clear checkpoints"),
    ]
    assert client.post("/plans/Storms/savepoints/none/delete").status_code == 404


# ---- exceptions -----------------------------------------------------------------------------------------------------


def test_the_root_cause_comes_first_with_its_traceback_place_and_log(client: FlaskClient) -> None:
    text = text_of(client, "/plans/Storms/exceptions")
    cause, history = text.split("History", 1)
    assert "Root cause of the last failure" in cause
    assert "Traceback (most recent call last):" in cause
    assert "storms#0 on 10.0.0.2, process 200" in cause
    assert history.index("events-dropped") < history.index("sink") < history.index("ValueError")
    page = client.get("/plans/Storms/exceptions").text
    assert 'href="/logs?process=task%3AStorms%5B-1234%5D%3A1%3A0"' in page
    assert 'href="/plans/Storms/components/storms"' in page


def test_of_a_process_that_has_ended_the_plans_logs_are_offered(client: FlaskClient, view: FakeView) -> None:
    view.world.hear(task(attempt=5, process_id=201))
    cause = client.get("/plans/Storms/exceptions").text.partition("History")[0]
    assert "process 200, which has ended" in cause
    assert 'href="/logs?plan=Storms">the plan&#39;s logs</a>' in cause


def test_a_million_events_that_fail_alike_are_one_line(client: FlaskClient) -> None:
    text = text_of(client, "/exceptions")
    assert text.count("events-dropped") == 1
    assert "1 204 117" in text


def test_errors_over_rest_are_grouped_with_their_places(client: FlaskClient) -> None:
    told = client.get("/api/v1/plans/Storms/exceptions").get_json()
    assert [(one["code"], one["kind"], one["component"], one["count"]) for one in told["errors"]] == [
        ("events-dropped", "error", "lateness", 1_204_117),
        ("sink", "error", "", 14),
        ("ValueError", "failure", "storms", 3),
    ]
    assert told["root_cause"]["text"] == f"no number: {HOSTILE}"
    assert told["errors"][1]["places"][0]["instance"] == "sink http of KnockOns"
    assert len(client.get("/api/v1/exceptions").get_json()["errors"]) == 3
    assert client.get("/api/v1/exceptions", headers={"tenant": "7"}).get_json()["errors"] == []


def test_a_lost_worker_is_told_of_apart_from_plans_and_its_log_cannot_be_read_any_more(
    client: FlaskClient, view: FakeView
) -> None:
    view.world.tick(after_ms=10_000)
    view.world.hear(driver(), peer=b"driver")
    view.world.hear(task(attempt=4))
    (lost,) = (
        one for one in client.get("/api/v1/exceptions/processes").get_json()["errors"] if "worker" in one["code"]
    )
    assert (lost["code"], lost["places"][0]["process_id"]) == ("worker-lost", 300)
    assert "worker-1 fell silent" in text_of(client, "/exceptions")
    assert "process=worker%3Aworker-1" not in client.get("/exceptions").text


def test_a_plan_that_cannot_be_compiled_any_more_tells_why_as_its_root_cause(
    client: FlaskClient, view: FakeView
) -> None:
    view.world.put(plan(epoch=2, compiled="stream 'Late' is not defined"))
    view.world.tick()
    assert view.world.snapshot().plans[KEY].state is PlanState.FAILED
    assert "plan-invalid stream &#39;Late&#39; is not defined" in text_of(client, "/plans/Storms/exceptions")


# ---- workers --------------------------------------------------------------------------------------------------------


def test_workers_are_listed_with_what_is_wrong(client: FlaskClient) -> None:
    text = text_of(client, "/workers")
    trouble = "1 log full, 1 source or sink failing, 7 events lost, 3 prepared results lost, "
    trouble += "damaged files of 66 KiB set aside"
    assert f"worker-1 {trouble} live 10.0.0.3 300 3 d" in text


def test_a_workers_page_tells_of_its_connections_logs_sources_sinks_and_listeners(client: FlaskClient) -> None:
    text = text_of(client, "/workers/worker-1")
    for words in (
        "Departures linked EventReceiver#0",
        "16 384 of 65 536",
        "EventPublisher#0 waits for a sink",
        "420 results",
        "3 results could not be read back and are lost; damaged files of 2 KiB were set aside (*.unreadable)",
        "4 GiB of 4 GiB",
        "256 41 s 7 64 KiB",
        "wal.maximum_bytes",
        "sink http KnockOns Storms failing",
        "KnockOns:1.0.0",
        "on disk shortly after",
    ):
        assert words in text


def test_a_worker_over_rest_tells_rates_and_use(client: FlaskClient, view: FakeView) -> None:
    told = client.get("/api/v1/workers/worker-1").get_json()
    assert told["state"] == "live"
    assert told["cpu"] == pytest.approx(0.25, rel=0.5)
    assert told["events_in_per_s"] > 0
    assert (told["plans"][0]["write_ahead_logs"][1]["lost_events"], told["errors"], told["prepared_results"]) == (
        7,
        14,
        420,
    )
    assert isinstance(view.world.snapshot().workers[0].latest, RegisterWorker)
    listed = client.get("/api/v1/workers").get_json()["workers"]
    assert [one["worker"] for one in listed] == ["worker-1"]
    assert client.get("/api/v1/workers/nobody").get_json()["code"] == "unknown-worker"


def test_a_worker_that_fell_silent_is_shown_as_lost_for_a_minute(client: FlaskClient, view: FakeView) -> None:
    view.world.tick(after_ms=10_000)
    assert re.search("worker-1 1 log full, .* set aside lost 10.0.0.3", text_of(client, "/workers"))
    assert "last heard" in text_of(client, "/workers/worker-1")
    view.world.tick(after_ms=60_000)
    assert client.get("/workers/worker-1").status_code == 404


# ---- topics ---------------------------------------------------------------------------------------------------------


def test_a_plan_shows_who_reads_which_partition_and_how_far(client: FlaskClient) -> None:
    shown = text_of(client, "/fragments/plans/Storms")
    assert "arrivals 0 Arrivals worker-1 0 7 – –" in shown
    assert "arrivals 1 Arrivals worker-1 3 000 12040 12038 15040" in shown
    told = client.get("/api/v1/plans/Storms").json
    assert told is not None
    assert told["status"]["topics"][1] == {
        "worker": "worker-1", "stream": "Arrivals", "topic": "arrivals", "partition": 1,
        "position": 12_040, "committed": 12_038, "end": 15_040, "lag": 3_000,
    }  # fmt: skip
    assert "arrivals[1] for Arrivals at worker-1 : lag 3000, read up to 12040 of 15040, committed 12038" in plan_status(
        told
    )
    assert "alerts KnockOns worker-1 1 204 31 2 33" in shown
    assert told["status"]["topics_written"] == [
        {
            "worker": "worker-1", "stream": "KnockOns", "topic": "alerts", "messages": 1_204,
            "committed": 31, "aborted": 2, "checkpoint": 33, "in_doubt": False,
        }
    ]  # fmt: skip
    line = "alerts by KnockOns at worker-1 : 1,204 messages, transactions: 31 committed, 2 aborted, up to checkpoint 33"
    assert line in plan_status(told)
