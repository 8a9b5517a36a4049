"""Paths that accept events, and decoding of the bodies of posts."""

from __future__ import annotations

import io
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import IO

import pyarrow as pa

from cep_common.protocol.links import StreamSchema
from cep_worker.formats.source_mappers.json_path_mapper import JsonFormat
from cep_worker.formats.source_mappers.registry import BodyReader, LineReader, SourceFormat
from cep_worker.formats.transport_properties import body_schema
from cep_worker.plans.streams import EventStream
from topology.events.frames import concatenate

CHUNK_BYTES = 1_048_576
"""NDJSON is read in pieces of about this size."""

NDJSON = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
PLAIN_JSON = JsonFormat()


@dataclass(frozen=True, slots=True)
class HttpSource:
    """A path that accepts the events of one stream.

    `properties` are the attributes sent as headers: (attribute, header).
    """

    source: Hashable
    stream: EventStream
    timestamp_key: str | None = None
    form: SourceFormat = PLAIN_JSON
    properties: tuple[tuple[str, str], ...] = ()

    def body(self) -> StreamSchema:
        """Return the part of the stream's schema that bodies contain."""
        return body_schema(self.stream.schema, self.properties) if self.properties else self.stream.schema

    def reader(self) -> BodyReader:
        """Return the reader of its bodies.

        Raises:
            InputError: the time attribute cannot be used as the time of events.
        """
        return _reader(self.form, self.body(), self.timestamp_key)


def read_events(reader: BodyReader, body: IO[bytes], mimetype: str, now_ms: int) -> pa.RecordBatch:
    """Return all events of a body.

    Raises:
        EventsRejectedError: an event does not fit.
    """
    if mimetype not in NDJSON or not isinstance(reader, LineReader):
        return reader.read(body.read(), now_ms)
    batches: list[pa.RecordBatch] = []
    count = 0
    for chunk in _line_chunks(body):
        batches.append(reader.read_lines(chunk, now_ms, first_index=count))
        count += batches[-1].num_rows
    return concatenate(batches) if batches else reader.read(b"[]", now_ms)


def read_small(reader: BodyReader, body: bytes, content_type: str, now_ms: int) -> pa.RecordBatch:
    """Return all events of a body that is in memory.

    Raises:
        EventsRejectedError: an event does not fit.
    """
    return read_events(reader, io.BytesIO(body), content_type.partition(";")[0].strip().lower(), now_ms)


def _line_chunks(body: IO[bytes]) -> Iterator[bytes]:
    """Yield the body in pieces of complete lines."""
    rest = b""
    while piece := body.read(CHUNK_BYTES):
        whole, separator, rest = (rest + piece).rpartition(b"\n")
        if separator:
            yield whole
    if rest.strip():
        yield rest


@lru_cache(maxsize=256)
def _reader(form: SourceFormat, schema: StreamSchema, timestamp_key: str | None) -> BodyReader:
    return form.reader(schema, timestamp_key)
