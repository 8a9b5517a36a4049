"""Events as Avro, Protobuf or JSON by a schema, one event per body, optionally prefixed by the schema's number."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_common.reach.guard import Guard
from cep_worker.formats.schemas.avro import avro_encoder
from cep_worker.formats.schemas.framing import header
from cep_worker.formats.schemas.json_schema import json_encoder
from cep_worker.formats.schemas.problems import BodyError, SchemaError, SchemaUnavailableError
from cep_worker.formats.schemas.protobuf import protobuf_encoder
from cep_worker.formats.schemas.registry import RegisteredSchema, SchemaRegistry
from cep_worker.formats.schemas.settings import own_schema, registry_address
from cep_worker.formats.sink_mappers.template import SinkMapper, UnfitEventsError
from query_plan.connectors.options import read_options
from query_plan.connectors.schemas import SCHEMA_OPTIONS, SchemaOptions
from topology.events.frames import event_rows

Encode = Callable[[Mapping[str, Any]], bytes]
CONTENT_TYPES = {"avro": "avro/binary", "jsonschema": "application/json", "protobuf": "application/x-protobuf"}


def schema_mapper(
    kind: str, given: Mapping[str, str], schema: StreamSchema, where: str, guard: Guard | None
) -> SinkMapper:
    """Return the mapper with these options.

    Raises:
        ConfigError: options cannot be used, or the plan's own schema does not fit the stream.
    """
    options = read_options(SCHEMA_OPTIONS["sink"][kind], given, where)
    own = own_schema(kind, options, where)
    address = registry_address(options, guard, "sink")
    mapper = SchemaMapper(kind, options, schema, own, SchemaRegistry(address) if address is not None else None)
    if own is not None:
        try:
            mapper.encoder(own)
        except SchemaError as error:
            option = "schema.file" if options.schema_file else "schema.def"
            raise ConfigError(f"{where}: {option}: {error.message}") from error
    return mapper


class SchemaMapper(SinkMapper):
    """Encodes events by one schema, which is fetched when it is first needed and then kept."""

    one_event_a_body = True

    def __init__(
        self,
        kind: str,
        options: SchemaOptions,
        schema: StreamSchema,
        own: RegisteredSchema | None,
        registry: SchemaRegistry | None,
    ) -> None:
        super().__init__(CONTENT_TYPES[kind], self._written, lambda events: events[0])
        self._kind = kind
        self._options = options
        self._attributes = schema.attributes
        self._own = own
        self._registry = registry
        self._lock = threading.Lock()
        self._encode: Encode | None = None
        self._before = b""

    def problem(self) -> str:
        """Return why no event can be encoded now; empty if events can be."""
        try:
            self._ready()
        except (SchemaError, SchemaUnavailableError) as error:
            return error.message
        return ""

    def encoder(self, schema: RegisteredSchema) -> Encode:
        """Return an encoder of events by `schema`.

        Raises:
            SchemaError: it cannot be used, or does not fit the stream.
        """
        if self._kind == "avro":
            return avro_encoder(schema, self._attributes)
        if self._kind == "jsonschema":
            return json_encoder(schema, self._attributes)
        message = getattr(self._options, "message", "")
        return protobuf_encoder(schema, message, self._options.framed(), self._attributes)

    def _ready(self) -> Encode:
        with self._lock:
            if self._encode is None:
                schema = self._schema()
                try:
                    encode = self.encoder(schema)
                except SchemaError as error:
                    raise SchemaError(f"schema{f' {schema.id}' if schema.id >= 0 else ''}: {error.message}") from error
                self._before = header(schema.id) if self._options.framed() else b""
                self._encode = encode
            return self._encode

    def _schema(self) -> RegisteredSchema:
        options, registry = self._options, self._registry
        if registry is None:
            assert self._own is not None  # noqa: S101 - options without a registry give a schema
            return self._own
        if self._own is not None:
            return registry.register(options.schema_subject, self._own) if options.framed() else self._own
        if options.schema_id:
            return registry.by_id(int(options.schema_id))
        return registry.by_subject(options.schema_subject, options.schema_version)

    def _written(self, batch: pa.RecordBatch) -> list[bytes]:
        encode, before = self._ready(), self._before
        bodies: list[bytes] = []
        unfit: dict[int, str] = {}
        for row, event in enumerate(event_rows(batch, timed=False)):
            try:
                bodies.append(before + encode(event))
            except (BodyError, UnicodeError) as error:
                unfit[row] = str(error)
        if unfit:
            raise UnfitEventsError(unfit)
        return bodies
