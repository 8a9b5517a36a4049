"""States are cut where their content says so."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse
from topology.checkpoint.storage.chunks import LEAST_BYTES, MOST_BYTES, USUAL_BYTES, cut

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


ROWS = 200_000
STATES = {
    "window": ("from S#window.length(200000) select k, sum(v) as t, max(v) as m group by k insert into O;", ROWS),
    "table": (
        "@primaryKey('n') define table T (n long, k string, v double); from S update or insert into T on T.n == n;",
        0,
    ),
    "groups": ("from S select n, sum(v) as t, max(v) as m group by n insert into O;", 0),
}


def fed(runtime: AppRuntime, start: int, count: int, value: float) -> bytes:
    numbers = np.arange(start, start + count)
    columns = {"_timestamp": numbers + 1, "n": numbers, "k": [f"k{number % 500}" for number in numbers.tolist()]}
    runtime.send("S", pa.record_batch({**columns, "v": np.random.default_rng(start).random(count) + value}))
    return runtime.snapshot()


@pytest.mark.parametrize("name", STATES)
def test_of_a_large_state_only_what_changed_is_new(name: str) -> None:
    """One row in a hundred comes, or changes in its place beside others."""
    query, start = STATES[name]
    text = f"@app:playback define stream S (n long, k string, v double); {query}"
    runtime = AppRuntime(analyse(parse(text)))
    runtime.start(0)
    before = names(fed(runtime, 0, ROWS, 0.0))
    data = fed(runtime, start, ROWS // 100, 1.0)
    assert sum(map(len, names(data) - before)) < 0.2 * len(data)
