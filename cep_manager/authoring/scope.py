"""The names that a plan's text defines, for completion: as many as can be found, even in half-written text."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator

from cep_manager.authoring.model import NameKind, ScopeName
from query_plan.examination import Examination
from siddhi.analysis.definitions import TRIGGER_ATTRIBUTES
from siddhi.analysis.model import AnalysedApp, AnalysedPartition, Schema, TargetKind
from siddhi.errors import SiddhiParseError
from siddhi.language import ast
from siddhi.language.parser import parse_definition

_TRIGGERED = tuple((name, type_.value) for name, type_ in TRIGGER_ATTRIBUTES)
_STATEMENT = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|\"\"\".*?\"\"\"|'[^'\n]*+'|"[^"\n]*+"|\{(?:[^{}]++|\{[^{}]*+\})*+\}|(?P<end>;)""",
    re.DOTALL,
)
MOST_STATEMENTS, LONGEST_STATEMENT = 500, 10_000
"""Limits for a text that cannot be parsed.

How many statements are searched for definitions, and how many characters of each.
"""
LONGEST_TEXT = 1_000_000
"""Characters of such a text that are searched."""
MOST_BEGINNINGS = 8
"""How many of the words that may begin a definition are tried in a statement."""
_DEFINE = re.compile(r"(?:@|\bdefine\b)", re.IGNORECASE)


def scope_of(text: str, examined: Examination) -> tuple[ScopeName, ...]:
    """Return the names that the plan in `text` defines.

    For valid text this includes everything that queries define; for invalid text the definitions only; for text that
    cannot be parsed the definitions that can.
    """
    if examined.compiled is not None:
        return tuple(_analysed(examined.compiled.app))
    definitions = examined.syntax.definitions if examined.syntax is not None else _definitions(text)
    return tuple(name for definition in definitions for name in _defined(definition))


def _analysed(app: AnalysedApp) -> Iterator[ScopeName]:
    fed = set(_targets(app))
    for name, stream in app.streams.items():
        kind: NameKind = "trigger" if name in app.triggers else "stream"
        yield ScopeName(kind, name, _attributes(stream.schema), name in fed)
        if stream.fault is not None:
            yield ScopeName("stream", f"!{name}", _attributes(stream.fault), fed=True)
    for name, table in app.tables.items():
        yield ScopeName("table", name, _attributes(table.schema), name in fed)
    for name, window in app.windows.items():
        yield ScopeName("window", name, _attributes(window.schema), name in fed)
    for name, aggregation in app.aggregations.items():
        yield ScopeName("aggregation", name, _attributes(aggregation.schema), fed=True)
    for element in app.elements:
        if isinstance(element, AnalysedPartition):
            for inner in element.inner_streams:
                yield ScopeName("stream", f"#{inner.id}", _attributes(inner), fed=True)
    for name, function in app.functions.items():
        yield ScopeName("function", name, (("result", function.syntax.return_type.value),))


def _targets(app: AnalysedApp) -> Iterator[str]:
    for element in app.elements:
        for query in element.queries if isinstance(element, AnalysedPartition) else (element,):
            if query.output.kind in (TargetKind.STREAM, TargetKind.TABLE, TargetKind.WINDOW):
                yield query.output.target


def _attributes(schema: Schema) -> tuple[tuple[str, str], ...]:
    return tuple((name, type_.value) for name, type_ in schema.attributes)


def _definitions(text: str) -> Iterator[ast.Definition]:
    """Yield each statement that is a complete definition and skip everything else."""
    for statement in itertools.islice(_statements(text[:LONGEST_TEXT]), MOST_STATEMENTS):
        # Annotations of the plan, or an unterminated statement, may precede the definition.
        for begin in itertools.islice(_DEFINE.finditer(statement), MOST_BEGINNINGS):
            with contextlib.suppress(SiddhiParseError):
                yield parse_definition(statement[begin.start() : begin.start() + LONGEST_STATEMENT])
                break


def _statements(text: str) -> Iterator[str]:
    begin = 0
    for match in _STATEMENT.finditer(text):
        if match.lastgroup == "end":
            yield text[begin : match.start()]
            begin = match.end()
    yield text[begin:]


def _defined(definition: ast.Definition) -> Iterator[ScopeName]:
    match definition:
        case ast.StreamDefinition():
            yield ScopeName("stream", definition.id, _written(definition.attributes))
        case ast.TableDefinition():
            yield ScopeName("table", definition.id, _written(definition.attributes))
        case ast.WindowDefinition():
            yield ScopeName("window", definition.id, _written(definition.attributes))
        case ast.TriggerDefinition():
            yield ScopeName("trigger", definition.id, _TRIGGERED)
        case ast.FunctionDefinition():
            yield ScopeName("function", definition.id, (("result", definition.return_type.value),))
        case ast.AggregationDefinition():
            yield ScopeName("aggregation", definition.id, ())


def _written(attributes: Iterable[ast.AttributeDefinition]) -> tuple[tuple[str, str], ...]:
    return tuple((attribute.name, attribute.type.value) for attribute in attributes)
