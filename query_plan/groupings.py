"""How the instances of a stage share its inputs, and what forbids a group to have more than one instance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from query_plan.groups import Group
from query_plan.members import Member, Read
from query_plan.model import ALL, GLOBAL, SHUFFLE, Grouping, GroupingKind
from query_plan.survey import Survey
from siddhi.analysis import model
from siddhi.errors import Problem
from siddhi.language import ast

_PARTITION_HINT = "take parallel out, or put the query into a partition: then its instances share the keys"


def grouping_of(group: Group, stream: str) -> Grouping:
    """How the instances of `group` share `stream`; global where its readers cannot agree."""
    agreed = _agreed(read for read in group.reads if read.stream == stream)
    return GLOBAL if agreed is None else agreed


def obstacles(plan: Survey, group: Group) -> Iterator[Problem]:
    """Everything that forbids `group` to run in several instances, in text order for each kind."""
    for member in group.members:
        yield from _own_state(member)
        yield from _shared_state(plan, member)
        yield from _keys(member)
        yield from _own_streams(group, member)
    yield from _disagreements(group)


def _agreed(reads: Iterable[Read]) -> Grouping | None:
    wishes = {read.grouping for read in reads}
    if GLOBAL in wishes:
        return GLOBAL
    if len(wishes) == 1:
        return wishes.pop()
    keyed = wishes - {SHUFFLE}
    if len(keyed) == 1 and ALL not in keyed:
        return keyed.pop()
    return None


def _own_state(member: Member) -> Iterator[Problem]:
    if member.keeps is not None:
        yield Problem(
            "stateful-parallel",
            f"{member.name} keeps state ({member.keeps}) over all events and cannot run in parallel",
            _PARTITION_HINT,
            _parallel_span(member),
        )


def _shared_state(plan: Survey, member: Member) -> Iterator[Problem]:
    for name in () if member.keeps is not None else member.state:
        kind = "table" if name in plan.app.tables else "window" if name in plan.app.windows else "aggregation"
        yield Problem(
            "shared-state-parallel",
            f"{member.name} uses the {kind} {name}, of which every instance would have its own",
            "take parallel out, or move what can run in parallel into a group that does without it",
            _parallel_span(member),
        )


def _keys(member: Member) -> Iterator[Problem]:
    if not isinstance(member.element, model.AnalysedPartition):
        return
    syntax = member.element.syntax
    for position, key in enumerate(member.element.keys):
        if not isinstance(key.expression, model.AttributeValue):
            kind = "ranges" if key.ranges else "an expression"
            yield Problem(
                "partition-key-not-attribute",
                f"{member.name} is partitioned by {kind} of {key.stream}, not by an attribute: it cannot be parallel",
                "take parallel out, or compute the key in a query before and partition by its attribute",
                syntax.keys[position].span if syntax else member.span,
            )


def _own_streams(group: Group, member: Member) -> Iterator[Problem]:
    if not isinstance(member.element, model.AnalysedPartition):
        return
    for read in member.reads:
        if read.stream in group.streams_written:
            yield Problem(
                "partition-reads-own-group",
                f"{member.name} reads {read.stream}, which its own group writes, in each instance for all keys",
                f"put whoever writes {read.stream} into another execGroup, or take parallel out",
                read.span,
            )


def _disagreements(group: Group) -> Iterator[Problem]:
    for stream in dict.fromkeys(read.stream for read in group.reads):
        reads = [read for read in group.reads if read.stream == stream]
        if _agreed(reads) is None:
            ways = " and ".join(dict.fromkeys(_way(read.grouping) for read in reads))
            yield Problem(
                "groupings-conflict",
                f"the members of group {group.name} need {stream} {ways}",
                "put them into different execution groups, or take parallel out",
                reads[-1].span,
            )


def _way(grouping: Grouping) -> str:
    ways = {
        GroupingKind.SHUFFLE: "once for all instances",
        GroupingKind.FIELDS: f"by {grouping.key}",
        GroupingKind.ALL: "in every instance",
        GroupingKind.GLOBAL: "in one instance",
    }
    return ways[grouping.kind]


def _parallel_span(member: Member) -> ast.Span:
    return member.distribution.parallel.span if member.distribution.parallel else member.span
