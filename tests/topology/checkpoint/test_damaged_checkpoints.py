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
from topology.checkpoint.errors import CheckpointUnreadableError, StoreUnreachableError
from topology.checkpoint.model import Manifest, new_pack
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

    def go_on(self, checkpoints: int = 1) -> None:
        """Start attempt 1 of an exactly-once plan from checkpoint 3; it takes more of them with the same state."""
        state = state_of(3)
        archive = Archive(self.store, 3)
        run = RunId(KEY, 1, 1)
        opened = archive.open_run(run, "")
        manifest = self.store.read_manifest(opened.reference)
        assert read_state(self.store, manifest, "all#0") == state_of(3)
        writer = PartWriter(self.store, KEY, 1, 1, 0, manifest, twice=True)
        for number in range(4, 4 + checkpoints):
            self.states[number] = state
            part = writer.write(number, {"all#0": state})
            report = ReportPart(KEY, 1, 1, 0, number, part.states, part.packs, 1, part.stored_bytes)
            archive.write(WriteManifest(run, number, (report,), "", 5), PLAN, opened.opening.spans, number)
            writer.complete(number)

    def files(self, part: str) -> list[Path]:
        """Files of the plan right below `part`, oldest first."""
        (first,) = self.folder.glob(f"**/{KEY.identity}")
        return sorted(path for path in (first / part).glob("*"))


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_manifest_is_replaced_by_its_copy(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    for number, part in enumerate(("checkpoints", "copies/checkpoints")):
        store = Store(tmp_path / str(number))
        damage(store.files(part)[-1])
        opened = store.restart()
        assert (opened.number, opened.goes_back) == (3, True), "no result is given out again"


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_savepoint_outlives_damage_to_its_manifest_and_later_to_the_copy(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    store = Store(tmp_path)
    for part in ("savepoints", "copies/savepoints"):
        damage(store.files(part)[-1])
        assert [one.name for one in store.store.savepoints(lambda _: None)] == ["saved"]


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
def test_the_first_checkpoints_after_damage_store_the_chunks_twice_again(
    tmp_path: Path, part: str, damage: Callable[[Path], None]
) -> None:
    """The first one, or the second where only reading tells that a copy is damaged that was not needed."""
    store = Store(tmp_path, twice=True)
    damage(store.files(part)[-1])
    store.go_on(2)
    other = {"packs": "copies/packs", "copies/packs": "packs"}[part]
    damage(next(path for path in store.files(other) if path.name.startswith(f"{3:019d}-")))
    assert store.restart(2).number == 5


def test_of_what_is_large_a_part_is_verified_at_each_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topology.checkpoint.storage.writer.VERIFIED_BYTES", 1)
    monkeypatch.setattr("topology.checkpoint.storage.writer.READ_BYTES", 1)
    number = 3
    state = b"".join(hashlib.sha256(b"%d" % place).digest() for place in range(20_000))
    store = Store(tmp_path, twice=True)
    writer = PartWriter(store.store, KEY, 1, 0, 0, None, twice=True)
    part = writer.write(number, {"all#0": state})
    pack = new_pack(part.packs[0])
    assert len(pack.chunks) > 4
    begun = Manifest(KEY, 3, 1, 0, 3, PLAN, 1, (), part.states, (pack,), (), 1, 1, 1, 1)
    flip(next(path for path in store.files("copies/packs") if path.name == pack.name), pack.chunks[-1][1])
    writer = PartWriter(store.store, KEY, 1, 1, 0, begun, twice=True)
    stored = []
    for checkpoint in range(4, 5 + len(pack.chunks)):
        stored.append(writer.write(checkpoint, {"all#0": state}).stored_bytes)
        writer.complete(checkpoint)
    assert stored == [0] * len(pack.chunks) + [pack.chunks[-1][2]], "the damaged chunk is the last one that is read"


def test_what_could_not_be_read_is_verified_at_the_next_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state_of(1)
    store = Store(tmp_path, twice=True)
    part = PartWriter(store.store, KEY, 1, 0, 0, None, twice=True).write(3, {"all#0": state})
    pack = new_pack(part.packs[0])
    begun = Manifest(KEY, 3, 1, 0, 3, PLAN, 1, (), part.states, (pack,), (), 1, 1, 1, 1)
    flip(next(path for path in store.files("copies/packs") if path.name == pack.name))
    writer = PartWriter(store.store, KEY, 1, 1, 0, begun, twice=True)
    writer.write(4, {"all#0": state})
    writer.complete(4)

    def away(*_: object) -> bool:
        raise StoreUnreachableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(store.store, "has_twice", away)
        with pytest.raises(StoreUnreachableError):
            writer.write(5, {"all#0": state})
    writer.abandon(5)
    assert writer.write(6, {"all#0": state}).stored_bytes > 0, "the damaged chunk is stored again"


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
    for lineage in store.folder.rglob("lineage"):
        damage(lineage)
    assert [one.name for one in store.store.savepoints(lambda _: None)] == ["saved"]
    assert store.restart().number == 3
    opened = Archive(store.store, 3).open_run(RunId(KEY, 2, 0), "saved")
    assert (opened.number, opened.goes_back) == (2, False), "a savepoint is no way back"


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_plan_that_began_from_a_savepoint_begins_there_again_when_its_lineage_is_damaged(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Checkpoints from before that must not count again, and without any it must not begin with empty state."""
    store = Store(tmp_path)
    for attempt, cleared in enumerate((False, True)):
        Archive(store.store, 3).open_run(RunId(KEY, 2 + attempt, 0), "saved")
        damage(next(path for path in store.folder.rglob("lineage") if path.parent.name != "copies"))
        for path in (*store.files("checkpoints"), *store.files("copies/checkpoints")) if cleared else ():
            path.unlink()
        opened = Archive(store.store, 3).open_run(RunId(KEY, 2 + attempt, 1), "")
        assert (opened.number, opened.goes_back) == (2, False)


def test_a_copy_of_the_lineage_that_is_older_than_the_checkpoints_does_not_count(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (copy,) = tmp_path.rglob("copies/lineage")
    old = copy.read_bytes()
    store.go_on()
    copy.write_bytes(old)
    next(path for path in tmp_path.rglob("lineage") if path != copy).unlink()
    assert store.restart(2).number == 4


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
