"""Avro: bodies → records, and events → bodies.

Schemas come from outside, and the library traverses them and the bodies in compiled code without limits. So a schema is
measured before it is used. Recursive schemas are rejected, and those with which few bytes expand to many values.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from cep_worker.formats.schemas.problems import BodyError, SchemaError, library, short
from cep_worker.formats.schemas.registry import AVRO, RegisteredSchema
from siddhi.nesting import TOO_DEEP, nests_too_deeply

MOST_NODES = 10_000
"""The maximum number of types in a schema, each counted wherever it is used."""
MOST_EMPTY = 64
"""The maximum number of values of zero bytes in one item of an array or map."""
DEEPEST = 64
_LOGICAL = frozenset({"decimal"})
"""Logical types that are converted. Others are read as their underlying type: a timestamp-millis is a long."""
_PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_FITTING: Mapping[str, frozenset[str]] = {
    "string": frozenset({"string", "enum", "bytes", "decimal"}),
    "int": frozenset({"int", "long", "float", "double", "decimal"}),
    "long": frozenset({"long", "float", "double", "decimal"}),
    "float": frozenset({"float", "double", "decimal"}),
    "double": frozenset({"double", "decimal"}),
    "bool": frozenset({"boolean"}),
    "object": frozenset({"record", "map", "array", "bytes"}),
}
"""The Avro types that can hold every value of an attribute type."""

Decode = Callable[[bytes], Any]
Encode = Callable[[Mapping[str, Any]], bytes]


@dataclass(frozen=True, slots=True)
class _Size:
    """The size of a type.

    The number of types in it, the number of values of zero bytes, and whether it may take zero bytes.
    """

    nodes: int
    empty: int
    maybe_nothing: bool = False


def avro_decoder(schema: RegisteredSchema, reader: RegisteredSchema | None) -> Decode:
    """Return a decoder of bodies of `schema`, resolved to `reader` if given.

    Raises:
        SchemaError: a schema cannot be used.
    """
    fastavro = library("fastavro", "avro")
    writer, _ = _parsed(schema)
    expected = None if reader is None else _parsed(reader)[0]

    def decode(body: bytes) -> Any:
        source = io.BytesIO(body)
        try:
            record = fastavro.schemaless_reader(source, writer, expected)
        except Exception as error:  # any exception of the library means an invalid body
            raise BodyError(f"the body is not Avro of its schema: {short(error)}") from error
        if left := len(body) - source.tell():
            raise BodyError(f"the body is not Avro of its schema: {left} bytes are left over")
        return record

    return decode


def avro_encoder(schema: RegisteredSchema, attributes: Sequence[tuple[str, str]]) -> Encode:
    """Return an encoder of events with these attributes.

    Raises:
        SchemaError: the schema cannot be used, or does not fit the attributes.
    """
    fastavro = library("fastavro", "avro")
    parsed, named = _parsed(schema)
    fields = {field["name"]: field for field in parsed["fields"]}
    kinds = dict(attributes)
    if unknown := [name for name in kinds if name not in fields]:
        raise SchemaError(f"the schema has no field {unknown[0]}: add it, or omit the attribute")
    for name, field in fields.items():
        branches = _branches(field["type"], named)
        if name not in kinds and "default" not in field and "null" not in branches:
            raise SchemaError(f"the stream has no attribute {name}, and the schema has no default for it")
        if name in kinds and not _FITTING[kinds[name]] & branches.keys():
            there = " or ".join(branches)
            raise SchemaError(f"field {name} is {there}, and cannot hold every {kinds[name]} of the stream")
    writers = {name: _converter(name, kind, _branches(fields[name]["type"], named)) for name, kind in attributes}
    nested = any(kind == "object" for _, kind in attributes)

    def encode(row: Mapping[str, Any]) -> bytes:
        found = io.BytesIO()
        try:
            record = {name: convert(row[name]) for name, convert in writers.items()}
            if nested:
                fastavro.validation.validate(record, parsed, disable_tuple_notation=True)
            fastavro.schemaless_writer(found, parsed, record, disable_tuple_notation=True)
        except BodyError:
            raise
        except Exception as error:  # any exception of the library means an event that does not fit
            raise BodyError(f"the event does not fit the schema: {short(error)}") from error
        return found.getvalue()

    return encode


def _parsed(schema: RegisteredSchema) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema as the library reads it, and its named types."""
    if schema.type != AVRO:
        raise SchemaError(f"it is of the type {schema.type[:20]}, not {AVRO}")
    fastavro = library("fastavro", "avro")
    named: dict[str, Any] = {}
    try:
        for _, text in schema.references:
            fastavro.parse_schema(_decoded(text), named_schemas=named)
        parsed = fastavro.parse_schema(_decoded(schema.text), named_schemas=named)
    except SchemaError:
        raise
    except Exception as error:  # the library raises various exceptions for invalid schemas
        raise SchemaError(f"it is not an Avro schema: {short(error)}") from error
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise SchemaError("it is not a record: an event has fields")
    _measured(parsed, named, {}, ())
    return parsed, named


def _decoded(text: str | bytes) -> Any:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        stripped = text.decode(errors="replace").strip() if isinstance(text, bytes) else text.strip()
        if stripped in _PRIMITIVE:
            return stripped
        raise SchemaError("it is not an Avro schema: not JSON") from None
    if nests_too_deeply(value):
        raise SchemaError(TOO_DEEP)
    return _plain(value)


def _plain(value: Any) -> Any:
    """Return a schema without the logical types that are read as their underlying type."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: one if name == "default" else _plain(one)
        for name, one in value.items()
        if name != "logicalType" or not isinstance(one, str) or one in _LOGICAL
    }


def _measured(type_: Any, named: Mapping[str, Any], known: dict[str, _Size], path: tuple[str, ...]) -> _Size:
    """Return the size of a type.

    Raises:
        SchemaError: it is recursive, or few bytes may encode very many values.
    """
    if len(path) > DEEPEST:
        raise SchemaError(f"more than {DEEPEST} nested types")
    if isinstance(type_, str):
        return _measured_name(type_, named, known, path)
    if isinstance(type_, list):
        sizes = [_measured(one, named, known, (*path, "")) for one in type_]
        return _counted(_Size(1 + sum(one.nodes for one in sizes), max((one.empty for one in sizes), default=0)))
    kind = type_["type"]
    if kind in ("array", "map"):
        item = _measured(type_["items" if kind == "array" else "values"], named, known, (*path, ""))
        if (kind == "array" and item.maybe_nothing) or item.empty > MOST_EMPTY:
            raise SchemaError(f"few bytes of its {kind} may encode very many values")
        return _counted(_Size(1 + item.nodes, 0))
    if kind == "fixed":
        return _Size(1, int(type_["size"] == 0), type_["size"] == 0)
    if kind == "enum":
        return _Size(1, 0)
    if kind not in ("record", "error"):
        return _measured(kind, named, known, (*path, ""))
    inner = (*path, type_["name"])
    sizes = [_measured(field["type"], named, known, inner) for field in type_["fields"]]
    nothing = all(one.maybe_nothing for one in sizes)
    return _counted(_Size(1 + sum(one.nodes for one in sizes), sum(one.empty for one in sizes) + nothing, nothing))


def _measured_name(name: str, named: Mapping[str, Any], known: dict[str, _Size], path: tuple[str, ...]) -> _Size:
    if name in _PRIMITIVE:
        return _Size(1, int(name == "null"), name == "null")
    if name in path:
        raise SchemaError(f"type {name[:80]} contains itself; recursive schemas are not supported")
    if name not in named:
        raise SchemaError(f"type {name[:80]} is unknown")
    if name not in known:
        known[name] = _measured(named[name], named, known, path)
    return known[name]


def _counted(size: _Size) -> _Size:
    if size.nodes > MOST_NODES:
        raise SchemaError(f"it is made of more than {MOST_NODES:,} types")
    return size


def _branches(type_: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the types that a value of a field may have, by their kind."""
    found = {}
    for one in type_ if isinstance(type_, list) else [type_]:
        whole = named.get(one, one) if isinstance(one, str) else one
        kind = whole if isinstance(whole, str) else whole["type"]
        logical = whole.get("logicalType") if isinstance(whole, dict) else None
        found[str(logical or kind)] = whole
    return found


def _converter(name: str, kind: str, branches: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return a function that converts a value of an attribute to one of its field."""
    fitting = [one for one in branches if one in _FITTING[kind]]
    nullable, target = "null" in branches, fitting[0]

    def convert(value: Any) -> Any:
        if value is None:
            if nullable:
                return None
            raise BodyError(f"{name} is null, and the schema's field may not be")
        if target == "decimal":
            return _decimal(name, value)
        if kind == "string" and target == "bytes":
            return value.encode(errors="replace")
        return msgspec.json.decode(value) if kind == "object" and target != "bytes" else value

    return convert


def _decimal(name: str, value: Any) -> Decimal:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        raise BodyError(f"{name} is not a number: {str(value)[:40]!r}") from None
