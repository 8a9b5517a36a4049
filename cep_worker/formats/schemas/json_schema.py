"""JSON by a JSON Schema: bodies → values, and events → bodies. Remote references in schemas are never fetched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urljoin

import msgspec

from cep_worker.formats.schemas.problems import BodyError, SchemaError, library, short
from cep_worker.formats.schemas.registry import JSON, RegisteredSchema
from siddhi.nesting import TOO_DEEP, nests_too_deeply

MOST_BACKTRACKS = 100_000
"""The most backtracking steps when a pattern of a schema is matched against a text."""
_BASE = "http://schema.invalid/"
"""The base of relative references in schemas without `$id`; nothing is fetched from there."""


def json_decoder(schema: RegisteredSchema) -> Callable[[bytes], Any]:
    """Return a decoder of bodies of `schema`.

    Raises:
        SchemaError: it cannot be used.
    """
    check = _checker(schema)

    def decode(body: bytes) -> Any:
        try:
            value = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BodyError(f"the body is not JSON: {error}") from error
        if nests_too_deeply(value):
            raise BodyError(f"in the body {TOO_DEEP}")
        check(value)
        return value

    return decode


def json_encoder(
    schema: RegisteredSchema, attributes: Sequence[tuple[str, str]]
) -> Callable[[Mapping[str, Any]], bytes]:
    """Return an encoder of events with these attributes; an object is written as the JSON that it contains.

    Raises:
        SchemaError: the schema cannot be used.
    """
    check = _checker(schema)
    objects = [name for name, kind in attributes if kind == "object"]

    def encode(row: Mapping[str, Any]) -> bytes:
        event = dict(row)
        for name in objects:
            if event[name] is not None:
                event[name] = _object(name, event[name])
        text = msgspec.json.encode(event)
        check(msgspec.json.decode(text) if _has_odd_numbers(row) else event)
        return text

    return encode


def _object(name: str, text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BodyError(f"{name} is not JSON: {short(error)}") from error


def _has_odd_numbers(row: Mapping[str, Any]) -> bool:
    """Return whether a number is written as null because JSON cannot represent it."""
    return any(isinstance(value, float) and value - value != 0 for value in row.values())


def _checker(schema: RegisteredSchema) -> Callable[[Any], None]:
    if schema.type != JSON:
        raise SchemaError(f"it is of the type {schema.type[:20]}, not {JSON}")
    rules = library("jsonschema_rs", "jsonschema")
    root = _decoded(schema.text)
    known: dict[str, Any] = {}
    own = root.get("$id") if isinstance(root, dict) else None
    base = own if isinstance(own, str) else _BASE
    for name, text in schema.references:
        known[name] = known[urljoin(base, name)] = known[urljoin(_BASE, name)] = _decoded(text)

    def retrieve(uri: str) -> Any:
        if (found := known.get(uri.removesuffix("#"))) is None:
            raise ValueError(f"{uri} is not among the schema's references in the registry")
        return found

    try:
        validator = rules.validator_for(
            root, retriever=retrieve, base_uri=None if own else _BASE,
            pattern_options=rules.FancyRegexOptions(backtrack_limit=MOST_BACKTRACKS),
        )  # fmt: skip
    except Exception as error:  # the library raises various exceptions for invalid schemas
        raise SchemaError(f"it cannot be used as JSON Schema: {short(error)}") from error

    def check(value: Any) -> None:
        try:
            validator.validate(value)
        except rules.ValidationError as error:
            place = "".join(f"/{step}" for step in error.instance_path)
            raise BodyError(
                f"does not fit the schema{f' at {place}' if place else ''}: {short(error.message)}"
            ) from error
        except Exception as error:  # a value that the library cannot compare
            raise BodyError(f"cannot be compared with the schema: {short(error)}") from error

    return check


def _decoded(text: str | bytes) -> Any:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise SchemaError(f"it is not a JSON Schema: {short(error)}") from error
    if nests_too_deeply(value):
        raise SchemaError(TOO_DEEP)
    if not isinstance(value, dict | bool):
        raise SchemaError("it is not a JSON Schema: neither an object nor true or false")
    return value
