"""Choose how the instances of a stage share its inputs, and find what prevents several instances."""

from __future__ import annotations

from collections.abc import Iterator

from query_plan.components.elements import syntax_of
from query_plan.components.members import Member
from query_plan.findings import Finding, error_rule
from query_plan.model import GLOBAL, SHUFFLE, Grouping, GroupingKind
from query_plan.planning.groups import ExecutionGroup, agreed
from query_plan.planning.survey import Survey
from siddhi.analysis import model
from siddhi.language import ast

STATEFUL = error_rule(
    "stateful-parallel",
    "a query in a parallel group keeps state over all events: a window, join, pattern, sequence, aggregate, `group by`"
    " or output rate",
    "take `parallel` out, or put the query into a partition by its key",
)
SHARED_STATE = error_rule(
    "shared-state-parallel",
    "a parallel group uses a table, a named window or an aggregation, and each instance would have its own",
    "take `parallel` out, or move what can be parallel into a group that does without it",
)
KEYS_DIFFER = error_rule(
    "partition-keys-differ",
    "the keys of a parallel partition are not compatible: ranges and values, or floating-point numbers and other types",
    "give every stream of the partition a key of the same kind, computed in a query before if need be",
)
OWN_STREAM = error_rule(
    "partition-reads-own-group",
    "a parallel partition reads a stream that its own group writes, in each instance for all keys",
    "put the writer into another `execGroup`, or take `parallel` out",
)
CONFLICT = error_rule(
    "groupings-conflict",
    "members of a parallel group need a stream to be distributed in contradictory ways",
    "put them into different groups, or take `parallel` out",
)
OBSTACLES = (STATEFUL, SHARED_STATE, KEYS_DIFFER, OWN_STREAM, CONFLICT)
"""What `obstacles` finds."""

_FLOATING = (ast.AttributeType.FLOAT, ast.AttributeType.DOUBLE)


def grouping_of(group: ExecutionGroup, stream: str) -> Grouping:
    """Return how the instances of `group` share `stream`; global where its readers require different ways."""
    return group.groupings.get(stream, SHUFFLE) or GLOBAL


def obstacles(plan: Survey, group: ExecutionGroup) -> Iterator[Finding]:
    """Yield everything that prevents several instances of `group`, in text order for each kind."""
    for member in group.members:
        yield from _own_state(group, member)
        yield from _shared_state(plan, member)
        yield from _keys(member)
        yield from _own_streams(group, member)
    yield from _disagreements(group)


def _own_state(group: ExecutionGroup, member: Member) -> Iterator[Finding]:
    if member.keeps is None or _kept_by_key(group, member):
        return
    if isinstance(member.element, model.AnalysedPartition):
        yield STATEFUL.broken(
            f"{member.name} keeps state ({member.keeps}) over the events of all keys and cannot run in parallel",
            "take parallel out, or write the window without an expression that has aggregates or comes with the events",
            member.parallel_span,
        )
        return
    keys = " and ".join(grouping.key or "" for read in member.reads for grouping in read.bears[:1])
    of = member.reads[0].stream if member.reads else ""
    partition = f"into 'partition with ({keys} of {of})'" if keys else "into a partition"
    yield STATEFUL.broken(
        f"{member.name} keeps state ({member.keeps}) over all events and cannot run in parallel",
        f"take parallel out, or put the query {partition}: then its instances share the keys",
        member.parallel_span,
    )


def _kept_by_key(group: ExecutionGroup, member: Member) -> bool:
    """Return whether the group's instances share the member's events by the same key as its state."""
    return all(
        grouping_of(group, read.stream) in read.bears and read.stream not in group.streams_written
        for read in member.reads
    )


def _shared_state(plan: Survey, member: Member) -> Iterator[Finding]:
    for name in () if member.keeps is not None else member.state:
        kind = "table" if name in plan.app.tables else "window" if name in plan.app.windows else "aggregation"
        yield SHARED_STATE.broken(
            f"{member.name} uses the {kind} {name}, and every instance would have its own",
            "take parallel out, or move what can run in parallel into a group that does without it",
            member.parallel_span,
        )


def _keys(member: Member) -> Iterator[Finding]:
    """Check the types of keys: the text of a key selects the instance, so equal keys must have equal texts."""
    if not isinstance(member.element, model.AnalysedPartition):
        return
    first, *others = zip(member.element.keys, syntax_of(member.element).keys, strict=True)
    for key, syntax in others:
        if _kind(key) != _kind(first[0]):
            yield KEYS_DIFFER.broken(
                f"{member.name} is partitioned by {_kind(first[0])} of {first[0].stream} and {_kind(key)} of"
                f" {key.stream}: equal keys would go to different instances",
                "take parallel out, or compute keys of one type in queries before and partition by those attributes",
                syntax.span,
            )


def _kind(key: model.PartitionKey) -> str:
    if key.expression is None:
        return "ranges"
    return "a floating-point number" if key.expression.type in _FLOATING else "a value"


def _own_streams(group: ExecutionGroup, member: Member) -> Iterator[Finding]:
    if not isinstance(member.element, model.AnalysedPartition):
        return
    for read in member.reads:
        if read.stream in group.streams_written:
            yield OWN_STREAM.broken(
                f"{member.name} reads {read.stream}, which its own group writes, in each instance for all keys",
                f"put the query that writes {read.stream} into another execGroup, or take parallel out",
                read.span,
            )


def _disagreements(group: ExecutionGroup) -> Iterator[Finding]:
    for stream, all_reads in group.reads_of.items():
        reads = [read for read in all_reads if not read.bears]
        if reads and agreed(reads) is None:
            ways = " and ".join(dict.fromkeys(_way(read.grouping) for read in reads))
            yield CONFLICT.broken(
                f"the members of group {group.name} need {stream} {ways}",
                "put them into different execution groups, or take parallel out",
                reads[-1].span,
            )


def _way(grouping: Grouping) -> str:
    ways = {
        GroupingKind.SHUFFLE: "once for all instances",
        GroupingKind.FIELDS: f"by {grouping.key}",
        GroupingKind.EXPRESSION: "by an expression",
        GroupingKind.RANGES: "by ranges",
        GroupingKind.ALL: "in every instance",
        GroupingKind.GLOBAL: "in one instance",
    }
    return ways[grouping.kind]
