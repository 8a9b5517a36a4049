"""Definitions: each becomes a symbol, or a problem."""

from __future__ import annotations

from siddhi.analysis.context import Context
from siddhi.analysis.definition.annotations import (
    check_async,
    find,
    find_all,
    find_only,
    key_attributes,
    on_error_action,
    stored_in,
    stored_key,
)
from siddhi.analysis.definition.scripts import analyse_function
from siddhi.analysis.definition.windows import analyse_window
from siddhi.analysis.expression.scope import Slot
from siddhi.analysis.model import AnalysedStream, AnalysedTable, AnalysedWindow, Schema
from siddhi.analysis.query.aggregations import analyse_aggregation
from siddhi.analysis.symbols import has_mark
from siddhi.cron import CronError, parse_cron
from siddhi.errors import did_you_mean
from siddhi.language import ast
from siddhi.language.ast import AttributeType, EventType

TRIGGER_ATTRIBUTES = (("triggered_time", AttributeType.LONG),)
"""The attributes of a trigger's stream: the app's clock when it fired, in milliseconds."""

FAULT_ATTRIBUTE = "_error"
"""The attributes of a fault stream besides those of its stream: the error."""

_ORDER = (
    ast.StreamDefinition,
    ast.TableDefinition,
    ast.FunctionDefinition,
    ast.WindowDefinition,
    ast.TriggerDefinition,
    ast.AggregationDefinition,
)


def analyse_definitions(context: Context, definitions: tuple[ast.Definition, ...]) -> None:
    """Add the symbols of all definitions.

    Definitions that depend on others come last, whatever their order in the text.
    """
    for kind in _ORDER:
        for definition in definitions:
            if isinstance(definition, kind):
                _define(context, definition)


def _define(context: Context, definition: ast.Definition) -> None:
    match definition:
        case ast.StreamDefinition():
            _define_stream(context, definition)
        case ast.TableDefinition():
            _define_table(context, definition)
        case ast.FunctionDefinition():
            _define_function(context, definition)
        case ast.WindowDefinition():
            _define_window(context, definition)
        case ast.TriggerDefinition():
            _define_trigger(context, definition)
        case ast.AggregationDefinition():
            if _is_new(context, definition):
                aggregation = analyse_aggregation(context, definition)
                if aggregation is None:
                    context.symbols.broken.add(definition.id)
                else:
                    context.symbols.aggregations[definition.id] = aggregation


def _define_stream(context: Context, definition: ast.StreamDefinition) -> None:
    schema = _schema(definition)
    known = context.symbols.streams.get(definition.id)
    if known is not None and known.syntax == definition:
        return
    if not _is_new(context, definition):
        return
    action = on_error_action(definition.annotations, context.problems)
    check_async(definition.annotations, context.problems)
    fault = None
    if action != "LOG" and FAULT_ATTRIBUTE in schema:
        message = f"a stream with a fault stream cannot have an attribute '{FAULT_ATTRIBUTE}'"
        context.problems.add("duplicate-attribute", message, definition.span)
    elif action != "LOG":
        fault = Schema(f"!{definition.id}", (*schema.attributes, (FAULT_ATTRIBUTE, AttributeType.OBJECT)))
    context.symbols.streams[definition.id] = AnalysedStream(
        schema, defined=True, on_error=action, fault=fault, syntax=definition
    )


def _define_table(context: Context, definition: ast.TableDefinition) -> None:
    known = context.symbols.tables.get(definition.id)
    if known is not None and known.syntax == definition:
        return
    if not _is_new(context, definition):
        return
    schema = _schema(definition)
    key = find_only(definition.annotations, "PrimaryKey", context.problems)
    key_names: list[str] = []
    stored = find(definition.annotations, "store") is not None
    if key is not None:
        in_database = stored or stored_in(definition.annotations) == "rdbms"
        key_names = list(dict.fromkeys(_existing(context, schema, key, any_case=in_database)))
        if not key.elements:
            context.problems.add("missing-option", "@PrimaryKey needs at least one attribute", key.span)
    indexes = _store_indexes(definition, schema) if stored else _indexes(context, definition, schema)
    replaced, looked_up = ([], []) if stored else _keys_3x(context, schema, definition.annotations)
    replaces = key is None and bool(replaced)
    context.symbols.tables[definition.id] = AnalysedTable(
        schema,
        tuple(dict.fromkeys(replaced)) if replaces else tuple(key_names),
        tuple(dict.fromkeys((*indexes, *looked_up))),
        replaces=replaces,
        syntax=definition,
    )


def _indexes(context: Context, definition: ast.TableDefinition, schema: Schema) -> list[str]:
    """Return the indexed attributes of a table in memory."""
    indexes: list[str] = []
    for index in find_all(definition.annotations, "Index"):
        if len(index.elements) != 1:
            hint = "write one @Index for each attribute"
            context.problems.add("wrong-option", "@Index takes exactly one attribute", index.span, hint)
        names = _existing(context, schema, index)
        if set(names) & set(indexes):
            context.problems.add("duplicate-annotation", f"two indexes on '{names[0]}'", index.span)
        indexes += names
    return indexes


def _keys_3x(context: Context, schema: Schema, annotations: tuple[ast.Annotation, ...]) -> tuple[list[str], list[str]]:
    """Return the key attributes and the indexed attributes of an execution plan's table.

    An insert replaces the row with the same key. `@IndexBy` declares a key of a table in memory, and an index of one in
    a database.
    """
    indexes = list(find_all(annotations, "IndexBy"))
    if not context.dialect_3x:
        for legacy in indexes:
            hint = "use @PrimaryKey or @Index"
            context.problems.add("unknown-annotation", "@IndexBy is unknown", legacy.span, hint)
        return [], []
    names = [name for annotation in indexes for name in _existing(context, schema, annotation)]
    match stored_in(annotations):
        case "analytics.table":
            return [name for name in stored_key(annotations) if name in schema], names
        case "rdbms":
            return [], names
    return names, []


def _store_indexes(definition: ast.TableDefinition, schema: Schema) -> list[str]:
    """Return the indexed attributes of a table with `@store`.

    There, `@Index` and `@IndexBy` may contain options of the store (several attributes, an order); only plain attribute
    names count here.
    """
    indexes = [*find_all(definition.annotations, "Index"), *find_all(definition.annotations, "IndexBy")]
    names = (_attribute(schema, name, any_case=True) for index in indexes for name, _ in key_attributes(index))
    return list(dict.fromkeys(name for name in names if name is not None))


def _attribute(schema: Schema, name: str, *, any_case: bool) -> str | None:
    """Return the attribute that an annotation calls `name`.

    Letter case is ignored, as in databases, unless attributes differ only in case.
    """
    if name in schema:
        return name
    alike = [one for one in schema.names() if any_case and one.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def _existing(context: Context, schema: Schema, annotation: ast.Annotation, *, any_case: bool = False) -> list[str]:
    names: list[str] = []
    for name, span in key_attributes(annotation):
        found = _attribute(schema, name, any_case=any_case)
        if found is not None:
            names.append(found)
        else:
            message = f"@{annotation.name}: table '{schema.id}' has no attribute '{name}'"
            context.problems.add("unknown-attribute", message, span, did_you_mean(name, schema.names()))
    return names


def _define_function(context: Context, definition: ast.FunctionDefinition) -> None:
    if definition.id in context.symbols.functions:
        _report_duplicate(context, definition)
    context.symbols.functions[definition.id] = analyse_function(context, definition)


def _define_window(context: Context, definition: ast.WindowDefinition) -> None:
    if not _is_new(context, definition):
        return
    schema = _schema(definition)
    window = analyse_window(context, definition.window, Slot(0, definition.id, schema))
    if window is None:
        context.symbols.broken.add(definition.id)
        return
    output = definition.output or EventType.ALL
    context.symbols.windows[definition.id] = AnalysedWindow(schema, window, output, syntax=definition)


def _define_trigger(context: Context, definition: ast.TriggerDefinition) -> None:
    schema = Schema(definition.id, TRIGGER_ATTRIBUTES)
    known = context.symbols.streams.get(definition.id)
    as_stream = known is not None and known.schema == schema and definition.id not in context.symbols.triggers
    if not as_stream and not _is_new(context, definition):
        return
    if definition.cron is not None:
        try:
            parse_cron(definition.cron)
        except CronError as error:
            message = f"trigger '{definition.id}' has no valid time: {error}"
            context.problems.add("wrong-cron-text", message, definition.span, error.hint)
    context.symbols.triggers[definition.id] = definition
    context.symbols.streams.setdefault(definition.id, AnalysedStream(schema, defined=True))


def _schema(definition: ast.StreamDefinition | ast.TableDefinition | ast.WindowDefinition) -> Schema:
    return Schema(definition.id, tuple((attribute.name, attribute.type) for attribute in definition.attributes))


def _is_new(context: Context, definition: ast.Definition) -> bool:
    if has_mark(definition.id, definition.span, context.problems):
        context.symbols.broken.add(definition.id)
        return False
    known = definition.id in context.symbols.broken or context.symbols.kind_of(definition.id) is not None
    if known:
        _report_duplicate(context, definition)
    return not known


def _report_duplicate(context: Context, definition: ast.Definition) -> None:
    message = f"'{definition.id}' is defined twice"
    context.problems.add("duplicate-definition", message, definition.span, "give one of them another name")
