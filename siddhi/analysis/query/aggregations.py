"""Incremental aggregations: `define aggregation`."""

from __future__ import annotations

from siddhi.analysis.context import Context
from siddhi.analysis.definition.annotations import find_only
from siddhi.analysis.definition.durations import DURATIONS
from siddhi.analysis.definition.retention import analyse_retention
from siddhi.analysis.expression.scope import Scope, Slot
from siddhi.analysis.expression.walk import walk
from siddhi.analysis.model import Aggregate, AnalysedAggregation, AttributeValue, Schema, SourceKind
from siddhi.analysis.query.inputs import analyse_chain
from siddhi.analysis.query.selections import SelectionInput, analyse_selection
from siddhi.language import ast
from siddhi.language.ast import AttributeType

TIMESTAMP = "AGG_TIMESTAMP"
"""The attribute that holds the start of a row's bucket in milliseconds."""

INCREMENTAL = frozenset({"sum", "count", "avg", "min", "max", "distinctCount"})
"""The aggregators that incremental aggregations support."""

_SOURCES = frozenset({SourceKind.STREAM, SourceKind.TRIGGER, SourceKind.FAULT_STREAM})
_BY_TYPES = frozenset({AttributeType.LONG, AttributeType.STRING})


def analyse_aggregation(context: Context, definition: ast.AggregationDefinition) -> AnalysedAggregation | None:
    """Return the aggregation; None if its schema is unknown."""
    source = analyse_chain(context, definition.source, 0)
    if source is None:
        return None
    if source.kind not in _SOURCES:
        message = f"an aggregation reads a stream, not {source.kind.value} '{source.source}'"
        context.problems.add("not-a-stream", message, definition.source.span)
    if source.window is not None:
        message = "an aggregation cannot have a window"
        context.problems.add("window-in-aggregation", message, definition.source.span)
    slot = Slot(0, source.reference, source.output)
    selected = analyse_selection(
        context, definition.selection, SelectionInput((slot,), several=False), definition.id, definition.span
    )
    _check_durations(context, definition)
    _check_key(context, definition)
    by = _event_time(context, definition, slot)
    durations = _all_durations(definition)
    retention = analyse_retention(definition.annotations, durations, context.problems, playback=context.playback)
    if selected is None:
        return None
    selection, schema = selected
    for attribute in selection.attributes:
        for part in walk(attribute.expression):
            if isinstance(part, Aggregate):
                _check_aggregate(context, definition, part)
    # `select *` stores only the buckets themselves
    attributes = () if selection.star else schema.attributes
    full = Schema(definition.id, ((TIMESTAMP, AttributeType.LONG), *attributes))
    return AnalysedAggregation(full, source, selection, by, durations, retention, syntax=definition)


def _event_time(context: Context, definition: ast.AggregationDefinition, slot: Slot) -> AttributeValue | None:
    if definition.by is None:
        return None
    typed = context.expressions(Scope((slot,), place="aggregate by")).analyse(definition.by)
    if typed is not None and typed.type not in _BY_TYPES:
        message = f"aggregate by needs a long or a string, not {typed.type.value}"
        context.problems.add("wrong-time", message, definition.by.span)
    return typed if isinstance(typed, AttributeValue) else None


def _check_aggregate(context: Context, definition: ast.AggregationDefinition, aggregate: Aggregate) -> None:
    span = aggregate.syntax.span if aggregate.syntax is not None else definition.span
    if aggregate.namespace or aggregate.name not in INCREMENTAL:
        hint = f"use {', '.join(sorted(INCREMENTAL))}"
        context.problems.add("not-incremental", f"'{aggregate.name}' is not supported in an aggregation", span, hint)
    elif not all(isinstance(argument, AttributeValue) for argument in aggregate.arguments):
        hint = "compute it in a preceding query, and aggregate that query's stream"
        message = f"'{aggregate.name}' in an aggregation takes a plain attribute"
        context.problems.add("not-incremental", message, span, hint)


def _check_durations(context: Context, definition: ast.AggregationDefinition) -> None:
    if definition.range:
        first, last = (DURATIONS.index(duration) for duration in definition.durations)
        if first > last:
            hint = f"write {definition.durations[1]}...{definition.durations[0]}"
            message = "a range of durations goes from the finest to the coarsest"
            context.problems.add("wrong-durations", message, definition.span, hint)


def _check_key(context: Context, definition: ast.AggregationDefinition) -> None:
    """Check `@PrimaryKey`: an aggregation may not declare one, as start and groups identify a bucket."""
    key = find_only(definition.annotations, "PrimaryKey", context.problems)
    if key is not None and any(element.key is None for element in key.elements):
        hint = "leave it out: the start of a bucket and its groups are the key"
        context.problems.add("key-not-here", "an aggregation has a key of its own", key.span, hint)


def _all_durations(definition: ast.AggregationDefinition) -> tuple[str, ...]:
    known = [DURATIONS.index(duration) for duration in definition.durations if duration in DURATIONS]
    if definition.range:
        return DURATIONS[min(known) : max(known) + 1]
    return tuple(DURATIONS[index] for index in sorted(set(known)))
