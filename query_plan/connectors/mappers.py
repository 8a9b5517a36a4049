"""The options of mappers, beside `@attributes` and `@payload`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from query_plan.connectors.options import Fault, Options
from query_plan.connectors.sources import Truth

LineEnd = Literal["\\n", "\\r\\n", "\n", "\r\n"]
WHOLE = "$"
"""The path to the whole body."""
_LINES = "several lines are always several events"
_LISTS = "several events are a list, and a list is always several events"


class CsvSourceOptions(Options, frozen=True):
    """The options of the CSV source mapper.

    With `header.present` (or `header`, as in Siddhi's mapper) the first line of a body is skipped; with
    `fail.on.unknown.attribute` false values that a line lacks are null.
    """

    delimiter: str = ","
    header_present: Truth = "false"
    header: Truth = "false"
    fail_on_unknown_attribute: Truth = "true"

    without_effect: ClassVar[Mapping[str, str]] = {"event.grouping.enabled": _LINES}

    def faults(self) -> Iterator[Fault]:
        """Check that the delimiter is one character."""
        yield from delimiter_faults(self.delimiter)


class JsonSourceOptions(Options, frozen=True):
    """The options of the JSON source mapper.

    With `fail.on.missing.attribute` false a missing attribute is null. `enclosing.element` is the path to the event
    in a body, or to a list of events.
    """

    fail_on_missing_attribute: Truth = "true"
    enclosing_element: str = WHOLE

    without_effect: ClassVar[Mapping[str, str]] = {"event.grouping.enabled": _LISTS}


class TextSourceOptions(Options, frozen=True):
    """The options of the text source mapper.

    With `event.grouping.enabled`, lines that only hold `delimiter` separate events. With `fail.on.missing.attribute`
    false a missing attribute is null. `new.line.character` is Siddhi's: lines may end either way.
    """

    fail_on_missing_attribute: Truth = "true"
    event_grouping_enabled: Truth = "false"
    delimiter: str = "~~~~~~~~~~"
    new_line_character: LineEnd = "\\n"

    def faults(self) -> Iterator[Fault]:
        """Check that the delimiter is a line."""
        if "\n" in self.delimiter or not self.delimiter.strip():
            yield Fault("delimiter", "must be a separate line")


class XmlSourceOptions(Options, frozen=True):
    """The options of the XML source mapper.

    `enclosing.element` is the XPath of the elements whose children are events, or with `enclosing.element.as.event` of
    the events themselves; `namespaces` declares its prefixes: `prefix=uri`, separated by commas. With
    `fail.on.missing.attribute` false a missing attribute is null. The last two options support Siddhi's default only.
    """

    namespaces: str = ""
    enclosing_element: str = ""
    enclosing_element_as_event: Truth = "false"
    fail_on_missing_attribute: Truth = "true"
    extract_leaf_node_data: Literal["false"] = "false"
    enable_streaming_xml_content: Literal["false"] = "false"

    def faults(self) -> Iterator[Fault]:
        """Check the form of the namespaces."""
        try:
            read_namespaces(self.namespaces)
        except ValueError as error:
            yield Fault("namespaces", str(error))


class KeyValueSourceOptions(Options, frozen=True):
    """The options of the key-value source mapper.

    With `fail.on.missing.attribute` false an attribute whose key is missing is null. `implicit.cast.enable` is
    Siddhi's; types must be the same.
    """

    fail_on_missing_attribute: Truth = "true"
    implicit_cast_enable: Literal["false"] = "false"


class CsvSinkOptions(Options, frozen=True):
    """The options of the CSV sink mapper.

    With `header` the names of the attributes are in a line before the first event.
    """

    delimiter: str = ","
    header: Truth = "false"

    without_effect: ClassVar[Mapping[str, str]] = {"event.grouping.enabled": _LINES}

    def faults(self) -> Iterator[Fault]:
        """Check that the delimiter is one character."""
        yield from delimiter_faults(self.delimiter)


class JsonSinkOptions(Options, frozen=True):
    """The options of the JSON sink mapper.

    `payload` is a template in which `{{attribute}}` is replaced by a value. `enclosing.element` is the path to the
    place of the event, or of the list of several. `validate.json` refuses a template that makes no JSON.
    """

    payload: str = ""
    enclosing_element: str = ""
    validate_json: Truth = "false"

    without_effect: ClassVar[Mapping[str, str]] = {
        "event.grouping.enabled": _LISTS,
        "enable.null.attribute.value": "a null is always written, as null",
    }


class NdjsonSinkOptions(Options, frozen=True):
    """The options of the NDJSON sink mapper: none; `payload` is refused."""

    payload: str = ""

    def faults(self) -> Iterator[Fault]:
        """Check that there is no template."""
        if self.payload:
            yield Fault("payload", "is not supported by ndjson; use json or text")


class TextSinkOptions(Options, frozen=True):
    """The options of the text sink mapper.

    `payload` is a template in which `{{attribute}}` is replaced by a value. With `event.grouping.enabled` the line
    `delimiter` separates several events; otherwise each event has a line. `new.line.character` ends lines.
    """

    payload: str = ""
    event_grouping_enabled: Truth = "false"
    delimiter: str = "~~~~~~~~~~"
    new_line_character: LineEnd = "\\n"

    without_effect: ClassVar[Mapping[str, str]] = {"mustache.enabled": "{{attribute}} is always replaced by a value"}


class XmlSinkOptions(Options, frozen=True):
    """The options of the XML sink mapper.

    `payload` is a template in which `{{attribute}}` is replaced by a value. `enclosing.element` is the tag around all
    events; without it `<events>`, or none around templates. `validate.xml` refuses a template that makes no XML.
    """

    payload: str = ""
    enclosing_element: str = ""
    validate_xml: Truth = "false"


class KeyValueSinkOptions(Options, frozen=True):
    """The options of the key-value sink mapper: none besides `@payload`."""


def delimiter_faults(text: str) -> Iterator[Fault]:
    r"""Yield the faults of the delimiter of CSV; a tab may be written `\t`."""
    delimiter = "\t" if text == "\\t" else text
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0\x03':
        yield Fault("delimiter", f"must be one ASCII character, no quote and no line end, not {text!r}")


def read_namespaces(text: str) -> dict[str, str]:
    """Return the prefixes of a text such as `a=urn:one,b=urn:two`. Raise ValueError for other texts."""
    found: dict[str, str] = {}
    for one in filter(str.strip, text.split(",")):
        prefix, separator, uri = one.partition("=")
        if not separator or not prefix.strip() or not uri.strip():
            raise ValueError(f"must be prefix=uri,prefix=uri, not {text!r}")
        found[prefix.strip()] = uri.strip()
    return found
