"""States are cut where their content says so."""

from __future__ import annotations

import numpy as np
import pytest

from topology.checkpoint.chunks import LEAST_BYTES, MOST_BYTES, USUAL_BYTES, cut

RANDOM = np.random.default_rng(7).integers(0, 256, 8 * 1024 * 1024, dtype=np.uint8).tobytes()
COUNTING = np.arange(500_000, dtype=np.int64).tobytes()
STEPS = np.repeat(np.arange(100, dtype=np.int64), 8_192).tobytes()
"""As timestamps of batches are."""


def names(data: bytes) -> set[bytes]:
    return {bytes(piece) for piece in cut(data)}


@pytest.mark.parametrize("data", [b"", b"x", bytes(LEAST_BYTES), bytes(3 * MOST_BYTES + 1), RANDOM, COUNTING, STEPS])
def test_pieces_are_all_of_it_in_order_and_within_bounds(data: bytes) -> None:
    pieces = cut(data)
    assert b"".join(pieces) == data
    assert all(len(piece) >= LEAST_BYTES for piece in pieces[:-1])
    assert all(0 < len(piece) <= MOST_BYTES for piece in pieces)


def test_the_same_bytes_are_cut_alike_whatever_they_lie_in() -> None:
    plain = [len(piece) for piece in cut(RANDOM)]
    assert [len(piece) for piece in cut(memoryview(bytearray(b"??" + RANDOM))[2:])] == plain
    assert USUAL_BYTES / 2 < len(RANDOM) / len(plain) < 2 * USUAL_BYTES


@pytest.mark.parametrize("data", [RANDOM, COUNTING, STEPS])
@pytest.mark.parametrize("put_in", [b"!", b"put in near the front" * 1000])
def test_what_is_put_in_near_the_front_changes_few_pieces(data: bytes, put_in: bytes) -> None:
    before = names(data)
    after = names(data[:100_000] + put_in + data[100_000:])
    assert len(after - before) <= 3


def test_a_queue_that_moved_on_has_new_pieces_at_its_ends_only() -> None:
    rows = np.random.default_rng(8).integers(0, 1000, 1_010_000)
    before, after = names(rows[:1_000_000].tobytes()), names(rows[10_000:].tobytes())
    assert sum(map(len, after - before)) < 3 * USUAL_BYTES + 80_000
