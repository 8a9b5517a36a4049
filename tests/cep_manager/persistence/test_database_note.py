"""A manager on a damaged database does not start; on one that is not what it was it says so until a person knows."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from alert_world import INFO, found, picture
from databases import leading_store, open_database
from manager_world import KEY, World

from cep_common.ids import PlanKey
from cep_manager.errors import PlanStoreError
from cep_manager.persistence.database import Database
from cep_manager.persistence.database_note import SUFFIX
from cep_manager.plans.store import PlanStore


def opened(path: Path) -> Database:
    return open_database(f"sqlite:///{path}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with three plans, and a copy of it from when it had one."""
    file = tmp_path / "manager.db"
    database = opened(file)
    store = leading_store(database)
    store.add(KEY, "text" * 500, now_ms=1)
    database.close()
    shutil.copy(file, tmp_path / "old.db")
    database = opened(file)
    store = leading_store(database)
    for name in ("A", "B"):
        store.add(PlanKey(KEY.tenant, name), "text" * 500, now_ms=2)
    assert store.database_problem() == ""
    database.close()
    return file


def test_a_database_that_goes_on_is_not_told_of(path: Path) -> None:
    database = opened(path)
    store = leading_store(database)
    for plan in store.plans():
        store.remove(plan.key)
    database.close()
    database = opened(path)
    assert PlanStore(database).database_problem() == "", "a person undeployed all of them"
    database.close()


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["another", "old"])
def test_another_and_an_older_database_are_told_of_until_the_note_is_removed(path: Path, what: str) -> None:
    if what == "another":
        path.unlink()
        expected = "it is a different database than before (it had 3 plans, and has 0)"
    else:
        shutil.copy(path.with_name("old.db"), path)
        expected = "2 changes are missing (it had 3 plans, and has 1)"
    for _ in range(2):
        database = opened(path)
        store = leading_store(database)
        assert expected in store.database_problem()
        store.add(PlanKey(KEY.tenant, f"New{_}"), "text", now_ms=3)
        assert expected in store.database_problem()
        database.close()
    database = opened(path)
    note = path.with_name(f"{path.name}{SUFFIX}")
    assert f"this is reported until {note} is removed" in PlanStore(database).database_problem()
    note.unlink()
    assert PlanStore(database).database_problem() == ""
    leading_store(database).add(PlanKey(KEY.tenant, "Last"), "text", now_ms=4)
    assert note.exists()
    database.close()
    database = opened(path)
    assert PlanStore(database).database_problem() == ""
    database.close()


def test_what_is_missing_of_a_damaged_write_ahead_file_is_told_of(path: Path, tmp_path: Path) -> None:
    """SQLite leaves out what it cannot read there, and the database is sound."""
    database = opened(path)
    store = leading_store(database)
    for number in range(9):
        store.add(PlanKey(KEY.tenant, f"Plan{number}"), "text" * 500, now_ms=3)
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for suffix in ("", "-wal", SUFFIX):
        shutil.copy(f"{path}{suffix}", crashed)
    database.close()
    ahead = crashed / f"{path.name}-wal"
    data = bytearray(ahead.read_bytes())
    data[len(data) // 2] ^= 0xFF
    ahead.write_bytes(data)
    database = opened(crashed / path.name)
    problem = PlanStore(database).database_problem()
    assert "its newest changes could not be read" in problem
    assert "it had 12 plans, and has" in problem
    database.close()


def test_a_manager_does_not_start_on_a_damaged_database(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(4096 + 100, len(data), 512):
        data[place : place + 16] = bytes(16)
    path.write_bytes(data)
    with pytest.raises(PlanStoreError, match=r"damaged.*restore it from a backup.*sqlite3 FILE \.recover"):
        opened(path)


def test_a_damaged_note_changes_nothing(path: Path) -> None:
    path.with_name(f"{path.name}{SUFFIX}").write_bytes(b"{")
    database = opened(path)
    assert PlanStore(database).database_problem() == ""
    database.close()


def test_a_database_that_is_not_what_it_was_is_a_critical_finding() -> None:
    world = World()
    assert "database-replaced" not in found(picture(world))
    manager = msgspec.structs.replace(INFO, database_problem="its plans are gone: it had 3 plans, and has 0")
    told = found(picture(world, manager=manager))["database-replaced"]
    assert told.severity == "critical"
    assert "it had 3 plans, and has 0" in told.what
