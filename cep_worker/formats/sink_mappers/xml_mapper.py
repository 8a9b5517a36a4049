"""Writes events as XML.

In Siddhi's form, unless `@payload` gives a template:

    <events><event><symbol>WSO2</symbol><price>55.6</price></event></events>
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from lxml import etree

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.rejections import EventsRejectedError
from cep_worker.formats.sink_mappers.template import SinkMapper, Template
from cep_worker.formats.source_mappers.xml_mapper import parsed
from cep_worker.formats.value_texts import text_rows, value_text
from query_plan.connectors.mappers import XmlSinkOptions
from query_plan.connectors.options import read_options

_CONTENT_TYPE = "application/xml; charset=utf-8"
_NIL = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"'
_TAG = re.compile(r"<\s*([^\s<>/]+)[^<>]*>")
_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("\r"): "&#13;"}
_FORBIDDEN = dict.fromkeys([*(set(range(0x20)) - {0x9, 0xA, 0xD}), 0xFFFE, 0xFFFF], "\ufffd")
"""Characters that XML does not allow."""
_IN_ELEMENT = {**_FORBIDDEN, **_ESCAPES}
_IN_TEMPLATE = {**_IN_ELEMENT, ord('"'): "&quot;", ord("'"): "&apos;"}
"""Characters that are escaped, including quotes, since templates may use values in XML attributes."""


def xml_mapper(given: Mapping[str, str], schema: StreamSchema, where: str) -> SinkMapper:
    """Return a mapper that writes events as elements, or by the template."""
    options = read_options(XmlSinkOptions, given, where)
    start, end = _tags(options.enclosing_element or ("" if options.payload else "<events>"), where)
    if options.payload:
        template = Template(options.payload, schema, where, _escaped)
        if options.validate_xml == "true":
            _check(start + template.fill(dict.fromkeys(["_timestamp", *dict(schema.attributes)])) + end, where)
        write = template.fill_all
    else:
        write = _XmlWriter(schema, where)

    def join(events: list[bytes]) -> bytes:
        return start + b"".join(events) + end

    return SinkMapper(_CONTENT_TYPE, write, join, alone=lambda event: join([event]))


def _tags(written: str, where: str) -> tuple[bytes, bytes]:
    """Return the opening tag as written and its closing tag."""
    if not written:
        return b"", b""
    found = _TAG.fullmatch(written.strip())
    if found is None:
        raise ConfigError(f"{where}: enclosing.element: must be a tag such as <events>, not {written!r}")
    start, end = found[0].encode(), f"</{found[1]}>".encode()
    try:
        parsed(start + end)
    except EventsRejectedError as error:
        raise ConfigError(f"{where}: enclosing.element: {written!r}: {error.message}") from error
    return start, end


def _check(document: bytes, where: str) -> None:
    try:
        parsed(document)
    except EventsRejectedError as error:
        problem = error.message.replace("the body", "the output of the template")
        raise ConfigError(f"{where}: payload: {problem}") from error


def _escaped(kind: str, value: Any) -> str:
    return value_text(kind, value).translate(_IN_TEMPLATE)


class _XmlWriter:
    """Writes an element for each attribute."""

    def __init__(self, schema: StreamSchema, where: str) -> None:
        self._attributes = schema.attributes
        for name, _ in schema.attributes:
            try:
                etree.Element(name)
            except ValueError as error:
                advice = "use a template, @payload(…)"
                raise ConfigError(f"{where}: {name!r} cannot be the name of an element; {advice}") from error

    def __call__(self, batch: pa.RecordBatch) -> list[bytes]:
        return [self._event(row).encode() for row in text_rows(self._attributes, batch)]

    def _event(self, row: tuple[str | None, ...]) -> str:
        elements = (
            f"<{name} {_NIL}/>" if text is None else f"<{name}>{text.translate(_IN_ELEMENT)}</{name}>"
            for (name, _), text in zip(self._attributes, row, strict=True)
        )
        return f"<event>{''.join(elements)}</event>"
