"""What a log holds: bundles in the order in which every instance applies them, each in one record or several.

    record   version │ run │ ticket │ part of parts │ bytes of the bundle │ writer

`run` is the deployment's epoch and attempt. A run reads its own records only: what an earlier one has written behind
its last checkpoint is written again, from the workers' logs, and what a fenced one still writes is none of its own.
`writer` is drawn by chance by the stage that writes: two systems that share a topic count their runs alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from cep_common.errors import DecodeError
from topology.events.bundle import Bundle
from topology.events.frames import decode_batch, encode_batch, has_clocks

VERSION = 2
PART_BYTES = 512 * 1024
"""A larger bundle is cut: brokers take messages of 1 MB, unless they are configured for more."""


class SyncLogRecord(msgspec.Struct, frozen=True, array_like=True):
    """A bundle, or a part of one that is too large for one message."""

    version: int
    run: tuple[int, int]
    ticket: int
    part: int
    parts: int
    body: bytes
    writer: int = 0


class _Contents(msgspec.Struct, frozen=True, array_like=True):
    watermark_ms: int
    idle: bool
    clock_ms: int
    clocks: bool
    batches: tuple[tuple[str, int, bytes], ...]


@dataclass(frozen=True)
class LogSchemas:
    """The schemas of a log's streams; `clocked` ones have the processing time of each row, too."""

    plain: Mapping[str, pa.Schema]
    clocked: Mapping[str, pa.Schema]


def encode(run: tuple[int, int], bundle: Bundle, writer: int = 0) -> list[bytes]:
    """Return the records of `bundle`, as `writer` writes them."""
    contents = _Contents(
        bundle.watermark_ms,
        bundle.idle,
        bundle.clock_ms,
        bool(bundle.batches) and has_clocks(bundle.batches[0][1]),
        tuple((stream, batch.num_rows, encode_batch(batch).to_pybytes()) for stream, batch in bundle.batches),
    )
    body = msgspec.msgpack.encode(contents)
    pieces = [body[start : start + PART_BYTES] for start in range(0, len(body), PART_BYTES)]
    return [
        msgspec.msgpack.encode(SyncLogRecord(VERSION, run, bundle.ticket, part, len(pieces), piece, writer))
        for part, piece in enumerate(pieces)
    ]


def decode_record(body: bytes) -> SyncLogRecord:
    """Return the record in `body`.

    Raises:
        DecodeError: When it is none, or one of another version.
    """
    try:
        record = msgspec.msgpack.decode(body, type=SyncLogRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DecodeError(f"a message that is not a record of the log: {error}") from error
    if record.version != VERSION:
        raise DecodeError(f"a record of version {record.version}; this is version {VERSION}")
    return record


@dataclass(frozen=True, slots=True)
class LoggedBundle:
    """What the records of a bundle hold."""

    watermark_ms: int
    idle: bool
    clock_ms: int
    batches: tuple[tuple[str, pa.RecordBatch], ...]

    def fill(self, bundle: Bundle) -> Bundle:
        """Return `bundle` with this content."""
        return replace(
            bundle, watermark_ms=self.watermark_ms, idle=self.idle, clock_ms=self.clock_ms, batches=self.batches
        )


def decode(records: Sequence[SyncLogRecord], schemas: LogSchemas) -> LoggedBundle:
    """Return what the records of one bundle hold. Raise DecodeError when they do not fit the log's streams."""
    try:
        contents = msgspec.msgpack.decode(b"".join(one.body for one in records), type=_Contents)
        known = schemas.clocked if contents.clocks else schemas.plain
        batches = tuple((stream, decode_batch(body, known[stream], rows)) for stream, rows, body in contents.batches)
    except (msgspec.MsgspecError, KeyError, UnicodeDecodeError) as error:
        raise DecodeError(f"a record that does not match the plan: {error}") from error
    return LoggedBundle(contents.watermark_ms, contents.idle, contents.clock_ms, batches)
