"""Logs and configurations over HTTP: calls, pages, who may see them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from insight_world import Processes
from manager_world import worker

from cep_common.clock import ManualClock
from cep_common.security.access import AccessRole
from cep_common.security.config import ServerSecurity
from cep_common.security.tokens import TokenFile
from cep_common.security.web import Gate
from cep_manager.web.app import create_app

TASK = "task:Storms[-1234]:1:0"


@pytest.fixture
def processes() -> Processes:
    return Processes()


@pytest.fixture
def client(processes: Processes) -> FlaskClient:
    return create_app(processes.as_view(), 100_000).test_client()


def get(client: FlaskClient, path: str, **query: Any) -> Any:
    return json.loads(client.get(f"/api/v1{path}", query_string=query).data)


def test_processes_are_listed(client: FlaskClient) -> None:
    listed = get(client, "/processes")["processes"]
    assert [one["kind"] for one in listed] == ["manager", "driver", "worker", "task"]
    assert listed[3]["id"] == TASK


def test_a_log_is_read_and_followed(client: FlaskClient, processes: Processes) -> None:
    page = get(client, f"/processes/{TASK}/log", level="INFO", contains="WORKS")
    assert [one["text"] for one in page["records"]] == ["task works"]
    processes.log("run-3", "it works again")
    page = get(client, f"/processes/{TASK}/log", after=page["next"], contains="works")
    assert [one["text"] for one in page["records"]] == ["it works again"]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"level": "LOUD"}, "level"),
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"contains": "x" * 501}, "contains"),
    ],
)
def test_queries_are_bounded(client: FlaskClient, query: dict[str, str], parameter: str) -> None:
    answer = client.get(f"/api/v1/processes/{TASK}/log", query_string=query)
    assert answer.status_code == 400
    assert answer.json is not None
    assert answer.json["details"]["parameter"] == parameter


@pytest.mark.parametrize(
    "name", ["..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "file:%2F%2F%2Fetc%2Fpasswd", "worker:%00"]
)
def test_no_path_leads_to_a_file(client: FlaskClient, processes: Processes, name: str) -> None:
    assert client.get(f"/api/v1/processes/{name}/log").status_code == 404
    assert client.get("/logs", query_string={"process": name}).status_code == 404
    assert processes.questions == []


def test_a_process_that_does_not_answer_is_named(client: FlaskClient, processes: Processes) -> None:
    processes.silent.add("run-3")
    answer = client.get(f"/api/v1/processes/{TASK}/log")
    assert answer.status_code == 504
    assert answer.json is not None
    assert answer.json["code"] == "process-silent"
    assert "process 200 on 10.0.0.2" in answer.json["message"]


def test_a_search_gives_what_it_got_and_who_is_missing(client: FlaskClient, processes: Processes) -> None:
    processes.silent.add("run-1")
    found = get(client, "/log", plan="Storms")
    assert {one["process"] for one in found["records"]} == {"worker:worker-1", TASK}
    assert [one["process"]["id"] for one in found["answers"] if not one["answered"]] == ["driver:driver-1"]


def test_configurations_are_told_with_their_origins(client: FlaskClient) -> None:
    told = get(client, "/processes/worker:worker-1/configuration")["settings"]
    assert told[0]["where"] == "conf/x.yaml"
    assert len(get(client, "/configuration")["configurations"]) == 4


def client_as(processes: Processes, folder: Path, role: AccessRole, tenant: int | None = None) -> FlaskClient:
    path = folder / "tokens"
    token = TokenFile(path).create("somebody", role, tenant, 0)
    gate = Gate(ServerSecurity(tokens=str(path)), "127.0.0.1", ManualClock())
    client = create_app(processes.as_view(), 100_000, gate).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return client


SYSTEM = (
    "/api/v1/processes",
    f"/api/v1/processes/{TASK}/log",
    "/api/v1/log",
    "/api/v1/configuration",
    "/logs",
    "/configuration",
)


def test_viewers_see_all_logs(processes: Processes, tmp_path: Path) -> None:
    client = client_as(processes, tmp_path, AccessRole.VIEWER)
    assert {path: client.get(path).status_code for path in SYSTEM} == dict.fromkeys(SYSTEM, 200)


def test_who_belongs_to_a_tenant_sees_its_own_plans_tasks_and_nothing_else(
    processes: Processes, tmp_path: Path
) -> None:
    client = client_as(processes, tmp_path, AccessRole.VIEWER, tenant=-1234)
    assert {path: client.get(path).status_code for path in SYSTEM} == dict.fromkeys(SYSTEM, 403)
    found = get(client, "/plans/Storms/log")
    assert {one["process"] for one in found["records"]} == {TASK}
    assert client.get("/api/v1/plans/Storms/log?tenant=7").status_code == 403


def test_a_plan_that_is_not_there_has_no_log(client: FlaskClient, processes: Processes) -> None:
    assert client.get("/api/v1/plans/Nothing/log").status_code == 404
    assert processes.questions == []


def test_the_page_of_logs_shows_what_can_be_chosen_by_host(client: FlaskClient) -> None:
    page = client.get("/logs", query_string={"process": TASK, "level": "warning", "contains": "<b>x"}).text
    assert 'aria-current="true" title="process 200' in page
    assert "<option selected>WARNING</option>" in page
    assert 'value="&lt;b&gt;x"' in page
    assert 'data-source="/api/v1/processes/task:Storms%5B-1234%5D:1:0/log"' in page
    assert page.index(">10.0.0.1</h3>") < page.index(">10.0.0.2</h3>") < page.index(">10.0.0.3</h3>")


@pytest.mark.parametrize("page", ["/plans/Storms", "/plans/Storms/components/lateness"])
def test_the_pages_of_a_plan_and_of_its_stages_lead_to_the_logs_of_their_processes(
    client: FlaskClient, page: str
) -> None:
    found = re.search(r'href="([^"]*)" title="The log of this process">200</a>', client.get(page).text)
    assert found is not None
    assert '<h2 id="log-title">Storms task 0</h2>' in client.get(found[1]).text


def test_a_process_that_has_ended_is_not_there_any_more_and_others_can_be_chosen(client: FlaskClient) -> None:
    answer = client.get("/logs", query_string={"process": "task:Storms[-1234]:0:<b>"})
    assert answer.status_code == 404
    assert "task:Storms[-1234]:0:&lt;b&gt; has ended" in answer.text
    assert "worker-1" in answer.text
    assert "logs.js" not in answer.text


def test_the_page_of_a_plans_logs_asks_for_all_that_has_to_do_with_it(client: FlaskClient) -> None:
    assert 'data-source="/api/v1/log?plan=Storms"' in client.get("/logs?plan=Storms").text
    assert 'data-source="/api/v1/log"' in client.get("/logs").text


def test_the_page_of_configurations_tells_where_keys_were_set(client: FlaskClient, processes: Processes) -> None:
    page = client.get("/configuration", query_string={"process": "worker:worker-1"}).text
    assert "conf/x.yaml" in page
    assert "<caption>http</caption>" in page
    processes.silent.add("run-1")
    assert "it did not answer." in client.get("/configuration", query_string={"process": "driver:driver-1"}).text


def test_names_of_processes_are_shown_as_text(processes: Processes) -> None:
    processes.world.hear(worker(name="<script>alert(1)</script>"))
    page = create_app(processes.as_view(), 100_000).test_client().get("/logs").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
