"""The plan store on a real SQLite file."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from manager_world import KEY

from cep_common.ids import PlanKey
from cep_manager.config import DatabaseConfig
from cep_manager.errors import PlanExistsError, StoreError
from cep_manager.plan_store import PlanStore, StoredPlan, StoredVersion

OTHER = PlanKey(KEY.tenant, "Gales")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "manager.db"


@pytest.fixture
def store(path: Path) -> Iterator[PlanStore]:
    made = open_store(path)
    yield made
    made.close()


def open_store(path: Path) -> PlanStore:
    return PlanStore(DatabaseConfig(url=f"sqlite:///{path}", timeout_ms=50))


def test_what_was_stored_is_there_after_a_restart(store: PlanStore, path: Path) -> None:
    stored = store.add(KEY, "text", now_ms=5)
    other = store.add(PlanKey(7, "Storms"), "of tenant 7", now_ms=6)
    store.close()
    again = open_store(path)
    assert again.plans() == (stored, other)
    again.close()


def test_a_second_plan_of_a_name_is_refused_and_the_first_stays(store: PlanStore) -> None:
    stored = store.add(KEY, "text", now_ms=5)
    with pytest.raises(PlanExistsError):
        store.add(KEY, "other", now_ms=6)
    assert store.plans() == (stored,)


def test_epochs_grow_by_one_and_outlive_their_plan(store: PlanStore) -> None:
    assert store.add(KEY, "text", now_ms=1).epoch == 1
    assert store.raise_epoch(KEY) == 2
    changed = store.change(KEY, "update", "other", None, None, now_ms=9)
    assert changed is not None
    assert (changed.epoch, changed.text, changed.created_ms, changed.updated_ms) == (3, "other", 1, 9)
    assert store.remove(KEY)
    assert store.add(KEY, "text", now_ms=20).epoch == 4


def test_epochs_counted_by_several_threads_are_all_different(store: PlanStore, path: Path) -> None:
    patient = PlanStore(DatabaseConfig(url=f"sqlite:///{path}", timeout_ms=20_000))
    with ThreadPoolExecutor(4) as pool:
        epochs = list(pool.map(lambda _: patient.raise_epoch(KEY), range(20)))
    patient.close()
    assert sorted(epochs) == list(range(1, 21))


def test_what_is_not_there_is_neither_changed_nor_renamed_nor_removed(store: PlanStore) -> None:
    assert store.change(KEY, "update", "text", None, None, now_ms=1) is None
    assert store.rename(KEY, OTHER, "text", workers=None, now_ms=1) is None
    assert not store.remove(KEY)
    store.settle(KEY, 1, StoredVersion("text", 1, 1))
    store.set_intake(KEY, intake=False)
    assert store.plans() == ()


def changed_to(store: PlanStore, text: str, former: StoredVersion, workers: int | None = None) -> StoredPlan:
    """The plan after a change that is not settled."""
    store.change(KEY, "update", text, workers, former, now_ms=7)
    (plan,) = store.plans()
    return plan


FIRST = StoredVersion("first", 5, 1)


def test_a_change_keeps_what_the_plan_was_until_it_is_settled(store: PlanStore) -> None:
    first = store.add(KEY, "first", now_ms=5, origin="plans/storms.siddhiql")
    changed = changed_to(store, "second", FIRST, workers=2)
    assert (changed.change, changed.former, changed.epoch, changed.workers) == ("update", FIRST, 2, 2)
    store.settle(KEY, 2, FIRST)
    assert store.plans() == (first,)
    assert store.raise_epoch(KEY) == 3, "the epoch of a change that came to nothing is used up"


def test_a_change_that_works_is_settled_under_its_own_epoch(store: PlanStore) -> None:
    store.add(KEY, "first", now_ms=5)
    changed_to(store, "second", FIRST)
    store.settle(KEY, 2, StoredVersion("second", 7, 2))
    (plan,) = store.plans()
    assert (plan.text, plan.epoch, plan.updated_ms, plan.change, plan.former) == ("second", 2, 7, None, None)


def test_an_epoch_counted_while_a_change_was_under_way_holds_when_it_is_settled(store: PlanStore) -> None:
    store.add(KEY, "first", now_ms=5)
    changed_to(store, "second", FIRST)
    store.raise_epoch(KEY)
    store.settle(KEY, 2, StoredVersion("second", 7, 2))
    assert [plan.epoch for plan in store.plans()] == [3]


def test_a_change_settled_after_a_newer_one_began_is_what_that_one_can_go_back_to(store: PlanStore) -> None:
    store.add(KEY, "first", now_ms=5)
    changed_to(store, "second", FIRST)
    changed_to(store, "third", FIRST)
    second = StoredVersion("second", 7, 2)
    store.settle(KEY, 2, second)
    (plan,) = store.plans()
    assert (plan.text, plan.epoch, plan.former) == ("third", 3, second)


def test_a_renamed_plan_is_there_once_with_all_that_was_set(store: PlanStore) -> None:
    store.add(KEY, "first", now_ms=5)
    store.set_intake(KEY, intake=False)
    changed_to(store, "second", FIRST, workers=2)
    renamed = store.rename(KEY, OTHER, "renamed", workers=2, now_ms=9)
    assert renamed == StoredPlan(OTHER, "renamed", 1, created_ms=5, updated_ms=9, intake=False, workers=2)
    assert store.plans() == (renamed,)


def test_a_plan_is_not_renamed_onto_another_one(store: PlanStore) -> None:
    both = (store.add(OTHER, "other", now_ms=5), store.add(KEY, "text", now_ms=5))
    with pytest.raises(PlanExistsError):
        store.rename(KEY, OTHER, "text", workers=None, now_ms=9)
    assert store.plans() == both


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
        store = open_store(path)
        assert store.plans() == (
            StoredPlan(KEY, "text", 4, created_ms=5, updated_ms=6),
            StoredPlan(PlanKey(7, "Storms"), "of tenant 7", 2, created_ms=8, updated_ms=9),
        )
        store.close()
    again = open_store(path)
    changed = again.change(KEY, "update", "second", None, StoredVersion("text", 6, 4), now_ms=10)
    assert changed is not None
    assert (changed.epoch, changed.former) == (5, StoredVersion("text", 6, 4))
    again.close()


def test_a_damaged_database_is_named_with_a_way_out(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database, but long enough to be taken for one" * 20)
    with pytest.raises(StoreError, match=r"manager\.db cannot be used: file is not a database; the file is damaged"):
        open_store(path)


def test_a_locked_database_is_an_error_and_not_a_wait_for_ever(store: PlanStore, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="database is locked; another process holds it"):
        store.add(KEY, "text", now_ms=1)
    other.close()
    assert store.add(KEY, "text", now_ms=1).epoch == 1


def test_tables_of_another_version_are_refused(store: PlanStore, path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("UPDATE cep_schema SET version = 99")
    other.close()
    with pytest.raises(StoreError, match="plan tables of version 99, this manager works with version 2"):
        open_store(path)


def test_a_folder_that_cannot_be_made_is_an_error_that_names_the_key(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"database\.url"):
        open_store(tmp_path / "file" / "manager.db")


@pytest.mark.parametrize("url", ["nonsense", "nodialect://x", "postgresql+nodriver://h/d"])
def test_a_url_that_names_no_database_is_an_error_that_names_the_key(url: str) -> None:
    with pytest.raises(StoreError, match=r"database\.url"):
        PlanStore(DatabaseConfig(url=url))


def test_a_password_is_never_shown() -> None:
    with pytest.raises(StoreError) as caught:
        PlanStore(DatabaseConfig(url="nodialect://user:geheim@host/name"))
    assert "geheim" not in caught.value.message
