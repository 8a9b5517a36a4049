"""The options of mappers with a schema: Avro, Protobuf and JSON Schema, with or without a registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from query_plan.connectors.options import Fault, Options
from query_plan.connectors.sources import Truth

SCHEMA_MAPPERS = ("avro", "jsonschema", "protobuf")
"""The mappers with a schema."""
CARRIERS = ("http", "kafka")
"""The types of sources and sinks with one binary body for each event."""
REGISTRY = "schema.registry"
FILES = ("schema.file", "ssl.keystore.path", "ssl.truststore.path")
LARGEST_ID = 2**31 - 1
_PEM = "certificates and keys are PEM files without a password"
_JAVA = "there are no Java classes here: the schema comes from schema.registry, schema.file or schema.def"


class SchemaOptions(Options, frozen=True, kw_only=True):
    """The origin of the schema.

    It is the text of `schema.def`, the file `schema.file`, or comes from the registry at `schema.registry`: the schema
    with the number `schema.id`, or version `schema.version` of `schema.subject`. Requests to the registry carry
    `basic.auth.username` and `basic.auth.password`. `ssl.truststore.path` is a PEM file with the trusted certificates,
    `ssl.keystore.path` one with the worker's own certificate and its key.
    """

    schema_registry: str = ""
    schema_id: str = ""
    schema_subject: str = ""
    schema_version: str = "latest"
    schema_def: str = ""
    schema_file: str = ""
    basic_auth_username: str = ""
    basic_auth_password: str = ""
    ssl_keystore_path: str = ""
    ssl_truststore_path: str = ""

    without_effect: ClassVar[Mapping[str, str]] = {"ssl.keystore.password": _PEM, "ssl.truststore.password": _PEM}

    def faults(self) -> Iterator[Fault]:
        """Check that the schema has a single origin and that the registry's URL is valid."""
        if self.schema_registry and (wrong := _url_fault(self.schema_registry)):
            yield Fault(REGISTRY, wrong)
        if self.schema_id and not _is_id(self.schema_id):
            yield Fault("schema.id", f"must be a number up to {LARGEST_ID}, not {self.schema_id[:20]!r}")
        if self.schema_version != "latest" and not _is_id(self.schema_version):
            yield Fault("schema.version", f"must be 'latest' or a number, not {self.schema_version[:20]!r}")
        if self.schema_def and self.schema_file:
            yield Fault("", "schema.def and schema.file: write one of them")
        if self.schema_id and self.schema_subject:
            yield Fault("", "schema.id and schema.subject: write one of them")
        needing = {
            "schema.id": self.schema_id, "schema.subject": self.schema_subject,
            "basic.auth.username": self.basic_auth_username, "ssl.keystore.path": self.ssl_keystore_path,
            "ssl.truststore.path": self.ssl_truststore_path,
        }  # fmt: skip
        if not self.schema_registry:
            for name in (name for name, text in needing.items() if text):
                yield Fault(name, "has an effect only with schema.registry")
        if bool(self.basic_auth_username) != bool(self.basic_auth_password):
            yield Fault("", "basic.auth.username and basic.auth.password go together")
        yield from self.source_faults()

    def source_faults(self) -> Iterator[Fault]:
        """Yield the faults of the schema's origin."""
        if self.own() and self.schema_id:
            yield Fault("", "schema.id and schema.def (or schema.file): write one of them")

    def own(self) -> bool:
        """Return whether the plan itself contains a schema."""
        return bool(self.schema_def or self.schema_file)

    def named(self) -> bool:
        """Return whether the plan names a schema of the registry."""
        return bool(self.schema_id or self.schema_subject)

    def framed(self) -> bool:
        """Return whether a body begins with the number of its schema, as in Confluent's wire format."""
        return bool(self.schema_registry)


class _SchemaSourceOptions(SchemaOptions, frozen=True, kw_only=True):
    fail_on_missing_attribute: Truth = "true"

    def source_faults(self) -> Iterator[Fault]:
        """Yield a fault unless there is one schema."""
        yield from super().source_faults()
        if self.framed() and (self.own() or self.named()):
            yield Fault(
                "",
                "with schema.registry each body names its schema: leave schema.id, .subject, .def and .file out",
            )
        if not self.framed() and not self.own():
            yield Fault("", "no schema: write schema.registry='http://…', schema.file='…' or schema.def='…'")


class _SchemaSinkOptions(SchemaOptions, frozen=True, kw_only=True):
    def source_faults(self) -> Iterator[Fault]:
        """Yield a fault unless there is a schema, with a number where bodies begin with one."""
        yield from super().source_faults()
        if self.framed() and not self.named():
            yield Fault(
                "", "with schema.registry write schema.id='…' or schema.subject='…' (a topic's is <topic>-value)"
            )
        if not self.schema_registry and not self.own():
            yield Fault("", "no schema: write schema.registry='http://…', schema.file='…' or schema.def='…'")
        if self.own() and self.schema_subject and self.schema_version != "latest":
            yield Fault("schema.version", "a schema of the plan's own is registered as the next version")


class AvroSourceOptions(_SchemaSourceOptions, frozen=True, kw_only=True):
    """The options of the Avro source mapper.

    Bodies are plain Avro of one schema or, with `use.avro.deserializer`, begin with the number of their schema. Then
    the plan's own schema, if there is one, is the reader's schema: fields that a body lacks have its defaults. With
    `fail.on.missing.attribute` false an attribute without a field is null.
    """

    use_avro_deserializer: Truth = "false"

    def framed(self) -> bool:
        """Return whether a body begins with the number of its schema."""
        return self.use_avro_deserializer == "true"

    def source_faults(self) -> Iterator[Fault]:
        """Check that plain bodies have one schema."""
        if self.framed():
            if not self.schema_registry:
                yield Fault("use.avro.deserializer", "needs schema.registry, where the schemas of bodies are")
            yield from SchemaOptions.source_faults(self)
        elif self.own() == self.named():
            yield Fault(
                "", "write either schema.def (or schema.file) or schema.registry and schema.id (or schema.subject)"
            )


class AvroSinkOptions(_SchemaSinkOptions, frozen=True, kw_only=True):
    """The options of the Avro sink mapper.

    Bodies are plain Avro or, with `use.avro.serializer`, begin with the number of the schema in the registry. The
    plan's own schema is then registered as a version of `schema.subject`, unless it already exists.
    """

    use_avro_serializer: Truth = "false"

    def framed(self) -> bool:
        """Return whether a body begins with the number of its schema."""
        return self.use_avro_serializer == "true"

    def source_faults(self) -> Iterator[Fault]:
        """Check that plain bodies have one schema, and framed ones a number."""
        if self.framed():
            if not self.schema_registry:
                yield Fault("use.avro.serializer", "needs schema.registry, where the schema has its number")
            yield from super().source_faults()
        elif self.own() == self.named():
            yield Fault(
                "", "write either schema.def (or schema.file) or schema.registry and schema.id (or schema.subject)"
            )


class ProtobufSourceOptions(_SchemaSourceOptions, frozen=True, kw_only=True):
    """The options of the Protobuf source mapper.

    With `schema.registry` each body begins with the number of its schema and names one of its messages. Without it,
    bodies are the `message` of the plan's own schema (the first one by default). With `fail.on.missing.attribute` false
    an attribute without a field is null.
    """

    message: str = ""

    without_effect: ClassVar[Mapping[str, str]] = {**SchemaOptions.without_effect, "class": _JAVA}


class ProtobufSinkOptions(_SchemaSinkOptions, frozen=True, kw_only=True):
    """The options of the Protobuf sink mapper.

    Events are the `message` of the schema, by default its first one. With `schema.registry` a body begins with the
    number of the schema; the plan's own schema is registered as a version of `schema.subject`.
    """

    message: str = ""

    without_effect: ClassVar[Mapping[str, str]] = {**SchemaOptions.without_effect, "class": _JAVA}


class JsonSchemaSourceOptions(_SchemaSourceOptions, frozen=True, kw_only=True):
    """The options of the JSON Schema source mapper.

    Bodies are JSON that is valid under the schema. With `schema.registry` each begins with the number of its schema.
    With `fail.on.missing.attribute` false an attribute without a property is null.
    """


class JsonSchemaSinkOptions(_SchemaSinkOptions, frozen=True, kw_only=True):
    """The options of the JSON Schema sink mapper.

    Events are JSON that is valid under the schema. With `schema.registry` a body begins with the number of the schema;
    the plan's own schema is registered as a version of `schema.subject`.
    """


SCHEMA_OPTIONS: dict[Literal["source", "sink"], dict[str, type[SchemaOptions]]] = {
    "source": {"avro": AvroSourceOptions, "jsonschema": JsonSchemaSourceOptions, "protobuf": ProtobufSourceOptions},
    "sink": {"avro": AvroSinkOptions, "jsonschema": JsonSchemaSinkOptions, "protobuf": ProtobufSinkOptions},
}


def in_map(name: str) -> str:
    """Return the name of a mapper's option among those of its connector."""
    return f"map.{name}"


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= LARGEST_ID


def _url_fault(text: str) -> str:
    try:
        parts = urlsplit(text.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or any(map(str.isspace, text.strip())):
        return "must be an http:// or https:// URL"
    if parts.username or parts.password or "@" in parts.netloc:
        return "write the user as basic.auth.username and basic.auth.password"
    if parts.query or parts.fragment:
        return "must be the URL of the registry alone, without a query"
    return ""
