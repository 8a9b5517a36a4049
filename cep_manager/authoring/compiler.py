"""Compiles a plan's text into everything the manager must know of it.

Runs in the caller's thread, never in the control loop.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from cep_common.protocol.registry import StreamBinding
from cep_manager.authoring.model import Validation
from cep_manager.authoring.scope import scope_of
from cep_manager.errors import BadRequestError, PlanInvalidError, PlanProblem
from cep_manager.plans.compiled_plan import CarriedTopic, CompiledPlan, PlannedComponent, PlannedQuery, ScaledStage
from query_plan.annotations import host_of, of_header, read_header, statistics_of
from query_plan.checks.reach import UNKNOWN, WorkerReach
from query_plan.components import bindings
from query_plan.connectors.reading import read_connectors, stores_of_errors
from query_plan.examination import Compiled, examine
from query_plan.findings import Severity
from query_plan.model import Grouping, GroupingKind, QueryPlan, Resources
from query_plan.plan_names import is_3x
from query_plan.planning.carried_streams import generated_connectors
from query_plan.xml import write_xml
from siddhi.analysis.catalogue import builtin_registry
from siddhi.errors import Problem, first_problems, render_problem
from siddhi.language.ast import ExecutionElement, Partition, StreamDefinition
from siddhi.language.bounds import MOST_WORDS
from siddhi.language.parser import parse
from siddhi.language.printer import print_app
from siddhi.scripts.language import ScriptPolicy

LONGEST_MESSAGE = 1_000
"""Characters of a message: names in it may be of any length."""


def compile_plan(
    text: str, scripts: ScriptPolicy, reaches: WorkerReach = UNKNOWN, most_words: int = MOST_WORDS
) -> CompiledPlan:
    """Return the plan in `text`, compiled.

    It may define functions in the languages that `scripts` allows, and name the files and hosts that `reaches` does.

    Raises PlanInvalidError with everything that is wrong with it.
    """
    return compiled_plan(examine_plan(text, scripts, reaches, most_words))


def examine_plan(
    text: str, scripts: ScriptPolicy, reaches: WorkerReach = UNKNOWN, most_words: int = MOST_WORDS
) -> Compiled:
    """Return the analysis and the query plan of the plan in `text`.

    Raises PlanInvalidError with everything that is wrong.
    """
    examined = examine(text, builtin_registry(scripts), reaches, most_words)
    if examined.compiled is None:
        raise PlanInvalidError(plan_problems(examined.problems(Severity.ERROR), text))
    return examined.compiled


def with_name(text: str, name: str) -> str:
    """Return the plan in `text`, which must compile, under another name.

    Only `@Plan:name` changes. Raises BadRequestError for a name that cannot be written.
    """
    if not name.strip() or any(mark in name for mark in "'\"\\\r\n"):
        raise BadRequestError(f"{name[:80]!r} cannot be the name of a plan")
    app = parse(text)
    written = next(of_header(app, "name"), None)
    if written is None:
        return f"@{'Plan' if is_3x(app) else 'app'}:name('{name}')\n{text}"
    return f"{text[: written.span.start]}@{written.namespace}:name('{name}'){text[written.span.end :]}"


def validate_plan(
    text: str, scripts: ScriptPolicy, reaches: WorkerReach = UNKNOWN, most_words: int = MOST_WORDS
) -> Validation:
    """Return the errors and warnings of `text`, by the same checks as for a deployment."""
    examined = examine(text, builtin_registry(scripts), reaches, most_words)
    name = read_header(examined.syntax).name if examined.syntax is not None else ""
    return Validation(
        valid=examined.compiled is not None,
        plan=name,
        problems=plan_problems(examined.problems(Severity.ERROR), text),
        warnings=plan_problems(examined.problems(Severity.WARNING), text),
        scope=scope_of(text, examined),
    )


def plan_problems(problems: Iterable[Problem], text: str) -> tuple[PlanProblem, ...]:
    """Return the problems of `text` in the manager's form; only the first ones if there are very many."""
    return tuple(_problem(problem, text) for problem in first_problems(tuple(problems)))


def _problem(problem: Problem, text: str) -> PlanProblem:
    span, message, hint = problem.span, problem.message[:LONGEST_MESSAGE], (problem.hint or "")[:LONGEST_MESSAGE]
    problem = replace(problem, message=message, hint=hint)
    return PlanProblem(
        code=problem.code,
        message=message,
        hint=hint,
        line=span.line if span else 0,
        column=span.column if span else 0,
        end_line=span.end_line if span else 0,
        end_column=span.end_column if span else 0,
        rendered=render_problem(problem, text),
    )


def compiled_plan(compiled: Compiled) -> CompiledPlan:
    """Return the manager's record of a compiled plan."""
    app, plan = compiled.app, compiled.plan
    bound, header = compiled.bindings, read_header(app.syntax)
    return CompiledPlan(
        name=plan.name,
        description=plan.description,
        query_plan=compiled.xml,
        state_shape=_state_shape(plan),
        components=tuple(_components(plan)),
        imported=tuple(_binding(one) for one in bound.imported),
        exported=tuple(_binding(one) for one in bound.exported),
        playback=plan.playback is not None,
        workers=plan.workers,
        trace=header.trace,
        statistics=statistics_of(header.statistics) or "basic",
        sources=(*read_connectors(app, "source"), *generated_connectors(compiled.carried, "source")),
        sinks=(
            *read_connectors(app, "sink"),
            *generated_connectors(compiled.carried, "sink"),
            *stores_of_errors(app),
        ),
        cores=plan.resources.cores,
        memory_bytes=plan.resources.memory_bytes,
        labels=plan.resources.labels,
        delivery=plan.delivery,
        host=host_of(header.host),
        scripts=bool(app.functions),
        topics=tuple(CarriedTopic(one.stream, one.topic, one.use, one.key, one.partitions) for one in compiled.carried),
        creates_topics=header.creates_topics,
        distributed=header.shares_state,
        digest=hashlib.sha256(print_app(app.syntax).encode()).hexdigest(),
        scaled=tuple(ScaledStage(one.name, one.parallel, one.most) for one in compiled.groups if one.scales),
    )


def _state_shape(plan: QueryPlan) -> str:
    """Return the digest of the plan's stateful stages, which is equal for plans that differ elsewhere."""
    receiver = replace(plan.receiver, streams=(), parallel=1)
    publisher = replace(plan.publisher, streams=(), parallel=1)
    bare = replace(
        plan, description="", workers=None, resources=Resources(), delivery="at-least-once",
        checkpoint_interval_ms=None, receiver=receiver, publisher=publisher,
    )  # fmt: skip
    return hashlib.sha256(write_xml(bare).encode()).hexdigest()


def _components(plan: QueryPlan) -> Iterator[PlannedComponent]:
    received = _ids(plan.receiver.streams)
    carried = plan.carried
    yield PlannedComponent(plan.receiver.name, "receiver", plan.receiver.parallel, received, received, carried=carried)
    for trigger in plan.triggers:
        yield PlannedComponent(trigger.name, "trigger", 1, (), (trigger.stream.id,))
    for stage in plan.processors:
        inputs, outputs = _ids(one.stream for one in stage.inputs), _ids(stage.outputs)
        yield PlannedComponent(
            name=stage.name,
            kind="processor",
            parallel=stage.parallel,
            inputs=inputs,
            outputs=outputs,
            groupings=tuple(_in_words(one.grouping) for one in stage.inputs),
            queries=tuple(_query(element) for element in stage.elements),
            carried=tuple(one for one in carried if one in inputs or one in outputs),
        )
    published = _ids(plan.publisher.streams)
    groupings = ("by origin",) * len(published)
    yield PlannedComponent(
        plan.publisher.name, "publisher", plan.publisher.parallel, published, published, groupings, carried=carried
    )


def _in_words(grouping: Grouping) -> str:
    """Describe how the instances of a stage share the events of one input."""
    match grouping.kind:
        case GroupingKind.FIELDS:
            return f"by {grouping.key}"
        case GroupingKind.EXPRESSION:
            return "by expression"
        case GroupingKind.RANGES:
            return "by ranges"
        case _:
            return str(grouping.kind.value)


def _query(element: ExecutionElement) -> PlannedQuery:
    named = (annotation for annotation in element.annotations if annotation.name.lower() == "info")
    names = (one.value for annotation in named for one in annotation.elements if one.key in ("name", None))
    what = "partition" if isinstance(element, Partition) else "query"
    name = next(names, f"{what} in line {element.span.line}")
    return PlannedQuery(name, element.span.line, element.span.end_line)


def _ids(streams: Iterable[StreamDefinition]) -> tuple[str, ...]:
    return tuple(stream.id for stream in streams)


def _binding(bound: bindings.EventBinding) -> StreamBinding:
    attributes = tuple((attribute.name, attribute.type.value) for attribute in bound.stream.attributes)
    return StreamBinding(stream=bound.stream.id, event_stream=bound.event_stream, attributes=attributes)
