"""Mappers write the events of a batch as payloads: JSON, NDJSON or text, for sinks.

json     {"event": {"origin": "EWR", "late": 3}}                Siddhi's envelope; several events are a list
ndjson   {"_timestamp": 1357034400000, "origin": "EWR", "late": 3}
text     origin:"EWR",                                          Siddhi's text; or a `payload` template
         late:3
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.link_messages import StreamSchema
from cep_common.messages import Connector
from cep_worker.options import read_options
from siddhi.column_names import TIMESTAMP
from topology.frames import event_rows

Row = dict[str, Any]

SINK_MAPPERS = ("json", "ndjson", "text")

_TEMPLATE = re.compile(r"\{\{\s*([^{}\s]+)\s*\}\}")
_TEXT_DELIMITER = b"\n~~~~~~~~~~\n"


class SinkMapperOptions(msgspec.Struct, frozen=True):
    """`payload` is a template in which `{{attribute}}` stands for a value (`{{_timestamp}}`, unless there is such an
    attribute, for the time)."""

    payload: str = ""


class SinkMapper:
    """How the events of one stream are written: their attributes, and their times as `_timestamp` if `timed`."""

    def __init__(
        self, content_type: str, write: Callable[[Row], bytes], join: Callable[[list[bytes]], bytes], timed: bool
    ) -> None:
        self.content_type = content_type
        self._write = write
        self._join = join
        self._timed = timed

    def events(self, batch: pa.RecordBatch) -> list[bytes]:
        """Each event by itself."""
        return [self._write(row) for row in event_rows(batch, self._timed)]

    def joined(self, batch: pa.RecordBatch) -> bytes:
        """All events of `batch` (not empty) as one payload."""
        return self._join(self.events(batch))


def sink_mapper(connector: Connector, schema: StreamSchema, default: str) -> SinkMapper:
    """The mapper that a sink asks for, or its type's `default` one. ConfigError when it asks for the impossible."""
    kind = default if connector.mapper in ("", "passThrough") else connector.mapper
    where = f"@map(type='{kind}') of stream {connector.stream}"
    if kind not in SINK_MAPPERS:
        raise ConfigError(f"{where}: unknown type of mapper; known for sinks: {', '.join(SINK_MAPPERS)}")
    options = read_options(SinkMapperOptions, connector.mapper_options, where)
    if options.payload:
        if kind == "ndjson":
            raise ConfigError(f"{where}: payload does not go with ndjson; use json or text")
        return _templated(kind, Template(options.payload, schema, where, escape=kind == "json"))
    if kind == "json":
        return SinkMapper("application/json", _enveloped, _join_json, timed=False)
    if kind == "ndjson":
        return SinkMapper("application/x-ndjson", msgspec.json.encode, _join_lines, timed=True)
    return SinkMapper("text/plain; charset=utf-8", _as_text, _TEXT_DELIMITER.join, timed=False)


class Template:
    """A text with `{{attribute}}` in it. `escape` writes text values as they stand inside quotes in JSON."""

    def __init__(self, text: str, schema: StreamSchema, where: str, escape: bool) -> None:
        pieces = _TEMPLATE.split(text)
        self._texts, self._names = pieces[::2], pieces[1::2]
        known = {TIMESTAMP, *(name for name, _ in schema.attributes)}
        unknown = sorted(set(self._names) - known)
        if unknown:
            raise ConfigError(f"{where}: payload: no such attribute: {', '.join(unknown)}")
        self._value = _json_text if escape else _plain_text

    def fill(self, row: Row) -> bytes:
        """The text for one event."""
        parts = [self._texts[0]]
        for name, text in zip(self._names, self._texts[1:], strict=True):
            parts += (self._value(row[name]), text)
        return "".join(parts).encode()


def _templated(kind: str, template: Template) -> SinkMapper:
    if kind == "json":
        return SinkMapper("application/json", template.fill, _join_json, timed=True)
    return SinkMapper("text/plain; charset=utf-8", template.fill, _join_lines, timed=True)


def _enveloped(row: Row) -> bytes:
    return msgspec.json.encode({"event": row})


def _join_json(events: list[bytes]) -> bytes:
    return events[0] if len(events) == 1 else b"[" + b",".join(events) + b"]"


def _join_lines(events: list[bytes]) -> bytes:
    return b"\n".join(events) + b"\n"


def _as_text(row: Row) -> bytes:
    lines = (
        f'{name}:"{value}"' if isinstance(value, str) else f"{name}:{_plain_text(value)}" for name, value in row.items()
    )
    return ",\n".join(lines).encode()


def _plain_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _json_text(value: Any) -> str:
    """A value as it stands in JSON, text without its quotes: the template has them."""
    text = msgspec.json.encode(value).decode()
    return text[1:-1] if isinstance(value, str | bytes) else text
