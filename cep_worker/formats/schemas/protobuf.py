"""Protobuf: bodies → values by field, and events → bodies. Types are built from descriptors, not from generated code.

Fields of message types are converted: a wrapper to its value, a timestamp to milliseconds, others to a map of fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from cep_worker.formats.schemas.framing import indexes_header, read_indexes
from cep_worker.formats.schemas.problems import BodyError, SchemaError, library, short
from cep_worker.formats.schemas.proto_files import proto_file
from cep_worker.formats.schemas.registry import RegisteredSchema

_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
_TIMESTAMP = "google.protobuf.Timestamp"
_WHOLE = frozenset({"int64", "sint64", "sfixed64", "uint64", "fixed64"})
_SMALL = frozenset({"int32", "sint32", "sfixed32", "uint32", "fixed32"})
_FITTING: Mapping[str, frozenset[str]] = {
    "string": frozenset({"string", "bytes", "enum"}),
    "int": frozenset({*_WHOLE, *_SMALL, "float", "double"}),
    "long": frozenset({*_WHOLE, "timestamp", "double"}),
    "float": frozenset({"float", "double"}),
    "double": frozenset({"double"}),
    "bool": frozenset({"bool"}),
    "object": frozenset({"message", "bytes", "repeated"}),
}
"""The field types that can represent the values of an attribute type.

The library refuses negative values for unsigned fields.
"""


def protobuf_decoder(schema: RegisteredSchema, message: str, framed: bool) -> Callable[[bytes], Any]:
    """Return a decoder of bodies of `schema`: of the message that each body names (`framed`), or of `message`.

    Raises:
        SchemaError: it cannot be used.
    """
    file = proto_file(schema)
    classes: dict[tuple[int, ...], Any] = {}
    own = None if framed else _class(_named(file, message)[0])
    failure = library("google.protobuf.message", "protobuf").DecodeError

    def class_of(indexes: tuple[int, ...]) -> Any:
        if indexes not in classes:
            classes[indexes] = _class(_at(file, indexes))
        return classes[indexes]

    def decode(body: bytes) -> Any:
        indexes, payload = read_indexes(body) if framed else ((), body)
        kind = own if own is not None else class_of(indexes)
        try:
            return _plain(kind.FromString(payload))
        except (failure, RecursionError) as error:
            raise BodyError(f"the body is not Protobuf of its schema: {short(error)}") from error

    return decode


def protobuf_encoder(
    schema: RegisteredSchema, message: str, framed: bool, attributes: Sequence[tuple[str, str]]
) -> Callable[[Mapping[str, Any]], bytes]:
    """Return an encoder of events with these attributes as `message`; empty: the first of the schema.

    Raises:
        SchemaError: it cannot be used, or does not fit the attributes.
    """
    file = proto_file(schema)
    descriptor, indexes = _named(file, message)
    made = _class(descriptor)
    fields = descriptor.fields_by_name
    if unknown := [name for name, _ in attributes if name not in fields]:
        raise SchemaError(f"message {descriptor.name} has no field {unknown[0]}: add it, or leave the attribute out")
    for name, kind in attributes:
        if (there := _kind(fields[name])) not in _FITTING[kind]:
            raise SchemaError(f"field {name} is {there}, and cannot hold every {kind} of the stream")
    before = indexes_header(indexes) if framed else b""
    writers = [(name, _setter(fields[name], kind)) for name, kind in attributes]

    def encode(row: Mapping[str, Any]) -> bytes:
        event = made()
        for name, write in writers:
            if row[name] is None:
                continue  # a field without a value is not written
            try:
                write(event, row[name])
            except Exception as error:  # any exception of the library means an event that does not fit
                raise BodyError(f"{name} does not fit the schema: {short(error)}") from error
        try:
            return before + bytes(event.SerializeToString())
        except Exception as error:  # a required field without a value
            raise BodyError(f"the event does not fit the schema: {short(error)}") from error

    return encode


def _class(descriptor: Any) -> Any:
    return library("google.protobuf.message_factory", "protobuf").GetMessageClass(descriptor)


def _at(file: Any, indexes: Sequence[int]) -> Any:
    """Return the message type at the indexes of a body."""
    inner = list(file.message_types_by_name.values())
    found: Any = None
    for index in indexes:
        if not 0 <= index < len(inner):
            raise BodyError("the body names a message that its schema does not have")
        found = inner[index]
        inner = list(found.nested_types)
    return found


def _named(file: Any, name: str) -> tuple[Any, tuple[int, ...]]:
    """Return the message called `name` (empty: the first), and the indexes that lead to it."""
    messages = list(file.message_types_by_name.values())
    if not messages:
        raise SchemaError("it has no message")
    if not name:
        return messages[0], (0,)
    found: Any = None
    path: tuple[int, ...] = ()
    whole = {name, f"{file.package}.{name}" if file.package else name}
    waiting: list[tuple[Any, tuple[int, ...]]] = [(one, (place,)) for place, one in enumerate(messages)]
    while waiting and found is None:
        one, place = waiting.pop(0)
        if one.full_name in whole:
            found, path = one, place
        waiting += [(inner, (*place, number)) for number, inner in enumerate(one.nested_types)]
    if found is None:
        known = ", ".join(one.full_name for one in messages[:20])
        raise SchemaError(f"it has no message {name[:80]}; it has: {known}")
    return found, path


def _kind(field: Any) -> str:
    """Return the kind of a field's values, as in `_FITTING`."""
    if _repeated(field):
        return "repeated"
    if field.message_type is not None:
        full = field.message_type.full_name
        if full in _WRAPPERS:
            return _kind(field.message_type.fields_by_name["value"])
        return "timestamp" if full == _TIMESTAMP else "message"
    if field.enum_type is not None:
        return "enum"
    return _TYPES[field.type]


_TYPES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
    12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip
"""The numbers of types in descriptors."""


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _setter(field: Any, kind: str) -> Callable[[Any, Any], None]:
    """Return a function that sets the field of a message to a value of an attribute of type `kind`."""
    name = field.name
    if kind == "object" and _kind(field) != "bytes":
        json_format = library("google.protobuf.json_format", "protobuf")

        def put_json(event: Any, value: Any) -> None:
            json_format.ParseDict({name: msgspec.json.decode(value)}, event)

        return put_json
    full = field.message_type.full_name if field.message_type is not None else ""
    if full == _TIMESTAMP:
        return lambda event, value: getattr(event, name).FromMilliseconds(value)
    if full:  # a wrapper
        return lambda event, value: setattr(getattr(event, name), "value", value)
    if kind == "string" and _kind(field) == "enum":
        return lambda event, value: setattr(event, name, field.enum_type.values_by_name[value].number)
    if kind == "string" and _kind(field) == "bytes":
        return lambda event, value: setattr(event, name, value.encode(errors="replace"))
    return lambda event, value: setattr(event, name, value)


def _plain(message: Any) -> Any:
    """Return a message as a map of its fields; the library limits the nesting."""
    full = message.DESCRIPTOR.full_name
    if full in _WRAPPERS:
        return message.value
    if full == _TIMESTAMP:
        return message.seconds * 1_000 + message.nanos // 1_000_000
    found = {}
    for field in message.DESCRIPTOR.fields:
        name = field.name
        if _repeated(field):
            found[name] = _several(field, getattr(message, name))
        elif field.has_presence and not message.HasField(name):
            found[name] = None
        else:
            found[name] = _one(field, getattr(message, name))
    return found


def _several(field: Any, values: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        kind = field.message_type.fields_by_name["value"]
        return {str(key): _one(kind, values[key]) for key in values}
    return [_one(field, one) for one in values]


def _one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    return value
