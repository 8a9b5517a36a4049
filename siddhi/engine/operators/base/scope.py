"""The column names of a query's input batch."""

from __future__ import annotations

from siddhi.analysis import model
from siddhi.column_names import internal_name
from siddhi.language import ast

EVENT_TIMESTAMP = internal_name("timestamp")
"""`slot_column` with these names gives an event's timestamp, and whether a slot is filled."""
EVENT_PRESENT = internal_name("present")


def slot_column(slot: int, name: str, index: ast.EventIndex | None = None, *, all_events: bool = False) -> str:
    """Return the column of attribute `name` of slot `slot` in the output of a join or a state machine.

    `0.price`, `2[1].price` (the second event of a counted slot), `2[last-1].price`, `2[*].price` (all its events, a
    list).
    """
    if all_events:
        return f"{slot}[*].{name}"
    if index is None:
        return f"{slot}.{name}"
    if not index.from_last:
        return f"{slot}[{index.offset}].{name}"
    return f"{slot}[last-{index.offset}].{name}" if index.offset else f"{slot}[last].{name}"


def has_index(column: str) -> bool:
    """Return whether `column` is a `slot_column` of an event with an index."""
    return column.partition(".")[0].endswith("]")


def source_key(source: model.SourceInput) -> str:
    """Return the stream that `source` reads: its id, `#id` for an inner stream, `!id` for a fault stream."""
    marks = {model.SourceKind.INNER_STREAM: "#", model.SourceKind.FAULT_STREAM: "!"}
    return marks.get(source.kind, "") + source.source


def column_of(expression: model.AttributeValue | model.EventReference | model.IsEmptySlot, *, several: bool) -> str:
    """Return the column with the value of `expression`.

    A query with one input (`several` False) reads the stream's own columns by name. With several inputs an attribute is
    a `slot_column`, an event reference its `EVENT_TIMESTAMP` (a long, null when the slot is empty) and a test for an
    empty slot its `EVENT_PRESENT` (a bool).
    """
    if isinstance(expression, model.AttributeValue):
        if not several:
            return expression.name
        return slot_column(expression.slot, expression.name, expression.index, all_events=expression.all_events)
    name = EVENT_TIMESTAMP if isinstance(expression, model.EventReference) else EVENT_PRESENT
    return slot_column(expression.slot, name, expression.index)
