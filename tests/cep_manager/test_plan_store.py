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
from cep_manager.plan_store import PlanStore


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
    replaced = store.replace(KEY, "other", now_ms=9)
    assert replaced is not None
    assert (replaced.epoch, replaced.text, replaced.created_ms, replaced.updated_ms) == (3, "other", 1, 9)
    assert store.remove(KEY)
    assert store.add(KEY, "text", now_ms=20).epoch == 4


def test_epochs_counted_by_several_threads_are_all_different(store: PlanStore, path: Path) -> None:
    patient = PlanStore(DatabaseConfig(url=f"sqlite:///{path}", timeout_ms=20_000))
    with ThreadPoolExecutor(4) as pool:
        epochs = list(pool.map(lambda _: patient.raise_epoch(KEY), range(20)))
    patient.close()
    assert sorted(epochs) == list(range(1, 21))


def test_what_is_not_there_is_neither_replaced_nor_removed(store: PlanStore) -> None:
    assert store.replace(KEY, "text", now_ms=1) is None
    assert not store.remove(KEY)


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
    with pytest.raises(StoreError, match="plan tables of version 99, this manager works with version 1"):
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
