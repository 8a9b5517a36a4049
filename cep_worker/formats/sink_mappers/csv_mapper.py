"""Writes events as CSV: one to a line, values in the order of the attributes or of `@payload`.

Example:
    WSO2,55.6,100
    "a ""quoted"" text",,""      null is an empty field; empty text is `""`
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.sink_mappers.template import SinkMapper, join_lines
from cep_worker.formats.source_mappers.csv_mapper import csv_delimiter, csv_place
from cep_worker.formats.value_texts import text_rows
from query_plan.connectors.attribute_paths import split_options
from query_plan.connectors.mappers import CsvSinkOptions
from query_plan.connectors.options import read_options


def csv_mapper(given: Mapping[str, str], schema: StreamSchema, where: str) -> SinkMapper:
    """Return a mapper that writes events as lines of values."""
    payload, others = split_options(given, "payload")
    options = read_options(CsvSinkOptions, others, where)
    order = _order(payload, [name for name, _ in schema.attributes], where)
    writer = _CsvWriter(schema, csv_delimiter(options.delimiter, where), order)
    if options.header == "false":
        return SinkMapper(writer.content_type, writer.events, join_lines)
    header = writer.line([schema.attributes[place][0] for place in order])
    return SinkMapper(writer.content_type, writer.events, lambda events: join_lines([header, *events]), header)


def _order(payload: Mapping[str, str], names: list[str], where: str) -> list[int]:
    """Return the attribute of each column, by index."""
    if not payload:
        return list(range(len(names)))
    if "" in payload:
        raise ConfigError(
            f"{where}: payload: csv has no templates; give each attribute a column number: {names[0]}='0', …"
        )
    if unknown := [name for name in payload if name not in names]:
        raise ConfigError(f"{where}: payload: no such attribute: {', '.join(unknown)}")
    places = {csv_place(name, text, where): names.index(name) for name, text in payload.items()}
    if sorted(places) != list(range(len(payload))):
        raise ConfigError(f"{where}: payload: must assign an attribute to each column from 0 to {len(payload) - 1}")
    return [places[column] for column in range(len(places))]


class _CsvWriter:
    content_type = "text/csv; charset=utf-8"

    def __init__(self, schema: StreamSchema, delimiter: str, order: list[int]) -> None:
        self._attributes = schema.attributes
        self._delimiter = delimiter
        self._order = order
        # at the start of a body it would be read as a byte order mark, so it is quoted
        self._special = re.compile(rf'["\r\n\ufeff{re.escape(delimiter)}]')

    def events(self, batch: pa.RecordBatch) -> list[bytes]:
        return [self.line([row[place] for place in self._order]) for row in text_rows(self._attributes, batch)]

    def line(self, texts: list[str] | list[str | None]) -> bytes:
        """Return a line without its end."""
        return self._delimiter.join(map(self._field, texts)).encode()

    def _field(self, text: str | None) -> str:
        if text is None:
            return ""
        if text and not self._special.search(text):
            return text
        return '"' + text.replace('"', '""') + '"'
