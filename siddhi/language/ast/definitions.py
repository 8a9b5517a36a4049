"""Annotations, and the definitions of streams, tables, windows, triggers and functions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from siddhi.language.ast.expressions import AttributeType, FunctionCall, TimeConstant
from siddhi.spans import Span, span_field


@dataclass(frozen=True, slots=True)
class AnnotationElement:
    """`key='value'`, or `'value'` with `key` None."""

    key: str | None
    value: str
    span: Span = span_field()


CONNECTOR_ANNOTATIONS = frozenset({"source", "sink", "map", "attributes", "payload", "store", "cache"})
"""Annotations in which a key may occur twice, as in Siddhi: the last one counts."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotation `@name(...)`, or `@namespace:name(...)` in front of an app (`@app:playback`, `@Plan:name`).

    Names keep their case; compare them with `casefold`.
    """

    name: str
    elements: tuple[AnnotationElement, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    namespace: str | None = None
    span: Span = span_field()

    def value(self, key: str | None = None, default: str | None = None) -> str | None:
        """Return the value of the last element `key` (any case), or of the first unnamed element when `key` is None."""
        for element in self.elements if key is None else reversed(self.elements):
            if (element.key or "").casefold() == (key or "").casefold():
                return element.value
        return default


@dataclass(frozen=True, slots=True)
class AttributeDefinition:
    """An attribute with its type."""

    name: str
    type: AttributeType
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class StreamDefinition:
    """`define stream`."""

    id: str
    attributes: tuple[AttributeDefinition, ...]
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """`define table`."""

    id: str
    attributes: tuple[AttributeDefinition, ...]
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()


class EventType(str, Enum):
    """The kinds of events that a query or a named window emits."""

    CURRENT = "current"
    EXPIRED = "expired"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class WindowDefinition:
    """A named window; `output` None means that nothing was written (all events)."""

    id: str
    attributes: tuple[AttributeDefinition, ...]
    window: FunctionCall
    output: EventType | None = None
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class TriggerDefinition:
    """Exactly one of `every`, `cron` is set, or neither for `at 'start'`."""

    id: str
    every: TimeConstant | None = None
    cron: str | None = None
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """`define function`, with the text of the function in its language."""

    id: str
    language: str
    return_type: AttributeType
    body: str
    annotations: tuple[Annotation, ...] = ()
    span: Span = span_field()
