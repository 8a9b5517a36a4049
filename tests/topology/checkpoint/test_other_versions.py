"""State of another version of the engine: nothing starts from it, nothing of it is lost, and people are told."""

from __future__ import annotations

import struct
from pathlib import Path

import msgspec
import pytest
from checkpoint_stores import KEY, of_version
from test_checkpoint_archive import Driver

from cep_common.protocol.checkpoints import NO_SAVEPOINT
from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.snapshots.envelope import FORMAT_VERSION, READABLE, format_of
from siddhi.language.parser import parse
from topology.checkpoint.coordination.runs import RunId
from topology.checkpoint.coordination.savepoints import _reports
from topology.checkpoint.errors import OTHER_VERSION, CheckpointUnreadableError
from topology.checkpoint.model import Manifest
from topology.checkpoint.storage import state_formats

OTHERS = (FORMAT_VERSION + 86, min(READABLE) - 1)


def snapshot(version: int = FORMAT_VERSION, padding: int = 0) -> bytes:
    """A real snapshot with another number of its format; with much behind it, it is kept in chunks."""
    runtime = AppRuntime(analyse(parse("define stream S (a int); from S#window.length(9) select a insert into T;")))
    runtime.start(0)
    data = runtime.snapshot()
    assert format_of(data) == FORMAT_VERSION
    return data[:4] + struct.pack("<H", version) + data[6:] + bytes(range(256)) * padding


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


def upgraded(monkeypatch: pytest.MonkeyPatch, *formats: int) -> None:
    """A version of the software that reads these formats takes the place of this one."""
    monkeypatch.setattr(state_formats, "_READABLE", frozenset((0, *formats)))


@pytest.mark.parametrize("padding", [0, 400])
@pytest.mark.parametrize("version", OTHERS)
def test_no_plan_begins_from_a_checkpoint_whose_states_cannot_be_read(
    version: int, padding: int, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.open(1)
    driver.take(1, 1, state=snapshot())
    driver.take(2, 1, state=snapshot(version, padding))
    for _ in range(2):  # what was refused changes nothing in the store
        with pytest.raises(
            CheckpointUnreadableError, match=f"checkpoint 2 of .* its state is in format {version}"
        ) as told:
            Driver(driver.folder).open(2)
        assert told.value.reason_code == OTHER_VERSION
        assert "run the version that wrote it" in str(told.value)
        assert "`cep restart Delays --from SAVEPOINT`, or `--from none` for empty state" in str(told.value)
    upgraded(monkeypatch, version)
    assert Driver(driver.folder).open(2).number == 2


@pytest.mark.parametrize("padding", [0, 400])
def test_checkpoints_that_do_not_tell_of_formats_are_looked_into(padding: int, driver: Driver) -> None:
    """Those that an earlier version wrote."""
    driver.open(1)
    manifest = driver.take(1, 1, state=snapshot(OTHERS[1], padding))
    former = tuple(msgspec.structs.replace(state, format=0) for state in manifest.states)
    driver.store.write_manifest(msgspec.structs.replace(manifest, states=former))
    assert bool(former[0].chunks) == bool(padding)
    with pytest.raises(CheckpointUnreadableError, match=f"its state is in format {OTHERS[1]}"):
        Driver(driver.folder).open(2)


def test_who_begins_with_empty_state_can_still_go_back_with_the_version_that_wrote_it(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.open(1)
    driver.take(1, 1, state=snapshot(OTHERS[0], 400))
    opened = driver.open(2, restore=NO_SAVEPOINT)
    assert (opened.reference, opened.kept) == ("", "unreadable-1")
    for number in (11, 12, 13):
        driver.take(number, 2, state=snapshot())
    (kept,) = _reports(driver.archive)
    assert (kept.name, kept.checkpoint) == ("unreadable-1", 1)
    assert "run the version that wrote it, or a later one" in kept.unreadable
    with pytest.raises(CheckpointUnreadableError, match=r"savepoint unreadable-1 of .* cannot be used"):
        driver.open(3, restore="unreadable-1")
    assert driver.open(3).number == 13
    upgraded(monkeypatch, *READABLE, OTHERS[0])
    assert Driver(driver.folder).open(4, restore="unreadable-1").number == 1


def test_checkpoints_whose_files_are_of_another_version_are_kept_and_told_of(driver: Driver) -> None:
    driver.open(1)
    driver.take(1, 1, state=snapshot(), name="named")
    folder = driver.folder / "checkpoints" / "-1234" / "Delays"
    for file in [*folder.rglob("lineage"), *folder.rglob("checkpoints/*"), *folder.rglob("savepoints/*")]:
        data = file.read_bytes()
        file.write_bytes(of_version(data, 2))
    before = next((folder / "checkpoints").iterdir()).read_bytes()
    with pytest.raises(CheckpointUnreadableError, match="was written in format 2, this version reads format 1"):
        Driver(driver.folder).open(2)
    (named,) = _reports(Driver(driver.folder).archive)
    assert (named.key, named.name, named.state) == (KEY, "named", "stored")
    assert "was written in format 2" in named.unreadable
    with pytest.raises(CheckpointUnreadableError, match="was written in format 2"):
        driver.open(2, restore="named")
    later = Driver(driver.folder)
    assert later.open(2, restore=NO_SAVEPOINT).kept == "unreadable-1"
    later.take(12, 2, state=snapshot())
    assert (folder / "savepoints" / "unreadable-1").read_bytes() == before


def test_a_topology_that_has_its_state_already_goes_on_without_what_cannot_be_read(driver: Driver) -> None:
    driver.open(1)
    driver.take(1, 1, state=snapshot(OTHERS[0]))
    assert driver.archive.open_run(RunId(KEY, 2, 0), "", has_state=True).reference == ""


def test_what_of_checkpoints_can_be_read_is_no_business_of_positions_and_other_parts(driver: Driver) -> None:
    driver.open(1)
    manifest: Manifest = driver.take(1, 1, state=b"CEPS")
    assert [state.format for state in manifest.states] == [0]
    assert driver.open(2).number == 1
