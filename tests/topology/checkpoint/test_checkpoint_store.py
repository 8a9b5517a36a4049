"""Stores of checkpoints: what is whole is found, what is torn is passed over, what nobody needs goes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from checkpoint_stores import (
    KEY,
    KINDS,
    SERVERS,
    lineage_of,
    manifest_of,
    of_version,
    spoil,
    store_of,
    store_on_server,
    take,
)

from cep_common.ids import PlanKey
from topology.checkpoint.errors import OTHER_VERSION, CheckpointUnreadableError, StoreUnreachableError
from topology.checkpoint.model import Lineage, seal
from topology.checkpoint.storage.blobs import safe_name
from topology.checkpoint.storage.store import CheckpointStore, ManifestName, open_store, read_state
from topology.checkpoint.storage.writer import PartWriter

WINDOW = random.Random(1).randbytes(1_000_000)  # noqa: S311 - the same in each run
OPEN = lineage_of((1, 0, 0))


def writer_of(store: CheckpointStore) -> PartWriter:
    return PartWriter(store, KEY, 1, 0, 0, None)


@pytest.fixture(params=[*KINDS, pytest.param("postgresql", marks=pytest.mark.cluster), *SERVERS])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CheckpointStore]:
    """An empty store of each kind."""
    if request.param in SERVERS:
        with store_on_server(request.param) as made:
            yield made
    elif request.param == "postgresql":
        yield open_store(str(request.getfixturevalue("postgresql").emptied()))
    else:
        yield store_of(request.param, tmp_path)


def files(folder: Path, kind: str) -> list[Path]:
    return sorted(path for path in (folder / "checkpoints").rglob(f"{kind}/*") if path.is_file())


def test_states_are_read_as_they_were_written(store: CheckpointStore) -> None:
    large = WINDOW * 12  # more than a row of a database holds
    states = {"all#0": WINDOW, "all#4": large, "all#1": b"small", "all#2": b"", "all#3": b"\0" * 300_000}
    take(store, writer_of(store), 7, states)
    found = store.newest(KEY, OPEN, pytest.fail)
    assert found is not None
    assert {name: read_state(store, found[1], name) for name in states} == states
    assert store.read_manifest(found[0]) == found[1]
    assert read_state(store, found[1], "unheard-of#0") == b""


def test_the_newest_checkpoint_that_counts_is_found(store: CheckpointStore) -> None:
    writer = writer_of(store)
    for number in (9, 10, 11):
        take(store, writer, number, {"all#0": b"%d" % number})
    assert [one.checkpoint for one in store.taken(KEY)] == [11, 10, 9]

    def newest(lineage: Lineage) -> int | None:
        found = store.newest(KEY, lineage, pytest.fail)
        return found[1].checkpoint if found is not None else None

    assert newest(OPEN) == 11
    assert newest(lineage_of((1, 0, 10), (2, 0, 0))) == 10
    assert newest(lineage_of((1, 0, 0), (2, 0, 0))) is None
    assert newest(lineage_of((1, 0, 10), (2, 0, 0), void=10)) is None
    assert newest(Lineage()) is None


DAMAGES: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda data: data[:20], "torn"),
    (lambda data: data[:-1], "torn"),
    (lambda data: data[:0], "torn"),
    (lambda data: b"something else, " + data, "foreign"),
    (lambda data: data[:-5] + b"\xff" + data[-4:], "damaged"),
    (lambda data: data[:9] + b"\3" + data[10:], "damaged"),  # the number of its format
    (lambda _data: seal(Lineage()), "foreign"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGES)
def test_of_a_torn_or_foreign_manifest_is_told_and_the_one_before_is_used(
    damage: Callable[[bytes], bytes], reason: str, tmp_path: Path
) -> None:
    store = store_of("directory", tmp_path)
    writer = writer_of(store)
    take(store, writer, 1, {"all#0": b"one"})
    take(store, writer, 2, {"all#0": b"two"})
    newest = files(tmp_path, "checkpoints")[-1]
    for copy in tmp_path.rglob(newest.name):
        copy.write_bytes(damage(copy.read_bytes()))
    with pytest.raises(CheckpointUnreadableError) as refused:
        store.read_manifest(store.reference(KEY, store.taken(KEY)[0]))
    assert refused.value.reason_code == reason
    told: list[str] = []
    found = store.newest(KEY, OPEN, told.append)
    assert found is not None
    assert found[1].checkpoint == 1
    assert len(told) == 1
    assert "checkpoint 2 of Delays[-1234] is passed over" in told[0]


def test_a_manifest_of_another_version_is_told_of_and_not_passed_over(tmp_path: Path) -> None:
    store = store_of("directory", tmp_path)
    writer = writer_of(store)
    take(store, writer, 1, {"all#0": b"one"})
    take(store, writer, 2, {"all#0": b"two"})
    for file in tmp_path.rglob("*2-1-0"):
        if file.parent.name == "checkpoints":
            data = file.read_bytes()
            file.write_bytes(of_version(data, 99))
    with pytest.raises(CheckpointUnreadableError, match="written in format 99, this version reads format 1") as refused:
        store.newest(KEY, OPEN, pytest.fail)
    assert refused.value.reason_code == OTHER_VERSION


def test_a_checkpoint_whose_pack_is_torn_or_gone_is_passed_over(store: CheckpointStore) -> None:
    writer = writer_of(store)
    first = take(store, writer, 1, {"all#0": WINDOW})
    take(store, writer, 2, {"all#0": WINDOW[::-1]}, first)
    spoil(store, "packs", lambda data: data[:-1])
    told: list[str] = []
    found = store.newest(KEY, OPEN, told.append)
    assert found is not None
    assert (found[1].checkpoint, len(told)) == (1, 1)


def test_a_chunk_that_is_not_what_was_written_is_never_given(store: CheckpointStore) -> None:
    manifest = take(store, writer_of(store), 1, {"all#0": WINDOW})
    spoil(store, "packs", lambda data: data[:500_000] + bytes([data[500_000] ^ 1]) + data[500_001:])
    with pytest.raises(CheckpointUnreadableError) as refused:
        read_state(store, manifest, "all#0")
    assert refused.value.reason_code == "damaged"


def test_a_checkpoint_that_turned_out_to_be_damaged_is_passed_over_until_it_is_deleted(store: CheckpointStore) -> None:
    writer = writer_of(store)
    first = take(store, writer, 1, {"all#0": WINDOW})
    take(store, writer, 2, {"all#0": WINDOW[::-1]}, first)
    newest = store.taken(KEY)[0]
    store.condemn(store.reference(KEY, newest), "pack 7 is damaged at byte 3")
    told: list[str] = []
    found = store.newest(KEY, OPEN, told.append)
    assert found is not None
    assert found[1].checkpoint == 1
    assert told == ["checkpoint 2 of Delays[-1234] is passed over: pack 7 is damaged at byte 3"]
    assert newest in store.taken(KEY)
    store.delete_checkpoint(KEY, newest)
    assert [one.checkpoint for one in store.taken(KEY)] == [1]
    take(store, writer, 2, {"all#0": WINDOW}, first)
    assert store.newest(KEY, OPEN, pytest.fail) is not None  # the mark is gone too


def test_a_manifest_is_not_written_before_all_of_its_packs_are_there(tmp_path: Path) -> None:
    here, elsewhere = store_of("directory", tmp_path), open_store(str(tmp_path / "another host"))
    part = writer_of(elsewhere).write(1, {"all#0": WINDOW})
    with pytest.raises(CheckpointUnreadableError, match="must be shared by the driver and all hosts"):
        here.write_manifest(manifest_of(part, 1))
    assert here.taken(KEY) == []


def test_packs_that_nothing_needs_are_swept_and_those_of_savepoints_stay(store: CheckpointStore) -> None:
    writer = writer_of(store)
    saved = take(store, writer, 1, {"all#0": WINDOW}, name="before")
    second = take(store, writer, 2, {"all#0": WINDOW[::-1]}, saved)
    third = take(store, writer, 3, {"all#0": WINDOW[1:]}, second)
    writer.write(4, {"all#0": WINDOW[2:]})
    assert len(store.pack_sizes(KEY)) == 4
    assert store.sweep(KEY, [third], unfinished_from=4) == 1
    assert read_state(store, store.savepoint(KEY, "before")[1], "all#0") == WINDOW
    store.delete_savepoint(KEY, "before")
    assert store.sweep(KEY, [third], unfinished_from=4) == 1
    assert store.sweep(KEY, [third], unfinished_from=5) == 1
    assert read_state(store, third, "all#0") == WINDOW[1:]
    assert store.sweep(KEY, [], unfinished_from=5) == 1
    assert store.pack_sizes(KEY) == {}


def test_savepoints_are_found_by_name_and_plans_do_not_see_each_others(store: CheckpointStore) -> None:
    names = {KEY: "a", PlanKey(-1234, "../Delays"): "b", PlanKey(7, "Delays"): "c", PlanKey(7, "a/b é"): "d"}
    for key, text in names.items():
        writer = PartWriter(store, key, 1, 0, 0, None)
        take(store, writer, 1, {"all#0": text.encode()}, key=key, name="the / first")
    for key, text in names.items():
        _, manifest = store.savepoint(key, "the / first")
        assert read_state(store, manifest, "all#0") == text.encode()
    assert {one.key: one.name for one in store.savepoints(pytest.fail)} == dict.fromkeys(names, "the / first")
    with pytest.raises(CheckpointUnreadableError, match="Delays has no savepoint named second"):
        store.savepoint(KEY, "second")


def test_no_plan_name_leads_out_of_its_folder_or_to_that_of_another() -> None:
    names = [".", "..", "../x", "a/b", "a.b", "a b", "", "a" * 300, "a" * 299 + "b", "é" * 128, "\0", "a%2Fb", "\udcff"]
    safe = [safe_name(name) for name in names]
    assert len(set(safe)) == len(names)
    for name in safe:
        assert 0 < len(name) <= 100
        assert not set(name) & set("/.\\\0 ")


def test_what_counts_is_kept_and_the_newest_word_holds(store: CheckpointStore) -> None:
    assert store.lineage(KEY) == Lineage()
    lineage = lineage_of((1, 0, 12), (1, 1, 0), reserved=20)
    for one in (Lineage(), lineage):
        store.write_lineage(KEY, one)
    assert store.lineage(KEY) == lineage


def test_a_store_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file, not a folder")
    with pytest.raises(StoreUnreachableError, match=r"checkpoints/-1234/Delays/lineage cannot be used"):
        store_of("directory", tmp_path).write_lineage(KEY, Lineage())
    with pytest.raises(StoreUnreachableError, match=r"checkpoint\.location"):
        open_store("gopher://host/path")
    with pytest.raises(StoreUnreachableError) as refused:
        open_store("postgresql+nothing://user:secret@host/db")
    assert "secret" not in str(refused.value)


def test_files_that_are_none_of_ours_are_left_out(tmp_path: Path) -> None:
    store = store_of("directory", tmp_path)
    take(store, writer_of(store), 1, {"all#0": b"one"})
    folder = files(tmp_path, "checkpoints")[0].parent
    (folder / "notes.txt").write_text("hello")
    (folder / f"{ManifestName(2, 1, 0).name()}.1234.being-written").write_text("half")
    assert store.taken(KEY) == [ManifestName(1, 1, 0)]
