"""Rules about execution groups: their names, what they share, and what feeds what."""

from __future__ import annotations

from collections.abc import Iterator

from query_plan.annotations import written_name
from query_plan.findings import Finding, Severity, error, warning
from query_plan.groupings import obstacles
from query_plan.groups import loops
from query_plan.members import Member
from query_plan.model import PUBLISHER_NAME, RECEIVER_NAME
from query_plan.survey import Survey
from siddhi.analysis import model
from siddhi.language import ast


def names_are_not_reserved(plan: Survey) -> Iterator[Finding]:
    """Two stages have names of their own."""
    named = [(group.name, _name_span(group.members[0])) for group in plan.groups]
    named += [(name, definition.span) for name, definition in plan.app.triggers.items()]
    for name, span in named:
        if name in (RECEIVER_NAME, PUBLISHER_NAME):
            yield error(
                "reserved-name", f"{name} is the name of a stage that every plan has", "choose another name", span
            )


def names_are_unique(plan: Survey) -> Iterator[Finding]:
    """CEP 4.0 merged elements of one name without a word; whoever wants that says execGroup."""
    seen: dict[str, str] = dict.fromkeys(plan.app.triggers, "a trigger")
    for member in plan.members:
        if member.name in seen:
            yield error(
                "duplicate-name",
                f"{member.name} is already the name of {seen[member.name]}",
                "choose another name; to run both in one stage give them the same execGroup",
                _name_span(member),
            )
        seen.setdefault(member.name, "a partition" if _is_partition(member) else "a query")
    taken = {group.name for group in plan.groups} - {member.name for member in plan.members}
    for name, trigger in plan.app.triggers.items():
        if name in taken:
            message = f"the trigger {name} has the name of an execution group"
            yield error("duplicate-name", message, "choose another name for one of them", trigger.span)
    for member in plan.members:
        if member.group is not None:
            continue
        twin = next((group for group in plan.groups if group.name == member.name and member not in group.members), None)
        if twin is not None:
            yield error(
                "duplicate-name",
                f"{member.name} is already the name of an execution group",
                f"choose another name, or write @dist(execGroup='{twin.name}') to join the group",
                _name_span(member),
            )


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
    """A table, named window or aggregation in memory lives in one engine; so do the faults of a stream."""
    owners: dict[tuple[str, str], str] = {}
    for group in plan.groups:
        for member in group.members:
            shared = [(_kind(plan, name), name) for name in member.state] + [
                ("faults of", name) for name in member.faults
            ]
            for kind, name in shared:
                owner = owners.setdefault((kind, name), group.name)
                if owner != group.name:
                    code = "faults-across-groups" if kind == "faults of" else "state-shared-between-groups"
                    yield error(
                        code,
                        f"{member.name} in group {group.name} uses the {kind} {name}, which group {owner} uses too",
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
        for member in group.members:
            for name in member.writes:
                if name in both:
                    both.discard(name)
                    yield error(
                        "stream-received-and-produced",
                        f"group {group.name} takes in {name} and writes it too, and others need what it writes",
                        f"let {member.name} write to a stream of another name",
                        member.span,
                    )


def returned_results_are_seen(plan: Survey) -> Iterator[Finding]:
    for member in plan.members:
        if isinstance(member.element, model.AnalysedQuery) and member.element.output.kind is model.TargetKind.RETURN:
            yield warning(
                "result-returned",
                f"{member.name} returns its results to a program, and there is none in a topology",
                "end the query with insert into a stream, and export that",
                member.span,
            )


def _kind(plan: Survey, name: str) -> str:
    return "table" if name in plan.app.tables else "window" if name in plan.app.windows else "aggregation"


def _is_partition(member: Member) -> bool:
    return isinstance(member.element, model.AnalysedPartition)


def _name_span(member: Member) -> ast.Span:
    if isinstance(member.element, ast.AggregationDefinition):
        return member.span
    if member.distribution.group is not None:
        return member.distribution.group.span
    syntax = member.element.syntax
    own = written_name(syntax.annotations) if syntax else None
    return own.span if own else member.span
