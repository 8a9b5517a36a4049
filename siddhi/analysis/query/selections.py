"""The selection of a query: output attributes, grouping, having, ordering and limits."""

from __future__ import annotations

from dataclasses import dataclass

from siddhi.analysis.context import Context
from siddhi.analysis.expression.scope import Scope, Slot
from siddhi.analysis.expression.walk import has_aggregate
from siddhi.analysis.model import (
    AnalysedSelection,
    AttributeValue,
    EventReference,
    OutputExpression,
    OutputValue,
    Schema,
    SortKey,
    TypedExpression,
)
from siddhi.language import ast
from siddhi.language.ast import AttributeType

_COUNTING = frozenset({AttributeType.INT, AttributeType.LONG})


@dataclass(frozen=True)
class SelectionInput:
    """The input of a selection: the slots, and whether there may be several (joins, patterns).

    With `unselected`, having and order by may also read the slots; with several slots they always may. `loose` is
    passed on to scopes.
    """

    slots: tuple[Slot, ...]
    several: bool
    loose: bool = False
    unselected: bool = False

    @property
    def events(self) -> bool:
        """Whether calls may take the whole event of a slot."""
        return self.several or self.unselected

    def behind_select(self) -> tuple[Slot, ...]:
        """Return the slots that having and order by may read."""
        return self.slots if self.several or self.unselected else ()


def analyse_selection(
    context: Context, selection: ast.Selection | None, source: SelectionInput, target: str, span: ast.Span
) -> tuple[AnalysedSelection, Schema] | None:
    """Return the typed selection and the schema, called `target`, of its output.

    Return None when the schema is unknown.
    """
    clauses = selection if selection is not None else ast.Selection(span=span)
    attributes = _attributes(context, clauses, source)
    schema = Schema(target, tuple((a.name, a.type) for a in attributes)) if attributes is not None else None
    group_by = _group_by(context, clauses, source)
    having = _having(context, clauses, source, schema)
    order_by = _order_by(context, clauses, source, schema)
    limit = _count(context, clauses.limit, "limit")
    offset = _count(context, clauses.offset, "offset")
    if attributes is None or schema is None:
        return None
    typed = AnalysedSelection(
        attributes,
        group_by,
        having,
        order_by,
        limit,
        offset,
        star=clauses.attributes is None,
        aggregates=any(has_aggregate(a.expression) for a in attributes)
        or (having is not None and has_aggregate(having)),
    )
    return typed, schema


def _attributes(
    context: Context, selection: ast.Selection, source: SelectionInput
) -> tuple[OutputExpression, ...] | None:
    if selection.attributes is None:
        return _all_attributes(context, selection, source)
    lists = not context.dialect_3x
    scope = Scope(source.slots, firsts=True, lists=lists, place="select", loose=source.loose, events=source.events)
    expressions = context.expressions(scope)
    found: dict[str, OutputExpression] = {}
    complete = True
    for attribute in selection.attributes:
        typed = expressions.analyse(attribute.expression)
        if attribute.name is not None:
            name = attribute.name
        elif isinstance(attribute.expression, ast.Attribute):
            name = attribute.expression.name
        else:
            complete = False
            continue
        if name in found:
            hint = "give one of them another name with `as`"
            context.problems.add("duplicate-output", f"two outputs are named '{name}'", attribute.span, hint)
        if typed is None:
            complete = False
        else:
            found[name] = OutputExpression(name, typed, typed.type)
    return tuple(found.values()) if complete else None


def _all_attributes(
    context: Context, selection: ast.Selection, source: SelectionInput
) -> tuple[OutputExpression, ...] | None:
    found: dict[str, OutputExpression] = {}
    for slot in source.slots:
        for name, attribute_type in slot.schema.attributes:
            if name in found:
                message = f"'*' would select two outputs named '{name}'"
                context.problems.add("duplicate-output", message, selection.span, "select them by name with `as`")
                return None
            value = AttributeValue(slot.number, name, attribute_type, ast.EventIndex(0) if slot.counted else None)
            found[name] = OutputExpression(name, value, value.type)
    return tuple(found.values())


def _group_by(
    context: Context, selection: ast.Selection, source: SelectionInput
) -> tuple[AttributeValue | EventReference, ...]:
    lists = not context.dialect_3x
    scope = Scope(source.slots, firsts=True, lists=lists, place="group by", loose=source.loose)
    found: list[AttributeValue | EventReference] = []
    for attribute in selection.group_by:
        typed: TypedExpression | None = None
        if source.several and attribute.source is None and not _is_attribute(attribute.name, source.slots):
            typed = scope.event(ast.SourceReference(attribute.name, span=attribute.span), context.problems)
        if typed is None:
            typed = context.expressions(scope).analyse(attribute)
        if isinstance(typed, AttributeValue | EventReference):
            found.append(typed)
    return tuple(found)


def _is_attribute(name: str, slots: tuple[Slot, ...]) -> bool:
    return any(name in slot.schema for slot in slots)


def _having(
    context: Context, selection: ast.Selection, source: SelectionInput, schema: Schema | None
) -> TypedExpression | None:
    if selection.having is None or schema is None:
        return None
    scope = Scope(source.behind_select(), output=schema, firsts=True, loose=source.loose, place="having")
    return context.expressions(scope).analyse_test(selection.having, "having", "bare-having")


def _order_by(
    context: Context, selection: ast.Selection, source: SelectionInput, schema: Schema | None
) -> tuple[SortKey, ...]:
    if schema is None:
        return ()
    scope = Scope(source.behind_select(), output=schema, firsts=True, loose=source.loose, place="order by")
    keys: list[SortKey] = []
    for order in selection.order_by:
        typed = scope.resolve(order.attribute, context.problems)
        if isinstance(typed, OutputValue | AttributeValue):
            keys.append(SortKey(typed.name, order.descending, typed))
    return tuple(keys)


def _count(context: Context, expression: ast.Expression | None, clause: str) -> int | None:
    if expression is None:
        return None
    value: object = None
    if isinstance(expression, ast.TimeConstant):
        value = expression.milliseconds
    elif isinstance(expression, ast.Constant) and expression.type in _COUNTING:
        value = expression.value
    if not isinstance(value, int) or value < 0:
        context.problems.add("wrong-limit", f"{clause} needs a whole number, 0 or more", expression.span)
        return None
    return value
