"""Events as JSON and NDJSON.

json     {"event": {"origin": "EWR", "late": 3}}                Siddhi's envelope; several events are a list
         {"all": [{"event": {"origin": "EWR", "late": 3}}, …]}  with enclosing.element='$.all'
ndjson   {"_timestamp": 1357034400000, "origin": "EWR", "late": 3}
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.sink_mappers.template import Row, SinkMapper, Template, join_lines
from query_plan.connectors.mappers import JsonSinkOptions, NdjsonSinkOptions
from query_plan.connectors.options import read_options
from siddhi.column_names import TIMESTAMP
from topology.events.frames import event_columns

_CONTENT_TYPE = "application/json"


_SAMPLES = {"string": "x", "bool": True, "object": None}
"""Sample values of each type, with which templates are checked."""


def json_mapper(given: Mapping[str, str], schema: StreamSchema, where: str) -> SinkMapper:
    """Return a mapper that writes events in envelopes, or by the template."""
    options = read_options(JsonSinkOptions, given, where)
    start, end = _around(options.enclosing_element, where)

    def enclosed(event: bytes) -> bytes:
        return start + event + end

    def join(events: list[bytes]) -> bytes:
        return enclosed(_join(events))

    alone = enclosed if start else None
    if not options.payload:
        return SinkMapper(_CONTENT_TYPE, partial(_objects, timed=False, form='{"event":{%s}}'), join, alone=alone)
    template = Template(options.payload, schema, where, _escaped, texts=_escaped_column)
    if options.validate_json == "true":
        _check(template.fill(_sample(schema)), where)
    return SinkMapper(_CONTENT_TYPE, template.fill_all, join, alone=alone)


def ndjson_mapper(given: Mapping[str, str], _schema: StreamSchema, where: str) -> SinkMapper:
    """Return a mapper that writes events with their times, one to a line."""
    if read_options(NdjsonSinkOptions, given, where).payload:
        raise ConfigError(f"{where}: payload is not supported by ndjson; use json or text")
    return SinkMapper("application/x-ndjson", partial(_objects, timed=True, form="{%s}"), join_lines)


def _around(path: str, where: str) -> tuple[bytes, bytes]:
    """Return the text before and after the events at `path`, such as `$.a.b`."""
    names = path.strip().removeprefix("$").removeprefix(".").split(".")
    if names == [""]:
        return b"", b""
    if not all(name and name.replace("_", "a").replace("-", "a").isalnum() for name in names):
        raise ConfigError(f"{where}: enclosing.element: must be a path such as $.all.events, not {path!r}")
    return b"".join(b'{"' + name.encode() + b'":' for name in names), b"}" * len(names)


def _sample(schema: StreamSchema) -> Row:
    return {TIMESTAMP: 0, **{name: _SAMPLES.get(kind, 0) for name, kind in schema.attributes}}


def _check(text: bytes, where: str) -> None:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{where}: payload: the template does not produce JSON: {error}") from error


def _objects(batch: pa.RecordBatch, timed: bool, form: str) -> list[bytes]:
    """Return each event as `form` with the members of its object, its time first if `timed`."""
    members: list[str] = []
    columns: list[list[str]] = []
    for name, column in event_columns(batch, timed).items():
        key = msgspec.json.encode(name).decode().replace("%", "%%")
        plain = _plain_texts(column)
        members.append(f"{key}:%s" if plain is None else f'{key}:"%s"')
        columns.append(_json_texts(column) if plain is None else plain)
    whole = form % ",".join(members)
    return list(map(str.encode, map(whole.__mod__, zip(*columns, strict=True))))


def _plain_texts(column: pa.Array) -> list[str] | None:
    """Return the values of a string column if no value needs escaping; else None."""
    if not pa.types.is_string(column.type) or column.null_count:
        return None
    values: list[str] = column.to_pylist()
    # Escaping makes text longer: without it the JSON list is exactly these bytes plus brackets, quotes and commas.
    unescaped = pc.sum(pc.binary_length(column)).as_py() + 3 * len(values) + 1 if values else 2
    return values if len(msgspec.json.encode(values)) == unescaped else None


def _json_texts(column: pa.Array) -> list[str]:
    """Return the JSON text of each value."""
    values = column.to_pylist()
    if not values or pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return [msgspec.json.encode(value).decode() for value in values]
    return msgspec.json.encode(values)[1:-1].decode().split(",")


def _join(events: list[bytes]) -> bytes:
    return events[0] if len(events) == 1 else b"[" + b",".join(events) + b"]"


def _escaped(_: str, value: Any) -> str:
    """Return a value as JSON, strings without quotes, which the template contains."""
    text = msgspec.json.encode(value).decode()
    return text[1:-1] if isinstance(value, str | bytes) else text


def _escaped_column(_: str, column: pa.Array) -> list[str]:
    """Apply `_escaped` to a column."""
    plain = _plain_texts(column)
    if plain is not None:
        return plain
    texts = _json_texts(column)
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return [one[1:-1] if one[:1] == '"' else one for one in texts]
    return texts
