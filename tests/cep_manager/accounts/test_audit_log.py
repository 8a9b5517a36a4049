"""Who did what, and for how long that is known."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from account_world import BODY_BYTES, PASSWORD, AccountWorld, world_in

from cep_common.security.access import AccessRole
from cep_common.security.tokens import TokenFile, bearer
from cep_manager.accounts.audit_log import DAY_MS, TIDY_AFTER, AuditLog
from cep_manager.accounts.model import AuditEntry
from cep_manager.config import DatabaseConfig
from cep_manager.persistence.database import Database
from cep_manager.web.account_pages.audit_texts import deed, through


def entry(at_ms: int, call: str = "api.restart_plan", who: str = "ada", status: int = 200) -> AuditEntry:
    return AuditEntry(at_ms, at_ms, 1, who, "session", "10.0.0.1", call, "name=Storms", status)


def told(world: AccountWorld) -> list[tuple[str, str, str, str, int, int]]:
    found = world.accounts.audit.entries(0, 100)
    return [(one.who, one.shown, one.call, one.target, one.status, one.times) for _, one in reversed(found)]


def test_what_is_changed_is_told_with_who_did_it_and_how_it_came_out(accounts_at_work: AccountWorld) -> None:
    world = accounts_at_work
    world.browser().log_in("otto", "wrong")
    world.browser().log_in("nobody-of-that-name", "a password, typed into the wrong field")
    visitor = world.logged_in("otto")
    visitor.client.get("/plans")
    visitor.send("/plans/Storms/restart")
    visitor.send("/plans/Gone/restart")
    client, shown = world.app.test_client(), world.token("eve", AccessRole.EDITOR)
    client.post("/api/v1/plans", data="text", headers=shown)
    client.post("/api/v1/validate", data="text", headers=shown)
    client.post("/api/v1/plans/Storms/query", json={"query": "from Airports select *"}, headers=shown)
    client.delete("/api/v1/plans/Storms?tenant=8", headers=world.token("tess", AccessRole.VIEWER))
    world.logged_in("ada").send("/users", name="lena", role="viewer", tenant="")
    client.post("/api/v1/plans", data="text")
    shown = world.token("ada", AccessRole.EDITOR)
    client.delete("/api/v1/plans/Storms?tenant=8", headers=shown)
    assert told(world) == [
        ("otto", "", "accounts.log_in", "", 401, 1),
        ("", "", "accounts.log_in", "", 401, 1),
        ("otto", "session", "accounts.log_in", "", 303, 1),
        ("otto", "session", "console.act_on_plan:restart", "name=Storms", 303, 1),
        ("otto", "session", "console.act_on_plan:restart", "name=Gone", 404, 1),
        ("eve", "token", "api.deploy_plan", "name=Storms", 201, 1),
        ("tess", "token", "api.undeploy_plan", "", 403, 1),
        ("ada", "session", "accounts.log_in", "", 303, 1),
        ("ada", "session", "accounts.create_user", "name=lena", 201, 1),
        ("ada", "token", "api.undeploy_plan", "name=Storms tenant=8", 404, 1),
    ]


def test_nobody_who_is_not_let_in_can_push_out_what_was_done(accounts_at_work: AccountWorld) -> None:
    world = accounts_at_work
    client, foreign = world.app.test_client(), {"Host": "evil.example"}
    for n in range(30):
        query = {"tenant": f"x{n}"}
        client.post("/login", data={"name": f"user{n}", "password": "wrong"}, query_string=query)
        client.post("/login", data={"name": "ada", "password": PASSWORD}, query_string=query, headers=foreign)
        client.post("/login", data={"name": "ada"}, query_string=query, headers={"Origin": "http://evil.example"})
        client.post("/login", data={"name": "x" * (BODY_BYTES + 1)}, query_string=query)
        for shown in ({}, foreign, {"Authorization": "Bearer bogus"}, {"Authorization": "Basic dmVyYTp3cm9uZw=="}):
            client.post(f"/api/v1/plans/p{n}/restart", query_string=query, headers=shown)
            client.post(f"/plans/p{n}/restart", query_string=query, headers=shown)
    # The basic passwords came out of the same allowance.
    assert [one[:5] for one in told(world)] == [
        ("", "", "accounts.log_in", "", 401),
        ("", "", "accounts.log_in", "", 429),
    ]


def test_a_flood_at_the_gate_is_not_written_down(tmp_path: Path) -> None:
    with world_in(tmp_path, requests_per_s=2) as world:
        client = world.app.test_client()
        for n in range(20):
            last = client.post("/login", data={"name": "ada"}, query_string={"tenant": f"x{n}"})
        assert last.status_code == 429
        assert [one[4:] for one in told(world)] == [(401, 2)]


def test_whoever_may_do_nothing_makes_no_entries_with_names_of_their_own(accounts_at_work: AccountWorld) -> None:
    client, shown = accounts_at_work.app.test_client(), accounts_at_work.token("vera", AccessRole.VIEWER)
    for n in range(20):
        assert client.post(f"/api/v1/plans/p{n}/restart?tenant={n}", headers=shown).status_code == 403
    assert told(accounts_at_work) == [("vera", "token", "api.restart_plan", "", 403, 20)]


def test_what_no_database_keeps_is_no_way_around_the_log(accounts_at_work: AccountWorld) -> None:
    client, shown = accounts_at_work.app.test_client(), accounts_at_work.token("ada", AccessRole.ADMIN)
    assert client.delete("/api/v1/users/vera?tenant=%00", headers=shown).status_code == 204
    assert client.delete("/api/v1/users/%00vera", headers=shown).status_code == 404
    assert client.post("/api/v1/users", json={"name": "\0\x1b", "role": "viewer"}, headers=shown).status_code == 422
    assert [one[3:5] for one in told(accounts_at_work)] == [("name=vera", 204), ("name=?vera", 404), ("name=??", 422)]


def test_a_long_name_of_a_shared_token_is_cut_to_what_the_table_takes(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    shared = bearer(TokenFile(file).create("n" * 80, AccessRole.EDITOR, None, 0))
    with world_in(tmp_path, tokens=str(file)) as world:
        assert world.app.test_client().post("/api/v1/plans", data="text", headers=shared).status_code == 201
        assert [one[0] for one in told(world)] == ["n" * 64]


def test_only_the_first_refusal_of_a_flood_is_written(tmp_path: Path) -> None:
    with world_in(tmp_path) as world:
        for n in range(100):
            world.accounts.audit.write(entry(n, status=429))
        world.accounts.audit.write(entry(60_000, status=429))
        assert [one.times for _, one in world.accounts.audit.entries(0, 10)] == [1, 1]


def test_admins_read_it_page_by_page_and_of_one_person(accounts_at_work: AccountWorld) -> None:
    world = accounts_at_work
    for n in range(250):
        world.accounts.audit.write(entry(n, f"api.call{n}", "ada" if n % 2 else "eve"))
    client, shown = world.app.test_client(), world.token("ada", AccessRole.ADMIN)
    first = client.get("/api/v1/audit?count=100&who=eve", headers=shown).get_json()["entries"]
    assert [one["call"] for one in first[:2]] == ["api.call248", "api.call246"]
    older = client.get(f"/api/v1/audit?count=100&who=eve&before={first[-1]['number']}", headers=shown)
    assert len(older.get_json()["entries"]) == 25
    assert client.get("/api/v1/audit?count=100000", headers=shown).status_code == 400
    page = client.get("/audit?who=eve", headers=shown).get_data(as_text=True)
    assert page.count('title="api.call') == 100
    assert f"before={first[-1]['number']}" in page
    assert client.get("/audit?before=x", headers=shown).status_code == 400


def test_a_flood_of_the_same_is_one_entry_that_counts(tmp_path: Path) -> None:
    with world_in(tmp_path) as world:
        for n in range(1_000):
            world.accounts.audit.write(entry(n * 60))
        world.accounts.audit.write(entry(60_000))
        (_, later), (_, first) = world.accounts.audit.entries(0, 10)
        assert (first.times, first.at_ms, first.last_ms) == (1_000, 0, 59_940)
        assert (later.times, later.at_ms) == (1, 60_000)


def test_what_is_old_is_forgotten(tmp_path: Path) -> None:
    database = Database(DatabaseConfig(f"sqlite:///{tmp_path}/manager.db"), idle_ms=2_000)
    log = AuditLog(database, days=2)
    log.write(entry(0, "old"))
    log.write(entry(DAY_MS, "young"))
    for n in range(TIDY_AFTER):
        log.write(entry(2 * DAY_MS + 1, f"call{n}"))
    kept = {one.call for _, one in log.entries(0, 10_000)}
    assert "old" not in kept
    assert "young" in kept
    database.close()


def test_a_database_that_cannot_be_written_stops_nobody_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(DatabaseConfig(f"sqlite:///{tmp_path}/manager.db"), idle_ms=2_000)
    log = AuditLog(database, days=2)
    with database.transaction() as connection:
        connection.exec_driver_sql("DROP TABLE cep_audit")
    with caplog.at_level(logging.ERROR):
        log.write(entry(1))
    assert "audit entry lost: who='ada' call=api.restart_plan" in caplog.text
    database.close()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("console.act_on_plan:rebalance", "rebalance plan, console"),
        ("accounts.switch_user:disable", "disable user, console"),
        ("api.set_statistics_level", "set statistics level, REST API"),
        ("storm.debug:enable", "enable debug, Storm's API"),
    ],
)
def test_calls_are_told_in_words(call: str, told: str) -> None:
    assert f"{deed(call)}, {through(call)}" == told


def test_the_page_says_what_came_of_each_call(accounts_at_work: AccountWorld) -> None:
    world = accounts_at_work
    visitor = world.logged_in("otto")
    visitor.send("/plans/Storms/restart")
    visitor.send("/plans/Gone/restart")
    client, shown = world.app.test_client(), world.token("ada", AccessRole.ADMIN)
    page = client.get("/audit?who=otto", headers=shown).get_data(as_text=True)
    assert page.count(">restart plan</span>") == 2
    assert ">refused (404)</span>" in page
    assert ">done</span>" in page
