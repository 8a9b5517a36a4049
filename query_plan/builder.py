"""Build the query plan of an analysed app."""

from __future__ import annotations

from dataclasses import replace

from query_plan.annotations import (
    checkpoint_interval_of,
    delivery_of,
    kept_checkpoints_of,
    labels_of,
    memory_of,
    named,
    positive,
    read_cores,
    source_parallel,
)
from query_plan.components.bindings import definition_of
from query_plan.components.elements import syntax_of
from query_plan.components.members import Member
from query_plan.errors import QueryPlanError
from query_plan.findings import Severity
from query_plan.model import (
    Playback,
    ProcessingStage,
    PublisherStage,
    QueryPlan,
    ReceiverStage,
    Resources,
    StageInput,
    TriggerStage,
)
from query_plan.planning.groupings import grouping_of, obstacles
from query_plan.planning.groups import ExecutionGroup
from query_plan.planning.shared_state import stages_with_shared_state
from query_plan.planning.survey import Survey, survey
from query_plan.validation import findings_of
from siddhi.analysis import model
from siddhi.language import ast


def build(app: model.AnalysedApp) -> QueryPlan:
    """Return the query plan of `app`.

    Args:
        app: An analysed app without errors.

    Raises:
        QueryPlanError: Lists every reason why the plan cannot be distributed.
    """
    plan = survey(app)
    errors = tuple(found.problem for found in findings_of(plan) if found.severity is Severity.ERROR)
    if errors:
        raise QueryPlanError(errors)
    return build_surveyed(plan)


def build_surveyed(plan: Survey) -> QueryPlan:
    """Return the query plan of a surveyed plan without errors.

    Args:
        plan: A survey of a plan without errors.
    """
    app, header = plan.app, plan.header
    return QueryPlan(
        name=header.name,
        description=header.description,
        dialect_3x=header.dialect_3x,
        playback=Playback(app.playback_idle_ms, app.playback_increment_ms) if app.playback else None,
        workers=positive(header.workers),
        resources=Resources(
            read_cores(header.cores) or 1, memory_of(header.memory) or 0, labels_of(header.labels) or ()
        ),
        delivery=delivery_of(header.delivery) or "at-least-once",
        checkpoint_interval_ms=checkpoint_interval_of(header),
        checkpoints_kept=kept_checkpoints_of(header),
        receiver=ReceiverStage(
            parallel=positive(header.receiver_parallel) or source_parallel(app.syntax),
            streams=tuple(binding.stream for binding in plan.all_bindings.imported),
        ),
        processors=tuple(stage for group in plan.groups for stage in _stages(plan, group)),
        triggers=tuple(TriggerStage(definition) for definition in app.triggers.values()),
        publisher=PublisherStage(
            parallel=positive(header.publisher_parallel) or 1,
            streams=tuple(binding.stream for binding in plan.all_bindings.exported),
        ),
        carried=tuple(one.stream for one in plan.carried if one.use == "between"),
    )


def _stages(plan: Survey, group: ExecutionGroup) -> tuple[ProcessingStage, ...]:
    stage = _processor(plan, group)
    return stages_with_shared_state(plan, group, stage) if group.shares_state else (stage,)


def _processor(plan: Survey, group: ExecutionGroup) -> ProcessingStage:
    app = plan.app
    inputs, outputs, errors = plan.inputs(group), plan.outputs(group), plan.errors(group)
    touched = group.streams_read | group.streams_written | _key_streams(group)
    used = {*group.idle_state, *(name for member in group.members for name in member.state)}
    functions = {name for member in group.members for name in member.functions}
    return ProcessingStage(
        name=group.name,
        parallel=group.parallel,
        enforce_parallel=bool(group.idle_state) or any(True for _ in obstacles(plan, group)),
        inputs=tuple(StageInput(definition_of(app, name), grouping_of(group, name)) for name in inputs),
        outputs=(*(definition_of(app, name) for name in outputs), *(one.stream for one in errors)),
        elements=(
            *(
                _with_name(member, member.element)
                for member in group.members
                if not isinstance(member.element, model.AnalysedAggregation)
            ),
            *(one.query() for one in errors),
        ),
        internal=tuple(
            definition_of(app, name)
            for name in plan.as_defined(touched.difference(inputs, outputs))
            if app.streams[name].defined
        ),
        tables=tuple(table.syntax for name, table in app.tables.items() if name in used),
        windows=tuple(window.syntax for name, window in app.windows.items() if name in used),
        functions=tuple(function.syntax for name, function in app.functions.items() if name in functions),
        aggregations=tuple(one.syntax for name, one in app.aggregations.items() if name in used),
    )


def _key_streams(group: ExecutionGroup) -> frozenset[str]:
    """Return the streams that provide partition keys of `group`, whether or not its queries read them."""
    partitions = (one.element for one in group.members if isinstance(one.element, model.AnalysedPartition))
    return frozenset(key.stream for partition in partitions for key in partition.keys)


def _with_name(member: Member, element: model.AnalysedQuery | model.AnalysedPartition) -> ast.ExecutionElement:
    """Return the member's syntax with the names by which the plan identifies it and its queries."""
    if isinstance(element, model.AnalysedQuery):
        return replace(element.syntax, annotations=_named(element.syntax.annotations, member.name))
    syntax = syntax_of(element)
    read = {one.stream for one in member.reads} | set(member.state)
    return replace(
        syntax,
        keys=tuple(key for key in syntax.keys if key.stream in read) or syntax.keys,
        annotations=_named(syntax.annotations, member.name),
        queries=tuple(
            replace(query, annotations=_named(query.annotations, name))
            for query, name in zip(syntax.queries, member.inside, strict=True)
        ),
    )


def _named(annotations: tuple[ast.Annotation, ...], name: str) -> tuple[ast.Annotation, ...]:
    if any(annotation.value("name") is not None for annotation in named(annotations, "info")):
        return annotations
    return (ast.Annotation("info", (ast.AnnotationElement("name", name),)), *annotations)
