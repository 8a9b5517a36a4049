"""Accounts in the managers' database, SQLite and PostgreSQL: all managers share them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from account_world import PASSWORD, QUICK
from databases import KINDS, open_database, url_of

from cep_common.clock import ManualClock
from cep_common.security.access import AccessRole
from cep_manager.accounts.accounts import SEEN_MS, Accounts
from cep_manager.accounts.administration import Administration, Change, administration
from cep_manager.accounts.audit_log import TIDY_AFTER
from cep_manager.accounts.errors import (
    AccountExistsError,
    AccountInvalidError,
    LastAdminError,
    UnknownAccountError,
    WrongPasswordError,
)
from cep_manager.accounts.model import AuditEntry
from cep_manager.config import AccountsConfig
from cep_manager.errors import PlanStoreError
from cep_manager.persistence.database import Database

CLOCK = ManualClock(1_000_000)


def accounts_in(database: Database) -> Accounts:
    return Accounts(database, AccountsConfig(), CLOCK, QUICK)


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    opened = open_database(url_of(request.param, request, tmp_path), timeout_ms=5_000)
    yield opened
    opened.close()


def test_what_one_manager_lets_in_another_does_and_what_one_ends_has_ended(database: Database) -> None:
    one, two = accounts_in(database), accounts_in(database)
    password = administration(one).create("ada", AccessRole.ADMIN, None)
    user = two.log_in("Ada ", password, "10.0.0.1")
    proof = one.begin_session(user, "10.0.0.1", "a browser", {"_user_id": "ada"})
    token = one.create_token(user, "ci", AccessRole.VIEWER, 1)
    seen = two.session(proof)
    assert seen is not None
    assert (seen.user.name, seen.data, seen.session.agent) == ("ada", {"_user_id": "ada"}, "a browser")
    assert two.user_by_token(token) is not None
    assert one.sessions.secret() == two.sessions.secret()
    one.end_session(proof)
    one.revoke_token(user, "ci")
    CLOCK.advance(SEEN_MS)
    assert two.session(proof) is None
    assert two.user_by_token(token) is None


def test_users_are_made_changed_and_removed(database: Database) -> None:
    accounts = accounts_in(database)
    admin = administration(accounts)
    admin.create("ada", AccessRole.ADMIN, None)
    admin.create("vera", AccessRole.VIEWER, 7, PASSWORD)
    with pytest.raises(AccountExistsError, match="a user named vera already exists"):
        admin.create("vera", AccessRole.VIEWER, None)
    with pytest.raises(AccountInvalidError, match="sender is a role of programs"):
        admin.change("vera", Change(role=AccessRole.SENDER))
    vera = admin.change("vera", Change(role=AccessRole.EDITOR))
    assert (vera.role, vera.tenant, vera.disabled) == (AccessRole.EDITOR, 7, False)
    assert admin.change("vera", Change(tenant=None)).tenant is None
    assert admin.change("vera", Change()).role is AccessRole.EDITOR
    user = accounts.log_in("vera", PASSWORD, "10.0.0.1")
    accounts.begin_session(user, "10.0.0.1", "", {})
    token = accounts.create_token(user, "ci", AccessRole.EDITOR, 1)
    with pytest.raises(AccountExistsError, match="you have a token named ci"):
        accounts.create_token(user, "ci", AccessRole.EDITOR, 1)
    admin.remove("vera")
    assert accounts.user_by_token(token) is None
    assert accounts.sessions.of("vera") == ()
    for change in (Change(role=AccessRole.EDITOR), Change(tenant=7), Change(disabled=True)):
        with pytest.raises(LastAdminError):
            admin.change("ada", change)
    with pytest.raises(LastAdminError):
        admin.remove("ada")
    with pytest.raises(UnknownAccountError, match="no user named vera"):
        admin.remove("vera")
    assert [(one.name, one.role) for one in accounts.users.users()] == [("ada", AccessRole.ADMIN)]


END_ALL: dict[str, Callable[[Administration], object]] = {
    "reset": lambda admin: admin.reset_password("vera"),
    "disabled": lambda admin: admin.change("vera", Change(disabled=True)),
    "removed": lambda admin: admin.remove("vera"),
    "made again": lambda admin: (admin.remove("vera"), admin.create("vera", AccessRole.VIEWER, None, PASSWORD)),
}


@pytest.mark.parametrize("end", END_ALL)
def test_nothing_is_begun_with_a_password_that_opens_the_account_no_more(database: Database, end: str) -> None:
    accounts = accounts_in(database)
    admin = administration(accounts)
    admin.create("vera", AccessRole.VIEWER, None, PASSWORD)
    admin.create("ada", AccessRole.ADMIN, None)
    checked = accounts.log_in("vera", PASSWORD, "10.0.0.1")
    END_ALL[end](admin)
    left = accounts.users.find("vera")
    with pytest.raises(WrongPasswordError, match="or the account disabled; log in again"):
        accounts.begin_session(checked, "10.0.0.1", "", {})
    with pytest.raises(WrongPasswordError):
        accounts.create_token(checked, "ci", AccessRole.VIEWER, 1)
    with pytest.raises(WrongPasswordError):
        accounts.users.change("vera", {"password_hash": "another"}, password_hash=checked.password_hash)
    assert accounts.sessions.of("vera") == ()
    assert accounts.users.tokens("vera") == ()
    assert accounts.users.find("vera") == left
    assert accounts.still(checked) is None


def test_what_has_no_user_any_more_lets_in_nobody(database: Database) -> None:
    accounts = accounts_in(database)
    administration(accounts).create("vera", AccessRole.VIEWER, None, PASSWORD)
    user = accounts.log_in("vera", PASSWORD, "10.0.0.1")
    proof = accounts.begin_session(user, "10.0.0.1", "", {})
    token = accounts.create_token(user, "ci", AccessRole.VIEWER, 1)
    with database.transaction() as connection:
        connection.exec_driver_sql("DELETE FROM cep_users")
    assert accounts.session(proof) is None
    assert accounts.user_by_token(token) is None


def test_the_database_is_asked_once_a_second_who_somebody_still_is(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = accounts_in(database)
    administration(accounts).create("vera", AccessRole.VIEWER, None, PASSWORD)
    user = accounts.log_in("vera", PASSWORD, "10.0.0.1")
    asked, find = [], accounts.users.find
    monkeypatch.setattr(accounts.users, "find", lambda name: asked.append(name) or find(name))
    for _ in range(30):
        assert accounts.still(user) is not None
        CLOCK.advance(SEEN_MS // 10)
    assert asked == ["vera"] * 3


def test_a_user_is_of_no_tenant_that_cannot_be(database: Database) -> None:
    admin = administration(accounts_in(database))
    with pytest.raises(AccountInvalidError, match="whole number"):
        admin.create("vera", AccessRole.VIEWER, 12_345_678_901)
    admin.create("vera", AccessRole.VIEWER, -1_234)


def test_the_first_admin_is_made_once_by_managers_that_start_together(database: Database) -> None:
    made: list[str | None] = []

    def start() -> None:
        made.append(administration(accounts_in(database)).create_first())

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (password,) = [one for one in made if one is not None]
    assert accounts_in(database).log_in("admin", password, "10.0.0.1").must_change_password


def test_the_audit_log_is_kept_and_tidied(database: Database) -> None:
    log = accounts_in(database).audit
    for n in range(TIDY_AFTER + 2):
        log.write(AuditEntry(n, n, 1, "ada", "token", "10.0.0.1", f"call{n % 3}", "", 200))
    assert sum(one.times for _, one in log.entries(0, 100)) == TIDY_AFTER + 2


def test_without_a_database_nobody_is_let_in(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/manager.db")
    accounts = accounts_in(database)
    administration(accounts).create("ada", AccessRole.ADMIN, None, PASSWORD)
    with database.transaction() as connection:
        connection.exec_driver_sql("DROP TABLE cep_users")
    with pytest.raises(PlanStoreError):
        accounts.log_in("ada", PASSWORD, "10.0.0.1")
    with pytest.raises(PlanStoreError):
        accounts.user_by_password("ada", PASSWORD, "10.0.0.1")
    database.close()
