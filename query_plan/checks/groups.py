"""Rules about execution groups: their names, what they share, and what feeds what."""

from __future__ import annotations

from collections.abc import Iterator

from query_plan.annotations import written_name
from query_plan.findings import Finding, Severity, error
from query_plan.groupings import obstacles
from query_plan.groups import Group, loops
from query_plan.members import own_name, queries_of, syntax_of
from query_plan.model import PUBLISHER_NAME, RECEIVER_NAME
from query_plan.survey import Survey
from siddhi.analysis import model
from siddhi.language import ast


def names_are_not_reserved(plan: Survey) -> Iterator[Finding]:
    """Two stages have names of their own."""
    named = [(group.name, _group_span(group)) for group in plan.groups]
    named += [(name, definition.span) for name, definition in plan.app.triggers.items()]
    for name, span in named:
        if name in (RECEIVER_NAME, PUBLISHER_NAME):
            message = f"{name} is the name of a stage that every plan has"
            yield error("reserved-name", message, "choose another name", span)


def element_names_are_unique(plan: Survey) -> Iterator[Finding]:
    """CEP 4.0 merged elements of one name without a word; whoever wants that says execGroup."""
    seen: set[str] = set()
    for element in plan.app.elements:
        inside = element.queries if isinstance(element, model.AnalysedPartition) else ()
        for one in (element, *inside):
            name = own_name(one)
            if name in seen:
                yield error(
                    "duplicate-name",
                    f"{name} is already the name of another query or partition",
                    "choose another name; to run both in one stage give them the same execGroup",
                    _name_span(one),
                )
            seen.add(name)


def stage_names_are_unique(plan: Survey) -> Iterator[Finding]:
    """A group that is named by its query, a group that execGroup names and a trigger are different stages."""
    by_exec_group = {member.group for member in plan.members if member.group is not None}
    for group in plan.groups:
        if group.name in by_exec_group and all(member.group is None for member in group.members):
            yield error(
                "duplicate-name",
                f"{group.name} is already the name of an execution group",
                f"choose another name, or write @dist(execGroup='{group.name}') to join the group",
                _group_span(group),
            )
    for name, trigger in plan.app.triggers.items():
        if any(group.name == name for group in plan.groups):
            message = f"the trigger {name} has the name of an execution group"
            yield error("duplicate-name", message, "choose another name for one of them", trigger.span)


def groups_agree_on_parallel(plan: Survey) -> Iterator[Finding]:
    """All members of a group run in every one of its instances."""
    for group in plan.groups:
        for member in group.members[1:]:
            if member.parallel != group.parallel:
                parallel = member.distribution.parallel
                yield error(
                    "parallel-differs-in-group",
                    f"{member.name} has parallel {member.parallel}, but {group.members[0].name} of the same group"
                    f" {group.name} has {group.parallel}",
                    f"write parallel='{group.parallel}' on both, or give them different execGroups",
                    parallel.span if parallel else member.span,
                )


def parallel_groups_can_be_parallel(plan: Survey) -> Iterator[Finding]:
    """Whatever keeps state over all events runs in one instance."""
    for group in plan.groups:
        if any(member.parallel > 1 for member in group.members):
            for problem in obstacles(plan, group):
                yield Finding(Severity.ERROR, problem)


def state_stays_in_one_group(plan: Survey) -> Iterator[Finding]:
    """A table, named window or aggregation in memory lives in one engine, and a private stream in one stage."""
    owners: dict[str, str] = {}
    for group in plan.groups:
        for member in group.members:
            for name in (*member.state, *member.private):
                owner = owners.setdefault(name, group.name)
                if owner == group.name:
                    continue
                private = name in member.private
                yield error(
                    "private-stream-across-groups" if private else "state-shared-between-groups",
                    f"{member.name} in group {group.name} uses the {'stream' if private else _kind(plan, name)} {name},"
                    f" which group {owner} uses too",
                    f"give all that use it the same execGroup ('{owner}')",
                    member.distribution.group.span if member.distribution.group else member.span,
                )


def groups_form_no_loop(plan: Survey) -> Iterator[Finding]:
    """Events in a circle between stages would wait for each other."""
    if len({group.name for group in plan.groups}) < len(plan.groups):
        return
    for loop in loops(plan.groups):
        member = next(group for group in plan.groups if group.name == loop[-1]).members[0]
        yield error(
            "loop-across-groups",
            f"the groups {', '.join(loop)} feed each other in a circle",
            f"give their members the same execGroup, or let {loop[-1]} write to a stream that {loop[0]} does not read",
            member.distribution.group.span if member.distribution.group else member.span,
        )


def received_streams_are_not_handed_on(plan: Survey) -> Iterator[Finding]:
    """What a group takes in and also writes mixes inside it, so that others could not tell the two apart."""
    for group in plan.groups:
        both = set(plan.inputs(group)) & set(plan.outputs(group))
        elements = (one.element for one in group.members if not isinstance(one.element, model.AnalysedAggregation))
        for query in (query for element in elements for query in queries_of(element)):
            name = query.output.target
            if query.output.kind is model.TargetKind.STREAM and name in both:
                both.discard(name)
                yield error(
                    "stream-received-and-produced",
                    f"group {group.name} takes in {name} and writes it too, and others need what it writes",
                    "let this query write to a stream of another name, and read both where they are needed",
                    query.syntax.output.span,
                )


def _kind(plan: Survey, name: str) -> str:
    return "table" if name in plan.app.tables else "window" if name in plan.app.windows else "aggregation"


def _name_span(element: model.AnalysedQuery | model.AnalysedPartition) -> ast.Span:
    syntax = syntax_of(element)
    written = written_name(syntax.annotations)
    return written.span if written else syntax.span


def _group_span(group: Group) -> ast.Span:
    """Where the group has its name from."""
    member = next((member for member in group.members if member.group is not None), group.members[0])
    if member.distribution.group is not None:
        return member.distribution.group.span
    return member.span if isinstance(member.element, model.AnalysedAggregation) else _name_span(member.element)
