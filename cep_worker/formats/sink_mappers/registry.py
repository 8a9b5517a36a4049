"""The mappers that `@map` of a sink may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import Connector
from cep_common.reach.guard import Guard
from cep_worker.formats.sink_mappers.csv_mapper import csv_mapper
from cep_worker.formats.sink_mappers.json_mapper import json_mapper, ndjson_mapper
from cep_worker.formats.sink_mappers.schema_mapper import schema_mapper
from cep_worker.formats.sink_mappers.template import SinkMapper
from cep_worker.formats.sink_mappers.text_mapper import text_mapper
from cep_worker.formats.sink_mappers.xml_mapper import xml_mapper

MakeMapper = Callable[[Mapping[str, str], StreamSchema, str, Guard | None], SinkMapper]


def _unguarded(make: Callable[[Mapping[str, str], StreamSchema, str], SinkMapper]) -> MakeMapper:
    """Return the factory of a mapper that accesses no other system."""
    return lambda given, schema, where, _: make(given, schema, where)


SINK_MAPPERS: dict[str, MakeMapper] = {
    "avro": partial(schema_mapper, "avro"),
    "csv": _unguarded(csv_mapper),
    "json": _unguarded(json_mapper),
    "jsonschema": partial(schema_mapper, "jsonschema"),
    "ndjson": _unguarded(ndjson_mapper),
    "protobuf": partial(schema_mapper, "protobuf"),
    "text": _unguarded(text_mapper),
    "xml": _unguarded(xml_mapper),
}


def sink_mapper(connector: Connector, schema: StreamSchema, default: str, guard: Guard | None = None) -> SinkMapper:
    """Return the mapper of a sink, by default its type's `default`; `guard` checks where it gets its schema.

    Raises:
        ConfigError: the mapper's options cannot be used.
    """
    kind = default if connector.mapper in ("", "passThrough") else connector.mapper
    where = f"@map(type='{kind}') of stream {connector.stream}"
    if kind not in SINK_MAPPERS:
        raise ConfigError(f"{where}: unknown type of mapper; known for sinks: {', '.join(SINK_MAPPERS)}")
    return SINK_MAPPERS[kind](connector.mapper_options, schema, where, guard)
