"""Output record batches: copied if there are few rows, wrapped if there are many."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siddhi.arrow_types import ARROW_TYPES
from siddhi.engine.columnar.batch import EventBatch
from siddhi.engine.columnar.column import Column
from siddhi.engine.columnar.strings import StringPool
from siddhi.engine.emit.batch_writer import BatchWriter
from siddhi.language.ast import AttributeType

VALUES = {
    AttributeType.STRING: st.text(max_size=20),
    AttributeType.INT: st.integers(-(2**31), 2**31 - 1),
    AttributeType.LONG: st.integers(-(2**63), 2**63 - 1),
    AttributeType.FLOAT: st.floats(width=32, allow_nan=False),
    AttributeType.DOUBLE: st.floats(allow_nan=False),
    AttributeType.BOOL: st.booleans(),
}


@st.composite
def columns(draw: st.DrawFn, size: int) -> tuple[AttributeType, list[object], str]:
    """Return a column's type, its values, and the form in which the engine has it."""
    type_ = draw(st.sampled_from(sorted(VALUES, key=str)))
    items = draw(st.lists(st.none() | VALUES[type_], min_size=size, max_size=size))
    form = draw(st.sampled_from(["numpy", "strided", "arrow", "sliced", "taken", "taken twice", "loaded"]))
    return type_, items, form


def made(type_: AttributeType, items: list[object], form: str, pool: StringPool) -> Column:
    if form == "numpy":
        return Column.of(type_, pool, items)
    if form == "strided":
        column = Column.of(type_, pool, [item for item in items for _ in range(2)])
        valid = None if column.valid is None or type_ is AttributeType.STRING else column.valid[::2]
        return Column(type_, pool, values=column.values[::2], valid=valid)
    array = pa.array(items, ARROW_TYPES[type_])
    if form == "sliced":
        return Column(type_, pool, arrow=pa.concat_arrays([array, array, array]).slice(len(items), len(items)))
    size = len(items)
    if form == "taken":
        backwards = np.arange(size)[::-1]
        return Column(type_, pool, arrow=array.take(pa.array(backwards))).take(backwards)
    if form == "taken twice":
        taken = Column(type_, pool, arrow=pa.concat_arrays([array.slice(0, 0), array, array])).take(
            np.arange(size, 2 * size)
        )
        return taken.take(np.arange(size))
    column = Column(type_, pool, arrow=array)
    assert len(column.values) == size
    return column


@pytest.mark.thorough
@settings(deadline=None)
@given(st.integers(0, 70).flatmap(lambda size: st.lists(columns(size), min_size=1, max_size=4)), st.booleans())
def test_a_batch_leaves_with_the_values_that_it_has_in_whatever_form(
    drawn: list[tuple[AttributeType, list[object], str]], current: bool
) -> None:
    pool = StringPool()
    size = len(drawn[0][1])
    attributes = {f"a{number}": type_ for number, (type_, _, _) in enumerate(drawn)}
    parts = {f"a{number}": made(*column, pool) for number, column in enumerate(drawn)}
    stamps = np.arange(size, dtype=np.int64) * 7
    kinds = np.arange(size, dtype=np.int8) % 2
    batch = EventBatch(stamps, None if current else kinds, stamps, stamps, parts, only_current=current)

    records = BatchWriter(attributes, pool).records(batch)

    records.validate(full=True)
    assert records["_timestamp"].to_pylist() == stamps.tolist()
    assert records["_kind"].to_pylist() == ([0] * size if current else kinds.tolist())
    for name, (type_, items, _) in zip(attributes, drawn, strict=True):
        assert records[name].to_pylist() == pa.array(items, ARROW_TYPES[type_]).to_pylist()
        assert records[name].null_count == items.count(None)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [3, 5_000])
def test_what_has_left_stays_as_it_is_when_the_engine_goes_on(size: int) -> None:
    pool = StringPool()
    outlet = BatchWriter({"text": AttributeType.STRING, "number": AttributeType.LONG}, pool)

    def batch(first: int) -> EventBatch:
        stamps = np.arange(first, first + size)
        texts = Column.of(AttributeType.STRING, pool, [f"text number {number}" for number in stamps])
        numbers = Column(AttributeType.LONG, pool, values=stamps * 2)
        return EventBatch(stamps, None, stamps, stamps, {"text": texts, "number": numbers}, only_current=True)

    kept = outlet.records(batch(0)).slice(1)
    numbers = kept["number"]
    for turn in range(1, 20):
        outlet.records(batch(turn * size))
    gc.collect()

    assert kept["text"].to_pylist() == [f"text number {number}" for number in range(1, size)]
    del kept
    assert numbers.to_pylist() == [2 * number for number in range(1, size)]


def test_a_column_of_another_type_than_the_schema_says_is_refused_not_misread() -> None:
    pool = StringPool()
    stamps = np.arange(2)
    whole = Column(AttributeType.INT, pool, values=np.array([1, 2], dtype=np.int32))
    batch = EventBatch(stamps, None, stamps, stamps, {"a": whole}, only_current=True)
    with pytest.raises(AssertionError, match="column 'a' is int, not string"):
        BatchWriter({"a": AttributeType.STRING}, pool).records(batch)
