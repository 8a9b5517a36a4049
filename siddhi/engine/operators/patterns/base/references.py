"""The slot references in expressions of a state query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from siddhi.analysis import model
from siddhi.analysis.expression.walk import walk
from siddhi.engine.operators.base.scope import column_of
from siddhi.engine.operators.patterns.base.partial import PatternEvent
from siddhi.language import ast
from siddhi.language.ast import AttributeType

Reference: TypeAlias = model.AttributeValue | model.EventReference | model.IsEmptySlot


def references(expressions: Iterable[model.TypedExpression]) -> dict[str, Reference]:
    """Return the slot references in `expressions` by their columns."""
    found: dict[str, Reference] = {}
    for expression in expressions:
        for part in walk(expression):
            if isinstance(part, model.AttributeValue | model.EventReference | model.IsEmptySlot):
                found[column_of(part, several=True)] = part
    return found


def selection_references(query: model.AnalysedQuery) -> dict[str, Reference]:
    """Return the slot references of a state query's selection, by column."""
    selection = query.selection
    expressions: list[model.TypedExpression] = [output.expression for output in selection.attributes]
    expressions.extend(selection.group_by)
    expressions.extend(key.value for key in selection.order_by if key.value is not None)
    if selection.having is not None:
        expressions.append(selection.having)
    return references(expressions)


def column_type(reference: Reference) -> AttributeType:
    """Return the type of the column that answers `reference`."""
    if isinstance(reference, model.IsEmptySlot):
        return AttributeType.BOOL
    return AttributeType.LONG if isinstance(reference, model.EventReference) else reference.type


def pick(
    chain: Sequence[PatternEvent] | None, index: ast.EventIndex | None, *, under_test: bool = False
) -> PatternEvent | None:
    """Return the event of `chain` at `index`, the last one without an index; None if there is none.

    With `under_test` the last event is only a candidate, and `[last]` is the one before it.
    """
    if not chain:
        return None
    if index is None:
        return chain[-1]
    position = len(chain) - 1 - index.offset - int(under_test) if index.from_last else index.offset
    return chain[position] if 0 <= position < len(chain) else None
