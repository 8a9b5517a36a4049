"""Writes events as text.

In Siddhi's form, unless `@payload` gives a template:

    origin:"EWR",
    late:3
    ~~~~~~~~~~                   separates events
    origin:"JFK",
    …
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from cep_common.protocol.links import StreamSchema
from cep_worker.formats.sink_mappers.template import SinkMapper, Template, join_lines
from cep_worker.formats.value_texts import text_rows, value_text
from query_plan.connectors.mappers import TextSinkOptions
from query_plan.connectors.options import read_options

_CONTENT_TYPE = "text/plain; charset=utf-8"


def text_mapper(given: Mapping[str, str], schema: StreamSchema, where: str) -> SinkMapper:
    """Return a mapper that writes events as Siddhi's text, or by the template."""
    options = read_options(TextSinkOptions, given, where)
    end = "\r\n" if "r" in options.new_line_character.replace("\r", "r") else "\n"
    join = f"{end}{options.delimiter}{end}".encode().join
    if not options.payload:
        return SinkMapper(_CONTENT_TYPE, _TextWriter(schema, end), join)
    template = Template(options.payload, schema, where, value_text)
    grouped = options.event_grouping_enabled == "true"
    return SinkMapper(_CONTENT_TYPE, template.fill_all, join if grouped else join_lines)


class _TextWriter:
    """Writes a line for each attribute."""

    def __init__(self, schema: StreamSchema, end: str) -> None:
        self._attributes = schema.attributes
        self._between = f",{end}"

    def __call__(self, batch: pa.RecordBatch) -> list[bytes]:
        return [self._event(row).encode() for row in text_rows(self._attributes, batch)]

    def _event(self, row: tuple[str | None, ...]) -> str:
        return self._between.join(
            f'{name}:"{text}"'
            if kind == "string" and text is not None
            else f"{name}:{'null' if text is None else text}"
            for (name, kind), text in zip(self._attributes, row, strict=True)
        )
