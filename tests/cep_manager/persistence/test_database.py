"""The managers' database: made, brought up to date, and its errors in words."""

import sqlite3
import threading
from pathlib import Path

import pytest
from databases import leading_store, leases_of, open_database, take_lease
from manager_world import KEY
from postgresql_server import PostgresqlServer

from cep_common.ids import PlanKey
from cep_common.reach.files import is_system_database
from cep_manager.accounts.user_store import UserStore
from cep_manager.election.messages import ReadLease
from cep_manager.errors import PlanStoreError
from cep_manager.persistence.database import Database
from cep_manager.plans.store import PlanStore
from cep_manager.plans.stored_plan import StoredPlan, StoredVersion


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "manager.db"


def open_file(path: Path) -> Database:
    return open_database(f"sqlite:///{path}", timeout_ms=50)


VERSION_1 = """
CREATE TABLE cep_schema (version INTEGER NOT NULL, PRIMARY KEY (version));
CREATE TABLE cep_plans (
    tenant INTEGER NOT NULL, name VARCHAR(128) NOT NULL, text TEXT NOT NULL,
    created_ms BIGINT NOT NULL, updated_ms BIGINT NOT NULL, PRIMARY KEY (tenant, name));
CREATE TABLE cep_epochs (
    tenant INTEGER NOT NULL, name VARCHAR(128) NOT NULL, epoch BIGINT NOT NULL, PRIMARY KEY (tenant, name));
INSERT INTO cep_schema VALUES (1);
INSERT INTO cep_plans VALUES (-1234, 'Storms', 'text', 5, 6), (7, 'Storms', 'of tenant 7', 8, 9);
INSERT INTO cep_epochs VALUES (-1234, 'Storms', 4), (7, 'Storms', 2), (7, 'Gone', 9);
"""
"""What the first version of the plan store made, as its `.dump` told."""


def test_tables_of_the_first_version_are_brought_up_to_date_once(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as old:
        old.executescript(VERSION_1)
    old.close()
    for _ in range(2):
        database = open_file(path)
        assert PlanStore(database).plans() == (
            StoredPlan(KEY, "text", 4, created_ms=5, updated_ms=6, restore="", restore_epoch=0, counted=4),
            StoredPlan(PlanKey(7, "Storms"), "of tenant 7", 2, created_ms=8, updated_ms=9, counted=2),
        )
        assert UserStore(database).users() == ()
        database.close()
    again = open_file(path)
    gone = PlanStore(again).key_of(7, "Gone")
    assert (gone, gone.plan) == (PlanKey(7, "Gone"), "Gone")
    changed = leading_store(again).change(KEY, "update", "second", None, StoredVersion("text", 6, 4), now_ms=10)
    assert changed is not None
    assert (changed.epoch, changed.former) == (5, StoredVersion("text", 6, 4))
    again.close()


def test_a_damaged_database_is_named_with_a_way_out(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is not a database, but long enough to be taken for one" * 20)
    with pytest.raises(
        PlanStoreError, match=r"manager\.db cannot be used: file is not a database; the file is damaged"
    ):
        open_file(path)


def test_a_locked_database_is_an_error_and_not_a_wait_for_ever(path: Path) -> None:
    database = open_file(path)
    store = leading_store(database)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(PlanStoreError, match="database is locked; another process holds it"):
        store.add(KEY, "text", now_ms=1)
    other.close()
    assert store.add(KEY, "text", now_ms=1).epoch == 1
    database.close()


def test_tables_of_another_version_are_refused(path: Path) -> None:
    open_file(path).close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE cep_schema SET version = 99")
    other.close()
    with pytest.raises(PlanStoreError, match="plan tables of version 99, this manager works with version 16"):
        open_file(path)


def test_a_folder_that_cannot_be_made_is_an_error_that_names_the_key(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PlanStoreError, match=r"database\.url"):
        open_file(tmp_path / "file" / "manager.db")


@pytest.mark.parametrize("url", ["nonsense", "nodialect://x", "postgresql+nodriver://h/d"])
def test_a_url_that_names_no_database_is_an_error_that_names_the_key(url: str) -> None:
    with pytest.raises(PlanStoreError, match=r"database\.url"):
        open_database(url)


def test_a_password_is_never_shown() -> None:
    with pytest.raises(PlanStoreError) as caught:
        open_database("nodialect://user:geheim@host/name")
    assert "geheim" not in caught.value.message


def test_a_server_that_does_not_answer_is_an_error_without_the_password() -> None:
    with pytest.raises(PlanStoreError, match=r"connection to server at .127\.0\.0\.1") as caught:
        open_database("postgresql://cep:geheim@127.0.0.1:1/cep")
    assert "geheim" not in caught.value.message


@pytest.mark.cluster
def test_managers_that_start_together_make_the_tables_once(postgresql: PostgresqlServer) -> None:
    url = postgresql.emptied()
    made: list[Database] = []
    starts = [threading.Thread(target=lambda: made.append(open_database(url))) for _ in range(4)]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    assert [PlanStore(database).plans() for database in made] == [()] * 4
    for database in made:
        database.close()


@pytest.mark.cluster
def test_a_manager_that_hangs_in_a_transaction_does_not_keep_the_lease_from_others(
    postgresql: PostgresqlServer,
) -> None:
    """The server ends the transaction, so that its row is free."""
    url = postgresql.emptied()
    hanging, other = open_database(url, idle_ms=1_000), open_database(url, timeout_ms=10_000)
    store = leading_store(hanging)
    with pytest.raises(PlanStoreError, match="idle-in-transaction"), store._writing() as connection:  # noqa: PT012
        assert take_lease(other, "two") == 2
        connection.exec_driver_sql("SELECT 1")
    assert leases_of(hanging, "one").carry_out(ReadLease()).lease.token == 2, "it has a new connection"
    hanging.close()
    other.close()


def test_the_file_is_for_its_user_alone_and_known_as_a_managers(tmp_path: Path) -> None:
    path = tmp_path / "new" / "manager.db"
    made = open_database(f"sqlite:///{path}")
    with made.transaction() as connection:
        connection.exec_driver_sql("create table more (a int)")
    files = sorted(path.parent.iterdir())
    assert {one.name for one in files} >= {"manager.db", "manager.db-wal"}
    assert {one.stat().st_mode & 0o777 for one in files} == {0o600}
    assert is_system_database(str(path))
    assert is_system_database(f"{path}-wal")
    made.close()


def test_a_file_of_before_is_taken_away_from_others(tmp_path: Path) -> None:
    path = tmp_path / "manager.db"
    open_database(f"sqlite:///{path}").close()
    with sqlite3.connect(path) as former:
        former.execute("PRAGMA application_id=0")
    former.close()
    path.chmod(0o644)
    assert not is_system_database(str(path))
    open_database(f"sqlite:///{path}").close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert is_system_database(str(path))
