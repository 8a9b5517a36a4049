"""From a plan's text to all that the manager must know of it. Runs in the thread of whoever asks, never in the control
loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cep_common.messages import StreamBinding
from cep_manager.compiled_plan import CompiledPlan, PlannedComponent, PlanProblem
from cep_manager.connectors import read_connectors
from cep_manager.errors import PlanInvalidError
from cep_manager.manager_view import Validation
from query_plan import bindings
from query_plan.annotations import read_header
from query_plan.builder import build
from query_plan.findings import Finding, Severity
from query_plan.model import QueryPlan
from query_plan.survey import survey
from query_plan.validation import findings_of, validate
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.analysis.model import AnalysedApp
from siddhi.errors import Problem, SiddhiError, render_problem
from siddhi.language.ast import StreamDefinition
from siddhi.language.parser import parse
from siddhi.scripts.language import ScriptPolicy


def compile_plan(text: str, scripts: ScriptPolicy) -> CompiledPlan:
    """The plan in `text`, compiled; `scripts` says in which languages it may define functions.

    Raises PlanInvalidError with everything that is wrong with it.
    """
    app, findings = _examine(text, scripts)
    errors = tuple(_problems(findings, Severity.ERROR, text))
    if errors:
        raise PlanInvalidError(errors)
    if app is None:
        raise AssertionError("a text that cannot be analysed has at least one error")
    try:
        return _compiled(app, build(app))
    except SiddhiError as refused:
        raise PlanInvalidError(tuple(_problem(problem, text) for problem in refused.problems)) from refused


def validate_plan(text: str, scripts: ScriptPolicy) -> Validation:
    """Everything that is wrong with `text`, and what is merely odd."""
    app, findings = _examine(text, scripts)
    errors = tuple(_problems(findings, Severity.ERROR, text))
    name = read_header(app.syntax).name if app is not None else None
    return Validation(
        valid=not errors,
        plan=name or "",
        problems=errors,
        warnings=tuple(_problems(findings, Severity.WARNING, text)),
    )


def _examine(text: str, scripts: ScriptPolicy) -> tuple[AnalysedApp | None, tuple[Finding, ...]]:
    registry = builtin_registry(scripts)
    try:
        app = analyse(parse(text), registry)
    except SiddhiError:
        # Analysis stops at its own errors; `validate` adds those that the planner finds in the text beside them.
        return None, validate(text, registry)
    return app, findings_of(survey(app))


def _problems(findings: Iterable[Finding], severity: Severity, text: str) -> Iterator[PlanProblem]:
    return (_problem(finding.problem, text) for finding in findings if finding.severity is severity)


def _problem(problem: Problem, text: str) -> PlanProblem:
    span = problem.span
    return PlanProblem(
        code=problem.code,
        message=problem.message,
        hint=problem.hint or "",
        line=span.line if span else 0,
        column=span.column if span else 0,
        end_line=span.end_line if span else 0,
        end_column=span.end_column if span else 0,
        rendered=render_problem(problem, text),
    )


def _compiled(app: AnalysedApp, plan: QueryPlan) -> CompiledPlan:
    bound = bindings.plan_bindings(app)
    return CompiledPlan(
        name=plan.name,
        description=plan.description,
        query_plan=write_xml(plan),
        components=tuple(_components(plan)),
        imported=tuple(_binding(one) for one in bound.imported),
        exported=tuple(_binding(one) for one in bound.exported),
        playback=plan.playback is not None,
        workers=plan.workers,
        sources=read_connectors(app, "source"),
        sinks=read_connectors(app, "sink"),
    )


def _components(plan: QueryPlan) -> Iterator[PlannedComponent]:
    received = _ids(plan.receiver.streams)
    yield PlannedComponent(plan.receiver.name, "receiver", plan.receiver.parallel, received, received)
    for trigger in plan.triggers:
        yield PlannedComponent(trigger.name, "trigger", 1, (), (trigger.stream.id,))
    for stage in plan.processors:
        inputs = _ids(one.stream for one in stage.inputs)
        yield PlannedComponent(stage.name, "processor", stage.parallel, inputs, _ids(stage.outputs))
    published = _ids(plan.publisher.streams)
    yield PlannedComponent(plan.publisher.name, "publisher", plan.publisher.parallel, published, published)


def _ids(streams: Iterable[StreamDefinition]) -> tuple[str, ...]:
    return tuple(stream.id for stream in streams)


def _binding(bound: bindings.StreamBinding) -> StreamBinding:
    attributes = tuple((attribute.name, attribute.type.value) for attribute in bound.stream.attributes)
    return StreamBinding(stream=bound.stream.id, event_stream=bound.event_stream, attributes=attributes)
