"""Reads events from XML: elements named after the attributes, or values by XPath in `@attributes`.

    <events>
      <event><symbol>WSO2</symbol><price>55.6</price></event>        symbol = 'WSO2', price = 55.6
    </events>

Input is untrusted: document types are refused, entities are not resolved, nothing is fetched, and libxml2 limits the
nesting and the length of texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pyarrow as pa
from lxml import etree

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.rejections import MOST_DETAILS, EventsRejectedError, InvalidEvent, events_rejected
from cep_worker.formats.text_columns import TextColumns
from query_plan.connectors.attribute_paths import by_attribute, refuse_transport, split_paths
from query_plan.connectors.mappers import XmlSourceOptions
from query_plan.connectors.options import read_options

NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"
"""The XML attribute that marks an element as null."""


@dataclass(frozen=True, slots=True)
class XmlFormat:
    """The layout of XML events.

    `paths` are the XPaths of the attributes, relative to their event; without them attributes are found by name.
    `enclosing` leads to the parents of the events, or with `as_event` to the events; when empty, the root element is
    the event. `lenient` reads a missing attribute as null.
    """

    paths: tuple[str, ...] = ()
    enclosing: str = ""
    as_event: bool = False
    namespaces: tuple[tuple[str, str], ...] = ()
    lenient: bool = False

    def reader(self, schema: StreamSchema, timestamp: str | None) -> XmlEvents | XPathEvents:
        """Return a reader of the events of `schema`.

        Raises:
            InputError: `timestamp` cannot be used as the time of events.
        """
        return XPathEvents(self, schema, timestamp) if self.paths else XmlEvents(self, schema, timestamp)


def xml_format(given: Mapping[str, str], schema: StreamSchema, where: str) -> XmlFormat:
    """Return the format with the options of a mapper.

    Raises:
        ConfigError: an option cannot be used.
    """
    written, others = split_paths(given)
    options = read_options(XmlSourceOptions, others, where)
    lenient = options.fail_on_missing_attribute == "false"
    if not written:
        if options.enclosing_element:
            raise ConfigError(f"{where}: enclosing.element: needs @attributes(…) with an XPath for each attribute")
        return XmlFormat(lenient=lenient)
    namespaces = _namespaces(options.namespaces, where)
    paths = by_attribute(written, [name for name, _ in schema.attributes], where)
    if options.enclosing_element:
        _check_path("enclosing.element", options.enclosing_element, namespaces, where)
    for name, path in paths.items():
        _check_path(name, path, namespaces, where)
    as_event = options.enclosing_element_as_event == "true"
    return XmlFormat(tuple(paths.values()), options.enclosing_element, as_event, tuple(namespaces.items()), lenient)


def _namespaces(text: str, where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in filter(str.strip, text.split(",")):
        prefix, separator, uri = one.partition("=")
        if not separator or not prefix.strip() or not uri.strip():
            raise ConfigError(f"{where}: namespaces: must be prefix=uri,prefix=uri, not {text!r}")
        found[prefix.strip()] = uri.strip()
    return found


def _check_path(what: str, path: str, namespaces: dict[str, str], where: str) -> None:
    refuse_transport(what, path, where)
    try:
        _compiled(path, namespaces)(etree.Element("event"))
    except (etree.XPathError, ValueError) as error:  # also raised for unknown prefixes and functions
        raise ConfigError(f"{where}: {what}: {path!r} is not XPath: {error}") from error


def _compiled(path: str, namespaces: dict[str, str]) -> etree.XPath:
    return etree.XPath(path.strip(), namespaces=namespaces or None, regexp=False)


class XmlEvents:
    """Reads the `<event>` children of `<events>`.

    Attributes are found by name; other elements are ignored.
    """

    def __init__(self, form: XmlFormat, schema: StreamSchema, timestamp: str | None) -> None:
        self._values = _XmlValues(schema, form.lenient, timestamp)
        self._names = [name for name, _ in schema.attributes]

    def read(self, body: bytes, now_ms: int) -> pa.RecordBatch:
        """Return the events of `body`.

        Raises EventsRejectedError.
        """
        root = parsed(body)
        if _local_name(root) != "events":
            problem = f"must be <events> with an <event> for each event, not <{_local_name(root)}>"
            raise EventsRejectedError("bad-events", f"the root element {problem}", [InvalidEvent(0, "", problem)])
        others = [(index, _local_name(event)) for index, event in enumerate(root) if _local_name(event) != "event"]
        misfits = [InvalidEvent(index, "", f"must be <event>, not <{name}>") for index, name in others[:MOST_DETAILS]]
        return self._values.batch(map(self._found, root), len(root), now_ms, misfits)

    def _found(self, event: etree._Element) -> list[Any]:
        by_name = {_local_name(child): child for child in event}
        return [by_name.get(name) for name in self._names]


class XPathEvents:
    """Read events and their attributes at XPaths."""

    def __init__(self, form: XmlFormat, schema: StreamSchema, timestamp: str | None) -> None:
        namespaces = dict(form.namespaces)
        self._form = form
        self._values = _XmlValues(schema, form.lenient, timestamp)
        self._enclosing = _compiled(form.enclosing, namespaces) if form.enclosing else None
        self._paths = [_compiled(path, namespaces) for path in form.paths]

    def read(self, body: bytes, now_ms: int) -> pa.RecordBatch:
        """Return the events of `body`.

        Raises EventsRejectedError.
        """
        root = parsed(body)
        try:
            events = self._events(root)
            found = ([_first(path(event)) for path in self._paths] for event in events)
            return self._values.batch(found, len(events), now_ms)
        except etree.XPathError as error:
            raise EventsRejectedError("bad-events", f"the paths of @attributes cannot be evaluated: {error}") from error

    def _events(self, root: etree._Element) -> list[etree._Element]:
        if self._enclosing is None:
            return [root]
        found: Any = self._enclosing(root)
        elements = [one for one in found if isinstance(one, etree._Element)] if isinstance(found, list) else []
        if not elements:
            problem = f"has nothing at {self._form.enclosing}"
            raise EventsRejectedError("bad-events", f"the body {problem}", [InvalidEvent(0, "", problem)])
        return elements if self._form.as_event else [child for element in elements for child in element]


class _XmlValues:
    """Converts values of XML elements and attributes to record batches."""

    def __init__(self, schema: StreamSchema, lenient: bool, timestamp: str | None) -> None:
        self._columns = TextColumns(schema, timestamp)
        self._stream = schema.stream
        self._attributes = schema.attributes
        self._lenient = lenient

    def batch(
        self, events: Iterable[list[Any]], count: int, now_ms: int, others: Sequence[InvalidEvent] = ()
    ) -> pa.RecordBatch:
        """Build a batch of `count` events, each a list of an element, a text or None per attribute.

        `others` are nodes that are not events.

        Raises:
            EventsRejectedError: an event does not fit.
        """
        misfits = list(others)
        told = {misfit.index for misfit in others}
        columns: list[list[str | None]] = [[] for _ in self._attributes]
        for index, event in enumerate(events):
            for (name, kind), node, column in zip(self._attributes, event, columns, strict=True):
                text, problem = self._text_of(kind, node)
                column.append(text)
                if problem and index not in told:
                    misfits.append(InvalidEvent(index, name, problem))
            if len(misfits) >= MOST_DETAILS:  # more details do not help users
                raise events_rejected(self._stream, sorted(misfits, key=attrgetter("index")), count)
        return self._columns.batch([pa.array(column, pa.string()) for column in columns], now_ms, misfits)

    def _text_of(self, kind: str, node: Any) -> tuple[str | None, str]:
        """Return the text of a node, and what is wrong with it (empty: nothing)."""
        if node is None:
            return None, "" if self._lenient else f"is missing ({kind})"
        if not isinstance(node, etree._Element):
            text = str(node)
        elif node.get(NIL) in ("true", "1"):
            return None, ""
        elif not len(node):
            text = node.text or ""
        elif kind == "string":
            text = etree.tostring(node, encoding="unicode", with_tail=False)
        else:
            return None, f"must be {kind}, not an element with child elements"
        if kind != "string" and not text.strip():
            return None, "" if self._lenient else f"is empty ({kind})"
        return text, ""


def parsed(body: bytes) -> etree._Element:
    """Return the outermost element of a body.

    Raises EventsRejectedError if it is not XML or has a document type.
    """
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError as error:
        raise EventsRejectedError("broken-xml", f"the body is not XML: {error.msg}") from error
    if root.getroottree().docinfo.internalDTD is not None:
        raise EventsRejectedError("broken-xml", "the body has a document type; remove the DOCTYPE")
    return root


def _local_name(element: etree._Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _first(found: Any) -> Any:
    """Return the first node of an XPath's result, as Siddhi does, or None; numbers and bools become text."""
    if isinstance(found, list):
        return found[0] if found else None
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, float):
        return str(int(found)) if found.is_integer() else str(found)
    return found
