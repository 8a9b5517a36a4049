"""On-demand queries: read or change tables, windows and aggregations of a running app."""

from __future__ import annotations

from siddhi.analysis.catalogue import builtin_registry
from siddhi.analysis.context import Context
from siddhi.analysis.expression.calls import CallChecker
from siddhi.analysis.expression.scope import Scope, Slot
from siddhi.analysis.model import AnalysedApp, AnalysedOnDemandQuery, Schema, SourceKind
from siddhi.analysis.problems import Problems
from siddhi.analysis.query.outputs import analyse_output
from siddhi.analysis.query.periods import analyse_period
from siddhi.analysis.query.selections import SelectionInput, analyse_selection
from siddhi.analysis.symbols import Symbols
from siddhi.errors import Problem, SiddhiAnalysisError, did_you_mean
from siddhi.language import ast
from siddhi.language.parser import parse_on_demand_query
from siddhi.registry import Registry

_READABLE = frozenset({SourceKind.TABLE, SourceKind.WINDOW, SourceKind.AGGREGATION})


def analyse_on_demand_query(
    query: ast.OnDemandQuery, app: AnalysedApp, registry: Registry | None = None
) -> AnalysedOnDemandQuery:
    """Return the query, typed against the definitions of `app`. SiddhiAnalysisError contains all problems."""
    problems = Problems()
    symbols = Symbols(app.streams, app.tables, app.windows, app.triggers, dict(app.functions), app.aggregations)
    registry = registry if registry is not None else builtin_registry()
    calls = CallChecker(registry, symbols.functions, problems, dialect_3x=False)
    context = Context(registry, symbols, problems, calls, dialect_3x=False)
    typed = _analyse_write(context, query) if query.source is None else _analyse_read(context, query, query.source)
    if typed is None or problems:
        raise SiddhiAnalysisError(problems.all())
    return typed


def parse_question(text: str) -> ast.OnDemandQuery:
    """Return the parsed on-demand query `text`, which reads its `source` and changes nothing.

    Raise SiddhiError when it is not such a query.
    """
    query = parse_on_demand_query(text)
    if query.source is None or not isinstance(query.output, ast.Return | None):
        hint = "write from <table> select …; to change a table, send events to a stream that a query inserts into it"
        message = "the query changes a table; only queries that read are allowed"
        raise SiddhiAnalysisError(Problem("query-changes", message, hint, query.span))
    return query


def _analyse_read(context: Context, query: ast.OnDemandQuery, source: str) -> AnalysedOnDemandQuery | None:
    kind, schema = context.symbols.kind_of(source), context.symbols.schema_of(source)
    if kind not in _READABLE or schema is None:
        known = (*context.symbols.tables, *context.symbols.windows, *context.symbols.aggregations)
        message = f"'{source}' is not a table, window or aggregation"
        context.problems.add("unknown-source", message, query.span, did_you_mean(source, known))
        return None
    slot = Slot(0, source, schema)  # as in Siddhi an alias is accepted, but cannot be referred to
    scope = Scope((slot,), own=0, place="the condition of an on-demand query")
    on = context.expressions(scope).analyse_condition(query.on, "`on`") if query.on is not None else None
    period = analyse_period(context, query, scope, source if kind is SourceKind.AGGREGATION else None)
    read = SelectionInput((slot,), several=False, unselected=True)
    selected = analyse_selection(context, query.selection, read, source, query.span)
    if selected is None:
        return None
    selection, output = selected
    return AnalysedOnDemandQuery(source, kind, selection, output, on, period.within, period.per, syntax=query)


def _analyse_write(context: Context, query: ast.OnDemandQuery) -> AnalysedOnDemandQuery | None:
    output = query.output
    if output is None or isinstance(output, ast.Return):
        context.problems.add("no-output", "the query neither reads nor changes anything", query.span)
        return None
    table = context.symbols.tables.get(output.target)
    if table is None:
        hint = did_you_mean(output.target, context.symbols.tables)
        context.problems.add("unknown-table", f"there is no table '{output.target}'", output.span, hint)
        return None
    selection, schema = None, table.schema
    if query.selection is not None:
        selected = analyse_selection(context, query.selection, SelectionInput((), several=False), "", query.span)
        if selected is None:
            return None
        selection, schema = selected
    elif isinstance(output, ast.InsertInto) or (isinstance(output, ast.Update) and output.insert):
        context.problems.add("no-output", "`select` is missing: which values should be inserted?", query.span)
        return None
    typed = analyse_output(context, output, None, Schema("", schema.attributes))
    if typed is None:
        return None
    return AnalysedOnDemandQuery(None, None, selection, schema, output=typed, syntax=query)
