"""What people try who should not get in, or not so far."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

import pytest
from account_world import BODY_BYTES, PASSWORD, AccountWorld, Visitor, world_in

from cep_common.security.access import AccessRole
from cep_common.security.tokens import TokenFile, bearer
from cep_manager.accounts.administration import Change
from cep_manager.accounts.login_rate_limit import OF_ADDRESS, OF_PAIR
from cep_manager.accounts.model import User

HOUR_MS = 3_600_000


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


def restart(visitor: Visitor, **more: object) -> int:
    """The status with which a restart of the plan is answered, as REST."""
    return visitor.client.post("/api/v1/plans/Storms/restart", **more).status_code  # type: ignore[arg-type]


# ---- forged requests -----------------------------------------------------------------------------------------------


def test_a_change_by_a_session_needs_that_sessions_proof(accounts_at_work: AccountWorld) -> None:
    mine, other = accounts_at_work.logged_in("otto"), accounts_at_work.logged_in("otto")
    foreign = {"X-CSRFToken": other.proof()}
    assert foreign["X-CSRFToken"] != ""
    for headers in ({}, {"X-CSRFToken": "guessed"}, {"X-CSRFToken": ""}, foreign):
        assert restart(mine, headers=headers) == 403, headers
        assert mine.client.post("/plans/Storms/restart", headers=headers).status_code == 403
    for field in ("", "guessed", other.proof()):
        assert mine.client.post("/plans/Storms/restart", data={"csrf_token": field}).status_code == 403
    assert accounts_at_work.view.done == []
    assert restart(mine, headers={"X-CSRFToken": mine.proof()}) == 200
    assert mine.send("/plans/Storms/restart").status_code == 303
    assert len(accounts_at_work.view.done) == 2


def test_a_page_that_was_open_for_hours_can_still_be_used(
    accounts_at_work: AccountWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = accounts_at_work.logged_in("otto")
    headers = {"X-CSRFToken": visitor.proof()}
    later = time.time() + 11 * 3_600
    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: later)
    assert restart(visitor, headers=headers) == 200


def test_the_proof_of_a_session_does_not_use_up_a_body_that_looks_like_a_form(accounts_at_work: AccountWorld) -> None:
    """curl calls every body a form; so may scripts of a page."""
    editor = accounts_at_work.logged_in("eve")
    headers = {"X-CSRFToken": editor.proof(), "Content-Type": "application/x-www-form-urlencoded"}
    editor.client.post("/api/v1/plans", data=b"@Plan:name('Storms') = text", headers=headers)
    assert [text for _, text, _ in accounts_at_work.view.deployed] == ["@Plan:name('Storms') = text"]


@pytest.mark.parametrize(
    "origin", ["http://[", "http://[::1", "null", "", "localhost", "http://localhost.evil.example"]
)
def test_an_origin_that_is_another_or_none_at_all_is_refused(accounts_at_work: AccountWorld, origin: str) -> None:
    client = accounts_at_work.app.test_client()
    for headers in ({}, accounts_at_work.token("otto", AccessRole.OPERATOR)):
        answer = client.post("/login", data={}, headers={"Origin": origin, **headers})
        assert (answer.status_code, answer.get_json()["code"]) == (403, "cross-site")
    assert client.post("/login", data={}, headers={"Origin": "http://localhost"}).status_code == 401


@pytest.mark.parametrize("shown", ["Bearer bogus", "Bearer", "Basic Ym9ndXM6Ym9ndXM=", "Basic !", "Digest x", "", "x"])
def test_a_cookie_counts_for_nothing_beside_an_authorization_header(accounts_at_work: AccountWorld, shown: str) -> None:
    """Else a header that is nobody's would spare the proof, and the cookie would let the request in."""
    visitor = accounts_at_work.logged_in("ada")
    assert restart(visitor, headers={"Authorization": shown}) == 401
    assert visitor.client.get("/api/v1/plans", headers={"Authorization": shown}).status_code == 401
    assert accounts_at_work.view.done == []


def test_a_header_says_who_calls_also_where_a_cookie_says_another(accounts_at_work: AccountWorld) -> None:
    visitor = accounts_at_work.logged_in("ada")
    as_viewer = accounts_at_work.token("vera", AccessRole.VIEWER)
    assert visitor.client.get("/api/v1/account", headers=as_viewer).get_json()["name"] == "vera"
    assert restart(visitor, headers=as_viewer) == 403
    assert restart(visitor, headers=accounts_at_work.token("otto", AccessRole.OPERATOR)) == 200


def test_tokens_and_passwords_need_no_proof(accounts_at_work: AccountWorld) -> None:
    script = accounts_at_work.browser()
    assert restart(script, headers=accounts_at_work.token("otto", AccessRole.OPERATOR)) == 200
    assert restart(script, headers=basic("otto", PASSWORD)) == 200
    assert script.cookie == ""


# ---- sessions ------------------------------------------------------------------------------------------------------


def test_a_cookie_that_was_planted_before_a_login_is_worth_nothing_after_it(accounts_at_work: AccountWorld) -> None:
    planted = "planted" * 6
    visitor = accounts_at_work.browser()
    visitor.client.set_cookie("cep_session", planted)
    visitor.log_in("ada")
    assert visitor.cookie not in ("", planted)
    thief = accounts_at_work.browser()
    thief.client.set_cookie("cep_session", planted)
    assert thief.client.get("/api/v1/plans").status_code == 401


def test_a_second_login_ends_the_session_that_the_browser_had(accounts_at_work: AccountWorld) -> None:
    """A thief's session, planted with all its rights, does not become the victim's."""
    thief = accounts_at_work.logged_in("vera")
    victim = accounts_at_work.browser()
    victim.client.set_cookie("cep_session", thief.cookie)
    victim.log_in("ada")
    assert victim.client.get("/api/v1/account").get_json()["name"] == "ada"
    assert thief.client.get("/api/v1/account").status_code == 401


@pytest.mark.parametrize(
    ("idle_ms", "steps", "status"), [(59 * 60_000, 3, 200), (60 * 60_000, 1, 401), (50 * 60_000, 15, 401)]
)
def test_a_session_ends_when_it_is_idle_or_old(
    accounts_at_work: AccountWorld, idle_ms: int, steps: int, status: int
) -> None:
    visitor = accounts_at_work.logged_in("vera")
    for _ in range(steps):
        accounts_at_work.clock.advance(idle_ms)
        visitor.client.get("/plans")
    assert visitor.client.get("/api/v1/plans").status_code == status


def test_what_pages_ask_for_by_themselves_keeps_no_session_alive(accounts_at_work: AccountWorld) -> None:
    visitor = accounts_at_work.logged_in("vera")
    for _ in range(4):
        accounts_at_work.clock.advance(HOUR_MS // 4)
        last = visitor.client.get("/fragments/plans")
    assert last.status_code == 401


def test_who_is_disabled_or_deleted_is_out_at_once(accounts_at_work: AccountWorld) -> None:
    world = accounts_at_work
    admin = world.logged_in("ada")
    for name, deed in (("otto", "disable"), ("eve", "delete")):
        visitor, shown = world.logged_in(name), world.token(name, AccessRole.VIEWER)
        assert visitor.client.get("/api/v1/plans", headers=shown).status_code == 200
        assert visitor.client.get("/api/v1/plans", headers=basic(name, PASSWORD)).status_code == 200
        assert admin.send(f"/users/{name}/{deed}").status_code == 303
        assert visitor.client.get("/api/v1/plans").status_code == 401
        assert visitor.client.get("/api/v1/plans", headers=shown).status_code == 401
        assert visitor.client.get("/api/v1/plans", headers=basic(name, PASSWORD)).status_code == 401


def test_a_session_of_another_user_cannot_be_ended(accounts_at_work: AccountWorld) -> None:
    mine, other = accounts_at_work.logged_in("vera"), accounts_at_work.logged_in("otto")
    (key,) = [one["key"] for one in other.client.get("/api/v1/account/sessions").get_json()["sessions"]]
    assert mine.send("/account/sessions/end", key=key).status_code == 404
    assert other.client.get("/api/v1/account").status_code == 200


def test_a_stream_of_events_ends_with_the_session_or_token_that_asked_for_it(accounts_at_work: AccountWorld) -> None:
    world, address = accounts_at_work, "/api/v1/event-streams/KnockOns:1.0.0/tail"
    visitor, shown = world.logged_in("vera"), world.token("vera", AccessRole.VIEWER)
    assert visitor.client.get(address).get_data().count(b"data:") == 2
    ends = {
        "the session": ({}, lambda: world.accounts.users.change("vera", {}, end_sessions=True)),
        "the token": (shown, lambda: world.accounts.users.change("vera", {"disabled": True})),
    }
    for what, (headers, end) in ends.items():
        client = visitor.client if not headers else world.app.test_client()
        answer = client.get(address, headers=headers, buffered=False)
        parts = iter(answer.response)
        assert next(parts), what
        end()
        world.accounts.forget_seen()
        assert list(parts) == [], what
        answer.close()
        assert world.view.tails[-1].closed


OTHER_THAN_THEY_WERE = {
    "disabled": Change(disabled=True),
    "of another role": Change(role=AccessRole.OPERATOR),
    "of another tenant": Change(tenant=7),
}


@pytest.mark.thorough
@pytest.mark.parametrize("shown", ["session", "token", "password"])
@pytest.mark.parametrize("change", OTHER_THAN_THEY_WERE)
def test_a_stream_ends_when_its_caller_is_not_who_they_were(
    accounts_at_work: AccountWorld, shown: str, change: str
) -> None:
    world = accounts_at_work
    if shown == "session":
        client, headers = world.logged_in("eve").client, {}
    else:
        token = world.token("eve", AccessRole.EDITOR)
        client, headers = world.app.test_client(), token if shown == "token" else basic("eve", PASSWORD)
    address = "/api/v1/event-streams/KnockOns:1.0.0/tail"
    answer = client.get(address, headers=headers, buffered=False)
    parts = iter(answer.response)
    next(parts)
    assert next(parts).startswith(b"data:")
    world.admin.change("eve", OTHER_THAN_THEY_WERE[change])
    assert list(parts) == []
    answer.close()


def test_a_stream_ends_with_the_password_that_asked_for_it(accounts_at_work: AccountWorld) -> None:
    client, world = accounts_at_work.app.test_client(), accounts_at_work
    answer = client.get("/api/v1/event-streams/KnockOns:1.0.0/tail", headers=basic("eve", PASSWORD), buffered=False)
    parts = iter(answer.response)
    next(parts)
    world.admin.reset_password("eve")
    assert list(parts) == []
    answer.close()


def test_a_login_that_is_overtaken_by_a_reset_is_none(
    accounts_at_work: AccountWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password is looked at, then an admin ends all that it has opened, then the session would begin."""
    world = accounts_at_work
    begin = world.accounts.begin_session

    def overtaken(user: User, *rest: Any) -> str:
        world.admin.reset_password(user.name)
        return begin(user, *rest)

    monkeypatch.setattr(world.accounts, "begin_session", overtaken)
    visitor = world.browser()
    answer = visitor.log_in("vera")
    assert (answer.status_code, visitor.cookie) == (401, "")
    assert "Name and password do not match" in answer.get_data(as_text=True)
    assert world.accounts.sessions.of("vera") == ()


def test_only_sessions_that_are_not_over_are_shown(accounts_at_work: AccountWorld) -> None:
    world = accounts_at_work
    world.logged_in("vera")
    world.clock.advance(HOUR_MS)
    here, admin = world.logged_in("vera"), world.logged_in("ada")
    assert len(world.accounts.sessions.of("vera")) == 2
    listed = here.client.get("/api/v1/account/sessions").get_json()
    assert [one["key"] for one in listed["sessions"]] == [listed["here"]]
    assert here.client.get("/account").get_data(as_text=True).count("127.0.0.1") == 1
    assert ">1 session, " in admin.client.get("/users/vera").get_data(as_text=True)


def test_cookies_are_for_this_server_alone_and_not_for_scripts(tmp_path: Path) -> None:
    with world_in(tmp_path, secure=True) as world:
        world.add_users()
        said = world.app.test_client().post(
            "/login", data={"name": "ada", "password": PASSWORD}, base_url="https://localhost"
        )
        parts = {part.strip() for part in said.headers["Set-Cookie"].split(";")}
        assert {"HttpOnly", "Secure", "SameSite=Lax", "Path=/"} <= parts
        assert not any(part.startswith(("Domain", "Expires", "Max-Age")) for part in parts)
        assert said.headers["Set-Cookie"].startswith("__Host-cep_session=")


def test_what_the_database_holds_lets_nobody_in(accounts_at_work: AccountWorld, tmp_path: Path) -> None:
    visitor = accounts_at_work.logged_in("ada")
    token = accounts_at_work.token("ada", AccessRole.ADMIN)["Authorization"].removeprefix("Bearer ")
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("manager.db*"))
    assert b"cep_personal_tokens" in kept
    for secret in (visitor.cookie, token, PASSWORD):
        assert secret.encode() not in kept


# ---- guessing ------------------------------------------------------------------------------------------------------


def test_passwords_of_one_name_cannot_be_tried_on_and_on(accounts_at_work: AccountWorld) -> None:
    for name in ("vera", "nobody"):
        answers = [accounts_at_work.browser().log_in(name, f"guess {n}") for n in range(OF_PAIR.attempts + 1)]
        assert [answer.status_code for answer in answers] == [401] * OF_PAIR.attempts + [429]
        assert answers[-1].headers["Retry-After"] == "60"
        assert "Try again in 1 min" in answers[-1].get_data(as_text=True)
        accounts_at_work.clock.advance(OF_ADDRESS.attempts * OF_ADDRESS.refill_ms)
    accounts_at_work.clock.advance(OF_PAIR.attempts * OF_PAIR.refill_ms)
    for n in range(OF_PAIR.attempts):
        accounts_at_work.browser().log_in("vera", f"guess {n}")
    assert accounts_at_work.browser().log_in("vera").status_code == 429, "the right password is not looked at either"
    accounts_at_work.clock.advance(OF_PAIR.refill_ms)
    assert accounts_at_work.browser().log_in("vera").status_code == 303


def test_one_password_cannot_be_tried_for_many_names(accounts_at_work: AccountWorld) -> None:
    answers = [accounts_at_work.browser().log_in(f"user{n}").status_code for n in range(OF_ADDRESS.attempts + 1)]
    assert answers == [401] * OF_ADDRESS.attempts + [429]


def test_basic_is_tried_as_seldom_as_the_form(accounts_at_work: AccountWorld) -> None:
    client = accounts_at_work.app.test_client()
    answers = [client.get("/api/v1/plans", headers=basic("vera", f"guess {n}")) for n in range(OF_PAIR.attempts + 1)]
    assert [answer.status_code for answer in answers] == [401] * OF_PAIR.attempts + [429]
    assert answers[-1].get_json()["code"] == "too-many-attempts"
    assert accounts_at_work.browser().log_in("vera").status_code == 429


def test_a_program_that_shows_its_password_with_every_request_is_not_slowed_down(
    accounts_at_work: AccountWorld,
) -> None:
    client = accounts_at_work.app.test_client()
    for _ in range(3 * OF_ADDRESS.attempts):
        assert client.get("/api/v1/plans", headers=basic("vera", PASSWORD)).status_code == 200
    accounts_at_work.admin.reset_password("vera")
    assert client.get("/api/v1/plans", headers=basic("vera", PASSWORD)).status_code == 401


def test_a_name_that_nobody_has_costs_as_much_as_a_wrong_password(accounts_at_work: AccountWorld) -> None:
    """Counted, not timed: the slow hash is computed once for each."""
    counted: list[str] = []
    passwords = accounts_at_work.accounts.passwords
    verify = passwords._hasher.verify

    class Counting:
        def verify(self, kept: str, password: str) -> bool:
            counted.append(kept)
            return verify(kept, password)

    accounts_at_work.accounts.passwords = type(passwords).__new__(type(passwords))
    vars(accounts_at_work.accounts.passwords).update({**vars(passwords), "_hasher": Counting()})
    for name in ("vera", "nobody", "<script>"):
        counted.clear()
        assert accounts_at_work.browser().log_in(name, "wrong").status_code == 401
        assert len(counted) == 1, name
        assert counted[0].split("$")[:4] == passwords._placeholder.split("$")[:4], "the same work"


# ---- more than one may ---------------------------------------------------------------------------------------------


def test_a_token_cannot_make_itself_more(accounts_at_work: AccountWorld) -> None:
    client, little = accounts_at_work.app.test_client(), accounts_at_work.token("ada", AccessRole.VIEWER)
    more = {"name": "more", "role": "admin"}
    assert client.post("/api/v1/account/tokens", json=more, headers=little).status_code == 403
    changing = {"former": PASSWORD, "password": "another password"}
    assert client.post("/api/v1/account/password", json=changing, headers=little).status_code == 403
    assert client.get("/api/v1/users", headers=little).status_code == 403


def test_a_token_is_never_more_than_its_user_is_now(accounts_at_work: AccountWorld) -> None:
    client, shown = accounts_at_work.app.test_client(), accounts_at_work.token("eve", AccessRole.EDITOR)
    mine = {"name": "x", "role": "admin"}
    assert client.post("/api/v1/account/tokens", json=mine, headers=basic("eve", PASSWORD)).status_code == 422
    assert client.post("/api/v1/plans", data="text", headers=shown).status_code == 201
    accounts_at_work.accounts.users.change("eve", {"role": "viewer"})
    accounts_at_work.accounts.forget_seen()
    assert client.post("/api/v1/plans", data="text", headers=shown).status_code == 403
    assert client.get("/api/v1/plans", headers=shown).status_code == 200


def test_a_token_for_what_its_user_may_do_no_more_lets_in_nobody(accounts_at_work: AccountWorld) -> None:
    """A sender sees plans only: as a viewer's it would see the whole system."""
    client, world = accounts_at_work.app.test_client(), accounts_at_work
    shown = world.token("otto", AccessRole.SENDER)
    assert client.get("/api/v1/plans", headers=shown).status_code == 200
    assert client.get("/api/v1/cluster", headers=shown).status_code == 403
    world.admin.change("otto", Change(role=AccessRole.VIEWER))
    assert client.get("/api/v1/cluster", headers=shown).status_code == 401
    assert client.get("/api/v1/plans", headers=shown).status_code == 401
    world.admin.change("otto", Change(role=AccessRole.OPERATOR))
    assert client.get("/api/v1/plans", headers=shown).status_code == 200


def test_a_token_ends_at_its_day_and_when_it_is_revoked(accounts_at_work: AccountWorld) -> None:
    client, world = accounts_at_work.app.test_client(), accounts_at_work
    first, second = world.token("vera", AccessRole.VIEWER), None
    name = client.get("/api/v1/account/tokens", headers=first).get_json()["tokens"][0]["name"]
    world.clock.advance(1)
    second = world.token("vera", AccessRole.VIEWER)
    assert client.delete(f"/api/v1/account/tokens/{name}", headers=second).status_code == 403
    assert client.delete(f"/api/v1/account/tokens/{name}", headers=first).status_code == 204
    assert client.get("/api/v1/plans", headers=first).status_code == 401
    world.clock.advance(30 * 24 * HOUR_MS)
    assert client.get("/api/v1/plans", headers=second).status_code == 401


def test_what_users_show_to_a_manager_is_not_passed_on_to_workers(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    shared = bearer(TokenFile(file).create("feeder", AccessRole.SENDER, None, 0))
    address, events = "/api/v1/event-streams/Arrivals:1.0.0/events", {"json": {"event": {}}}
    with world_in(tmp_path, tokens=str(file)) as world:
        world.add_users()
        visitor, client = world.logged_in("otto"), world.app.test_client()
        assert visitor.client.post(address, headers={"X-CSRFToken": visitor.proof()}, **events).status_code == 200
        for shown in (basic("otto", PASSWORD), world.token("otto", AccessRole.SENDER), shared):
            assert client.post(address, headers=shown, **events).status_code == 200
        assert [authorization for *_, authorization in world.view.sent] == ["", "", "", shared["Authorization"]]


def test_the_last_admin_stays(accounts_at_work: AccountWorld) -> None:
    admin = accounts_at_work.logged_in("ada")
    assert admin.send("/users/ada/disable").status_code == 409
    assert admin.send("/users/ada/delete").status_code == 409
    assert admin.send("/users/ada", role="viewer", tenant="").status_code == 422
    assert admin.send("/users/ada", role="admin", tenant="7").status_code == 422
    assert admin.client.get("/api/v1/account").get_json()["role"] == "admin"
    assert admin.send("/users/eve", role="admin", tenant="").status_code == 303
    assert admin.send("/users/ada", role="viewer", tenant="").status_code == 303


# ---- what is too much, and what is not text -------------------------------------------------------------------------


def test_bodies_that_are_too_large_are_refused_before_they_are_read(accounts_at_work: AccountWorld) -> None:
    visitor = accounts_at_work.logged_in("ada")
    much = "x" * (BODY_BYTES + 1)
    assert accounts_at_work.browser().log_in("ada", much).status_code == 413
    assert visitor.client.post("/account/tokens", data={"name": much}).status_code == 413
    proof = {"X-CSRFToken": visitor.proof()}
    assert visitor.client.post("/api/v1/plans", data=much, headers=proof).status_code == 413
    assert restart(visitor, data=much, headers=proof) == 200, "it takes no body, and reads none"
    assert accounts_at_work.browser().log_in("ada", "y" * (BODY_BYTES - 100)).status_code == 401
    shown = {"Authorization": "Basic " + "QQ" * 9_000}
    assert accounts_at_work.app.test_client().get("/api/v1/plans", headers=shown).status_code == 401


HOSTILE = "<script>alert(1)</script>\"'"


def test_what_users_write_is_shown_as_text(accounts_at_work: AccountWorld) -> None:
    admin = accounts_at_work.logged_in("ada")
    token = admin.send("/account/tokens", name=HOSTILE, role="admin", days="30")
    assert token.status_code == 201
    refused = admin.send("/users", name=HOSTILE, role="admin", tenant=HOSTILE)
    assert refused.status_code == 422
    tenant = admin.send("/users", name="mallory", role="admin", tenant=HOSTILE)
    assert tenant.status_code == 422
    failed = accounts_at_work.browser().log_in(HOSTILE)
    audit = admin.client.get("/audit", query_string={"who": HOSTILE})
    login = admin.client.get("/login", query_string={"next": f"/plans?{HOSTILE.replace(' ', '')}"})
    agent = accounts_at_work.app.test_client()
    agent.post("/login", data={"name": "ada", "password": PASSWORD}, headers={"User-Agent": HOSTILE})
    account = admin.client.get("/account")
    assert "&lt;script&gt;" in account.get_data(as_text=True)
    for answer in (token, refused, tenant, failed, audit, login, account, admin.client.get("/users/ada")):
        assert "<script>alert" not in answer.get_data(as_text=True)
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
