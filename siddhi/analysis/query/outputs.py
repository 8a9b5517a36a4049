"""The target of a query's events."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from siddhi.analysis.context import Context
from siddhi.analysis.expression.scope import Scope
from siddhi.analysis.model import (
    AnalysedOutput,
    AnalysedStream,
    AnalysedTable,
    Assignment,
    Schema,
    SourceKind,
    TargetKind,
    TypedExpression,
)
from siddhi.analysis.symbols import has_mark
from siddhi.errors import did_you_mean
from siddhi.language import ast
from siddhi.language.ast import EventType

_TARGET_KINDS = {
    SourceKind.STREAM: TargetKind.STREAM,
    SourceKind.TRIGGER: TargetKind.STREAM,
    SourceKind.TABLE: TargetKind.TABLE,
    SourceKind.WINDOW: TargetKind.WINDOW,
}


@dataclass(frozen=True)
class OutputTarget:
    """The target of an `insert into`: `id` is its key among the (inner) streams, `schema` None if it is new."""

    id: str
    kind: TargetKind
    schema: Schema | None


def target_name(output: ast.Output) -> str:
    """Return the id of the query's target, which its output schema is named after."""
    if isinstance(output, ast.Return):
        return ""
    return f"#{output.target}" if isinstance(output, ast.InsertInto) and output.inner else output.target


def mark_broken(context: Context, output: ast.Output) -> None:
    """Record that the target has no known schema, if this query was to define it."""
    if isinstance(output, ast.InsertInto) and context.symbols.kind_of(output.target) is None:
        context.symbols.broken.add(target_name(output))


def analyse_output(
    context: Context, output: ast.Output, rate: ast.Rate | None, schema: Schema
) -> AnalysedOutput | None:
    """Return the typed output of events of `schema`.

    The first insert into an undefined stream defines that stream.
    """
    events = _event_type(context, output, rate)
    match output:
        case ast.InsertInto():
            return _insert(context, output, events, schema)
        case ast.Delete() | ast.Update():
            return _change_table(context, output, events, schema)
        case ast.Return():
            message = "`return` has no caller here"
            context.problems.add("return-not-here", message, output.span, "write `insert into` a stream")
            return None


def _event_type(context: Context, output: ast.Output, rate: ast.Rate | None) -> EventType:
    if not isinstance(rate, ast.SnapshotRate):
        return output.events or EventType.CURRENT
    if not rate.time.milliseconds:
        message = "snapshots every 0 milliseconds would never let the clock advance"
        context.problems.add("no-time", message, rate.span, "write a time of at least 1 millisecond")
    if output.events is not None and output.events is not EventType.ALL:
        message = f"a snapshot contains all events, not {output.events.value} ones"
        context.problems.add("wrong-event-type", message, output.span, "leave the event type out")
    return EventType.ALL


def _insert(context: Context, output: ast.InsertInto, events: EventType, schema: Schema) -> AnalysedOutput | None:
    target = _find_target(context, output)
    if target is None:
        return None
    if target.schema is None:
        _define(context, target, schema)
    elif not _same(target.schema, schema):
        _report_mismatch(context, output, target, schema)
        return None
    table = context.symbols.tables.get(target.id) if target.kind is TargetKind.TABLE else None
    if table is not None and table.replaces:
        return _change_table(context, _replacing(output, table), events, schema)
    return AnalysedOutput("insert", target.id, target.kind, events, Schema(target.id, schema.attributes))


def _replacing(output: ast.InsertInto, table: AnalysedTable) -> ast.Update:
    """Return the output as `update or insert into T on T.key == key`."""
    same: list[ast.Expression] = [
        ast.Binary("==", ast.Attribute(name, ast.SourceReference(table.schema.id)), ast.Attribute(name))
        for name in table.primary_key
    ]
    on = reduce(lambda left, right: ast.Binary("and", left, right), same)
    return ast.Update(output.target, on, events=output.events, insert=True, span=output.span)


def _find_target(context: Context, output: ast.InsertInto) -> OutputTarget | None:
    """Return the target that the output names.

    Siddhi ignores the mark of `!S`, which means `S` here: only events that fail reach a fault stream.
    """
    symbols, name = context.symbols, output.target
    if output.inner:
        if symbols.inner_streams is not None:
            return OutputTarget(name, TargetKind.INNER_STREAM, symbols.inner_streams.get(name))
        outer = symbols.streams.get(f"#{name}")  # outside a partition an inner stream is a normal one
        return OutputTarget(f"#{name}", TargetKind.STREAM, outer.schema if outer is not None else None)
    kind = symbols.kind_of(name)
    if kind is None and name not in symbols.broken and has_mark(name, output.span, context.problems):
        return None
    if kind is SourceKind.AGGREGATION:
        context.problems.add("not-a-target", f"nothing can be inserted into aggregation '{name}'", output.span)
        return None
    return OutputTarget(name, _TARGET_KINDS[kind] if kind is not None else TargetKind.STREAM, symbols.schema_of(name))


def _define(context: Context, target: OutputTarget, schema: Schema) -> None:
    defined = Schema(target.id, schema.attributes)
    symbols = context.symbols
    symbols.broken.discard(target.id)
    if target.kind is TargetKind.INNER_STREAM and symbols.inner_streams is not None:
        symbols.inner_streams[target.id] = defined
    else:
        symbols.streams[target.id] = AnalysedStream(defined, defined=False)


def _same(left: Schema, right: Schema) -> bool:
    return left.attributes == right.attributes


def _report_mismatch(context: Context, output: ast.InsertInto, target: OutputTarget, schema: Schema) -> None:
    wanted = target.schema
    if wanted is None:
        return
    message = f"the query returns ({_written(schema)}), but '{target.id}' has ({_written(wanted)})"
    hint = "names, types and order must be the same"
    for (name, given), (expected_name, expected) in zip(schema.attributes, wanted.attributes, strict=False):
        if name != expected_name:
            hint = f"attribute '{name}' is in the position of '{expected_name}'"
            break
        if given is not expected:
            hint = f"attribute '{name}' is {given.value}, not {expected.value}: use convert({name}, '{expected.value}')"
            break
    context.problems.add("schema-mismatch", message, output.span, hint)


def _written(schema: Schema) -> str:
    return ", ".join(f"{name} {attribute_type.value}" for name, attribute_type in schema.attributes)


def _change_table(
    context: Context, output: ast.Delete | ast.Update, events: EventType, schema: Schema
) -> AnalysedOutput | None:
    table = context.symbols.tables.get(output.target)
    if table is None:
        if output.target not in context.symbols.broken:
            hint = did_you_mean(output.target, context.symbols.tables)
            context.problems.add("unknown-table", f"there is no table '{output.target}'", output.span, hint)
        return None
    action = "delete" if isinstance(output, ast.Delete) else "update or insert" if output.insert else "update"
    on = _table_condition(context, output, table, schema)
    assignments: tuple[Assignment, ...] = ()
    if isinstance(output, ast.Update):
        assignments = _assignments(context, output, table.schema, schema)
        if output.insert and not _same(table.schema, schema):
            _report_missing(context, output, table.schema, schema)
    return AnalysedOutput(action, table.schema.id, TargetKind.TABLE, events, schema, on, assignments)


def _table_condition(
    context: Context, output: ast.Delete | ast.Update, table: AnalysedTable, schema: Schema
) -> TypedExpression | None:
    if output.on is None:
        name = table.schema.id
        hint = f"add `on {name}.<attribute> == <value>`"
        context.problems.add("condition-missing", f"`on` is missing: which rows of '{name}'?", output.span, hint)
        return None
    place = "the condition on a table"
    scope = Scope(output=schema, tables=(table.schema,), aggregates=False, place=place, loose=table.replaces)
    return context.expressions(scope).analyse_condition(output.on, "`on`")


def _assignments(context: Context, output: ast.Update, table: Schema, schema: Schema) -> tuple[Assignment, ...]:
    scope = Scope(output=schema, tables=(table,), aggregates=False, place="set")
    found: list[Assignment] = []
    for assignment in output.assignments:
        name = assignment.attribute.name  # as in Siddhi, this is the table's attribute, whatever the qualifier
        if name not in table:
            message = f"table '{table.id}' has no attribute '{name}' to set"
            hint = did_you_mean(name, table.names())
            context.problems.add("unknown-attribute", message, assignment.attribute.span, hint)
        value = context.expressions(scope).analyse(assignment.value)
        if value is not None:
            found.append(Assignment(name, value))
    if not output.assignments:
        found = _implied_assignments(context, output, table, schema)
    return tuple(found)


def _implied_assignments(context: Context, output: ast.Update, table: Schema, schema: Schema) -> list[Assignment]:
    scope = Scope(output=schema, place="set")
    found: list[Assignment] = []
    for name, attribute_type in schema.attributes:
        if name not in table:
            message = f"table '{table.id}' has no attribute '{name}' to update"
            hint = did_you_mean(name, table.names()) or "specify the assignments with `set`"
            context.problems.add("unknown-attribute", message, output.span, hint)
        elif table.type_of(name) is not attribute_type:
            wanted = table.type_of(name).value
            message = f"attribute '{name}' of table '{table.id}' is {wanted}, not {attribute_type.value}"
            context.problems.add("schema-mismatch", message, output.span, f"use convert({name}, '{wanted}')")
        else:
            value = scope.resolve(ast.Attribute(name), context.problems)
            if value is not None:
                found.append(Assignment(name, value))
    return found


def _report_missing(context: Context, output: ast.Update, table: Schema, schema: Schema) -> None:
    message = f"the query returns ({_written(schema)}), but table '{table.id}' has ({_written(table)})"
    context.problems.add("schema-mismatch", message, output.span, "names, types and order must be the same")
