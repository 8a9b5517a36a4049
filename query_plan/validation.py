"""Says everything that is wrong with an execution plan, and what is merely odd, before anything is deployed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from query_plan.checks import bindings, groups, header
from query_plan.findings import Finding, Severity
from query_plan.survey import Survey, survey
from siddhi.analysis.analyser import analyse
from siddhi.errors import SiddhiAnalysisError, SiddhiParseError
from siddhi.language import ast
from siddhi.language.parser import parse
from siddhi.registry import Registry

SYNTAX_CHECKS: tuple[Callable[[ast.App], Iterator[Finding]], ...] = (
    header.plan_has_a_name,
    header.plan_name_is_usable,
    header.parallel_is_a_positive_integer,
    header.dist_says_things_once,
    header.dist_keys_are_known,
    header.dist_stands_on_elements,
    header.names_are_usable,
    bindings.event_streams_are_well_formed,
    bindings.no_arbitrary_data,
    bindings.no_stream_is_imported_and_exported,
)
"""The checks that need the syntax tree alone; they run even when analysis finds errors."""

PLAN_CHECKS: tuple[Callable[[Survey], Iterator[Finding]], ...] = (
    bindings.plan_does_something,
    bindings.read_streams_are_produced,
    bindings.exported_streams_are_produced,
    bindings.attributes_leave_room,
    groups.names_are_not_reserved,
    groups.element_names_are_unique,
    groups.stage_names_are_unique,
    groups.groups_agree_on_parallel,
    groups.parallel_groups_can_be_parallel,
    groups.state_stays_in_one_group,
    groups.received_streams_are_not_handed_on,
    groups.groups_form_no_loop,
    bindings.imported_streams_are_read,
    bindings.results_go_somewhere,
    bindings.default_bindings_are_announced,
)
"""The checks that need the analysed plan."""


def validate(text: str, registry: Registry | None = None) -> tuple[Finding, ...]:
    """Every error and warning about the execution plan `text`, in order of position; those about the whole plan first.

    A text that cannot be parsed has that one error; otherwise errors of the language and of distribution come together.
    """
    try:
        app = parse(text)
    except SiddhiParseError as refused:
        return _in_order(Finding(Severity.ERROR, problem) for problem in refused.problems)
    try:
        plan = survey(analyse(app, registry))
    except SiddhiAnalysisError as refused:
        found = [Finding(Severity.ERROR, problem) for problem in refused.problems]
        found += [one for check in SYNTAX_CHECKS for one in check(app)]
        return _in_order(iter(found))
    return findings_of(plan)


def findings_of(plan: Survey) -> tuple[Finding, ...]:
    """Every error and warning about the distribution of an analysed plan, in order of position."""
    found = [one for check in SYNTAX_CHECKS for one in check(plan.app.syntax)]
    found += [one for check in PLAN_CHECKS for one in check(plan)]
    return _in_order(iter(found))


def _in_order(findings: Iterator[Finding]) -> tuple[Finding, ...]:
    unique = dict.fromkeys(findings)
    return tuple(sorted(unique, key=lambda found: found.problem.span.start if found.problem.span else -1))
