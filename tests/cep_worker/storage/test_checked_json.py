"""Small files and their copies: damage to one and then to the other costs nothing, if the file was read in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cep_worker.storage.checked_json import copy_of, read_checked, write_checked
from cep_worker.storage.losses import LOST_FILE, LossRecord, read_lost, write_lost


class Named(msgspec.Struct, frozen=True):
    name: str


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": lambda path: path.write_bytes(path.read_bytes().replace(b"a", b"c", 1)),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "empty": lambda path: path.write_bytes(b""),
    "removed": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_one_copy_after_the_other_may_be_damaged(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    path = tmp_path / "some.json"
    write_checked(path, Named("a name"))
    for damaged in (path, copy_of(path), path, copy_of(path)):
        damage(damaged)
        assert read_checked(path, Named) == Named("a name")
    damage(path)
    damage(copy_of(path))
    assert read_checked(path, Named) is None


def test_a_file_that_cannot_be_restored_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "some.json"
    write_checked(path, Named("a name"))
    path.unlink()

    def fails(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("cep_worker.storage.checked_json.write_atomically", fails)
    assert read_checked(path, Named) == Named("a name")
    assert "cannot be restored" in caplog.text


def test_a_copy_that_the_disk_does_not_give_is_missed_only_without_the_file(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    write_checked(path, Named("a name"))
    copy_of(path).unlink()
    copy_of(path).mkdir()
    assert read_checked(path, Named) == Named("a name")
    path.write_bytes(b"")
    with pytest.raises(OSError, match="directory"):
        read_checked(path, Named)


@pytest.mark.parametrize("damage", [DAMAGES["truncated"], DAMAGES["empty"]])
def test_the_count_of_lost_events_outlives_damage_to_one_copy_after_the_other(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    """A removed count is one that a person has read."""
    path = tmp_path / LOST_FILE
    write_lost(tmp_path, LossRecord(300))
    for damaged in (path, copy_of(path), path):
        damage(damaged)
        assert read_lost(tmp_path).rows == 300
    path.unlink()
    assert read_lost(tmp_path).rows == 0
