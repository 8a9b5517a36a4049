"""Bodies of Avro, Protobuf or JSON Schema → record batches; a stream's attributes are fields of the schema by name.

    body ──▶ number of its schema ──▶ registry (once for each number) ──▶ decoder ──▶ fields ──▶ attributes

Fields that are not attributes are ignored. The time of an event is found as in JSON.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_common.reach.guard import Guard
from cep_worker.formats.event_times import usual_timestamp
from cep_worker.formats.rejections import EventsRejectedError, InvalidEvent
from cep_worker.formats.schemas.avro import avro_decoder
from cep_worker.formats.schemas.framing import unframed
from cep_worker.formats.schemas.json_schema import json_decoder
from cep_worker.formats.schemas.kept import KeptBySize
from cep_worker.formats.schemas.problems import MOST_BODY_BYTES, BodyError, SchemaError
from cep_worker.formats.schemas.protobuf import protobuf_decoder
from cep_worker.formats.schemas.registry import (
    MOST_KEPT,
    MOST_KEPT_BYTES,
    RegisteredSchema,
    RegistryAddress,
    SchemaRegistry,
)
from cep_worker.formats.schemas.settings import own_schema, registry_address
from cep_worker.formats.source_mappers.json_mapper import JsonEvents, text_of
from cep_worker.formats.source_mappers.json_path_mapper import json_mapping
from query_plan.connectors.attribute_paths import split_paths
from query_plan.connectors.options import read_options
from query_plan.connectors.schemas import SCHEMA_OPTIONS, SchemaOptions
from siddhi.extensions.json.path import MISSING, JsonPath, json_path

Decode = Callable[[bytes], Any]
WHOLE = "$"


@dataclass(frozen=True, slots=True)
class SchemaFormat:
    """The format of a mapper of `kind`, with the plan's `own` schema or those of a registry."""

    kind: str
    options: SchemaOptions = field(repr=False)
    own: RegisteredSchema | None
    registry: RegistryAddress | None
    paths: tuple[tuple[str, str], ...]

    def reader(self, schema: StreamSchema, timestamp: str | None) -> SchemaReader:
        """Return a reader of the events of `schema`.

        Raises:
            InputError: `timestamp` cannot be used as the time of events.
        """
        return SchemaReader(self, schema, timestamp)

    def decoder(self, schema: RegisteredSchema, reader: RegisteredSchema | None) -> Decode:
        """Return a decoder of bodies of `schema`.

        Raises:
            SchemaError: it cannot be used.
        """
        if self.kind == "avro":
            return avro_decoder(schema, reader)
        if self.kind == "jsonschema":
            return json_decoder(schema)
        return protobuf_decoder(schema, getattr(self.options, "message", ""), self.options.framed())


def schema_format(
    kind: str, given: Mapping[str, str], schema: StreamSchema, where: str, guard: Guard | None
) -> SchemaFormat:
    """Return the format with the options of a mapper.

    Raises:
        ConfigError: an option cannot be used.
    """
    paths, others = split_paths(given)
    options = read_options(SCHEMA_OPTIONS["source"][kind], others, where)
    mapping = json_mapping(paths, WHOLE, schema, where)
    form = SchemaFormat(
        kind, options, own_schema(kind, options, where), registry_address(options, guard, "source"),
        mapping.paths if mapping is not None else (),
    )  # fmt: skip
    if form.own is not None:
        try:
            form.decoder(form.own, None)
        except SchemaError as error:
            raise ConfigError(
                f"{where}: {'schema.file' if options.schema_file else 'schema.def'}: {error.message}"
            ) from error
    return form


class SchemaReader:
    """Read bodies, one event each. Thread-safe."""

    def __init__(self, form: SchemaFormat, schema: StreamSchema, timestamp: str | None) -> None:
        """Create the reader of a stream's events.

        Raises:
            InputError: `timestamp` cannot be used as the time of events.
        """
        self._form = form
        self._framed = form.options.framed()
        self._registry = SchemaRegistry(form.registry) if form.registry is not None else None
        self._reader: RegisteredSchema | None = None
        self._fixed: Decode | None = None
        self._decoders = KeptBySize[Decode | SchemaError](MOST_KEPT, MOST_KEPT_BYTES)
        lenient = getattr(form.options, "fail_on_missing_attribute", "true") == "false"
        self._events = JsonEvents(schema, timestamp, lenient)
        self._kinds = dict(schema.attributes)
        self._paths: dict[str, JsonPath] = {name: json_path(path) for name, path in form.paths}
        time = timestamp or usual_timestamp(schema)
        self._time = time if time not in self._kinds else None

    def read(self, body: bytes, now_ms: int) -> pa.RecordBatch:
        """Return the event of a body.

        Raises:
            EventsRejectedError: the body does not contain an event of the stream.
            SchemaUnavailableError: its schema is not available now.
        """
        return self.read_bodies([body], now_ms)

    def read_bodies(self, bodies: Sequence[bytes], now_ms: int) -> pa.RecordBatch:
        """Return the events of several bodies.

        Raises:
            EventsRejectedError: a body does not contain an event of the stream.
            SchemaUnavailableError: a schema is not available now.
        """
        events = [self._event(body, index) for index, body in enumerate(bodies)]
        return self._events.convert(events, now_ms)

    def _event(self, body: bytes, index: int) -> dict[str, Any]:
        number: int | None = None
        if len(body) > MOST_BODY_BYTES:
            problem = f"the body is longer than {MOST_BODY_BYTES:,} bytes"
            raise EventsRejectedError("broken-body", problem, [InvalidEvent(index, "", problem)])
        try:
            number, payload = unframed(body) if self._framed else (None, body)
            record = (self._decoder() if number is None else self._decoder_of(number))(payload)
            return self._attributes(record)
        except (BodyError, UnicodeError, OverflowError) as error:
            raise EventsRejectedError("broken-body", str(error), [InvalidEvent(index, "", str(error))]) from error
        except SchemaError as error:
            named = "" if number is None else f"schema {number} of the body: "
            problem = f"{named}{error.message}"
            raise EventsRejectedError("bad-schema", problem, [InvalidEvent(index, "", problem)]) from error

    def _decoder_of(self, number: int) -> Decode:
        """Return the decoder of the schema with this number in the registry."""
        assert self._registry is not None  # noqa: S101 - options with framed bodies name one
        known = self._decoders.get(number)
        if known is None:
            schema = self._registry.by_id(number)
            if self._reader is None and self._form.kind == "avro":
                self._reader = self._named()
            try:
                known = self._form.decoder(schema, self._reader)
            except SchemaError as error:
                known = error
            self._decoders.put(number, known, schema.size())
        if isinstance(known, SchemaError):
            raise SchemaError(known.message)
        return known

    def _decoder(self) -> Decode:
        """Return the decoder of bodies that do not name their schema."""
        if self._fixed is None:
            schema = self._named()
            assert schema is not None  # noqa: S101 - options without framed bodies name one
            self._fixed = self._form.decoder(schema, None)
        return self._fixed

    def _named(self) -> RegisteredSchema | None:
        """Return the plan's own schema, or the schema in the registry that it names."""
        options, registry = self._form.options, self._registry
        if self._form.own is not None or registry is None or not options.named():
            return self._form.own
        if options.schema_id:
            return registry.by_id(int(options.schema_id))
        return registry.by_subject(options.schema_subject, options.schema_version)

    def _attributes(self, record: Any) -> dict[str, Any]:
        """Return the attributes of an event in their JSON form."""
        if not isinstance(record, dict):
            raise BodyError("the body is not a record with fields")
        event = {}
        for name, kind in self._kinds.items():
            value = self._paths[name].read(record) if name in self._paths else record.get(name, MISSING)
            if value is not MISSING:
                event[name] = _as_json(kind, value)
        if self._time is not None and (time := record.get(self._time, MISSING)) is not MISSING:
            event[self._time] = time
        return event


def _as_json(kind: str, value: Any) -> Any:
    """Return a field's value as JsonEvents expects one of an attribute of type `kind`."""
    if value is None or (isinstance(value, str) and kind == "string"):
        return value
    if kind == "object":
        return base64.b64encode(value if isinstance(value, bytes) else msgspec.json.encode(value)).decode()
    if isinstance(value, Decimal):
        return _number(kind, value)
    if kind == "string":
        return value.decode() if isinstance(value, bytes) else text_of(kind, value)
    return value


def _number(kind: str, value: Decimal) -> Any:
    if kind == "string":
        return str(value)
    return int(value) if kind in ("int", "long") and value == value.to_integral_value() else float(value)
