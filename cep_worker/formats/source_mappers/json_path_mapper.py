"""Reads events from JSON of any shape: each attribute is found by its path in `@attributes` of the source.

Example:
    enclosing $.portfolio            {"portfolio": [{"stock": {"volume": 100, "company": {"symbol": "a"}}}, …]}
    symbol    stock.company.symbol                   └───────────────── one event ─────────────────────┘
    volume    stock.volume           symbol = 'a', volume = 100
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from cep_common.errors import ConfigError, InputError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.rejections import EventsRejectedError, InvalidEvent
from cep_worker.formats.source_mappers.json_mapper import JSON_TYPES, JsonEvents, decoded, decoded_lines, text_of
from query_plan.connectors.attribute_paths import by_attribute, refuse_transport, split_paths
from query_plan.connectors.mappers import JsonSourceOptions
from query_plan.connectors.options import read_options
from siddhi.extensions.json.path import MISSING, JsonPath, PathError, json_path
from siddhi.nesting import TOO_DEEP, nests_too_deeply

WHOLE = "$"
"""The path of the whole body."""


@dataclass(frozen=True, slots=True)
class JsonMapping:
    """Paths into JSON: `enclosing` to an event or a list of events, and `paths` from there to each attribute.

    Without paths attributes are found by their names.
    """

    enclosing: str
    paths: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """JSON with the layout of `mapping`; None: the layout of JsonEvents.

    With `lenient` missing attributes are null.
    """

    lenient: bool = False
    mapping: JsonMapping | None = None

    def reader(self, schema: StreamSchema, timestamp: str | None) -> JsonEvents | JsonPathEvents:
        """Return a reader of the events of `schema`.

        Raises:
            InputError: `timestamp` cannot be used as the time of events.
        """
        if self.mapping is None:
            return JsonEvents(schema, timestamp, self.lenient)
        return JsonPathEvents(self.mapping, schema, timestamp, self.lenient)


def json_format(given: Mapping[str, str], schema: StreamSchema, where: str) -> JsonFormat:
    """Return the format with the options of a mapper.

    Raises:
        ConfigError: an option cannot be used.
    """
    paths, others = split_paths(given)
    options = read_options(JsonSourceOptions, others, where)
    mapping = json_mapping(paths, options.enclosing_element, schema, where)
    return JsonFormat(options.fail_on_missing_attribute == "false", mapping)


def json_mapping(given: Mapping[str, str], enclosing: str, schema: StreamSchema, where: str) -> JsonMapping | None:
    """Return where the events of `schema` are below `enclosing`, or None for the layout of JsonEvents.

    Raises:
        ConfigError: a path is invalid, or an attribute is unknown or missing.
    """
    if not given and enclosing == WHOLE:
        return None
    names = [name for name, _ in schema.attributes]
    paths = by_attribute(given, names, where) if given else {}
    for what, text in {"enclosing.element": enclosing, **paths}.items():
        refuse_transport(what, text, where)
        try:
            json_path(text.strip())
        except PathError as error:
            raise ConfigError(f"{where}: {what}: {error}") from error
    return JsonMapping(enclosing.strip(), tuple((name, paths[name].strip()) for name in names if name in paths))


class JsonPathEvents:
    """Read events as JsonEvents does, from the places in `mapping`.

    A value may also be a string that can be parsed as its attribute's type. Strings and objects accept any value, as
    its JSON text.
    """

    def __init__(self, mapping: JsonMapping, schema: StreamSchema, timestamp_key: str | None, lenient: bool) -> None:
        if mapping.paths and timestamp_key is not None and timestamp_key not in dict(schema.attributes):
            raise InputError("wrong-timestamp", "with @attributes it must be one of them")
        self._events = JsonEvents(schema, timestamp_key, lenient)
        self._types = dict(schema.attributes)
        self._mapping = mapping
        self._enclosing = json_path(mapping.enclosing)
        self._paths: dict[str, JsonPath] = {name: json_path(path) for name, path in mapping.paths}

    def read(self, body: bytes, now_ms: int) -> pa.RecordBatch:
        """Return the events of a JSON text.

        Raises EventsRejectedError.
        """
        return self._events.convert(self._found(decoded(body), 0), now_ms)

    def read_lines(self, body: bytes, now_ms: int, first_index: int = 0) -> pa.RecordBatch:
        """Read one JSON text per line; problems are numbered from `first_index`.

        Raises:
            EventsRejectedError: an event does not fit.
        """
        events: list[Any] = []
        for document in decoded_lines(body, first_index):
            events += self._found(document, first_index + len(events))
        return self._events.convert(events, now_ms, first_index)

    def _found(self, document: Any, index: int) -> list[Any]:
        """Return the events of a document in the form that JsonEvents expects. The first has number `index`."""
        if nests_too_deeply(document):
            raise EventsRejectedError("broken-json", f"in the body {TOO_DEEP}", [InvalidEvent(index, "", TOO_DEEP)])
        enclosed: Any = self._enclosing.read(document)
        if enclosed is MISSING or enclosed is None:
            problem = f"has nothing at {self._mapping.enclosing}"
            raise EventsRejectedError("bad-events", f"the body {problem}", [InvalidEvent(index, "", problem)])
        events = enclosed if isinstance(enclosed, list) else [enclosed]
        return [self._mapped(event) for event in events] if self._paths else events

    def _mapped(self, event: Any) -> Any:
        if not isinstance(event, dict | list):
            return event  # paths cannot be applied to it, and JsonEvents refuses it
        found = ((name, path.read(event)) for name, path in self._paths.items())
        return {name: _as_type(self._types[name], value) for name, value in found if value is not MISSING}


def _as_type(kind: str, value: Any) -> Any:
    """Convert `value` to what JsonEvents expects for type `kind`; a value that cannot be converted is refused there."""
    if value is None:
        return None
    if kind == "object":
        return base64.b64encode(msgspec.json.encode(value)).decode()
    if kind == "string" or not isinstance(value, str):
        return text_of(kind, value)
    try:
        return msgspec.convert(value, JSON_TYPES[kind], strict=False)
    except msgspec.ValidationError:
        return value
