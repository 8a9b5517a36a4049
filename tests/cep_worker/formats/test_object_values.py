"""Objects that the engine could not read are told of before a worker accepts them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cep_worker.formats.object_values import is_readable, unreadable_object
from siddhi.nesting import DEEPEST


@pytest.mark.parametrize("value", [b"1", b"null", b'"x"', b'{"a":[1,2]}', b" [ ] ", b"[" * DEEPEST + b"]" * DEEPEST])
def test_json_is_an_object(value: bytes) -> None:
    assert is_readable(value)


@pytest.mark.parametrize("value", [b"", b"a", b"\xff", b"{", b"1 2", b"[" * 100_000])
def test_what_is_no_json_is_none(value: bytes) -> None:
    assert not is_readable(value)


@pytest.mark.parametrize("levels", [DEEPEST + 1, 500, 100_000])
def test_what_nests_too_deeply_is_none(levels: int) -> None:
    assert not is_readable(b"[" * levels + b"]" * levels)
    assert not is_readable(b'{"a":' * levels + b"1" + b"}" * levels)


def test_the_first_that_cannot_be_read_is_named_and_nulls_and_other_types_are_passed_over() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"text": ["{", "{", "{"], "thing": pa.array([None, b"1", b"{"]), "other": pa.array([b"2", b"3", b"a"])}
    )
    assert unreadable_object(batch) == (2, "thing")
    assert unreadable_object(batch.slice(0, 2)) is None
