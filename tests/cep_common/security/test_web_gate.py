"""What a request must pass before it reaches a server: its name, the client's pace, a token, the token's rights."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from flask import Flask, Response
from flask.testing import FlaskClient

from cep_common.clock import ManualClock
from cep_common.errors import ConfigError
from cep_common.security.access import AccessRole, Permission
from cep_common.security.config import ServerSecurity
from cep_common.security.tokens import TokenFile
from cep_common.security.web import Gate, guard

CALLS = {
    "health": Permission.OPEN,
    "plans": Permission.SEE,
    "cluster": Permission.SEE_SYSTEM,
    "deploy": Permission.EDIT,
}


def app_behind(gate: Gate) -> FlaskClient:
    app = Flask("guarded")
    for path, method in (("health", "GET"), ("plans", "GET"), ("cluster", "GET"), ("deploy", "POST"), ("new", "GET")):
        app.add_url_rule(f"/{path}", path, lambda: "here", methods=[method])
    guard(app, gate, CALLS, lambda status, code, message: Response(f"{code}: {message}", status))
    return app.test_client()


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    file = TokenFile(tmp_path / "tokens.json")
    of_roles = {role.value: file.create(role.value, role, None, 0) for role in AccessRole}
    return of_roles | {"tenant 7": file.create("tenant 7", AccessRole.EDITOR, 7, 0)}


@pytest.fixture
def client(tokens: dict[str, str], tmp_path: Path) -> FlaskClient:
    return app_behind(Gate(ServerSecurity(tokens=str(tmp_path / "tokens.json")), "0.0.0.0", ManualClock(0)))  # noqa: S104


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_without_a_token_only_what_is_open_is_answered(client: FlaskClient) -> None:
    assert client.get("/health").status_code == 200
    refused = client.get("/plans")
    assert refused.status_code == 401
    assert "Bearer" in refused.headers["WWW-Authenticate"]
    assert client.get("/there-is-no-such-page").status_code == 401


@pytest.mark.parametrize(
    ("owner", "answers"),
    [
        ("sender", {"plans": 200, "cluster": 403, "deploy": 403, "new": 403}),
        ("viewer", {"plans": 200, "cluster": 200, "deploy": 403, "new": 403}),
        ("editor", {"plans": 200, "cluster": 200, "deploy": 200, "new": 403}),
        ("admin", {"plans": 200, "cluster": 200, "deploy": 200, "new": 200}),
    ],
)
def test_each_role_gets_what_it_is_granted(
    client: FlaskClient, tokens: dict[str, str], owner: str, answers: dict[str, int]
) -> None:
    for path, status in answers.items():
        method = "POST" if path == "deploy" else "GET"
        assert client.open(f"/{path}", method=method, headers=bearer(tokens[owner])).status_code == status, path


def test_a_browser_shows_its_token_as_a_password(client: FlaskClient, tokens: dict[str, str]) -> None:
    basic = base64.b64encode(f"anybody:{tokens['viewer']}".encode()).decode()
    assert client.get("/plans", headers={"Authorization": f"Basic {basic}"}).status_code == 200


@pytest.mark.parametrize("shown", ["Bearer", "Bearer x", "Basic !", "Digest x", "Basic " + "QQ" * 9_000, "Bearer \xff"])
def test_what_is_no_token_is_refused(client: FlaskClient, shown: str) -> None:
    assert client.get("/plans", headers={"Authorization": shown}).status_code == 401


def test_a_token_of_a_tenant_speaks_for_no_other(client: FlaskClient, tokens: dict[str, str]) -> None:
    mine = bearer(tokens["tenant 7"])
    assert client.get("/plans?tenant=7", headers=mine).status_code == 200
    assert client.get("/plans", headers={**mine, "tenant": "7"}).status_code == 200
    assert client.get("/plans", headers=mine).status_code == 200, "its own tenant is meant"
    for address in ("/plans?tenant=8", "/plans?tenant=7x", "/plans?tenant=8&tenant=7", "/cluster?tenant=7"):
        assert client.get(address, headers=mine).status_code == 403, address


def test_a_refusal_does_not_repeat_the_token(client: FlaskClient, tokens: dict[str, str]) -> None:
    refused = client.post("/deploy", headers=bearer(tokens["viewer"]))
    assert tokens["viewer"] not in refused.get_data(as_text=True) + str(refused.headers)


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("127.0.0.1:9080", 200), ("[::1]:9080", 200), ("10.1.2.3", 200), ("CEP.example:9080", 200),
     ("evil.example", 403), ("localhost.evil.example", 403), ("", 403), ("[", 403), ("cep.example@evil.example", 403)],
)  # fmt: skip
def test_a_name_that_was_made_to_point_here_is_not_answered(host: str, status: int) -> None:
    client = app_behind(Gate(ServerSecurity(hosts=("cep.example",)), "127.0.0.1", ManualClock(0)))
    assert client.get("/health", headers={"Host": host}).status_code == status


def test_a_client_that_asks_too_often_is_told_when_to_come_again() -> None:
    clock = ManualClock(0)
    client = app_behind(Gate(ServerSecurity(requests_per_s=2), "127.0.0.1", clock))
    assert [client.get("/plans").status_code for _ in range(3)] == [200, 200, 429]
    assert client.get("/plans").headers["Retry-After"] == "1"
    clock.advance(1_000)
    assert client.get("/plans").status_code == 200


def test_tokens_that_travel_in_the_open_are_warned_of(
    tokens: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = str(tmp_path / "tokens.json")
    Gate(ServerSecurity(tokens=kept), "127.0.0.1", ManualClock(0))
    Gate(ServerSecurity(tokens=kept, certificate="c.pem", certificate_key="c.key"), "10.0.0.1", ManualClock(0))
    assert caplog.text == ""
    Gate(ServerSecurity(tokens=kept), "10.0.0.1", ManualClock(0))
    assert "tokens are sent unencrypted: host=10.0.0.1" in caplog.text


def test_a_server_beyond_loopback_wants_tokens(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"http\.host: 0\.0\.0\.0 can be reached .* `cep token create` .*security\.tokens"
    ):
        Gate(ServerSecurity(), "0.0.0.0", ManualClock(0))  # noqa: S104
    with pytest.raises(ConfigError, match=r"security\.tokens: .*none\.json holds no token"):
        Gate(ServerSecurity(tokens=str(tmp_path / "none.json")), "127.0.0.1", ManualClock(0))
    assert not Gate(ServerSecurity(insecure=True), "0.0.0.0", ManualClock(0)).needs_token()  # noqa: S104


def test_a_server_that_knows_people_may_be_beyond_loopback_without_tokens() -> None:
    gate = Gate(ServerSecurity(), "0.0.0.0", ManualClock(0), users=True)  # noqa: S104
    assert gate.needs_token()
    assert gate.principal("cep_x") is None
