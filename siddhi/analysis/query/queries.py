"""Analyse a query: input, selection and output."""

from __future__ import annotations

from dataclasses import replace

from siddhi.analysis.context import Context
from siddhi.analysis.expression.scope import Slot
from siddhi.analysis.model import (
    AnalysedQuery,
    AnalysedSelection,
    AttributeValue,
    EventReference,
    Join,
    QueryInput,
    SourceInput,
)
from siddhi.analysis.parts import parts_of
from siddhi.analysis.query.inputs import analyse_join, analyse_single, join_slots
from siddhi.analysis.query.outputs import analyse_output, mark_broken, target_name
from siddhi.analysis.query.patterns import analyse_state, state_slots
from siddhi.analysis.query.selections import SelectionInput, analyse_selection
from siddhi.language import ast


def analyse_query(context: Context, query: ast.Query, name: str, position: int) -> AnalysedQuery | None:
    """Return the analysed query; None if its problems leave the output unknown."""
    source = _analyse_input(context, query.input)
    if source is None:
        mark_broken(context, query.output)
        return None
    slots = _slots(context, source)
    selected = analyse_selection(context, query.selection, slots, target_name(query.output), query.span)
    if selected is None:
        mark_broken(context, query.output)
        return None
    selection, schema = selected
    if any(isinstance(key, EventReference) for key in selection.group_by):
        selection = _grouped_by_events(selection, source, slots)
    output = analyse_output(context, query.output, query.rate, schema)
    if output is None:
        return None
    return AnalysedQuery(name, position, source, selection, output, query.rate, syntax=query)


def _grouped_by_events(selection: AnalysedSelection, source: QueryInput, slots: SelectionInput) -> AnalysedSelection:
    """Return `selection` in which `group by` lists, for each whole event, the values that identify it.

    As in Siddhi, these are the event's timestamp and all of its attributes that the query reads.
    """
    schemas = {slot.number: slot.schema for slot in slots.slots}
    parts = (part for part in parts_of((source, selection)) if isinstance(part, AttributeValue))
    read = dict.fromkeys((part.slot, part.name) for part in parts)
    keys: list[AttributeValue | EventReference] = []
    for key in selection.group_by:
        keys.append(key)
        if isinstance(key, EventReference):
            names = (name for slot, name in read if slot == key.slot)
            schema = schemas[key.slot]
            keys.extend(AttributeValue(key.slot, name, schema.type_of(name), key.index) for name in names)
    return replace(selection, group_by=tuple(keys))


def _analyse_input(context: Context, source: ast.Input) -> QueryInput | None:
    match source:
        case ast.SingleInput():
            return analyse_single(context, source)
        case ast.JoinInput():
            return analyse_join(context, source)
        case ast.StateInput():
            return analyse_state(context, source)
        case ast.AnonymousInput():
            hint = "let the inner query insert into a stream, and read that stream"
            context.problems.add("anonymous-stream", "a query is not allowed in place of a stream", source.span, hint)
            return None


def _slots(context: Context, source: QueryInput) -> SelectionInput:
    if isinstance(source, SourceInput):
        slot = Slot(0, source.reference, source.output)
        return SelectionInput((slot,), several=False, loose=context.dialect_3x)
    if isinstance(source, Join):
        return SelectionInput(join_slots(source.left, source.right), several=True)
    return SelectionInput(state_slots(source), several=True)
