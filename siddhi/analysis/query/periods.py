"""`within … per …`: the period and bucket size in which an aggregation is read."""

from __future__ import annotations

from dataclasses import dataclass

from siddhi.analysis.context import Context
from siddhi.analysis.definition.durations import duration_hint, duration_named
from siddhi.analysis.expression.scope import Scope
from siddhi.analysis.model import ConstantValue, TypedExpression
from siddhi.language import ast
from siddhi.language.ast import AttributeType

_BOUND_TYPES = frozenset({AttributeType.STRING, AttributeType.LONG})


@dataclass(frozen=True, slots=True)
class Period:
    """The typed bounds, one pattern or two times, and the typed duration."""

    within: tuple[TypedExpression, ...] = ()
    per: TypedExpression | None = None


def analyse_period(
    context: Context, reader: ast.JoinInput | ast.OnDemandQuery, scope: Scope, aggregation: str | None
) -> Period:
    """Return the period of a join or an on-demand query for `aggregation` (None: it reads none).

    Report clauses that are missing, superfluous or wrong.
    """
    expressions = context.expressions(scope)
    within = tuple(bound for bound in map(expressions.analyse, reader.within) if bound is not None)
    per = expressions.analyse(reader.per) if reader.per is not None else None
    problems = context.problems
    if aggregation is not None:
        _check_types(context, reader, within, per)
        if reader.per is not None and isinstance(per, ConstantValue) and isinstance(per.value, str):
            _check_duration(context, aggregation, per.value, reader.per.span)
        if not reader.within or reader.per is None:
            hint = "add `within <from>, <to> per '<duration>'`"
            problems.add("aggregation-without-period", "an aggregation is read with within and per", reader.span, hint)
    elif reader.per is not None:
        problems.add("period-without-aggregation", "per is for aggregations only", reader.per.span)
    elif reader.within and not (context.dialect_3x and isinstance(reader, ast.JoinInput)):
        hint = "bound the sides of a join with windows"
        problems.add("within-without-aggregation", "within is for aggregations only", reader.span, hint)
    return Period(within, per)


def _check_types(
    context: Context,
    reader: ast.JoinInput | ast.OnDemandQuery,
    within: tuple[TypedExpression, ...],
    per: TypedExpression | None,
) -> None:
    if reader.per is not None and per is not None and per.type is not AttributeType.STRING:
        message = f"per must be a string, not {per.type.value}"
        context.problems.add("wrong-period", message, reader.per.span, "write a duration such as 'hours'")
    allowed = _BOUND_TYPES if len(reader.within) == 2 else {AttributeType.STRING}
    if len(within) < len(reader.within):
        return
    for bound, syntax in zip(within, reader.within, strict=True):
        if bound.type not in allowed:
            message = f"a bound of within cannot be {bound.type.value}"
            hint = "write one text such as '2024-01-** **:**:**', or two times, as texts or longs in milliseconds"
            context.problems.add("wrong-period", message, syntax.span, hint)


def _check_duration(context: Context, aggregation: str, text: str, span: ast.Span) -> None:
    """Report a duration that is invalid, or for which the aggregation has no buckets."""
    duration, known = duration_named(text), context.symbols.aggregations.get(aggregation)
    if duration is None:
        message = f"'{text}' is not a duration of an aggregation"
        context.problems.add("unknown-duration", message, span, duration_hint(text))
    elif known is not None and duration not in known.durations:
        message = f"the aggregation '{aggregation}' has no buckets of size '{duration}'"
        context.problems.add("duration-not-kept", message, span, f"it has {', '.join(known.durations)}")
