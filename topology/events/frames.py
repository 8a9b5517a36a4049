"""Record batches on the wire: the Arrow schema of a stream, and batches as IPC messages without it.

A link carries each stream's schema once, when it opens; every frame after that is one encapsulated record batch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cep_common.errors import DecodeError
from cep_common.protocol.links import StreamSchema
from siddhi.arrow_types import ARROW_TYPES_BY_NAME
from siddhi.column_names import KIND, TIMESTAMP, attribute_name, column_name
from siddhi.float_values import written_batch

CURRENT = 0
"""The `_kind` of ordinary events; other kinds only exist inside the engine."""

CLOCK = "`clock`"
"""A column that batches may have between the stages of a plan under the system clock.

It has the processing time of each row, in milliseconds. No attribute can have its name.
"""
CLOCK_FIELD = pa.field(CLOCK, pa.int64())


def arrow_schema(stream: StreamSchema) -> pa.Schema:
    """Return the schema: `_timestamp` (int64, ms), `_kind` (int8), then the stream's attributes (`column_name`)."""
    fields = [pa.field(TIMESTAMP, pa.int64(), nullable=False), pa.field(KIND, pa.int8(), nullable=False)]
    fields += [pa.field(column_name(name), ARROW_TYPES_BY_NAME[kind]) for name, kind in stream.attributes]
    return pa.schema(fields)


def encode_batch(batch: pa.RecordBatch) -> pa.Buffer:
    """Return the body of a data frame for `batch`."""
    return batch.serialize()


def decode_batch(body: Any, schema: pa.Schema, rows: int, trusted: bool = True) -> pa.RecordBatch:
    """Return the batch in `body`, which must contain `rows` rows of `schema`.

    `trusted` False is for bodies from outside the system: every offset and every UTF-8 string is checked, and
    compressed bodies are refused, because a small one may expand to any size.

    Raises:
        DecodeError: For anything that is not such a batch.
    """
    try:
        message = pa.ipc.read_message(pa.py_buffer(body))
        if not trusted and _is_compressed(message.metadata):
            raise DecodeError("a record batch that is compressed; send it without compression")
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=not trusted)
    except (pa.ArrowException, EOFError, OSError, ValueError, TypeError, struct.error) as error:
        raise DecodeError(f"a record batch that does not match its stream: {error}") from error
    if batch.num_rows != rows:
        raise DecodeError(f"a record batch of {batch.num_rows} rows where {rows} were announced")
    return batch


def _is_compressed(metadata: Any) -> bool:
    """Return whether an IPC message (Arrow's `Message.fbs`) describes a record batch with a compressed body.

    Reads two tables as the format defines it; raises struct.error beyond their end.
    """
    message = struct.unpack_from("<I", metadata, 0)[0]
    header = _field(metadata, message, _HEADER)
    if header == 0:
        return False
    return _field(metadata, header + struct.unpack_from("<I", metadata, header)[0], _COMPRESSION) != 0


_HEADER, _COMPRESSION = 2, 3
"""The places of `Message.header` and `RecordBatch.compression` among the fields of their tables."""


def _field(metadata: Any, table: int, place: int) -> int:
    """Return where a table's field is; 0 when it is absent."""
    vtable = table - struct.unpack_from("<i", metadata, table)[0]
    entry = 4 + 2 * place
    if entry >= struct.unpack_from("<H", metadata, vtable)[0]:
        return 0
    offset: int = struct.unpack_from("<H", metadata, vtable + entry)[0]
    return table + offset if offset else 0


def with_clocks(batch: pa.RecordBatch, clocks: pa.Array) -> pa.RecordBatch:
    """Return `batch` with the processing time of each row."""
    return pa.RecordBatch.from_arrays([*batch.columns, clocks], schema=batch.schema.append(CLOCK_FIELD))


def has_clocks(batch: pa.RecordBatch) -> bool:
    """Return whether the batch has a processing time for each row: its last column, then."""
    return bool(batch.schema.names[-1] == CLOCK)


def without_clocks(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return `batch` without processing times, as it leaves the topology."""
    return batch.drop_columns([CLOCK]) if has_clocks(batch) else batch


def event_rows(batch: pa.RecordBatch, timed: bool = True) -> list[dict[str, Any]]:
    """Return the events as mappings of attributes by name, with the time first, under `_timestamp`, if `timed`.

    An attribute of that name takes precedence.
    """
    shown = _shown(batch, timed)
    rows: list[dict[str, Any]] = shown.rename_columns(list(map(attribute_name, shown.schema.names))).to_pylist()
    return rows


def event_columns(batch: pa.RecordBatch, timed: bool = True) -> dict[str, pa.Array]:
    """Return the columns of the values that `event_rows` returns, by attribute."""
    shown = _shown(batch, timed)
    return dict(zip(map(attribute_name, shown.schema.names), shown.columns, strict=True))


def _shown(batch: pa.RecordBatch, timed: bool) -> pa.RecordBatch:
    dropped = [KIND] if timed and column_name(TIMESTAMP) not in batch.schema.names else [KIND, TIMESTAMP]
    return written_batch(without_clocks(batch).drop_columns(dropped))


def concatenate(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return one batch with the rows of all, in order; `batches` is not empty and of one schema."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def shifted(batch: pa.RecordBatch, shift_ms: int) -> pa.RecordBatch:
    """Return `batch` with `shift_ms` added to all event times."""
    if not shift_ms:
        return batch
    place = batch.schema.get_field_index(TIMESTAMP)
    times = pa.array(batch.column(place).to_numpy() + shift_ms)
    return batch.set_column(place, batch.schema.field(place), times)
