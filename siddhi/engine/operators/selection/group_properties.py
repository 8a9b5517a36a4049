"""Properties of expressions and groups that follow from a query's text.

They determine which expressions depend on their row alone, and which groups are empty after their rows have left.
"""

from __future__ import annotations

from siddhi.analysis import model
from siddhi.analysis.expression.walk import has_aggregate
from siddhi.engine.operators.base.operator import RemovalOrder
from siddhi.language.ast import EventType

_PAIRING = frozenset(
    {
        "length",
        "lengthBatch",
        "time",
        "timeBatch",
        "externalTime",
        "externalTimeBatch",
        "timeLength",
        "sort",
        "batch",
        "session",
    }
)
"""Windows that emit each current event again as expired, or emit a reset instead."""
_SILENT = frozenset({"lengthBatch", "timeBatch", "externalTimeBatch", "batch", "delay"})
"""Windows that emit expired events only if they are read."""
_LASTING = ("minForever", "maxForever")


def empties_groups(query: model.AnalysedQuery) -> bool:
    """Return whether a group of `query` is like new after all its rows have left, and processes each departure."""
    source, selection = query.input, query.selection
    if not isinstance(source, model.SourceInput) or source.window is None:
        return False
    if source.window.namespace or source.window.name not in _PAIRING:
        return False
    if source.window.name == "batch" and source.after:
        return False  # rows before a reset expire later, and a filter may drop the reset
    if not all(isinstance(step, model.FilterStep) and is_plain(step.condition) for step in source.after):
        return False
    expressions = [output.expression for output in selection.attributes]
    if selection.having is not None:
        if has_aggregate(selection.having):
            return False  # no reset reaches it
        expressions.append(selection.having)
    return all(is_settled(expression) and not _lasts(expression) for expression in expressions)


def removal_order(query: model.AnalysedQuery) -> RemovalOrder:
    """Return the order in which the rows that the aggregates of `query` have added leave again."""
    source = query.input
    if isinstance(source, model.StateMachine):
        return RemovalOrder.NEVER
    if not isinstance(source, model.SourceInput) or source.kind is model.SourceKind.WINDOW:
        return RemovalOrder.IN_ANY_ORDER
    window = source.window
    if window is None:
        return RemovalOrder.NEVER
    if window.namespace:
        return RemovalOrder.IN_ANY_ORDER
    if window.name in _SILENT and query.output.events is EventType.CURRENT:
        return RemovalOrder.NEVER
    if window.name == "length" and empties_groups(query):
        return RemovalOrder.IN_ORDER
    return RemovalOrder.IN_ANY_ORDER


def _lasts(expression: model.TypedExpression) -> bool:
    """Return whether a resolved expression has an aggregate that outlives its rows, or may do so."""
    match expression:
        case model.Aggregate(namespace=namespace, name=name):
            return bool(namespace) or name in _LASTING
        case model.Arithmetic(left=left, right=right) | model.Comparison(left=left, right=right):
            return _lasts(left) or _lasts(right)
        case model.Logical(left=left, right=right):
            return _lasts(left) or _lasts(right)
        case model.Negation(operand=operand) | model.IsNullValue(operand=operand):
            return _lasts(operand)
    return False


def is_settled(expression: model.TypedExpression) -> bool:
    """Return whether an expression's aggregates process every row, and its value depends only on the row and them."""
    match expression:
        case model.ConstantValue() | model.AttributeValue() | model.OutputValue():
            return True
        case model.Aggregate(arguments=arguments):
            return all(map(is_plain, arguments))
        case model.Arithmetic(left=left, right=right) | model.Comparison(left=left, right=right):
            return is_settled(left) and is_settled(right)
        case model.Logical(left=left, right=right):
            return is_settled(left) and is_settled(right) and not has_aggregate(right)
        case model.Negation(operand=operand) | model.IsNullValue(operand=operand):
            return is_settled(operand)
    return False


def is_plain(expression: model.TypedExpression) -> bool:
    """Return whether an expression reads only the row and gives the same value at any time."""
    match expression:
        case model.ConstantValue() | model.AttributeValue():
            return True
        case model.Arithmetic(left=left, right=right) | model.Comparison(left=left, right=right):
            return is_plain(left) and is_plain(right)
        case model.Logical(left=left, right=right):
            return is_plain(left) and is_plain(right)
        case model.Negation(operand=operand) | model.IsNullValue(operand=operand):
            return is_plain(operand)
    return False
