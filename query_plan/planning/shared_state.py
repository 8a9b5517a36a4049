"""Execution groups with shared state: `@dist(execGroup='g', parallel='3', state='shared')`.

Every instance of the group has all queries and the whole state. Events come to any instance; a log puts them into one
order, and each instance applies the log in that order. So all copies of the state are equal, and the results are those
of one engine. Three stages make this up:

    events ──▶ g.entry#0 ┐                  ┌▶ g#0 ──▶ results that an event of entry 0 has completed
           ──▶ g.entry#1 ├──▶ g.log#0 ──────┼▶ g#1 ──▶ … of entry 1
           ──▶ g.entry#2 ┘   (one order)    └▶ g#2 ──▶ … of entry 2

`g.entry` drops events that no query of the group can use, and adds its instance number, the event's origin. `g.log`
only determines the order; with `sync='kafka'` its events reach the instances through a topic. Instance i of `g` emits
only results that events of origin i have completed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

from query_plan.components.elements import queries_of, sources
from query_plan.model import ALL, GLOBAL, SHUFFLE, LogKind, ProcessingStage, StageInput, SyncRole
from query_plan.planning.groups import ExecutionGroup
from query_plan.planning.survey import Survey
from siddhi.analysis import model
from siddhi.analysis.parts import parts_of
from siddhi.language import ast

ORIGIN = "_origin"
"""The last attribute of every stream of a log; underscores follow where an attribute has that name."""


def entry_name(group: str) -> str:
    """Return the name of the stage that receives the events of `group`."""
    return f"{group}.entry"


def log_name(group: str) -> str:
    """Return the name of the stage that puts the events of `group` into one order."""
    return f"{group}.log"


def logged_stream(stage: str, stream: str) -> str:
    """Return the id of the stream in which `stage` passes events of `stream` on."""
    return f"{stage}.{stream}"


def stages_with_shared_state(
    plan: Survey, group: ExecutionGroup, stage: ProcessingStage
) -> tuple[ProcessingStage, ...]:
    """Return the stages for `stage`, whose instances share one state."""
    streams = tuple(one.stream for one in stage.inputs)
    entry, log = entry_name(group.name), log_name(group.name)
    taken = {stream.id: _with_origin(logged_stream(entry, stream.id), stream) for stream in streams}
    ordered = {stream.id: _with_origin(logged_stream(log, stream.id), stream) for stream in streams}
    kind: LogKind = "kafka" if group.logs_to_kafka else ""
    return (
        _passing(
            "entry", entry, group.parallel, tuple(StageInput(stream, SHUFFLE) for stream in streams),
            tuple(_passes(stream, taken[stream.id], _relevant(plan, group, stream.id)) for stream in streams),
            tuple(taken.values()),
        ),
        replace(
            _passing(
                "log", log, 1, tuple(StageInput(stream, GLOBAL) for stream in taken.values()),
                tuple(_passes(taken[stream.id], ordered[stream.id]) for stream in streams),
                tuple(ordered.values()),
            ),
            log=kind,
        ),
        replace(
            stage,
            parallel=group.parallel,
            enforce_parallel=False,
            inputs=tuple(StageInput(stream, ALL) for stream in ordered.values()),
            internal=(*streams, *stage.internal),
            sync="replica",
            log=kind,
        ),
    )  # fmt: skip


def _passing(
    role: SyncRole,
    name: str,
    parallel: int,
    inputs: tuple[StageInput, ...],
    elements: tuple[ast.Query, ...],
    outputs: tuple[ast.StreamDefinition, ...],
) -> ProcessingStage:
    return ProcessingStage(name, parallel, role == "log", inputs, outputs, elements, sync=role)


def _with_origin(name: str, stream: ast.StreamDefinition) -> ast.StreamDefinition:
    attributes = tuple(one for one in stream.attributes)
    origin, names = ORIGIN, {one.name for one in attributes}
    while origin in names:
        origin += "_"
    return ast.StreamDefinition(name, (*attributes, ast.AttributeDefinition(origin, ast.AttributeType.INT)))


def _passes(
    source: ast.StreamDefinition, target: ast.StreamDefinition, condition: ast.Expression | None = None
) -> ast.Query:
    """Return the query that forwards the events of `source`; without an origin, 0 takes its place."""
    names = {one.name for one in source.attributes}
    attributes = tuple(
        ast.OutputAttribute(ast.Attribute(one.name))
        if one.name in names
        else ast.OutputAttribute(ast.Constant(0, ast.AttributeType.INT), one.name)
        for one in target.attributes
    )
    handlers = () if condition is None else (ast.FilterHandler(condition),)
    name = ast.Annotation("info", (ast.AnnotationElement("name", target.id),))
    return ast.Query(
        ast.SingleInput(source.id, handlers), ast.InsertInto(target.id), ast.Selection(attributes), annotations=(name,)
    )


def _relevant(plan: Survey, group: ExecutionGroup, stream: str) -> ast.Expression | None:
    """Return a condition that every event which `group` can use meets; None when all events are needed.

    There is one if each query that reads the stream begins with filters over the event alone. A pattern, a sequence or
    a join needs every event.
    """
    if any(one.of == stream for one in plan.errors(group)):
        return None  # failures of a query must be reported
    if any(isinstance(member.element, model.AnalysedAggregation) for member in group.members):
        return None
    conditions: list[ast.Expression] = []
    for query, source in _readers(group, stream):
        condition = _own_filter(source) if source is query.input else None
        if condition is None:
            return None
        conditions.append(condition)
    return reduce(lambda left, right: ast.Binary("or", left, right), conditions) if conditions else None


def _readers(group: ExecutionGroup, stream: str) -> Iterator[tuple[model.AnalysedQuery, model.SourceInput]]:
    for member in group.members:
        if not isinstance(member.element, model.AnalysedAggregation):
            for query in queries_of(member.element):
                yield from ((query, source) for source in sources(query) if source.source == stream)


def _own_filter(source: model.SourceInput) -> ast.Expression | None:
    """Return the part of the first filter of `source` that depends on the event alone; None without such a filter."""
    first = source.before[0] if source.before else None
    syntax = source.syntax.handlers[0] if source.syntax is not None and source.syntax.handlers else None
    if not isinstance(first, model.FilterStep) or not isinstance(syntax, ast.FilterHandler):
        return None
    needs_more = (model.Call, model.Aggregate, model.InTable)
    if any(isinstance(part, needs_more) for part in parts_of(first.condition)):
        return None
    return _unqualified(syntax.condition)


def _unqualified(condition: ast.Expression) -> ast.Expression | None:
    """Return `condition` without the query's alias in front of attributes of the event."""
    match condition:
        case ast.Attribute():
            return ast.Attribute(condition.name)
        case ast.Constant() | ast.TimeConstant():
            return condition
        case ast.Not():
            operand = _unqualified(condition.operand)
            return None if operand is None else ast.Not(operand)
        case ast.Binary():
            left, right = _unqualified(condition.left), _unqualified(condition.right)
            return None if left is None or right is None else ast.Binary(condition.operator, left, right)
        case ast.IsNull(operand=ast.Attribute() as attribute):
            return ast.IsNull(ast.Attribute(attribute.name))
        case _:
            return None
