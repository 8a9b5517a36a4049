"""The OpenAPI document and the calls are one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from manager_world import FakeView, World

from cep_manager.web.access import CALLS
from cep_manager.web.api.openapi import PART
from cep_manager.web.app import create_app

APP = create_app(FakeView(World()), 10_000)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    answer = APP.test_client().get("/api/v1/openapi.json")
    assert (answer.status_code, answer.content_type) == (200, "application/json")
    return answer.get_json()


def operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for path in document["paths"].values() for operation in path.values()]


def test_every_route_is_described_and_nothing_else(document: dict[str, Any]) -> None:
    """A route of the API is declared by `Api.get`, `.post`, … of cep_manager/web/api/calls.py, with its description."""
    routes = {
        (method, PART.sub(r"{\1}", rule.rule.removeprefix("/api/v1")))
        for rule in APP.url_map.iter_rules()
        if rule.rule.startswith("/api/v1")
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == routes


def test_the_document_is_openapi() -> None:
    schemathesis.openapi.from_wsgi("/api/v1/openapi.json", APP).validate()


def test_every_code_of_a_call_is_listed_for_people(document: dict[str, Any]) -> None:
    """docs/rest/failures.md has a table of all codes, which a test of its own keeps complete."""
    text = (Path(__file__).parents[3] / "docs" / "rest" / "failures.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| (\d+) \| `([a-z-]+)` \|", text, flags=re.MULTILINE))
    told = {
        (status, code)
        for operation in operations(document)
        for status, answer in operation["responses"].items()
        if status >= "400"
        for code in re.findall(r"`([a-z]+(?:-[a-z]+)+)`", answer["description"])
    }
    assert len(told) > 20
    assert told - listed == set()


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    wanted = {part.split('"')[0] for part in text.split('"$ref": "#/components/')[1:]}
    there = {f"{kind}/{name}" for kind, parts in document["components"].items() for name in parts}
    assert wanted <= there


def test_every_call_tells_its_permission_and_only_open_ones_need_nobody(document: dict[str, Any]) -> None:
    for operation in operations(document):
        permission = CALLS[f"api.{operation['operationId']}"]
        assert operation["x-permission"] == permission.value
        assert ("security" in operation) == (permission.value == "open")
        assert permission.value == "open" or "401" in operation["responses"]


def test_every_failure_of_every_call_has_one_form(document: dict[str, Any]) -> None:
    for operation in operations(document):
        for status, answer in operation["responses"].items():
            if status >= "300" and status != "304" and operation["operationId"] != "show_health":
                schema = answer["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Failure"}, (operation["operationId"], status)


def test_what_has_not_changed_is_not_sent_again() -> None:
    client = APP.test_client()
    tag = client.get("/api/v1/plans").headers["ETag"]
    again = client.get("/api/v1/plans", headers={"If-None-Match": tag})
    assert (again.status_code, again.data) == (304, b"")
    assert client.get("/api/v1/plans?tenant=7", headers={"If-None-Match": tag}).status_code == 200


def test_limits_of_parameters_are_told(document: dict[str, Any]) -> None:
    parameters = document["paths"]["/event-streams/{name}/look"]["get"]["parameters"]
    wait = next(one for one in parameters if one["name"] == "wait_ms")
    assert wait["schema"] == {"type": "integer", "minimum": 0, "maximum": 5_000, "default": 1_000}
    assert wait["description"]


def test_a_parameter_that_cannot_be_is_refused_with_what_may_be_there() -> None:
    answer = APP.test_client().get("/api/v1/event-streams/S/look?wait_ms=9999").get_json()
    assert answer["code"] == "bad-request"
    assert answer["message"] == "wait_ms must be a whole number from 0 to 5,000, not '9999'"
    assert answer["details"]["parameter"] == "wait_ms"
    assert answer["details"]["allowed"]["maximum"] == 5_000


@pytest.mark.parametrize(
    ("method", "address", "body", "status", "code", "details"),
    [
        ("GET", "/plans?tenant=x", b"", 400, "bad-request", {"parameter": "tenant"}),
        ("GET", "/plans/Calm", b"", 404, "unknown-plan", {"plan": "Calm", "tenant": -1234}),
        ("GET", "/nothing", b"", 404, "not-found", {}),
        ("PATCH", "/plans", b"", 405, "method-not-allowed", {"allowed": ["GET", "HEAD", "OPTIONS", "POST"]}),
        (
            "POST",
            "/plans",
            b"-" * 10_001,
            413,
            "body-too-large",
            {"config": "http.body_bytes", "most_bytes": 10_000},
        ),
        (
            "POST",
            "/plans/Calm/rebalance",
            b'{"workers": 0}',
            400,
            "bad-request",
            {"body": ["workers", "host"], "at": "workers"},
        ),
        ("POST", "/plans/Calm/rebalance", b"\xff", 400, "bad-request", {"body": ["workers", "host"], "at": ""}),
    ],
)
def test_a_failure_tells_programs_what_is_wrong_where(
    method: str, address: str, body: bytes, status: int, code: str, details: dict[str, Any]
) -> None:
    answer = APP.test_client().open(f"/api/v1{address}", method=method, data=body)
    told = answer.get_json()
    assert (answer.status_code, told["code"], told["details"]) == (status, code, details)
    assert set(told) == {"code", "message", "details"}


def test_a_form_with_files_is_refused_where_text_is_taken() -> None:
    answer = APP.test_client().post("/api/v1/validate", data={"plan": "x"}, content_type="multipart/form-data")
    assert (answer.status_code, answer.get_json()["details"]) == (415, {"allowed": ["text/plain"]})
