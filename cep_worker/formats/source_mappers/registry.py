"""The mappers that `@map` of a source may name, and what they have in common.

options of @map ──▶ format (plain data) ──▶ reader of a stream's events ──▶ body → record batch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector
from cep_worker.formats import key_values
from cep_worker.formats.source_mappers.csv_mapper import csv_format
from cep_worker.formats.source_mappers.json_path_mapper import json_format
from cep_worker.formats.source_mappers.text_mapper import text_format
from cep_worker.formats.source_mappers.xml_mapper import xml_format

DEFAULT = "json"


class BodyReader(Protocol):
    """Reads bodies of one format for one stream.

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
    """Also reads bodies with one text per line, in pieces."""

    def read_lines(self, body: bytes, now_ms: int, first_index: int = 0) -> pa.RecordBatch:
        """Decode the events of whole lines, a part of a body.

        Args:
            body: Whole lines.
            now_ms: As for `read`.
            first_index: Number of the first event within the body, for messages.

        Raises:
            EventsRejectedError: as `read`.
        """


class SourceFormat(Protocol):
    """How the bodies of a source are encoded: plain data, which is hashable and compares by value."""

    def reader(self, schema: StreamSchema, timestamp: str | None) -> BodyReader:
        """Return a reader of the stream's events.

        Args:
            schema: Attributes of the stream.
            timestamp: Name of the attribute that holds the events' time; None: `_timestamp`, or else the time of
                arrival.

        Raises:
            InputError: that attribute cannot hold a time.
        """

    def __hash__(self) -> int: ...


MakeFormat = Callable[[Mapping[str, str], StreamSchema, str], SourceFormat]

SOURCE_MAPPERS: dict[str, MakeFormat] = {
    "csv": csv_format,
    "json": json_format,
    "text": text_format,
    "xml": xml_format,
}


def source_format(connector: Connector, schema: StreamSchema, where: str) -> SourceFormat:
    """Return the format that the mapper of `connector` asks for.

    ConfigError, which says `where`, for what cannot be used.
    """
    kind = DEFAULT if connector.mapper in ("", "passThrough") else connector.mapper
    if kind not in SOURCE_MAPPERS:
        known = ", ".join(SOURCE_MAPPERS)
        if kind == key_values.NAME:
            raise ConfigError(f"{where}: {kind} is for sources inMemory, which get no texts; known here: {known}")
        raise ConfigError(f"{where}: unknown type of mapper {connector.mapper}; known for sources: {known}")
    return SOURCE_MAPPERS[kind](connector.mapper_options, schema, where)
