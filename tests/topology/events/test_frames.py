"""Record batches on the wire: what is encoded comes back; any other bytes are a DecodeError."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from cep_common.errors import DecodeError
from cep_common.protocol.links import StreamSchema
from siddhi.arrow_types import ARROW_TYPES_BY_NAME
from topology.events.frames import arrow_schema, concatenate, decode_batch, encode_batch, event_rows

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=5),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "object": st.binary(max_size=5),
}
ALL = StreamSchema("S", tuple((f"a_{kind}", kind) for kind in ARROW_TYPES_BY_NAME))
SCHEMA = arrow_schema(ALL)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"_timestamp": VALUES["long"], "_kind": st.just(0)}
        | {f"a_{kind}": st.none() | values for kind, values in VALUES.items()}
    ),
    max_size=4,
)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def test_a_streams_schema_begins_with_time_and_kind_and_knows_every_type() -> None:
    assert SCHEMA.names == ["_timestamp", "_kind", *(f"a_{kind}" for kind in ARROW_TYPES_BY_NAME)]
    assert [field.nullable for field in SCHEMA] == [False, False] + [True] * len(ARROW_TYPES_BY_NAME)
    with pytest.raises(KeyError, match="decimal"):
        arrow_schema(StreamSchema("S", (("a", "decimal"),)))


def test_attributes_called_as_the_columns_of_every_batch_stand_beside_these() -> None:
    schema = arrow_schema(StreamSchema("S", (("_timestamp", "string"), ("_kind", "long"), ("a", "int"))))
    rows = [
        {"_timestamp": 5, "_kind": 0, "`_timestamp`": "five", "`_kind`": 7, "a": 1},
        {"_timestamp": 6, "_kind": 0, "`_timestamp`": None, "`_kind`": None, "a": 2},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    assert decode_batch(encode_batch(batch), schema, 2, trusted=False).to_pylist() == rows
    assert event_rows(batch) == event_rows(batch, timed=False)
    assert event_rows(batch) == [
        {"_timestamp": "five", "_kind": 7, "a": 1},
        {"_timestamp": None, "_kind": None, "a": 2},
    ]


def test_events_are_told_with_their_times_or_without_and_never_with_their_kinds() -> None:
    schema = arrow_schema(StreamSchema("S", (("a", "int"),)))
    batch = pa.RecordBatch.from_pylist([{"_timestamp": 5, "_kind": 0, "a": 1}], schema=schema)
    assert event_rows(batch) == [{"_timestamp": 5, "a": 1}]
    assert event_rows(batch, timed=False) == [{"a": 1}]


@given(ROWS)
@settings(deadline=None)
def test_a_batch_comes_back_as_it_was(rows: list[dict[str, Any]]) -> None:
    batch = batch_of(rows)
    body = encode_batch(batch)
    for received in (body, body.to_pybytes(), memoryview(body)):
        assert decode_batch(received, SCHEMA, len(rows), trusted=False) == batch


@given(ROWS, st.integers(0, 3))
@settings(deadline=None, max_examples=examples(30))
def test_a_slice_is_sent_as_its_rows_alone(rows: list[dict[str, Any]], start: int) -> None:
    batch = batch_of(rows).slice(start)
    assert decode_batch(encode_batch(batch), SCHEMA, batch.num_rows) == batch


@given(ROWS.filter(bool), st.data())
@settings(deadline=None, max_examples=examples(200))
def test_a_damaged_body_from_outside_is_a_batch_or_a_decode_error(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    body = bytearray(encode_batch(batch_of(rows)).to_pybytes())
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(body)[: data.draw(st.integers(0, len(body)))] if data.draw(st.booleans()) else bytes(body)
    with suppress(DecodeError):
        decode_batch(damaged, SCHEMA, len(rows), trusted=False).to_pylist()


@given(st.binary(max_size=64))
@settings(deadline=None)
def test_any_bytes_are_a_batch_or_a_decode_error(body: bytes) -> None:
    with suppress(DecodeError):
        decode_batch(body, SCHEMA, 1, trusted=False)


def test_broken_text_from_outside_is_refused() -> None:
    schema = arrow_schema(StreamSchema("S", (("name", "string"),)))
    batch = pa.record_batch([pa.array([1]), pa.array([0], pa.int8()), pa.array(["abc"])], schema=schema)
    broken = encode_batch(batch).to_pybytes().replace(b"abc", b"a\xffc")
    with pytest.raises(DecodeError, match="UTF"):
        decode_batch(broken, schema, 1, trusted=False)


def test_another_number_of_rows_than_announced_is_refused() -> None:
    with pytest.raises(DecodeError, match="0 rows where 1 were announced"):
        decode_batch(encode_batch(batch_of([])), SCHEMA, 1)


def test_concatenating_one_batch_copies_nothing() -> None:
    batch = batch_of([])
    assert concatenate([batch]) is batch


def compressed(batch: pa.RecordBatch, codec: str) -> pa.Buffer:
    """The batch's message as a stream with that compression holds it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as stream:
        stream.write(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    reader.read_next_message()  # the schema
    return reader.read_next_message().serialize()


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_small_frame_from_outside_cannot_grow_into_a_large_one(codec: str) -> None:
    rows = 1_000_000
    schema = arrow_schema(StreamSchema("S", (("a", "long"),)))
    zeros = pa.array([0] * rows, pa.int64())
    batch = pa.record_batch([zeros, zeros.cast(pa.int8()), zeros], schema=schema)
    body = compressed(batch, codec)
    assert body.size < batch.nbytes / 50
    assert decode_batch(body, schema, rows) == batch, "between processes of the system it is taken"
    with pytest.raises(DecodeError, match="compressed; send it without compression"):
        decode_batch(body, schema, rows, trusted=False)


def test_batches_that_are_not_compressed_are_not_taken_for_it_whatever_their_columns() -> None:
    for kinds in (("long",), ("string", "bool"), tuple(ARROW_TYPES_BY_NAME)):
        schema = arrow_schema(StreamSchema("S", tuple((f"a{place}", kind) for place, kind in enumerate(kinds))))
        for rows in (0, 1, 100):
            batch = pa.RecordBatch.from_pylist([{"_timestamp": 1, "_kind": 0}] * rows, schema=schema)
            assert decode_batch(encode_batch(batch), schema, rows, trusted=False) == batch
