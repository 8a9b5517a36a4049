"""What a task writes for a checkpoint: what is new, once, and nothing that would be missed later."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from checkpoint_stores import KEY, manifest_of, store_of, take

import topology.checkpoint.storage.writer as writer_module
from topology.checkpoint.errors import CheckpointUnreadableError
from topology.checkpoint.model import Manifest
from topology.checkpoint.storage import chunks
from topology.checkpoint.storage.store import CheckpointStore, read_state
from topology.checkpoint.storage.writer import MOST_PACKS, PartWriter

PIECES = 200
PIECE_BYTES = 4_096


def pieces(seed: int) -> list[bytes]:
    generator = random.Random(seed)  # noqa: S311 - the same in each run
    return [generator.randbytes(PIECE_BYTES) for _ in range(PIECES)]


@pytest.fixture(autouse=True)
def _pieces_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts follow no content here, so that a test can say what is new."""

    def cut(data: bytes) -> list[memoryview]:
        return [memoryview(data)[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES)]

    monkeypatch.setattr(writer_module, "cut", cut)


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return store_of("directory", tmp_path)


def test_only_what_changed_is_written(store: CheckpointStore) -> None:
    writer = PartWriter(store, KEY, 1, 0, 0, None)
    window = pieces(1)
    first = take(store, writer, 1, {"all#0": b"".join(window)})
    window[17] = b"x" * PIECE_BYTES
    second = take(store, writer, 2, {"all#0": b"".join(window)}, first)
    third = take(store, writer, 3, {"all#0": b"".join(window)}, second)
    assert [one.stored_bytes for one in (first, second, third)] == [PIECES * PIECE_BYTES, PIECE_BYTES, 0]
    assert read_state(store, third, "all#0") == b"".join(window)


def test_what_is_put_in_anywhere_is_all_that_is_written(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "cut", chunks.cut)
    writer = PartWriter(store, KEY, 1, 0, 0, None)
    window = b"".join(pieces(1) + pieces(2) + pieces(3) + pieces(4))
    first = take(store, writer, 1, {"all#0": window})
    later = window[:1_000_000] + b"put in" + window[1_000_000:]
    second = take(store, writer, 2, {"all#0": later}, first)
    assert 0 < second.stored_bytes < 0.25 * first.stored_bytes
    assert read_state(store, second, "all#0") == later


def test_an_attempt_goes_on_from_what_the_one_before_had_stored(store: CheckpointStore) -> None:
    window = b"".join(pieces(1))
    first = take(store, PartWriter(store, KEY, 1, 0, 0, None), 1, {"all#0": window})
    later = PartWriter(store, KEY, 1, 1, 3, first)
    second = take(store, later, 11, {"all#0": window}, first, attempt=1)
    assert second.stored_bytes == 0
    assert second.packs == first.packs


def test_what_an_abandoned_checkpoint_stored_is_not_relied_on(store: CheckpointStore) -> None:
    writer = PartWriter(store, KEY, 1, 0, 0, None)
    first = take(store, writer, 1, {"all#0": b"".join(pieces(1))})
    other = b"".join(pieces(2))
    writer.write(2, {"all#0": other})
    writer.abandon(2)
    third = take(store, writer, 3, {"all#0": other}, first)
    assert third.stored_bytes == len(other)
    store.sweep(KEY, [third], unfinished_from=4)
    assert read_state(store, third, "all#0") == other


def test_a_part_of_which_nothing_more_was_heard_makes_the_next_one_whole(store: CheckpointStore) -> None:
    writer = PartWriter(store, KEY, 1, 0, 0, None)
    window = b"".join(pieces(1))
    take(store, writer, 1, {"all#0": window})
    writer.write(2, {"all#0": window})
    third = manifest_of(writer.write(3, {"all#0": window}), 3)
    assert third.stored_bytes == len(window)


def test_chunks_that_a_checkpoint_did_not_need_are_written_again_when_they_come_back(store: CheckpointStore) -> None:
    writer = PartWriter(store, KEY, 1, 0, 0, None)
    one, other = b"".join(pieces(1)), b"".join(pieces(2))
    before: Manifest | None = None
    for number, state in enumerate((one, other, one, other), start=1):
        before = take(store, writer, number, {"all#0": state}, before)
        store.sweep(KEY, [before], unfinished_from=number + 1)
        assert before.stored_bytes == len(state)
        assert read_state(store, before, "all#0") == state


def test_a_state_whose_chunks_were_never_stored_makes_no_checkpoint(store: CheckpointStore) -> None:
    writer = PartWriter(store, KEY, 1, 0, 0, None)
    window = {"all#0": b"".join(pieces(1))}
    take(store, writer, 1, window)
    with pytest.raises(CheckpointUnreadableError, match="were never stored"):
        manifest_of(writer.write(2, window), 2, before=None)


def test_a_table_in_which_rows_change_here_and_there_neither_grows_in_the_store_nor_is_written_whole(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "REWRITTEN_BYTES", PIECE_BYTES)
    generator = random.Random(3)  # noqa: S311 - the same in each run
    writer = PartWriter(store, KEY, 1, 0, 0, None)
    table = pieces(1)
    before: Manifest | None = None
    written = []
    for number in range(1, 121):
        for _ in range(2):
            table[generator.randrange(PIECES)] = generator.randbytes(PIECE_BYTES)
        before = take(store, writer, number, {"all#0": b"".join(table)}, before)
        store.sweep(KEY, [before], unfinished_from=number + 1)
        written.append(before.stored_bytes)
    assert before is not None
    assert read_state(store, before, "all#0") == b"".join(table)
    whole = PIECES * PIECE_BYTES
    assert max(written[1:]) <= 0.1 * whole
    assert sum(store.pack_sizes(KEY).values()) <= 2.5 * whole
    assert len(store.pack_sizes(KEY)) <= 2 * MOST_PACKS
