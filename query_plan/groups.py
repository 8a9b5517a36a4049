"""Execution groups: which members of a plan run together in one stage.

Only `@dist` distributes. A plan without any is one group, named like the plan, and answers as one engine does. In a
plan with `@dist` a member belongs to its `execGroup`, or else to a group of its own. Members that name no group are
then brought together where they must be: with those that use the same table, named window or aggregation in memory or
the same private stream (`#S`, `!S`), and with those that they form a loop with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from query_plan.members import Member, Read


@dataclass(frozen=True, slots=True)
class Group:
    """`members` stand in text order. `name` is the execGroup, else the name of the first member that has one from the
    plan, else that of the first. `idle_state` are tables and named windows that no member uses, kept for on-demand
    queries."""

    name: str
    members: tuple[Member, ...]
    idle_state: tuple[str, ...] = ()

    @property
    def parallel(self) -> int:
        return self.members[0].parallel if self.members else 1

    @property
    def reads(self) -> tuple[Read, ...]:
        return tuple(read for member in self.members for read in member.reads)

    @property
    def streams_read(self) -> frozenset[str]:
        return frozenset(read.stream for read in self.reads)

    @property
    def streams_written(self) -> frozenset[str]:
        return frozenset(stream for member in self.members for stream in member.writes)


def execution_groups(plan_name: str, members: tuple[Member, ...], state: Iterable[str] = ()) -> tuple[Group, ...]:
    """The groups of a plan in the order of their first members. What of `state` (the plan's tables and named windows)
    no member uses is kept by the only group of an undistributed plan, by the first that keeps such state anyway, or by
    a group of its own, so that it stops no other from running in parallel."""
    groups = _groups_of(plan_name, members)
    used = {name for member in members for name in member.state}
    idle = tuple(name for name in state if name not in used)
    if not idle:
        return groups
    distributed = any(member.distribution.present for member in members)
    keepers = (
        position
        for position, group in enumerate(groups)
        if group.parallel == 1 and (not distributed or any(member.state for member in group.members))
    )
    keeper = next(keepers, None)
    if keeper is None:
        return (*groups, Group(_free_name(plan_name, {group.name for group in groups}), (), idle))
    return tuple(
        replace(group, idle_state=idle) if position == keeper else group for position, group in enumerate(groups)
    )


def _free_name(wanted: str, taken: set[str]) -> str:
    while wanted in taken:
        wanted += "_"
    return wanted


def _groups_of(plan_name: str, members: tuple[Member, ...]) -> tuple[Group, ...]:
    if not members:
        return ()
    if not any(member.distribution.present for member in members):
        return (Group(plan_name, members),)
    sets = _MemberSets(members)
    _join_sharers(sets)
    _join_loops(sets)
    return tuple(_group(part) for part in sets.parts())


def feeds(groups: tuple[Group, ...]) -> dict[str, tuple[str, ...]]:
    """For each group the other groups that take in what it writes, in their order."""
    return {
        group.name: tuple(
            other.name for other in groups if other is not group and group.streams_written & other.streams_read
        )
        for group in groups
    }


def reachable(successors: dict[str, tuple[str, ...]], start: str) -> frozenset[str]:
    """Everything that events can reach from `start` along `successors`; `start` itself only by way of a loop."""
    found: set[str] = set()
    waiting = list(successors[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(successors[name])
    return frozenset(found)


def loops(groups: tuple[Group, ...]) -> tuple[tuple[str, ...], ...]:
    """The sets of groups that feed each other in a circle, each in the order of the groups."""
    successors = feeds(groups)
    reached = {group.name: reachable(successors, group.name) for group in groups}
    found: dict[tuple[str, ...], None] = {}
    for name in (group.name for group in groups if group.name in reached[group.name]):
        found[tuple(other for other in reached if other in reached[name] and name in reached[other])] = None
    return tuple(found)


class _MemberSets:
    """Disjoint sets of members; at first each execGroup is one, and each other member by itself."""

    def __init__(self, members: tuple[Member, ...]) -> None:
        self.members = members
        first_of: dict[str, int] = {}
        self._set_of = [
            position if member.group is None else first_of.setdefault(member.group, position)
            for position, member in enumerate(members)
        ]

    def join(self, positions: Iterable[int]) -> None:
        """The sets of all `positions` are one."""
        joined = {self._set_of[position] for position in positions}
        if joined:
            self._set_of = [min(joined) if number in joined else number for number in self._set_of]

    def explicit(self, position: int) -> bool:
        """True when a member of the set of `position` names an execGroup."""
        mine = self._set_of[position]
        return any(
            number == mine and member.group is not None
            for number, member in zip(self._set_of, self.members, strict=True)
        )

    def parts(self) -> tuple[tuple[Member, ...], ...]:
        parts: dict[int, list[Member]] = {}
        for number, member in zip(self._set_of, self.members, strict=True):
            parts.setdefault(number, []).append(member)
        return tuple(tuple(part) for _, part in sorted(parts.items()))


def _join_sharers(sets: _MemberSets) -> None:
    """Members without execGroup join the first group that uses what they use; other groups that name themselves stay
    apart, which the checks refuse."""
    shared = dict.fromkeys(name for member in sets.members for name in (*member.state, *member.private))
    for name in shared:
        users = [position for position, member in enumerate(sets.members) if name in (*member.state, *member.private)]
        owner = next((position for position in users if sets.explicit(position)), users[0])
        sets.join([owner, *(position for position in users if not sets.explicit(position))])


def _join_loops(sets: _MemberSets) -> None:
    """Groups that feed each other in a circle become one, unless the plan itself put one of them apart by name."""
    parts = sets.parts()
    by_number = tuple(Group(str(number), part) for number, part in enumerate(parts))
    positions = {id(member): position for position, member in enumerate(sets.members)}
    for loop in loops(by_number):
        inside = [positions[id(member)] for name in loop for member in parts[int(name)]]
        if not any(sets.explicit(position) for position in inside):
            sets.join(inside)


def _group(members: tuple[Member, ...]) -> Group:
    asked = next((member.group for member in members if member.group is not None), None)
    if asked is not None:
        return Group(asked, members)
    return Group(next((member for member in members if member.named), members[0]).name, members)
