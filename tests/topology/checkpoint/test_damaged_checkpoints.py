"""Damage to every file of checkpoints and savepoints: what is readable counts, and nothing is missing behind it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from checkpoint_stores import store_of
from topology_builders import KEY

from cep_common.protocol.checkpoints import ReportPart
from query_plan.builder import build
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from topology.checkpoint.coordination.archive import Archive, RunStart
from topology.checkpoint.coordination.instructions import WriteManifest
from topology.checkpoint.coordination.runs import RunId
from topology.checkpoint.errors import CheckpointUnreadableError
from topology.checkpoint.storage.store import read_state
from topology.checkpoint.storage.writer import PartWriter

PLAN = write_xml(
    build(analyse(parse("@Plan:name('P') @Import('A:1.0.0') define stream A (n int); from A insert into B;")))
)


def flip(path: Path, place: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[place if place >= 0 else len(data) // 2] ^= 0x10
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "flipped": flip,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "empty": lambda path: path.write_bytes(b""),
    "removed": lambda path: path.unlink(),
    "of zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}


def state_of(number: int) -> bytes:
    return b"".join(hashlib.sha256(b"%d %d" % (number, place)).digest() for place in range(1_000))


class Store:
    """Three checkpoints of a plan, of 30 kB of state each."""

    def __init__(self, folder: Path, *, twice: bool = False) -> None:
        self.folder = folder
        self.states = {number: state_of(number) for number in range(1, 4)}
        self.store = store_of("directory", folder)
        archive = Archive(self.store, 3)
        run = RunId(KEY, 1, 0)
        opened = archive.open_run(run, "")
        writer = PartWriter(self.store, KEY, 1, 0, 0, None, twice=twice)
        for number in range(1, 4):
            part = writer.write(number, {"all#0": state_of(number)})
            report = ReportPart(KEY, 1, 0, 0, number, part.states, part.packs, 1, part.stored_bytes)
            name = "saved" if number == 2 else ""
            archive.write(WriteManifest(run, number, (report,), name, 5), PLAN, opened.opening.spans, number)
            writer.complete(number)
        assert archive.oldest(KEY) == 1

    def restart(self, attempt: int = 1) -> RunStart:
        """The topology begins again, until what it starts from can be read whole."""
        while True:
            opened = Archive(self.store, 3).open_run(RunId(KEY, 1, attempt), "")
            if not opened.reference:
                return opened
            try:
                manifest = self.store.read_manifest(opened.reference)
                state = read_state(self.store, manifest, "all#0")
            except CheckpointUnreadableError as error:
                self.store.condemn(opened.reference, str(error))
                attempt += 1
                continue
            assert state == self.states[opened.number]
            return opened

    def go_on(self) -> None:
        """Start attempt 1 of an exactly-once plan from checkpoint 3; it takes another one with the same state."""
        number, state = 4, state_of(3)
        self.states[number] = state
        archive = Archive(self.store, 3)
        run = RunId(KEY, 1, 1)
        opened = archive.open_run(run, "")
        manifest = self.store.read_manifest(opened.reference)
        assert read_state(self.store, manifest, "all#0") == state_of(3)
        part = PartWriter(self.store, KEY, 1, 1, 0, manifest, twice=True).write(number, {"all#0": state})
        report = ReportPart(KEY, 1, 1, 0, number, part.states, part.packs, 1, part.stored_bytes)
        archive.write(WriteManifest(run, number, (report,), "", 5), PLAN, opened.opening.spans, number)

    def files(self, part: str) -> list[Path]:
        """Files of the plan right below `part`, oldest first."""
        (plan,) = self.folder.glob("**/lineage")
        return sorted(path for path in (plan.parent / part).glob("*"))


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_manifest_is_replaced_by_its_copy(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    for number, part in enumerate(("checkpoints", "copies/checkpoints")):
        store = Store(tmp_path / str(number))
        damage(store.files(part)[-1])
        opened = store.restart()
        assert (opened.number, opened.goes_back) == (3, True), "no result is given out again"


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_without_both_the_topology_goes_back_and_asks_for_all_events_again(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    store = Store(tmp_path)
    for left in (2, 1, 0):
        for path in [*store.files("checkpoints"), *store.files("copies/checkpoints")]:
            if path.name.startswith(f"{left + 1:019d}-"):
                damage(path)
        opened = store.restart(4 - left)
        removed = damage is DAMAGES["removed"] and not left
        assert (opened.number, opened.goes_back) == (left, not removed)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_chunks_lead_to_an_older_checkpoint(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    store = Store(tmp_path)
    damage(store.files("packs")[-1])
    opened = store.restart()
    assert (opened.number, opened.goes_back) == (2, True)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("part", ["packs", "copies/packs"])
def test_of_chunks_that_are_stored_twice_one_copy_may_be_damaged(
    tmp_path: Path, part: str, damage: Callable[[Path], None]
) -> None:
    store = Store(tmp_path, twice=True)
    for path in store.files(part):
        damage(path)
    opened = store.restart()
    assert (opened.number, opened.goes_back) == (3, True), "no result is given out again"
    for path in store.files("packs" if part != "packs" else "copies/packs"):
        if path.name.startswith(f"{3:019d}-"):
            damage(path)
    assert store.restart(2).number == 2, "of the others each has a copy"


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("part", ["packs", "copies/packs"])
def test_the_first_checkpoint_after_damage_stores_the_chunks_twice_again(
    tmp_path: Path, part: str, damage: Callable[[Path], None]
) -> None:
    store = Store(tmp_path, twice=True)
    damage(store.files(part)[-1])
    store.go_on()
    noticed = part == "packs" or damage not in (DAMAGES["flipped"], DAMAGES["of zeros"])
    other = {"packs": "copies/packs", "copies/packs": "packs"}[part]
    damage(next(path for path in store.files(other) if path.name.startswith(f"{3:019d}-")))
    assert store.restart(2).number == (4 if noticed else 2)


def test_chunks_of_a_plan_that_becomes_exactly_once_are_stored_twice_from_then_on(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.go_on()
    for path in store.files("packs"):
        path.unlink()
    assert store.restart(2).number == 4


def test_copies_go_with_their_packs(tmp_path: Path) -> None:
    store = Store(tmp_path, twice=True)
    archive = Archive(store.store, 3)
    archive.delete_savepoint(KEY, "saved")
    archive.clear(KEY)
    assert store.files("packs") == store.files("copies/packs") == []


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_savepoints_and_the_lineage_outlive_damage(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    store = Store(tmp_path)
    damage(store.files("savepoints")[-1])
    damage(next(store.folder.rglob("lineage")))
    assert [one.name for one in store.store.savepoints(lambda _: None)] == ["saved"]
    assert store.restart().number == 3
    opened = Archive(store.store, 3).open_run(RunId(KEY, 2, 0), "saved")
    assert (opened.number, opened.goes_back) == (2, False), "a savepoint is no way back"


@pytest.mark.thorough
def test_every_flipped_byte_of_a_manifest_is_noticed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    copy, first = (store.files(part)[-1] for part in ("copies/checkpoints", "checkpoints"))
    copy.unlink()
    whole = first.read_bytes()
    reference = store.store.reference(KEY, store.store.taken(KEY)[0])
    for place in range(len(whole)):
        flip(first, place)
        with pytest.raises(CheckpointUnreadableError):
            store.store.read_manifest(reference)
        first.write_bytes(whole)
    assert store.store.read_manifest(reference).checkpoint == 3
