"""How queries use the values of events, according to the text of the app."""

from __future__ import annotations

from collections.abc import Iterator

from siddhi.analysis.model import (
    Aggregate,
    AnalysedAggregation,
    AnalysedApp,
    AnalysedPartition,
    AnalysedQuery,
    Arithmetic,
    AttributeValue,
    Call,
    FilterStep,
    HandlerCall,
    Join,
    PartitionKey,
    SourceInput,
    SourceKind,
    StateMachine,
)
from siddhi.analysis.parts import parts_of


def computes(query: AnalysedQuery, *, aggregates: bool) -> bool:
    """Return whether `query` computes values by arithmetic or functions.

    Aggregates count as well if the caller asks for them.
    """
    kinds = (Arithmetic, Call, Aggregate) if aggregates else (Arithmetic, Call)
    whole = (query.input, query.selection, query.output)
    return any(isinstance(part, kinds) or _asks_functions(part) for part in parts_of(whole))


def _asks_functions(part: object) -> bool:
    """Return whether a source has stream functions or a window with an expression."""
    if not isinstance(part, SourceInput):
        return False
    if part.window is not None and part.window.condition is not None:
        return True
    return any(isinstance(step, HandlerCall) for step in (*part.before, *part.after))


def attributes_always_read(app: AnalysedApp, stream: str) -> frozenset[str] | None:
    """Return the attributes of `stream` whose values are read for each event.

    These are the attributes of leading filters and of partition keys. Return None when a reader takes whole events
    and may read all their attributes.
    """
    found: set[str] = set()
    for reader in _readers(app):
        if isinstance(reader, PartitionKey):
            if reader.stream == stream:
                found |= _attributes((reader.expression, reader.ranges))
        elif reader.source == stream and reader.kind is not SourceKind.INNER_STREAM:
            first = reader.before[0] if reader.before else None
            if not isinstance(first, FilterStep):
                return None
            found |= _attributes(first.condition)
    return frozenset(found)


def _readers(app: AnalysedApp) -> Iterator[SourceInput | PartitionKey]:
    """Yield all queries, partitions and aggregations that read events."""
    for element in (*app.aggregations.values(), *app.elements):
        if isinstance(element, AnalysedPartition):
            yield from element.keys
            for query in element.queries:
                yield from _sources(query)
        else:
            yield from _sources(element)


def _sources(reader: AnalysedQuery | AnalysedAggregation) -> Iterator[SourceInput]:
    match reader.input:
        case Join(left=left, right=right):
            yield from (left, right)
        case StateMachine(slots=slots):
            yield from (element.input for element in slots)
        case SourceInput() as source:
            yield source


def _attributes(whole: object) -> set[str]:
    return {part.name for part in parts_of(whole) if isinstance(part, AttributeValue)}
