"""Events as JSON and NDJSON.

json     {"event": {"origin": "EWR", "late": 3}}                Siddhi's envelope; several events are a list
ndjson   {"_timestamp": 1357034400000, "origin": "EWR", "late": 3}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cep_common.errors import ConfigError
from cep_common.link_messages import StreamSchema
from cep_worker.mappers.writing import Row, SinkMapper, Template, by_row, join_lines
from cep_worker.options import read_options

_CONTENT_TYPE = "application/json"


class JsonSinkOptions(msgspec.Struct, frozen=True):
    """`payload` is a template in which `{{attribute}}` stands for a value."""

    payload: str = ""


def json_mapper(given: Mapping[str, str], schema: StreamSchema, where: str) -> SinkMapper:
    """Events in envelopes, or in the template. ConfigError for options that cannot be used."""
    options = read_options(JsonSinkOptions, given, where)
    if not options.payload:
        return SinkMapper(_CONTENT_TYPE, by_row(_enveloped, timed=False), _join)
    template = Template(options.payload, schema, where, _escaped)
    return SinkMapper(_CONTENT_TYPE, by_row(template.fill, timed=True), _join)


def ndjson_mapper(given: Mapping[str, str], _schema: StreamSchema, where: str) -> SinkMapper:
    """Events with their times, one to a line. ConfigError for options that cannot be used."""
    if read_options(JsonSinkOptions, given, where).payload:
        raise ConfigError(f"{where}: payload does not go with ndjson; use json or text")
    return SinkMapper("application/x-ndjson", by_row(msgspec.json.encode, timed=True), join_lines)


def _enveloped(row: Row) -> bytes:
    return msgspec.json.encode({"event": row})


def _join(events: list[bytes]) -> bytes:
    return events[0] if len(events) == 1 else b"[" + b",".join(events) + b"]"


def _escaped(_: str, value: Any) -> str:
    """A value as it stands in JSON, text without its quotes: the template has them."""
    text = msgspec.json.encode(value).decode()
    return text[1:-1] if isinstance(value, str | bytes) else text
