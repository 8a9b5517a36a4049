"""Events as JSON and NDJSON.

json     {"event": {"origin": "EWR", "late": 3}}                Siddhi's envelope; several events are a list
         {"all": [{"event": {"origin": "EWR", "late": 3}}, …]}  with enclosing.element='$.all'
ndjson   {"_timestamp": 1357034400000, "origin": "EWR", "late": 3}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.sink_mappers.template import Row, SinkMapper, Template, by_row, join_lines
from query_plan.connectors.mappers import JsonSinkOptions, NdjsonSinkOptions
from query_plan.connectors.options import read_options
from siddhi.column_names import TIMESTAMP

_CONTENT_TYPE = "application/json"


_SAMPLES = {"string": "x", "bool": True, "object": None}
"""A value of each type, as a template that is checked gets it; numbers are 0."""


def json_mapper(given: Mapping[str, str], schema: StreamSchema, where: str) -> SinkMapper:
    """Return a mapper that writes events in envelopes, or by the template."""
    options = read_options(JsonSinkOptions, given, where)
    start, end = _around(options.enclosing_element, where)

    def enclosed(event: bytes) -> bytes:
        return start + event + end

    def join(events: list[bytes]) -> bytes:
        return enclosed(_join(events))

    if not options.payload:
        return SinkMapper(_CONTENT_TYPE, by_row(_enveloped, timed=False), join, alone=enclosed)
    template = Template(options.payload, schema, where, _escaped)
    if options.validate_json == "true":
        _check(template.fill(_sample(schema)), where)
    return SinkMapper(_CONTENT_TYPE, by_row(template.fill, timed=True), join, alone=enclosed)


def ndjson_mapper(given: Mapping[str, str], _schema: StreamSchema, where: str) -> SinkMapper:
    """Return a mapper that writes events with their times, one to a line."""
    if read_options(NdjsonSinkOptions, given, where).payload:
        raise ConfigError(f"{where}: payload is not supported by ndjson; use json or text")
    return SinkMapper("application/x-ndjson", by_row(msgspec.json.encode, timed=True), join_lines)


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


def _enveloped(row: Row) -> bytes:
    return msgspec.json.encode({"event": row})


def _join(events: list[bytes]) -> bytes:
    return events[0] if len(events) == 1 else b"[" + b",".join(events) + b"]"


def _escaped(_: str, value: Any) -> str:
    """Return a value as JSON, text without its quotes, which the template has."""
    text = msgspec.json.encode(value).decode()
    return text[1:-1] if isinstance(value, str | bytes) else text
