"""Rows distributed in one loop are those that Arrow selects, whatever the columns and the batch's offset."""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from siddhi.engine.arrow_c import split_by_owner
from siddhi.engine.arrow_c.split_by_owner import share_by_owner, text_hashes
from siddhi.engine.tuning import MAX_SPLIT_KERNEL_ROWS

TYPES = {
    pa.utf8(): st.text(max_size=12),
    pa.binary(): st.binary(max_size=12),
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
}


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Return batches with or without nulls, sliced from others."""
    rows = draw(st.integers(0, 40))
    arrays = []
    for type_ in draw(st.lists(st.sampled_from(sorted(TYPES, key=str)), min_size=1, max_size=4)):
        items = st.none() | TYPES[type_] if draw(st.booleans()) else TYPES[type_]
        arrays.append(pa.array(draw(st.lists(items, min_size=rows, max_size=rows)), type_))
    batch = pa.RecordBatch.from_arrays(arrays, names=[f"a{number}" for number in range(len(arrays))])
    first = draw(st.integers(0, rows))
    return batch.slice(first, draw(st.integers(0, rows - first)))


@pytest.mark.thorough
@settings(deadline=None, max_examples=examples(200))
@given(batches(), st.integers(1, 5), st.randoms(use_true_random=False))
def test_each_owner_gets_its_rows_in_order(batch: pa.RecordBatch, shares: int, chance: object) -> None:
    owners = np.array([chance.randrange(shares) for _ in range(batch.num_rows)], dtype=np.int64)  # type: ignore[attr-defined]
    found = share_by_owner(batch, owners, shares)
    for _, part in found:
        part.validate(full=True)
    picked = [(share, batch.take(pa.array(np.flatnonzero(owners == share)))) for share in range(shares)]
    expected = [(share, part) for share, part in picked if part.num_rows]
    assert [(share, part.schema, part.to_pylist()) for share, part in found] == [
        (share, part.schema, part.to_pylist()) for share, part in expected
    ]


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch({"a": pa.array(["x", "y", "x"]).dictionary_encode()}),
        pa.record_batch({"a": pa.array([1, 2, 3], pa.int16())}),
        pa.record_batch({"a": pa.array(np.arange(MAX_SPLIT_KERNEL_ROWS + 1))}),
    ],
)
def test_other_forms_and_many_rows_are_shared_out_by_arrow(
    batch: pa.RecordBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_by_owner, "_write_shares", None)
    owners = np.arange(batch.num_rows) % 2
    expected = [(share, batch.take(pa.array(np.flatnonzero(owners == share)))) for share in (0, 1)]
    assert share_by_owner(batch, owners, 2) == expected


@given(st.lists(st.none() | st.text(max_size=30), max_size=20), st.integers(0, 3))
@settings(deadline=None)
def test_texts_are_hashed_as_zlib_does(texts: list[str | None], first: int) -> None:
    column = pa.array(texts, pa.utf8()).slice(min(first, len(texts)))
    hashes = [7 if text is None else zlib.crc32(text.encode()) for text in texts[first:]]
    hashed = text_hashes(column, 7)
    assert hashed is not None
    assert hashed.tolist() == hashes
    assert text_hashes(pa.array(["x" * 70_000]), 7) is None
