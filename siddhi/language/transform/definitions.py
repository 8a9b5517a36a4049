"""Apps, annotations and definitions."""

from __future__ import annotations

from lark import Token
from lark.tree import Meta

from siddhi.errors import Problem
from siddhi.language import ast
from siddhi.language.ast import AttributeType
from siddhi.language.literals import string_value
from siddhi.language.transform.base import TransformerBase, span_of
from siddhi.language.transform.expressions import unit_name
from siddhi.language.transform.outputs import EventTypeText

_Annotations = tuple[ast.Annotation, ...]
_Attributes = tuple[ast.AttributeDefinition, ...]
_NAMESPACES = frozenset({"app", "plan"})


class DefinitionTransformer(TransformerBase):
    """Transforms annotations and definitions."""

    # ---- annotations ------------------------------------------------------------------------------------------------

    def annotations(self, _meta: Meta, *annotations: ast.Annotation) -> _Annotations:
        return annotations

    def annotation(
        self, meta: Meta, name: str, *parts: _Namespace | ast.AnnotationElement | ast.Annotation
    ) -> ast.Annotation:
        namespace = next((part for part in parts if isinstance(part, _Namespace)), None)
        elements = tuple(part for part in parts if isinstance(part, ast.AnnotationElement))
        nested = tuple(part for part in parts if isinstance(part, ast.Annotation))
        seen: set[str] = set()
        for element in elements:
            key = (element.key or "").casefold()
            if key and key in seen and name.casefold() not in ast.CONNECTOR_ANNOTATIONS:
                self.problems.append(
                    Problem("duplicate-annotation-key", f"'{element.key}' is given twice", None, element.span)
                )
            seen.add(key)
        if namespace is None:
            return ast.Annotation(name, elements, nested, span=span_of(meta))
        if name.casefold() not in _NAMESPACES:
            self._problem("unknown-annotation", f"'@{name}:' is not an annotation", meta, "write @app:… or @Plan:…")
        self.problems += [
            Problem("nested-annotation", f"no annotation is allowed in '@{name}:{namespace.name}'", None, part.span)
            for part in nested
        ]
        return ast.Annotation(namespace.name, elements, nested, namespace=name, span=span_of(meta))

    def annotation_namespace(self, _meta: Meta, name: str) -> _Namespace:
        return _Namespace(name)

    def unnamed_element(self, meta: Meta, value: Token) -> ast.AnnotationElement:
        return ast.AnnotationElement(None, string_value(value), span=span_of(meta))

    def named_element(self, meta: Meta, key: str, value: Token) -> ast.AnnotationElement:
        return ast.AnnotationElement(key, string_value(value), span=span_of(meta))

    def annotation_key(self, _meta: Meta, *parts: str) -> str:
        if isinstance(parts[0], Token):
            return string_value(parts[0])
        return "".join(parts)

    # ---- definitions ------------------------------------------------------------------------------------------------

    def single_definition(self, _meta: Meta, definition: ast.Definition) -> ast.Definition:
        return definition

    def single_stream_definition(self, _meta: Meta, definition: ast.StreamDefinition) -> ast.StreamDefinition:
        return definition

    def stream_definition(
        self, meta: Meta, annotations: _Annotations, name: str, attributes: _Attributes
    ) -> ast.StreamDefinition:
        return ast.StreamDefinition(name, attributes, annotations, span=span_of(meta))

    def table_definition(
        self, meta: Meta, annotations: _Annotations, name: str, attributes: _Attributes
    ) -> ast.TableDefinition:
        return ast.TableDefinition(name, attributes, annotations, span=span_of(meta))

    def window_definition(
        self,
        meta: Meta,
        annotations: _Annotations,
        name: str,
        attributes: _Attributes,
        window: ast.FunctionCall,
        output: EventTypeText | None,
    ) -> ast.WindowDefinition:
        events = output.type if output is not None else None
        return ast.WindowDefinition(name, attributes, window, events, annotations, span=span_of(meta))

    def trigger_definition(
        self, meta: Meta, annotations: _Annotations, name: str, *at: Token | ast.TimeConstant
    ) -> ast.TriggerDefinition:
        when = at[-1]
        if isinstance(when, ast.TimeConstant):
            return ast.TriggerDefinition(name, every=when, annotations=annotations, span=span_of(meta))
        text = string_value(when)
        cron = None if text.strip().casefold() == "start" else text
        return ast.TriggerDefinition(name, cron=cron, annotations=annotations, span=span_of(meta))

    def function_definition(
        self, meta: Meta, annotations: _Annotations, name: str, language: str, return_type: Token, body: _ScriptBody
    ) -> ast.FunctionDefinition:
        result = AttributeType(return_type.casefold())
        return ast.FunctionDefinition(
            name, language, result, self._text[body.start + 1 : body.end - 1], annotations, span=span_of(meta)
        )

    def script_body(self, meta: Meta) -> _ScriptBody:
        return _ScriptBody(meta.start_pos, meta.end_pos)

    def aggregation_definition(
        self,
        meta: Meta,
        annotations: _Annotations,
        name: str,
        source: ast.SingleInput,
        selection: ast.Selection,
        by: ast.Attribute | None,
        _every: Token,
        durations: tuple[str, ...],
    ) -> ast.AggregationDefinition:
        is_range = isinstance(durations, _Range)
        return ast.AggregationDefinition(
            name, source, selection, by, tuple(durations), is_range, annotations, span=span_of(meta)
        )

    def duration_range(self, meta: Meta, first: Token, last: Token) -> _Range:
        return _Range(self._checked_durations(meta, first, last))

    def duration_list(self, meta: Meta, *units: Token) -> tuple[str, ...]:
        return self._checked_durations(meta, *units)

    def attribute_list(self, _meta: Meta, *attributes: ast.AttributeDefinition) -> _Attributes:
        return attributes

    def attribute_definition(self, meta: Meta, name: str, attribute_type: Token) -> ast.AttributeDefinition:
        return ast.AttributeDefinition(name, AttributeType(attribute_type.casefold()), span=span_of(meta))

    def _checked_durations(self, meta: Meta, *units: Token) -> tuple[str, ...]:
        names = tuple(unit_name(unit) for unit in units)
        for name in names:
            if name in {"week", "millisec"}:
                self._problem(
                    "unknown-duration",
                    f"an aggregation has no duration {name}",
                    meta,
                    "use sec, min, hour, day, month or year",
                )
        return names


class _Namespace:
    def __init__(self, name: str) -> None:
        self.name = name


class _ScriptBody:
    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end


class _Range(tuple[str, ...]):
    """The first and last of a range of durations."""
