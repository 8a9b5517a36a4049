"""Examine the text of an execution plan, for validation and for deployment."""

from __future__ import annotations

from dataclasses import dataclass

from query_plan.builder import build_surveyed
from query_plan.checks.reach import UNKNOWN, WorkerReach, unreachable
from query_plan.components.bindings import PlanBindings
from query_plan.errors import QueryPlanXmlError
from query_plan.findings import Finding, Severity
from query_plan.model import QueryPlan
from query_plan.planning.carried_streams import CarriedStream
from query_plan.planning.groups import ExecutionGroup
from query_plan.planning.survey import survey
from query_plan.validation import findings_of, findings_of_syntax, in_order
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.analysis.model import AnalysedApp
from siddhi.errors import Problem, SiddhiAnalysisError, SiddhiParseError
from siddhi.language import ast
from siddhi.language.bounds import MOST_WORDS, check_words
from siddhi.language.parser import parse
from siddhi.registry import Registry


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan without errors: its analysis, query plan, XML, bindings, connectors, and the streams that Kafka carries.

    `groups` are its execution groups, as they were planned.
    """

    app: AnalysedApp
    plan: QueryPlan
    xml: str
    bindings: PlanBindings
    carried: tuple[CarriedStream, ...] = ()
    groups: tuple[ExecutionGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Examination:
    """The result of examining a plan.

    `findings` are all errors and warnings, in order of position, those about the whole plan first. `compiled` is None
    exactly when there is an error. `syntax` is None when the text is not SiddhiQL.
    """

    findings: tuple[Finding, ...]
    syntax: ast.App | None = None
    compiled: Compiled | None = None

    def problems(self, severity: Severity) -> tuple[Problem, ...]:
        """Return the problems of one severity, in order.

        Args:
            severity: Errors or warnings.
        """
        return tuple(found.problem for found in self.findings if found.severity is severity)


def examine(
    text: str, registry: Registry | None = None, reaches: WorkerReach = UNKNOWN, most_words: int = MOST_WORDS
) -> Examination:
    """Check the execution plan `text` by the language and every rule of distribution, and compile it if it is valid.

    A text that cannot be parsed has that one error; otherwise errors of the language and of distribution are reported
    together. Resources that `reaches` does not allow are an error, too, and so is a text of more than `most_words`.

    Args:
        text: The execution plan.
        registry: What plans may call.
        reaches: What sources, sinks and stores may reach, by process.
        most_words: The largest text that is accepted.
    """
    try:
        check_words(text, most_words)
        syntax = parse(text)
    except SiddhiParseError as refused:
        return Examination(_errors(refused.problems))
    try:
        app = analyse(syntax, registry)
    except SiddhiAnalysisError as refused:
        return Examination(in_order((*_errors(refused.problems), *findings_of_syntax(syntax))), syntax)
    surveyed = survey(app)
    findings = in_order((*findings_of(surveyed), *unreachable(syntax, reaches)))
    if any(found.severity is Severity.ERROR for found in findings):
        return Examination(findings, syntax)
    plan = build_surveyed(surveyed)
    try:
        return Examination(
            findings,
            syntax,
            Compiled(app, plan, write_xml(plan), surveyed.all_bindings, surveyed.carried, surveyed.groups),
        )
    except QueryPlanXmlError as refused:
        return Examination(in_order((*_errors(refused.problems), *findings)), syntax)


def _errors(problems: tuple[Problem, ...]) -> tuple[Finding, ...]:
    return tuple(Finding(Severity.ERROR, problem) for problem in problems)
