"""A worker's HTTP interface with tokens: every call is in the table, sources belong to their plan's tenant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from cep_common.clock import ManualClock
from cep_common.protocol.links import StreamSchema
from cep_common.security.access import AccessRole
from cep_common.security.config import ServerSecurity
from cep_common.security.tokens import TokenFile
from cep_common.security.web import Gate
from cep_worker.http.app import HttpSource, create_app
from cep_worker.http.permissions import CALLS


class Stream:
    """An event stream of tenant 7."""

    schema = StreamSchema("In", (("a", "int"),))

    def tenant(self) -> int:
        return 7


class Gateway:
    """Knows one source, and lets nothing in."""

    def http_source(self, path: str) -> Any:
        return HttpSource("s", Stream())  # type: ignore[arg-type]

    def leaving(self) -> bool:
        return True

    def not_live(self) -> str:
        return ""

    def not_ready(self) -> str:
        return ""

    def health(self) -> dict[str, Any]:
        return {"status": "ok", "plans": [{"plan": "Secret"}]}


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    made = TokenFile(tmp_path / "tokens.json")
    made.create("first", AccessRole.ADMIN, None, 0)
    return made


@pytest.fixture
def client(file: TokenFile, tmp_path: Path) -> FlaskClient:
    gate = Gate(ServerSecurity(tokens=str(tmp_path / "tokens.json")), "127.0.0.1", ManualClock(0))
    return create_app(Gateway(), 1_000, 1_000, gate).test_client()  # type: ignore[arg-type]


def test_every_call_of_a_worker_asks_for_a_permission(client: FlaskClient) -> None:
    """A new route belongs into `cep_worker/http/permissions.py`; until it is there only admins can call it."""
    assert {rule.endpoint for rule in client.application.url_map.iter_rules()} == CALLS.keys()


def test_events_need_a_token_that_may_send(client: FlaskClient, file: TokenFile) -> None:
    assert client.post("/in", json={"a": 1}).status_code == 401
    viewer = file.create("viewer", AccessRole.VIEWER, None, 0)
    assert client.post("/in", headers={"Authorization": f"Bearer {viewer}"}).status_code == 403


@pytest.mark.parametrize(("tenant", "status"), [(7, 503), (8, 403), (None, 503)])
def test_a_source_takes_events_of_its_own_tenant_only(
    client: FlaskClient, file: TokenFile, tenant: int | None, status: int
) -> None:
    """503 comes from behind the gate: this worker is leaving."""
    token = file.create("sender", AccessRole.SENDER, tenant, 0)
    headers = {"Authorization": f"Bearer {token}", **({"tenant": str(tenant)} if tenant else {})}
    answer = client.post("/in", headers=headers, environ_base={"cep.address": "127.0.0.1:1"})
    assert (answer.status_code, answer.get_json()["code"]) == (status, "leaving" if status == 503 else "not-authorised")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/errors"), ("POST", "/errors/replay"), ("POST", "/errors/discard")]
)
def test_events_that_failed_are_for_those_who_operate_plans_of_their_own_tenant(
    client: FlaskClient, file: TokenFile, method: str, path: str
) -> None:
    def status(role: AccessRole, tenant: int | None = None) -> int:
        token = file.create(f"{role.value} {tenant}", role, tenant, 0)
        headers = {"Authorization": f"Bearer {token}", "tenant": "7"}
        return client.open(path, method=method, headers=headers, query_string={"unknown": "x"}).status_code

    assert client.open(path, method=method).status_code == 401
    assert [status(role) for role in (AccessRole.SENDER, AccessRole.VIEWER)] == [403, 403]
    assert status(AccessRole.OPERATOR, 8) == 403
    assert status(AccessRole.OPERATOR, 7) == 400, "from behind the gate"


def test_strangers_learn_of_a_worker_only_that_it_is_up(client: FlaskClient, file: TokenFile) -> None:
    def health(role: AccessRole | None = None, tenant: int | None = None) -> set[str]:
        token = file.create(f"{role} {tenant}", role, tenant, 0) if role is not None else "cep_unknown"
        answer = client.get("/health", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 200
        return set(answer.get_json())

    assert client.get("/health").get_json() == {"status": "ok"}
    assert health() == {"status"}
    assert health(AccessRole.SENDER) == {"status"}
    assert health(AccessRole.VIEWER, 7) == {"status"}
    assert health(AccessRole.VIEWER) == {"status", "plans"}


def test_a_tenants_sender_names_no_tenant(client: FlaskClient, file: TokenFile) -> None:
    headers = {"Authorization": f"Bearer {file.create('sender of 7', AccessRole.SENDER, 7, 0)}"}
    assert client.post("/in", headers=headers, environ_base={"cep.address": "127.0.0.1:1"}).status_code == 503
