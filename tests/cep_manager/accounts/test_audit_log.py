"""Who did what, and for how long that is known."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from account_world import AccountWorld, world_in

from cep_common.security.access import AccessRole
from cep_manager.accounts.audit_log import DAY_MS, TIDY_AFTER, AuditLog
from cep_manager.accounts.audit_texts import deed, through
from cep_manager.accounts.model import AuditEntry
from cep_manager.config import DatabaseConfig
from cep_manager.database import Database


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
    client.delete("/api/v1/plans/Storms?tenant=8", headers=world.token("tess", AccessRole.VIEWER))
    world.logged_in("ada").send("/users", name="lena", role="viewer", tenant="")
    client.post("/api/v1/plans", data="text")
    assert told(world) == [
        ("otto", "", "accounts.log_in", "", 401, 1),
        ("", "", "accounts.log_in", "", 401, 1),
        ("otto", "session", "accounts.log_in", "", 303, 1),
        ("otto", "session", "console.act_on_plan:restart", "name=Storms", 303, 1),
        ("otto", "session", "console.act_on_plan:restart", "name=Gone", 404, 1),
        ("eve", "token", "api.deploy_plan", "name=Storms", 201, 1),
        ("tess", "token", "api.undeploy_plan", "name=Storms tenant=8", 403, 1),
        ("ada", "session", "accounts.log_in", "", 303, 1),
        ("ada", "session", "accounts.create_user", "name=lena", 201, 1),
    ]


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
