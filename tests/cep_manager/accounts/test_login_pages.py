"""Logging in and out as people do it: the pages, what they say, where they lead."""

from __future__ import annotations

from pathlib import Path

import pytest
from account_world import PASSWORD, AccountWorld, world_in

from cep_manager.web.login.next_page import safe_next

CHOSEN = "staple the battery twice"


def test_a_page_asks_to_log_in_first_and_is_shown_then(accounts_at_work: AccountWorld) -> None:
    visitor = accounts_at_work.browser()
    sent = visitor.client.get("/plans?tenant=-1234")
    assert (sent.status_code, sent.headers["Location"]) == (303, "/login?next=/plans?tenant%3D-1234")
    form = visitor.client.get(sent.headers["Location"])
    assert form.status_code == 200
    assert 'value="/plans?tenant=-1234"' in form.get_data(as_text=True)
    there = visitor.log_in("vera", next="/plans?tenant=-1234")
    assert (there.status_code, there.headers["Location"]) == (303, "/plans?tenant=-1234")
    shown = visitor.client.get("/plans")
    assert shown.status_code == 200
    assert "vera" in shown.get_data(as_text=True)


def test_a_session_ends_with_the_log_out_form(accounts_at_work: AccountWorld) -> None:
    visitor = accounts_at_work.logged_in("vera")
    kept = visitor.cookie
    left = visitor.send("/logout")
    assert (left.status_code, left.headers["Location"]) == (303, "/login?notice=out")
    assert visitor.cookie == ""
    visitor.client.set_cookie("cep_session", kept)
    assert visitor.client.get("/api/v1/plans").status_code == 401


@pytest.mark.parametrize(("name", "password"), [("vera", "wrong"), ("nobody", PASSWORD), ("<b>", "x"), ("", "")])
def test_a_refusal_does_not_tell_whether_the_name_exists(
    accounts_at_work: AccountWorld, name: str, password: str
) -> None:
    answer = accounts_at_work.browser().log_in(name, password)
    assert answer.status_code == 401
    text = answer.get_data(as_text=True)
    assert "Name and password do not match" in text
    assert "<b>" not in text


def test_a_disabled_user_is_answered_like_a_wrong_password(accounts_at_work: AccountWorld) -> None:
    accounts_at_work.accounts.users.change("vera", {"disabled": True})
    answer = accounts_at_work.browser().log_in("vera")
    assert answer.status_code == 401
    assert "Name and password do not match" in answer.get_data(as_text=True)


def test_the_first_login_leads_to_another_password_and_nowhere_else(tmp_path: Path) -> None:
    with world_in(tmp_path) as world:
        given = world.admin.create_first()
        assert given is not None
        visitor = world.browser()
        sent = visitor.log_in("admin", given, next="/plans")
        assert sent.headers["Location"] == "/account/password?next=/plans"
        assert visitor.client.get("/plans").headers["Location"] == "/account/password"
        refused = visitor.client.get("/api/v1/plans")
        assert (refused.status_code, refused.get_json()["code"]) == (403, "password-must-change")
        form = {"former": given, "password": CHOSEN, "again": CHOSEN, "next": "/plans"}
        page = "/account/password"
        proof = visitor.proof(page)
        for wrong in ({"again": "other"}, {"former": "wrong"}, {"password": "short", "again": "short"},
                      {"password": given, "again": given}):  # fmt: skip
            answer = visitor.client.post(page, data={**form, **wrong, "csrf_token": proof})
            assert answer.status_code == 422, wrong
        done = visitor.client.post(page, data={**form, "csrf_token": proof})
        assert (done.status_code, done.headers["Location"]) == (303, "/plans")
        assert visitor.client.get("/plans").status_code == 200
        assert world.browser().log_in("admin", given).status_code == 401
        assert world.browser().log_in("admin", CHOSEN).headers["Location"] == "/"


def test_a_changed_password_ends_all_other_sessions(accounts_at_work: AccountWorld) -> None:
    here, there = accounts_at_work.logged_in("vera"), accounts_at_work.logged_in("vera")
    assert here.send("/account/password", former=PASSWORD, password=CHOSEN, again=CHOSEN).status_code == 303
    assert here.client.get("/account").status_code == 200
    assert there.client.get("/account").headers["Location"].startswith("/login")


def test_a_user_of_a_tenant_gets_pages_of_that_tenant(accounts_at_work: AccountWorld) -> None:
    visitor = accounts_at_work.logged_in("tess")
    page = visitor.client.get("/plans")
    assert page.status_code == 200
    assert "tenant=7" in page.get_data(as_text=True)
    assert visitor.client.get("/plans?tenant=-1234").status_code == 403


def test_a_part_of_a_page_is_refused_with_a_status_that_scripts_understand(accounts_at_work: AccountWorld) -> None:
    answer = accounts_at_work.browser().client.get("/fragments/plans")
    assert answer.status_code == 401
    assert "Basic" not in answer.headers["WWW-Authenticate"]  # a browser would ask for a password by itself


def test_clients_of_storm_are_told_that_they_may_show_a_password(accounts_at_work: AccountWorld) -> None:
    client = accounts_at_work.app.test_client()
    address = "/storm/api/v1/topology/summary"
    assert "Basic" in client.get(address).headers["WWW-Authenticate"]
    shown = client.get(address, auth=("vera", PASSWORD))
    assert (shown.status_code, len(shown.get_json()["topologies"])) == (200, 1)


@pytest.mark.parametrize(
    "written",
    ["//evil.example", "https://evil.example", "/\\evil.example", "/\t/evil.example", "\\\\evil.example",
    "javascript:x", "/ /evil.example", "/%0a\n/evil", "", "evil", "/login", "/api/v1/plans", "/" + "x" * 3_000],
)  # fmt: skip
def test_a_login_leads_to_no_other_site(written: str) -> None:
    assert safe_next(written) == "/"


@pytest.mark.parametrize("written", ["/", "/plans?tenant=7", "/plans/a%20b?x=//y", "/events/imported/A:1.0.0"])
def test_a_login_leads_back_to_a_page_of_the_console(written: str) -> None:
    assert safe_next(written) == written


def test_where_nobody_logs_in_the_pages_say_so_and_all_is_open(tmp_path: Path) -> None:
    with world_in(tmp_path, login=False) as world:
        client = world.app.test_client()
        plans = client.get("/plans")
        assert plans.status_code == 200
        assert "csrf_token" not in plans.get_data(as_text=True)
        assert client.post("/plans/Storms/restart").status_code == 303
        told = client.get("/login")
        assert told.status_code == 404
        assert "accounts are switched off" in told.get_data(as_text=True)
        assert client.get("/audit").status_code == 200
