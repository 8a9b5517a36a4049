"""The mappers that `@map` of a source may name, and their interface.

options of @map ──▶ format (plain data) ──▶ reader of a stream's events ──▶ body → record batch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector
from cep_common.reach.guard import Guard
from cep_worker.formats import key_values
from cep_worker.formats.source_mappers.csv_mapper import csv_format
from cep_worker.formats.source_mappers.json_path_mapper import json_format
from cep_worker.formats.source_mappers.schema_mapper import schema_format
from cep_worker.formats.source_mappers.text_mapper import text_format
from cep_worker.formats.source_mappers.xml_mapper import xml_format

DEFAULT = "json"


class BodyReader(Protocol):
    """Read bodies of one format for one stream.

    Any thread may call it.
    """

    def read(self, body: bytes, now_ms: int) -> pa.RecordBatch:
        """Decode the events of `body`.

        Args:
            body: One payload of the mapper's format.
            now_ms: Time of events without a time of their own, in ms since 1970.

        Returns:
            The stream's attributes in order, and `_timestamp` (int64 ms).

        Raises:
            EventsRejectedError: an event does not fit, or `body` is not of the format; no event is taken then.
        """


@runtime_checkable
class LineReader(BodyReader, Protocol):
    """Also read bodies with one text per line, in pieces."""

    def read_lines(self, body: bytes, now_ms: int, first_index: int = 0) -> pa.RecordBatch:
        """Decode events from complete lines, which are a part of a body.

        Args:
            body: Whole lines.
            now_ms: As for `read`.
            first_index: Number of the first event within the body, for messages.

        Raises:
            EventsRejectedError: as `read`.
        """


@runtime_checkable
class BodiesReader(BodyReader, Protocol):
    """Also read many bodies at once, one event each."""

    def read_bodies(self, bodies: Sequence[bytes], now_ms: int) -> pa.RecordBatch:
        """Return the events of the bodies, in order.

        Raises:
            EventsRejectedError: one of them does not fit, or is not of the format.
        """


@runtime_checkable
class JoiningReader(BodyReader, Protocol):
    """Also build one batch from the events of many bodies, which costs little more than a batch of one event."""

    def decode(self, body: bytes) -> list[Any]:
        """Return the events of `body`.

        Raises:
            EventsRejectedError: as `read`.
        """

    def batch(self, events: list[Any], now_ms: int) -> pa.RecordBatch:
        """Return the batch of decoded events.

        Raises:
            EventsRejectedError: as `read`.
        """


class SourceFormat(Protocol):
    """The encoding of a source's bodies: plain data, hashable, compared by value."""

    def reader(self, schema: StreamSchema, timestamp: str | None) -> BodyReader:
        """Return a reader of the stream's events.

        Args:
            schema: Attributes of the stream.
            timestamp: Name of the attribute that holds the events' time; None: `_timestamp`, or else the time of
                arrival.

        Raises:
            InputError: the attribute cannot hold a time.
        """

    def __hash__(self) -> int: ...


MakeFormat = Callable[[Mapping[str, str], StreamSchema, str, Guard | None], SourceFormat]


def _unguarded(make: Callable[[Mapping[str, str], StreamSchema, str], SourceFormat]) -> MakeFormat:
    """Return the factory of a format that accesses no other system."""
    return lambda given, schema, where, _: make(given, schema, where)


SOURCE_MAPPERS: dict[str, MakeFormat] = {
    "avro": partial(schema_format, "avro"),
    "csv": _unguarded(csv_format),
    "json": _unguarded(json_format),
    "jsonschema": partial(schema_format, "jsonschema"),
    "protobuf": partial(schema_format, "protobuf"),
    "text": _unguarded(text_format),
    "xml": _unguarded(xml_format),
}


def source_format(connector: Connector, schema: StreamSchema, where: str, guard: Guard | None = None) -> SourceFormat:
    """Return the format of the mapper of `connector`; `guard` checks where it gets its schemas.

    Raises ConfigError, which names `where`, for an option that cannot be used.
    """
    kind = DEFAULT if connector.mapper in ("", "passThrough") else connector.mapper
    if kind not in SOURCE_MAPPERS:
        known = ", ".join(SOURCE_MAPPERS)
        if kind == key_values.NAME:
            raise ConfigError(f"{where}: {kind} is only for sources inMemory; known here: {known}")
        raise ConfigError(f"{where}: unknown type of mapper {connector.mapper}; known for sources: {known}")
    return SOURCE_MAPPERS[kind](connector.mapper_options, schema, where, guard)
