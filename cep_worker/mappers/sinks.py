"""The mappers that `@map` of a sink may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from cep_common.errors import ConfigError
from cep_common.link_messages import StreamSchema
from cep_common.messages import Connector
from cep_worker.mappers.csv_texts import CsvSinkOptions, csv_mapper
from cep_worker.mappers.json_texts import JsonSinkOptions, NdjsonSinkOptions, json_mapper, ndjson_mapper
from cep_worker.mappers.text_texts import TextSinkOptions, text_mapper
from cep_worker.mappers.writing import SinkMapper
from cep_worker.mappers.xml_texts import XmlSinkOptions, xml_mapper

MakeMapper = Callable[[Mapping[str, str], StreamSchema, str], SinkMapper]

SINK_MAPPERS: dict[str, tuple[type[msgspec.Struct], MakeMapper]] = {
    "csv": (CsvSinkOptions, csv_mapper),
    "json": (JsonSinkOptions, json_mapper),
    "ndjson": (NdjsonSinkOptions, ndjson_mapper),
    "text": (TextSinkOptions, text_mapper),
    "xml": (XmlSinkOptions, xml_mapper),
}
"""Each with its options."""


def sink_mapper(connector: Connector, schema: StreamSchema, default: str) -> SinkMapper:
    """The mapper that a sink asks for, or its type's `default` one. ConfigError when it asks for the impossible."""
    kind = default if connector.mapper in ("", "passThrough") else connector.mapper
    where = f"@map(type='{kind}') of stream {connector.stream}"
    if kind not in SINK_MAPPERS:
        raise ConfigError(f"{where}: unknown type of mapper; known for sinks: {', '.join(SINK_MAPPERS)}")
    _, make = SINK_MAPPERS[kind]
    return make(connector.mapper_options, schema, where)
